"""`python -m experiments.scaling`: costs of growth, measured and on paper."""
