"""Figures of the report: our results, and what was published drawn into them."""
