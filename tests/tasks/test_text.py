"""Tests of texts as examples: each symbol is predicted once, from the symbol before it; metrics match the paper's code."""

import hashlib
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrpt.datasets import ptb
from lrpt.errors import UsageError
from lrpt.metrics import sentence_metrics
from lrpt.tasks import NextSymbol, batch_indices, evaluation_streams
from lrpt.tasks.task import Example
from lrpt.tasks.text import as_split, common_words, lines, load_texts, text_metrics

PARTS = ("train", "valid", "test")


def examples(split, indices=None):
    return jax.jit(split.batch)(split.arrays, jnp.arange(split.size) if indices is None else jnp.asarray(indices))


def predicted(batch):
    """Return the symbols that each example predicts."""
    targets = np.asarray(batch.targets)
    masks = np.ones(targets.shape, bool) if batch.mask is None else np.asarray(batch.mask)
    return [row[mask].tolist() for row, mask in zip(targets, masks, strict=True)]


def text_file(tmp_path, text):
    path = tmp_path / "text"
    path.write_text(text)
    return path


def built(kind, tmp_path, text, **options):
    """Build a task of a text."""
    return kind(file=text_file(tmp_path, text), **options).build(0)


def uniform_metrics(task):
    """Return the metrics of uniform predictions on the test split."""
    batch = examples(task.splits["test"])
    metrics = task.metrics(jnp.zeros((*batch.targets.shape, task.output_size)), batch)
    return task.summarize({name: float(values.mean()) for name, values in metrics.items()})


task_of = partial(built, NextSymbol)


@cache
def compiled(steps, masked):
    """Compile one program for all texts with the same layout."""
    numbers = np.zeros(1, np.uint8)
    split = as_split(numbers, np.array([0, 0]), np.array([steps, steps - masked]))
    return jax.jit(split.batch)


# Fixed line lengths, so that few programs are compiled. In two of the texts the end of the last line is missing.
LAYOUTS = [([3, 1, 6, 2], True), ([6, 6, 6], True), ([1, 6, 0, 0, 4], False), ([0, 0, 6], False)]


@settings(max_examples=30)
@given(layout=st.sampled_from(LAYOUTS), data=st.data())
def test_sentences_are_the_lines_with_their_ends(layout, data):
    lengths, ended = layout
    written = [data.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n)) for n in lengths]
    numbers = [number for line in written for number in (*line, 0)]
    split = as_split(np.array(numbers[: len(numbers) - (not ended)], np.uint8), *lines(np.array(numbers, np.uint8)))
    assert split.example.keywords["steps"] == 7
    batch = compiled(**split.example.keywords)(split.arrays, jnp.arange(split.size))
    assert predicted(batch) == [[*line, 0] for line in written if line]
    np.testing.assert_array_equal(batch.inputs[:, 0], 0)
    np.testing.assert_array_equal(np.where(batch.mask, 0, batch.targets) if batch.mask is not None else 0, 0)
    for row, target, line in zip(batch.inputs, batch.targets, filter(None, written), strict=True):
        np.testing.assert_array_equal(row[1 : len(line) + 1], target[: len(line)])
        np.testing.assert_array_equal(row[len(line) + 1 :], 0)


@settings(max_examples=30)
@given(size=st.sampled_from([(20, 5), (21, 5), (24, 5), (5, 5), (3, 3)]), data=st.data())
def test_windows_predict_each_symbol_once_from_the_one_before_it(size, data):
    count, steps = size
    numbers = np.array(data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count)), np.uint8)
    starts = np.arange(0, count, steps)
    split = as_split(numbers, starts, np.minimum(steps, count - starts))
    batch = jax.tree.map(np.asarray, compiled(**split.example.keywords)(split.arrays, jnp.arange(split.size)))
    assert (batch.mask is None) == (count % steps == 0)
    assert np.concatenate(predicted(batch)).tolist() == numbers.tolist()
    flat = batch.inputs.ravel()[:count]
    assert flat.tolist() == [0, *numbers[:-1]]
    assert not batch.inputs.ravel()[count:].any()
    assert not batch.targets.ravel()[count:].any()


