"""`python -m experiments.replay`: training runs of 2016 whose logs were published, repeated from the same parameters and batches."""
