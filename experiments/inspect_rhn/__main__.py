"""`python -m experiments.inspect_rhn`."""

from experiments.inspect_rhn.command import main

main()
