"""`python -m experiments.inspect_rhn`: subcommands on a trained recurrent highway network, and the numbers that they print."""
