"""`python -m experiments.search`."""

from experiments.search.command import main

main()
