"""The keys of a piano, as rows of zeros and ones."""

LOWEST = 21
"""MIDI number of the lowest key"""

NOTES = 88
"""keys, and columns of a piano roll"""
