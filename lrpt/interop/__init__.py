"""Weights and layers of other frameworks."""
