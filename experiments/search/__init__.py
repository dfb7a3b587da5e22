"""`python -m experiments.search`: hyperparameters by successive halving."""
