"""Devices and processes: no other package lists them, or splits work among them."""
