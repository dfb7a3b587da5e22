"""Lattice recurrent units against other cells at equal numbers of parameters: Ahuja and Morency 2018."""
