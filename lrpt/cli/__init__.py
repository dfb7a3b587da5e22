"""Command-line interface: typed flags, presets, runs, commands on finished runs, tables at the end."""
