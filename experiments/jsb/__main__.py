"""`python -m experiments.jsb`."""

from experiments.jsb.command import EXPERIMENT, PAPER
from experiments.jsb.swarm import train_or_swarm

train_or_swarm(EXPERIMENT, PAPER)
