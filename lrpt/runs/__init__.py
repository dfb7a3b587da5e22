"""What a run leaves on disk and says in the terminal: run directory, checkpoints, named arrays, console, signals."""
