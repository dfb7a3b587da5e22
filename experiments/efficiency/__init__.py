"""Accuracy of trained networks against the amount of computation: Figure 4 of Jernite et al. 2017."""
