"""`python -m experiments.jsb`."""

from experiments.jsb.command import EXPERIMENT
from lrpt.cli.command import main

main(EXPERIMENT)
