"""`python -m experiments.fair_crossing`."""

from experiments.fair_crossing.command import main

main()
