"""`python -m experiments.report`: kept results, claims of the papers and their verdicts, and the pages and figures that show them."""
