"""Devices and processes: no other package refers to them."""
