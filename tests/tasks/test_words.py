"""Tests of texts as words: the vocabulary, windows, and the Penn Treebank if it is available."""

from functools import partial

import numpy as np
import pytest
from test_text import PARTS, built, examples, predicted, uniform_metrics

from lrpt.errors import UsageError
from lrpt.tasks import NextWord, WordVocabulary
from lrpt.tasks.words import words_and_marks

TEXT = "".join(f"{'A rare word, ' * (number % 4)}no. {number % 40} <unk>!\n" + "\n" * (number % 3 == 0) for number in range(300))

task_of = partial(built, NextWord, text=TEXT)


def test_a_line_becomes_words_and_marks_in_lower_case():
    assert words_and_marks("It's <UNK>,\n\n  \t\n(É 3.5)\n") == "it ' s <unk> ,\n\n\n( é 3 . 5 )\n"


def test_words_have_numbers_in_order_and_rare_ones_are_unknown():
    vocabulary = WordVocabulary.of("b a b <unk> c\nb a <eos>\n", min_count=2)
    assert vocabulary.symbols == ("<eos>", "<unk>", "a", "b")
    assert vocabulary.encode("a c b\n\n \nd").tolist() == [2, 1, 3, 0, 1, 0]
    assert vocabulary.decode([2, 1, 0]) == "a <unk> <eos>"
    assert WordVocabulary.of("b a").symbols[2:] == ("a", "b")


@pytest.mark.parametrize("steps", [1, 35])
def test_windows_are_the_words_of_the_text(tmp_path, steps):
    task = task_of(tmp_path, steps=steps, min_count=1)
    texts = [task.vocabulary.decode(np.concatenate(predicted(examples(task.splits[name])))) for name in PARTS]
    whole = " ".join(f"{line} <eos>" for line in words_and_marks(TEXT).split("\n") if line).split()
    found = [text.split() for text in texts]
    left_out = len(whole) - sum(map(len, found))
    assert left_out < steps
    first = len(found[0])
    known = set(task.vocabulary.symbols)
    assert found[0] + found[1] + found[2] == [w if w in known else "<unk>" for w in whole[:first] + whole[first + left_out :]]
    inputs = np.asarray(examples(task.splits["train"]).inputs).ravel()
    assert inputs.tolist() == [0, *np.concatenate(predicted(examples(task.splits["train"])))[:-1]]


def test_words_below_the_cutoff_are_unknown(tmp_path):
    task = task_of(tmp_path, min_count=8)
    train = task.vocabulary.decode(task.splits["train"].arrays["text"]).split()
    assert train.count("rare") > 8
    assert task.metadata["types"] == len(task.vocabulary) == task.input_size == task.output_size < len(set(words_and_marks(TEXT).split()))
    assert task.metadata["unknown_words"]["train"] > 270
    assert task.streams


def test_figures_are_of_words(tmp_path):
    task = task_of(tmp_path)
    types = len(task.vocabulary)
    assert uniform_metrics(task) == {"loss": pytest.approx(np.log(types), rel=1e-5), "perplexity": pytest.approx(types, rel=1e-5)}


def test_python_is_the_default_and_needs_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    task = NextWord().build(0)
    assert 1_000 < task.input_size < 10_000
    assert task.metadata["words"]["train"] > 50_000
    assert task.metadata["unknown_words"]["train"] < 0.1 * task.metadata["words"]["train"]
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_too_small_says_what_to_do(tmp_path):
    with pytest.raises(UsageError, match=r"data.steps is 35, and the train split has 18 symbols: .*--data.steps"):
        task_of(tmp_path, text="one\n" * 10)


# Published: 929,589 / 73,760 / 82,430 words with one <eos> for each line, 10,000 types.
def test_the_published_penn_treebank(data_dir, tmp_path):
    (tmp_path / "ptb").symlink_to(data_dir / "ptb")
    task = NextWord("ptb", dir=tmp_path).build(0)
    assert task.input_size == task.output_size == 10_000
    assert task.metadata["words"] == {"train": 929_589, "valid": 73_760, "test": 82_430}
    assert task.metadata["unknown_words"]["test"] == 4_794
    assert task.splits["train"].size == 929_589 // 35
    assert task.splits["train"].arrays["text"].dtype == np.uint16
    (line,) = predicted(examples(task.splits["test"], [0]))
    assert task.vocabulary.decode(line).startswith("no it was n't black monday <eos> but while the new york stock exchange did n't")


def test_the_vocabulary_is_that_of_the_training_split(tmp_path):
    task = task_of(tmp_path, text="a b\n" * 900 + "q r\n" * 100, steps=5)
    assert task.vocabulary.symbols == ("<eos>", "<unk>", "a", "b")
    assert task.metadata["unknown_words"] == {"train": 2, "valid": 100, "test": 98}
