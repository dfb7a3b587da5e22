"""What was published, what was run, and how the two compare: the parts of `experiments.report`."""
