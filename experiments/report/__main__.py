"""`python -m experiments.report`."""

from experiments.report.command import main

main()
