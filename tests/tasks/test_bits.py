"""Tests of texts as bits: windows, buffers, ends of characters, and metrics."""

from functools import partial

import numpy as np
import pytest
from test_text import PARTS, built, examples, predicted, uniform_metrics

from lrpt.datasets.documents import cut
from lrpt.errors import UsageError
from lrpt.tasks import NextBit, bits

TEXT = "To be, or not to be: that is the question.\n" * 12 + "née\n"

task_of = partial(built, NextBit, text=TEXT)


def spelled(text, buffer=0):
    """Write out the bits of a text."""
    return "".join(f"{byte:08b}" + "0" * buffer for byte in text.encode())


@pytest.mark.parametrize(("buffer", "steps"), [(0, 8), (0, 37), (8, 30), (24, 64)])
def test_windows_of_a_file_are_its_bits(tmp_path, buffer, steps):
    task = task_of(tmp_path, buffer=buffer, steps=steps)
    assert (task.input_size, task.output_size, task.reads, task.streams) == (2, 2, "all", True)
    for part, text in cut(TEXT).items():
        batch = examples(task.splits[part])
        targets = np.concatenate(predicted(batch))
        expected = spelled(text, buffer)
        assert task.metadata["bits"][part] == len(expected) == (8 + buffer) * task.metadata["characters"][part]
        whole = len(expected) - len(expected) % steps if part == "train" else len(expected)
        assert task.vocabulary.decode(targets) == expected[:whole]
        inputs = np.asarray(batch.inputs).ravel()
        assert inputs[:whole].tolist() == [0, *targets[:-1]]
        assert not inputs[whole:].any()
        assert (batch.mask is None) == (whole % steps == 0)


@pytest.mark.parametrize("buffer", [0, 8])
def test_inputs_say_which_character_is_complete(tmp_path, buffer):
    task = task_of(tmp_path, buffer=buffer, characters=True, steps=20)
    assert task.input_size == 2 * 257
    codes = np.asarray(examples(task.splits["train"]).inputs).ravel()
    bit, unit = codes % 2, codes // 2
    plain = task_of(tmp_path, buffer=buffer, steps=20)
    assert bit.tolist() == np.asarray(examples(plain.splits["train"]).inputs).ravel().tolist()
    ends = np.flatnonzero(unit)
    assert ends.tolist() == list(range(8, codes.size, 8 + buffer))
    assert bytes((unit[ends] - 1).tolist()) == TEXT.encode()[: ends.size]


def test_figures_are_of_bits_and_of_characters(tmp_path):
    task = task_of(tmp_path, buffer=8, steps=30)
    assert uniform_metrics(task) == pytest.approx({"loss": np.log(2), "bits_per_bit": 1, "bits_per_character": 16}, rel=1e-5)


def test_what_cannot_be_read_is_one_line(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match=r"data\.source is 'mnist': choose from python, ptb"):
        NextBit("mnist")
    with pytest.raises(UsageError, match=r"data\.buffer is -1: expected 0 or more"):
        NextBit(buffer=-1)
    with pytest.raises(UsageError, match=r"data\.steps is 8, and the valid split has 0 symbols: name a larger --data\.file"):
        task_of(tmp_path, text="to be", steps=8)
    monkeypatch.setattr(bits, "LIMIT", 1_000)
    with pytest.raises(UsageError, match=r"the train split has [\d,]+ bits, more than 1,000: choose a smaller --data\.buffer"):
        task_of(tmp_path)


# Counted in the published files: 5,017,482, 393,042 and 442,423 characters.
def test_the_penn_treebank(data_dir):
    task = NextBit("ptb", dir=data_dir).build(0)
    assert task.metadata["bits"] == {"train": 40_139_856, "valid": 3_144_336, "test": 3_539_384}
    first = np.asarray(examples(task.splits["valid"], [0]).targets)[0]
    assert bytes(np.packbits(first)).startswith(b"consumers may want")
    assert set(PARTS) == task.splits.keys()