TEXT = "".join(f"{'word ' * (number % 7)}{number}\n" + "\n" * (number % 3 == 0) for number in range(300))


def test_sentences_of_a_file_are_its_lines(tmp_path):
    task = task_of(tmp_path, TEXT)
    assert (task.reads, task.streams) == ("all", False)
    assert task.input_size == task.output_size == len(task.vocabulary)
    found = [task.vocabulary.decode(line) for name in PARTS for line in predicted(examples(task.splits[name]))]
    assert found == [f"{line}\n" for line in TEXT.split("\n") if line]


@pytest.mark.parametrize("steps", [1, 13, 35, 1000])
def test_windows_of_a_file_are_its_text(tmp_path, steps):
    task = task_of(tmp_path, TEXT, reading="stream", steps=steps)
    assert task.streams
    texts = [task.vocabulary.decode(np.concatenate(predicted(examples(task.splits[name])))) for name in PARTS]
    whole = len(texts[0])
    assert whole % steps == 0
    left_out = TEXT[whole : len(TEXT) - len(texts[1]) - len(texts[2])]
    assert len(left_out) < steps
    assert texts[0] + left_out + texts[1] + texts[2] == TEXT
    assert examples(task.splits["train"], [0]).mask is None


def test_rows_of_stream_batches_continue_each_other(tmp_path):
    train = task_of(tmp_path, TEXT, reading="stream", steps=10).splits["train"]
    rows, part = 4, train.size // 4
    indices = batch_indices("stream", train.size, rows, 7, 0, part)
    batch = examples(train, indices.ravel())
    inputs, targets = (
        np.asarray(array).reshape(part, rows, 10).swapaxes(0, 1).reshape(rows, -1) for array in (batch.inputs, batch.targets)
    )
    np.testing.assert_array_equal(inputs[:, 1:], targets[:, :-1])
    np.testing.assert_array_equal(targets.ravel(), train.arrays["text"][1 : 1 + targets.size])


@pytest.mark.parametrize("streams", [1, 3, 1000])
def test_an_evaluation_in_streams_scores_each_symbol_once(tmp_path, streams):
    test = task_of(tmp_path, TEXT, reading="stream", steps=10).splits["test"]
    indices, weights = evaluation_streams(test.size, streams)
    found = predicted(examples(test, indices.T.ravel()))
    in_order = [symbols for symbols, weight in zip(found, weights.T.ravel(), strict=True) if weight]
    np.testing.assert_array_equal(np.concatenate(in_order), test.arrays["text"][1 : 1 + test.arrays["lengths"].sum()])


@pytest.mark.parametrize("longest", [18, 20])  # some lines have 18 symbols, and none has 20
def test_long_lines_are_left_out_and_counted(longest, tmp_path):
    task = task_of(tmp_path, TEXT, max_length=longest)
    short = [line for line in TEXT.split("\n") if 0 < len(line) <= longest]
    assert sum(split.size for split in task.splits.values()) == len(short)
    assert sum(task.metadata["lines_too_long"].values()) == sum(len(line) > longest for line in TEXT.split("\n"))
    assert max(split.example.keywords["steps"] for split in task.splits.values()) == max(map(len, short)) + 1


def test_symbols_that_the_training_part_lacks_are_unknown(tmp_path):
    task = task_of(tmp_path, TEXT[: TEXT.index("299")] + "é–é\n")
    assert "é" not in task.vocabulary.symbols
    assert predicted(examples(task.splits["test"]))[-1][-4:] == [1, 1, 1, 0]
    assert task.metadata["unknown_symbols"] == {"train": 0, "valid": 0, "test": 3}


