"""`python -m experiments.lattice`."""

from experiments.lattice.command import EXPERIMENT
from lrpt.cli.command import main

main(EXPERIMENT)
