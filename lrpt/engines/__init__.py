"""Engines that train many runs at once, on the cores of one machine or on the nodes of a cluster."""
