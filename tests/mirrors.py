"""Small files in place of the published ones of a data set."""

import hashlib
from contextlib import contextmanager

from lrpt.datasets.sources import Source


def source_of(path):
    """Describe a file as if it were published where it is."""
    content = path.read_bytes()
    return Source(path.name, path.as_uri(), len(content), hashlib.sha256(content).hexdigest())


@contextmanager
def empty_mirror(tmp_path, monkeypatch, load):
    """Provide a directory to publish files in, and a new cache for the data set that `load` reads."""
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    load.cache_clear()
    yield mirror
    load.cache_clear()
