"""From a command line to runs: typed flags, presets, commands on finished runs, tables at the end."""
