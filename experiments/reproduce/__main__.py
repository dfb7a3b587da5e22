"""`python -m experiments.reproduce`."""

from experiments.reproduce.command import main

main()
