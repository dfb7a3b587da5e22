"""`python -m experiments.lattice`."""

from experiments.lattice.command import EXPERIMENT
from experiments.lattice.studies import run_or_study

run_or_study(EXPERIMENT)
