"""Trained networks: loaded from run directories and kept results, and used without a trainer."""
