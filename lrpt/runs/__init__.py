"""Files of a run and output in the terminal: run directory, checkpoints, named arrays, console, signals."""
