"""`python -m experiments.efficiency`."""

from experiments.efficiency.command import main

main()
