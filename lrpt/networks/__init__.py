"""Flax modules around a cell: the sequence model, Highway classifiers, networks of variable computation, networks of two levels."""
