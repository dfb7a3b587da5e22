"""`python -m experiments.parameter_table`."""

from experiments.parameter_table.command import main

main()
