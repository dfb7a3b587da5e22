"""Strings as places of data: the same configuration, and so the same run, as that of a path."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny

from lrpt.errors import UsageError
from lrpt.runs.configuration import to_json
from lrpt.tasks import (
    Chorales,
    ImageVectors,
    LabelledSequences,
    NextBit,
    NextByte,
    NextNote,
    NextSymbol,
    NextWord,
    PermutedImages,
)
from lrpt.training.config import TrainConfig
from lrpt.training.loop import fit

WITH_FILES = [Chorales, LabelledSequences, NextBit, NextByte, NextNote, NextSymbol, NextWord]
WITH_DIRECTORIES = [Chorales, ImageVectors, NextBit, NextByte, NextNote, NextSymbol, NextWord, PermutedImages]


@pytest.mark.parametrize(("kind", "name"), [(kind, "file") for kind in WITH_FILES] + [(kind, "dir") for kind in WITH_DIRECTORIES])
def test_a_string_is_the_same_setting_as_a_path(kind, name):
    text, path = kind(**{name: "./some/place"}), kind(**{name: Path("some/place")})
    assert text == path
    assert hash(text) == hash(path)
    assert to_json(text) == to_json(path)
    assert to_json(text)[name] == "some/place"
    assert getattr(replace(text, **{name: "~/place"}), name) == Path.home() / "place"
    with pytest.raises(UsageError, match=rf"data\.{name} is 3: expected a path"):
        kind(**{name: 3})


def test_the_start_file_may_be_a_string():
    assert TrainConfig(start="./start.npz") == TrainConfig(start=Path("start.npz"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"train\.start is 3: expected a path"):
        TrainConfig(start=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [NextBit, NextByte, NextSymbol, NextWord])
def test_a_text_is_read_from_a_string(kind, tmp_path):
    (tmp_path / "book.txt").write_text("the quick brown fox jumps\n" * 200)
    assert kind(file=str(tmp_path / "book.txt")).build(0).splits["train"].size > 0


@pytest.mark.slow
def test_a_run_of_a_string_is_resumed_with_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez("mine.npz", inputs=rng.normal(size=(40, 3, 2)), targets=rng.integers(0, 2, 40))
    train = replace(tiny.CONFIG.train, updates=1, evaluate_every=1, updates_per_call=1)
    config = replace(tiny.CONFIG, train=train, data=LabelledSequences(file="./mine.npz"))
    fit(config, {0: "run"}, devices=1)
    further = replace(config, train=replace(train, updates=2), data=LabelledSequences(file=Path("mine.npz")))
    (result,) = fit(further, {0: "run"}, devices=1)
    assert result["updates"] == 2
