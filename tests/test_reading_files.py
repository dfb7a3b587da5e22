"""Files that no command can read, wherever they are read: JSON that is nested too deeply, and pipes, which never end."""

import errno
import os

import pytest

from experiments.benchmark import command as benchmark
from experiments.efficiency import command as efficiency
from experiments.reproduce import costs
from lrpt.datasets import jsb
from lrpt.errors import UsageError, line_of
from lrpt.files import parsed_json, read_json, read_text
from lrpt.runs import weights
from lrpt.runs.files import parsed_object

NESTED = "[" * 100_000


def test_json_that_is_nested_too_deeply_is_no_json(tmp_path):
    path = tmp_path / "weights.json"
    path.write_text(NESTED)
    for read in (parsed_json, jsb.read_json):
        with pytest.raises(ValueError, match="nested too deeply"):
            read(NESTED.encode())
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(path)
    assert parsed_object(NESTED) is None
    assert costs._read(path) == {}
    for read, given in ((benchmark._read, path), (efficiency._read, path), (weights.metadata_of, tmp_path)):
        with pytest.raises(UsageError, match=str(path)):
            read(given)


def test_a_pipe_is_not_read(tmp_path):
    path = tmp_path / "weights.json"
    os.mkfifo(path)
    with pytest.raises(OSError, match="a device or a pipe") as found:
        read_json(path)
    assert (found.value.errno, found.value.filename) == (errno.EINVAL, str(path))
    assert costs._read(path) == {}
    for read, given in ((benchmark._read, path), (efficiency._read, path), (weights.metadata_of, tmp_path)):
        with pytest.raises(UsageError, match=str(path)):
            read(given)


def test_text_has_one_end_of_lines(tmp_path):
    (tmp_path / "text").write_bytes("ä\r\nb\n".encode() + b"\xff")
    assert read_text(tmp_path / "text", errors="replace") == "ä\nb\n\ufffd"
    with pytest.raises(UnicodeDecodeError):
        read_text(tmp_path / "text")


def test_what_is_in_the_way_is_named(tmp_path):
    """The advice to repeat the command would not help."""
    file = tmp_path / "file"
    file.write_text("")
    advice = "remove or rename it, or name another --workdir, and repeat the command"

    def line(number, path, *intact):
        return line_of(OSError(number, os.strerror(number), str(path)), *intact)

    assert line(errno.EISDIR, tmp_path) == f"{tmp_path} is a directory: {advice}"
    assert line(errno.ENOTDIR, file / "x" / "y") == line(errno.EEXIST, file) == f"{file} is a file, and no directory: {advice}"
    assert line(errno.EISDIR, tmp_path, "the run is unchanged") == f"Is a directory ({tmp_path}): the run is unchanged"
    assert line(errno.EISDIR, file).startswith("Is a directory")  # it is one no more
    assert line(errno.EINVAL, file).startswith("Invalid argument")
    assert "free space there" in line(errno.ENOSPC, file)
