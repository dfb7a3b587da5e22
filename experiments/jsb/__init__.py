"""Recurrence depth and optimization, on polyphonic music: Zilly et al. 2017, section 5.1 and Figure 4."""
