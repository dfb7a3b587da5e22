"""Names of the splits of a user's data, and the split of data that names none."""

import numpy as np
from jaxtyping import Shaped

PARTS = ("train", "valid", "test")

SHARES = (0.8, 0.9)
"""Where the training and the validation split end, in random order."""


def random_parts(count: int) -> Shaped[np.ndarray, " count"]:
    """Return the split of each of `count` things, 80/10/10 at random, always in the same way.

    Each split has at least one thing if there are three or more.
    """
    places = np.random.default_rng(0).permutation(count)
    first, second = (round(count * share) for share in SHARES)
    first = min(first, max(count - 2, 0))
    second = min(second, max(count - 1, 0))
    return np.array(PARTS)[(places >= first).astype(int) + (places >= second)]
