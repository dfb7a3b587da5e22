"""`python -m experiments.replay`."""

from experiments.replay.command import main

main()
