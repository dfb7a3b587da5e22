"""`python -m experiments.benchmark`."""

from experiments.benchmark.command import main

main()
