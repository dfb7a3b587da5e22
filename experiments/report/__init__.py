"""Writes REPRODUCTION.md: published figures and ours, from the results that are kept with the code."""
