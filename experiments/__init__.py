"""Experiments of the papers, one module each: configuration and the call. Beside them the tools that read, compare and drive runs."""
