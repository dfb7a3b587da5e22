"""Comparison of cells and parametrizations at equal parameters or equal time, on three tasks, at each pair's own learning rate."""
