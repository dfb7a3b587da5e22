"""Data sets: where published files come from, how they are verified, and how they are read."""
