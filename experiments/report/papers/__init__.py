"""Claims of the papers as data."""
