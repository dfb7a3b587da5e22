"""Analyses of trained networks, and plots of them."""
