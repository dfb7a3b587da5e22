"""Crosses cells with ways to store their matrices, at equal numbers of parameters, on one text."""
