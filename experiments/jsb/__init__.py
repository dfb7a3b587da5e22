"""`python -m experiments.jsb`: the experiment on recurrence depth, and its study `swarm`."""
