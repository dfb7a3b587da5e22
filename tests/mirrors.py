"""Small files in place of the published ones of a data set."""

import hashlib
from contextlib import contextmanager

import pytest

from lrpt.datasets.sources import Source
from lrpt.errors import UsageError


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


def load_anew(load, dir):
    """Read a data set that is no longer in memory."""
    load.cache_clear()
    return load(dir)


def message(load, *arguments):
    """Return the one line with which `load` refuses its arguments."""
    with pytest.raises(UsageError) as raised:
        load(*arguments)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def prepared(name, directory):
    """Return where a data set is prepared below a directory."""
    return directory / "prepared" / name / "1.0.0"