def test_the_literal_unk_is_five_characters_or_one_symbol(tmp_path):
    path = text_file(tmp_path, "the <unk> < a\n" * 40)
    gru, lstm = (NextSymbol(file=path, tokens=tokens).build(0) for tokens in ("gru", "lstm"))
    assert set(gru.vocabulary.symbols) == {"\n", "<unk>", *"the <unk> < a"}
    assert set(lstm.vocabulary.symbols) == {"\n", "<unk>", *"the < a"}
    for task, symbols in ((gru, 14), (lstm, 10)):
        (line, *_) = predicted(examples(task.splits["test"]))
        assert len(line) == symbols
        assert task.vocabulary.decode(line) == "the <unk> < a\n"
    assert lstm.metadata["unknown_symbols"]["test"] == lstm.splits["test"].size


def test_python_is_the_default_and_needs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    task = NextSymbol().build(0)
    assert task.splits["train"].size > 2000
    assert task.metadata["text"].startswith("python 3.")
    assert len(task.metadata["sha256"]) == 64
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("reading", ["sentences", "stream"])
def test_the_digest_of_a_text_is_of_all_its_splits(tmp_path, reading):
    """Two texts that differ in the test split alone are different data."""
    one, other = (task_of(tmp_path, TEXT[:-5] + end, reading=reading, steps=10).metadata["sha256"] for end in (TEXT[-5:], "x 99\n"))
    assert one == hashlib.sha256(TEXT.encode()).hexdigest() != other


def test_a_file_takes_the_place_of_the_source(tmp_path):
    path = text_file(tmp_path, TEXT)
    task = NextSymbol("ptb", file=path).build(0)
    assert task.metadata["text"] == str(path)


def test_nothing_depends_on_the_seed():
    one, two = (NextSymbol().build(seed).splits["train"].arrays for seed in (0, 1))
    jax.tree.map(np.testing.assert_array_equal, one, two)


TOO_SMALL = [
    ("a\nb\n", {}, r"no line of the valid split \(0 symbols\) has 1 to 500 symbols"),
    ("a" * 10_000, {}, r"data.max_length is 500, and no line of the train split \(9000 symbols\)"),
    ("a\n" * 100, {"reading": "stream", "steps": 200}, r"data.steps is 200, and the train split has 182 symbols: .* fewer --data.steps"),
    ("ab", {"reading": "stream", "steps": 1}, r"data.steps is 1, and the valid split has 0 symbols: name a larger --data.file$"),
]


@pytest.mark.parametrize(("text", "options", "message"), TOO_SMALL)
def test_a_file_that_is_too_small_says_what_to_do(tmp_path, text, options, message):
    with pytest.raises(UsageError, match=message):
        task_of(tmp_path, text, **options)


def random_batch(masked, shape=(5, 7, 4)):
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, shape)
    targets = rng.integers(0, shape[-1], shape[:-1])
    lengths = rng.integers(1, shape[1] + 1, shape[0]) if masked else np.full(shape[0], shape[1])
    mask = np.arange(shape[1]) < lengths[:, None]
    return logits, targets, mask


def in_words(logits, targets, mask):
    """Return the loss of each predicted symbol, sentence by sentence, in float64."""
    return [
        [-np.log(np.exp(row)[target] / np.exp(row).sum()) for row, target, counts in zip(*sentence, strict=True) if counts]
        for sentence in zip(logits, targets, mask, strict=True)
    ]


