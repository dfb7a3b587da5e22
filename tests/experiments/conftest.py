"""A little of every data set, where the whole one is not there or too long."""

import numpy as np
import pytest

from lrpt.datasets import irish, ptb, wikipedia
from lrpt.datasets import jsb as jsb_files
from lrpt.datasets.abc.drawn import drawn_tunes
from lrpt.tasks import bytes as bytes_
from lrpt.tasks import images, text


def fake_mnist(dir):
    rng = np.random.default_rng(0)
    return {name: (rng.integers(0, 256, (40, 784), np.uint8), rng.integers(0, 10, 40)) for name in ("train", "valid", "test")}


def fake_ptb(dir):
    lines = ["the cat sat <unk>", "on a mat", "and slept till n o'clock"] * 15
    return {name: "".join(f"{line}\n" for line in lines) for name in ("train", "valid", "test")}


def fake_wikipedia(name, dir):
    return dict.fromkeys(("train", "valid", "test"), b"the cat sat on a mat " * 20)


def fake_europarl(source, dir):
    return fake_ptb(dir)


def fake_jsb(format, dir):
    pieces = [np.eye(88, dtype=np.uint8)[40 : 43 + i % 3] for i in range(8)]
    return {"train": pieces, "valid": pieces[:3], "test": pieces[:4]}


@pytest.fixture
def little_data(monkeypatch):
    """For one test."""
    monkeypatch.setitem(images.SOURCES, "mnist", (fake_mnist, 1 / 256))
    monkeypatch.setattr(ptb, "load_ptb", fake_ptb)
    monkeypatch.setattr(wikipedia, "load_wikipedia", fake_wikipedia)
    monkeypatch.setattr(jsb_files, "load_jsb", fake_jsb)
    monkeypatch.setattr(irish, "load_irish_abc", lambda dir: {"drawn": drawn_tunes(60)})
    monkeypatch.setattr(text, "load_europarl", fake_europarl)
    for module in (text, bytes_):
        monkeypatch.setattr(module, "python_documentation", lambda: fake_ptb(None)["train"] * 10)
