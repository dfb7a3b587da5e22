"""How many parameters the networks of the papers have: as printed, by the papers' convention, and in truth."""
