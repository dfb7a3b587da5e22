"""`python -m experiments.scaling`."""

from experiments.scaling.command import main

main()
