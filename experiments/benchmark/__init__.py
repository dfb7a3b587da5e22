"""`python -m experiments.benchmark`: workloads, contenders and their processes, tables and plots of measured times."""
