"""Numbers of parameters of the papers' networks: as printed, by the papers' convention, and in full."""
