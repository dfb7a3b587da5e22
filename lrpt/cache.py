"""The user's folder for what lrpt may make again: downloads, prepared data and compiled programs."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return $XDG_CACHE_HOME/lrpt, or ~/.cache/lrpt."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lrpt"
