"""Report of published values and ours from the results that are kept with the code: REPRODUCTION.md and its pages."""
