"""Parts of `experiments.benchmark`: what is computed, by whom, in which process, and how the times are told."""
