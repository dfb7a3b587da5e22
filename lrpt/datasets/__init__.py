"""Files and tfds builders: where published data come from, how they are checked and read."""
