"""Constants of piano rolls, arrays of zeros and ones with a column for each key of a piano."""

LOWEST = 21
"""MIDI number of the lowest key."""

NOTES = 88
"""Number of keys, and of columns of a piano roll."""
