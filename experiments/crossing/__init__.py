"""Comparison of cells and parametrizations at equal numbers of parameters, on one text."""
