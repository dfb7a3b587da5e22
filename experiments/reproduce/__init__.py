"""`python -m experiments.reproduce`: trains what the claims of the papers need."""
