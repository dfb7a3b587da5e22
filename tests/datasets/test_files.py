"""Devices, pipes and files that are too large are refused as data; bombs as parameters."""

import os
from pathlib import Path

import numpy as np
import pytest

from experiments.bit_lm import EXPERIMENT as BITS
from experiments.char_lm import EXPERIMENT as CHARACTERS
from experiments.music import EXPERIMENT as MUSIC
from lrpt.cli.command import main
from lrpt.datasets import data_file
from lrpt.errors import UsageError
from lrpt.runs.named_arrays import load, load_arrays


@pytest.mark.parametrize(
    ("experiment", "source"), [(CHARACTERS, "file"), (MUSIC, "file"), (BITS, "file")], ids=["char_lm", "music", "bit_lm"]
)
def test_devices_and_pipes_are_no_data(experiment, source, tmp_path, assert_refused):
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe"):
        words = ["--data.file", path, "--workdir", tmp_path / "run"]
        assert_refused(lambda words: main(experiment, words), words, f"data.file is {path}", "a device or a pipe")


def test_a_file_that_is_too_large_is_refused(tmp_path, monkeypatch):
    with (tmp_path / "text").open("wb") as file:
        file.truncate(1001)
    monkeypatch.setattr(data_file, "MOST", 1000)
    with pytest.raises(UsageError, match="is a file of 1,001 bytes, and the limit is 1,000"):
        data_file.read_bytes(tmp_path / "text", "name a file")
    monkeypatch.setattr(data_file, "MOST", 1001)
    assert data_file.read_bytes(tmp_path / "text", "name a file") == bytes(1001)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    np.savez_compressed(tmp_path / "bomb.npz", w=np.zeros(8 * 2**20))
    assert (tmp_path / "bomb.npz").stat().st_size < 2**17
    with pytest.raises(UsageError, match="unpacks to 67,10"):
        load(tmp_path / "bomb.npz", {"w": np.zeros(3)})
    with pytest.raises(UsageError, match="a device or a pipe"):
        load_arrays("/dev/zero")


def test_numbers_beyond_float32_are_not_finite(tmp_path):
    np.savez(tmp_path / "start.npz", w=np.array([1e300]))
    with pytest.raises(UsageError, match="not finite in float32"):
        load(tmp_path / "start.npz", {"w": np.zeros(1)})