@pytest.mark.parametrize("masked", [True, False])
def test_figures_are_those_of_the_definitions(masked):
    logits, targets, mask = random_batch(masked)
    batch = Example(jnp.asarray(targets), jnp.asarray(targets), jnp.asarray(mask) if masked else None)
    metrics = text_metrics(jnp.asarray(logits, jnp.float32), batch)
    losses = in_words(logits, targets, mask)
    np.testing.assert_allclose(metrics["loss"], [np.mean(sentence) for sentence in losses], rtol=1e-5)
    np.testing.assert_allclose(metrics["nats"], [np.sum(sentence) for sentence in losses], rtol=1e-5)
    np.testing.assert_array_equal(metrics["symbols"], [len(sentence) for sentence in losses])

    summary = sentence_metrics({name: float(np.mean(values)) for name, values in metrics.items()})
    every = np.concatenate(losses)
    np.testing.assert_allclose(summary["loss"], np.mean([np.mean(sentence) for sentence in losses]), rtol=1e-5)
    np.testing.assert_allclose(summary["sentence_perplexity"], np.exp(np.mean([np.mean(sentence) for sentence in losses])), rtol=1e-5)
    np.testing.assert_allclose(summary["perplexity"], np.exp(np.mean(every)), rtol=1e-5)
    np.testing.assert_allclose(summary["bits_per_character"], np.mean(every) / np.log(2), rtol=1e-5)


def test_logits_of_few_bits_are_judged_in_float32():
    logits, targets, mask = random_batch(True)
    rounded = jnp.asarray(logits, jnp.bfloat16)
    batch = Example(jnp.asarray(targets), jnp.asarray(targets), jnp.asarray(mask))
    metrics = text_metrics(rounded, batch)
    losses = in_words(np.asarray(rounded, np.float64), targets, mask)
    assert all(values.dtype == jnp.float32 for values in metrics.values())
    np.testing.assert_allclose(metrics["nats"], [np.sum(sentence) for sentence in losses], rtol=1e-5)


def test_what_is_behind_a_sentence_has_no_gradient():
    logits, targets, mask = random_batch(True)
    batch = Example(jnp.asarray(targets), jnp.asarray(targets), jnp.asarray(mask))
    grads = jax.grad(lambda logits: text_metrics(logits, batch)["loss"].mean())(jnp.asarray(logits, jnp.float32))
    assert not np.any(np.asarray(grads)[~mask])
    assert np.all(np.abs(np.asarray(grads)[mask]).max(-1) > 0)


@pytest.mark.parametrize("reading", ["sentences", "stream"])
def test_uniform_predictions_are_in_doubt_among_all_symbols(tmp_path, reading):
    task = task_of(tmp_path, TEXT, reading=reading, steps=10)
    symbols = len(task.vocabulary)
    expected = {"loss": np.log(symbols), "perplexity": symbols, "bits_per_character": np.log2(symbols)}
    if reading == "sentences":
        expected["sentence_perplexity"] = symbols
    assert uniform_metrics(task) == {name: pytest.approx(value, rel=1e-5) for name, value in expected.items()}


def test_the_joined_treebank_is_cut_as_one_text(monkeypatch):
    parts = {"test": "c\n" * 30, "valid": "b\n" * 20, "train": "a\n" * 350}
    monkeypatch.setattr(ptb, "load_ptb", lambda dir: parts)
    texts = load_texts("ptb_joined", None, None)
    # Nine tenths of 800 characters are 720; the end of the line from there on is behind the 722nd, and so with the other cut.
    assert texts == {"train": "a\n" * 350 + "b\n" * 11, "valid": "b\n" * 9 + "c\n" * 11, "test": "c\n" * 19}
    assert load_texts("ptb", None, None) is parts


def test_a_share_of_the_training_part_leaves_the_other_parts_and_the_symbols(tmp_path):
    written = "ab\n" * 60 + "cd\n" * 60  # the share lacks c and d
    path = text_file(tmp_path, written)
    all_of_it, some = (NextSymbol(file=path, reading="stream", steps=4, train_share=share).build(0) for share in (None, 10.0))
    for part in ("valid", "test"):
        np.testing.assert_array_equal(some.splits[part].arrays["text"], all_of_it.splits[part].arrays["text"])
    assert some.vocabulary == all_of_it.vocabulary
    symbols = {part: len(text) for part, text in load_texts("python", path, None).items()}
    assert some.metadata["symbols"] == symbols | {"train": round(symbols["train"] / 10)}


