"""How well trained networks predict beside how much they compute: Figure 4 of Jernite et al. 2017."""
