"""`python -m experiments.parameter_table`: the table, and its rows on recurrent highway networks."""
