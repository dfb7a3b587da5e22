"""Passthrough networks in JAX."""
