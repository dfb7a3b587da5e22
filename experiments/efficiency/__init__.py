"""`python -m experiments.efficiency`: points of accuracy against computation, in a table and a plot."""
