"""`python -m experiments.crossing`."""

from experiments.crossing.command import main

main()
