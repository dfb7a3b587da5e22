"""`python -m experiments.lattice`: the experiment with lattice recurrent units, its models and its studies."""
