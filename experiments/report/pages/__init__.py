"""Pages of the report: the overview, one page for each paper, model cards, comparisons of cells."""
