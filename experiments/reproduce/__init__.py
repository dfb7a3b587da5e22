"""`python -m experiments.reproduce`: training of the runs that the claims of the papers need."""
