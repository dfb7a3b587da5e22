"""`python -m experiments.fair_crossing`: tasks, sizes and learning rates of the comparison, and its tables, tests and plots."""
