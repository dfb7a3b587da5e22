"""Experiments of the papers: one module each, nothing but configuration and the call."""