def test_a_share_of_the_text_is_cut_as_a_text_of_its_own(tmp_path):
    written = "".join(f"{'abcdefgh'[i // 50]}\n" for i in range(400))
    whole, half = text_file(tmp_path, written), tmp_path / "half"
    half.write_text(written[:400])
    shared = NextSymbol(file=whole, reading="stream", steps=4, text_share=50.0).build(0)
    expected = NextSymbol(file=half, reading="stream", steps=4).build(0)
    assert shared.vocabulary == expected.vocabulary
    for part in PARTS:
        np.testing.assert_array_equal(shared.splits[part].arrays["text"], expected.splits[part].arrays["text"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"text_share": 0.0}, "data.text_share is 0.0: expected a number above 0, at most 100"),
        ({"train_share": 101.0}, "data.train_share is 101.0: expected a number above 0, at most 100"),
        ({"source": "ptb", "text_share": 10.0}, "data.text_share is 10.0, and ptb has published splits: choose source ptb_joined"),
    ],
)
def test_shares_that_cannot_be_read_are_refused(options, says):
    with pytest.raises(UsageError, match=says):
        NextSymbol(**options)


def test_inputs_say_which_word_is_complete(tmp_path):
    task = task_of(tmp_path, TEXT, reading="stream", steps=20, words=3)
    symbols, size = task.vocabulary.symbols, task.output_size
    words = task.input_size // size - 2
    codes = np.asarray(examples(task.splits["train"]).inputs).ravel()
    symbol, unit = codes % size, codes // size
    plain = task_of(tmp_path, TEXT, reading="stream", steps=20)
    np.testing.assert_array_equal(symbol, np.asarray(examples(plain.splits["train"]).inputs).ravel())
    text = "".join(symbols[number] for number in symbol[1:])
    ends = [place + 1 for place in range(1, len(text)) if text[place].isspace() and not text[place - 1].isspace()]
    np.testing.assert_array_equal(np.flatnonzero(unit), ends)
    known = sorted(word for word in set(text.split()) if TEXT[: len(text) + 40].split().count(word) >= 3)
    found = {text[:end].split()[-1]: unit[end] for end in ends if text[: end - 1].strip()}
    assert {number: word for word, number in found.items() if number > 1} == dict(enumerate(known, 2))
    assert words == len(known)
    assert set(unit) == {0, 1, *range(2, words + 2)}


def test_words_with_the_least_number_of_occurrences_are_common():
    assert common_words("b a\nb c  a b\n", 2) == {"a": 2, "b": 3}


def test_of_bytes_only_ascii_separates_words(tmp_path):
    """The second byte of 'à' is that of a no-break space in Latin-1, and the second byte of 'Å' that of a line break."""
    text = "voilà Åsa est là\n" * 60
    read = task_of(tmp_path, text, reading="stream", steps=20, encoding="bytes", words=1)
    size = len(read.vocabulary)
    codes = np.asarray(examples(read.splits["train"]).inputs).ravel()
    symbols = [read.vocabulary.symbols[number] for number in codes % size]
    ends = [place for place, unit in enumerate(codes // size) if unit]
    assert {symbols[place] for place in ends} == {" ", "\n"}
    assert {read.vocabulary.symbols[number] for number in read.vocabulary.white_spaces} == {" ", "\n"}


def test_words_are_common_if_they_are_common_in_training(tmp_path):
    """'cc' occurs often enough, but not there."""
    task = task_of(tmp_path, "aa bb\n" * 90 + "bb cc\n" * 10, reading="stream", steps=5, words=5)
    assert task.input_size // task.output_size == 4  # no word, rare words, aa, bb
    units = np.asarray(examples(task.splits["test"]).inputs) // task.output_size
    assert set(units.ravel()) == {0, 1, 3}


def test_words_need_a_stream(tmp_path):
    with pytest.raises(UsageError, match=r"data\.words is 2, and each sentence starts from the initial state: .*--data\.reading stream"):
        NextSymbol(words=2)
