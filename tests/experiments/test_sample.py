"""Sampling: symbols follow their probabilities, and the command writes a text or says in a line why not."""

import json
import shutil
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lrpt
from experiments.char_lm import EXPERIMENT
from lrpt.cli.command import main
from lrpt.datasets.vocabulary import ByteVocabulary, Vocabulary, WordVocabulary
from lrpt.errors import UsageError
from lrpt.networks.sampling import sample
from lrpt.networks.sequence_model import ModelConfig
from lrpt.trained.writing import numbers_of, parts_of

pytestmark = pytest.mark.slow

command = partial(main, EXPERIMENT)
MODEL = ModelConfig(size=4, rank=2).build(3, 3, "all")
VARIABLES = MODEL.init(jax.random.key(1), jnp.zeros((1, 1), jnp.int32))


def test_each_symbol_is_drawn_after_the_whole_text_before_it():
    """At temperature 0: the most probable symbol after the prompt and all symbols so far, read anew each time."""
    text = [0, 2]
    for symbol in np.asarray(sample(MODEL, VARIABLES, jnp.asarray(text), 5, jax.random.key(0), temperature=0.0)):
        logits = MODEL.apply(VARIABLES, jnp.asarray([text]))
        assert symbol == np.argmax(np.asarray(logits)[0, -1])
        text.append(int(symbol))


def test_a_network_of_sentences_begins_afresh_at_each():
    written = [0, *np.asarray(sample(MODEL, VARIABLES, jnp.asarray([0]), 30, jax.random.key(3), end=0))]
    assert 0 in written[1:-1]
    expected = []
    for i, key in enumerate(jax.random.split(jax.random.key(3), 30)):
        begins = max(j for j in range(i + 1) if written[j] == 0)
        logits = MODEL.apply(VARIABLES, jnp.asarray([written[begins : i + 1]]))[0, -1]
        expected.append(int(jax.random.categorical(key, logits)))
    assert written[1:] == expected


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("prompt", [[0, 2, 1, 0, 1, 2], [1, 2, 0], [2, 1, 0, 0], [1, 2]])
def test_a_prompt_is_read_from_its_last_end_on(prompt, compiled):
    """As in training, where a network of sentences reads each from its initial state."""
    variables = jax.tree.map(lambda a: 5 * a, VARIABLES)  # so that symbols before the last end would change what is drawn
    begins = max((place for place, symbol in enumerate(prompt) if symbol == 0), default=0)

    def drawn(text, end):
        draw = jax.vmap(lambda text, key: sample(MODEL, variables, text, 5, key, end=end), (None, 0))
        return np.asarray((jax.jit(draw) if compiled else draw)(jnp.asarray(text), jax.random.split(jax.random.key(0), 100)))

    expected = drawn(prompt[begins:], 0)
    np.testing.assert_array_equal(drawn(prompt, 0), expected)
    np.testing.assert_array_equal(drawn(prompt[begins:], None)[:, 0], expected[:, 0])  # that end is read, too
    assert np.array_equal(drawn(prompt, None)[:, 0], expected[:, 0]) == (begins == 0)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"temperature": float("nan")}, "temperature is nan: expected a number, 0 or more"),
        ({"top_k": 2.5}, "top_k is 2.5: expected an integer, 1 or more"),
        ({"top_k": True}, "top_k is True: expected an integer, 1 or more"),
        ({"length": True}, "length is True: expected an integer, 0 or more"),
        ({"end": 3}, "end is 3: expected a symbol from 0 to 2, or None"),
        ({"length": -1}, "length is -1: expected an integer, 0 or more"),
        ({"prompt": []}, r"the prompt is float32 of shape \(0,\): give one symbol or more"),
        ({"prompt": [[0]]}, r"the prompt is int32 of shape \(1, 1\)"),
        ({"model": ModelConfig(size=4, rank=2).build(3, 3, "last")}, r"the network predicts \(1, 3\): give one that reads 'all' steps"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changed, says):
    given = {"model": MODEL, "variables": VARIABLES, "prompt": [0, 2], "length": 2, "key": jax.random.key(0)}
    assert sample(**given).shape == (2,)
    with pytest.raises(UsageError, match=says):
        sample(**given | changed)


def test_shares_are_probabilities():
    draw = jax.jit(jax.vmap(lambda key: sample(MODEL, VARIABLES, jnp.asarray([1]), 1, key, temperature=0.5)[0]))
    drawn = np.asarray(draw(jax.random.split(jax.random.key(0), 4_000)))
    logits = np.asarray(MODEL.apply(VARIABLES, jnp.asarray([[1]])), np.float64)[0, -1] / 0.5
    expected = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 4_000, expected, atol=0.03)


def test_symbols_of_a_network_in_half_precision_follow_their_probabilities():
    """256 symbols with the same probability, and of these a share of 1/8."""
    symbols, draws = 256, 4_000
    model = ModelConfig(size=4, rank=2).build(symbols, symbols, "all")
    shapes = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, 1), jnp.int32))
    variables = jax.tree.map(lambda a: jnp.zeros(a.shape, jnp.bfloat16), shapes)
    drawn = np.asarray(jax.jit(partial(sample, model, variables, length=draws))(jnp.asarray([0]), key=jax.random.key(5)))
    assert np.mean(drawn < symbols // 8) == pytest.approx(1 / 8, abs=0.02)
    assert np.mean(drawn >= symbols - symbols // 8) == pytest.approx(1 / 8, abs=0.02)


def test_top_k_draws_from_the_most_probable_symbols():
    logits = np.asarray(MODEL.apply(VARIABLES, jnp.asarray([[1]])), np.float64)[0, -1]
    draw = jax.jit(jax.vmap(lambda key: sample(MODEL, VARIABLES, jnp.asarray([1]), 1, key, top_k=2)[0]))
    drawn = np.bincount(np.asarray(draw(jax.random.split(jax.random.key(0), 4_000))), minlength=3) / 4_000
    kept = np.where(logits < np.sort(logits)[-2], 0, np.exp(logits))
    np.testing.assert_allclose(drawn, kept / kept.sum(), atol=0.03)
    assert drawn[np.argmin(logits)] == 0
    with pytest.raises(ValueError, match="top_k is 0"):
        sample(MODEL, VARIABLES, jnp.asarray([1]), 1, jax.random.key(0), top_k=0)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("sample")
    (root / "book.txt").write_text("the cat sat on the mat\n" * 400)
    flags = ["--no-compare", "--model.size", "8", "--model.rank", "2", "--train.updates", "2", "--train.batch-size", "4", "--devices", "1"]
    command([*flags, "--data.file", str(root / "book.txt"), "--data.steps", "10", "--workdir", str(root / "run")])
    return root / "run"


def test_the_command_goes_on_from_the_prompt(run, capsys):
    texts = []
    for seed in ("1", "1", "2"):
        command(["sample", str(run), "--prompt", "the c", "--length", "60", "--seed", seed])
        texts.append(capsys.readouterr().out)
    assert texts[0].startswith("the c")
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--temperature", "-1"], "temperature is -1.0"),
        (["--length", "0"], "length is 0"),
        (["--length", "100000000000"], "length is 100000000000 and samples is 1: expected at most"),
        (["--seed", "99999999999999999999"], "seed is 99999999999999999999"),
    ],
)
def test_what_does_not_fit_is_one_line(run, assert_refused, flags, message):
    assert_refused(command, ["sample", run, *flags], message)


def test_unknown_characters_of_a_prompt_are_named(run, capfd, assert_refused):
    command(["sample", str(run), "--prompt", "the ÄÖcÄ", "--length", "3"])
    out, err = capfd.readouterr()
    assert out.startswith("the ÄÖcÄ")
    assert err == ("lrpt: warning: the text that was learned has no character 'Ä', 'Ö': the network reads the unknown symbol instead\n")
    assert_refused(command, ["sample", run, "--prompt", "ÄÖ☃"], "prompt is 'ÄÖ☃': expected at least one character of the text")


@pytest.mark.parametrize(
    ("vocabulary", "prompt", "parts"),
    [
        (WordVocabulary.of("a cat sat"), "a dog <unk> a", ["a", "dog"]),
        (Vocabulary.of("abc"), "ad\ufffd", ["a", "d"]),
        (ByteVocabulary.of(b"abc"), "b", []),
        (None, "b", []),
    ],
)
def test_parts_of_a_prompt(vocabulary, prompt, parts):
    assert parts_of(vocabulary, prompt) == parts


def test_a_loaded_run_writes_what_the_command_prints(run, capsys):
    command(["sample", str(run), "--prompt", "the c", "--length", "30", "--seed", "3", "--temperature", "0.7", "--top-k", "4"])
    assert capsys.readouterr().out == lrpt.load(run).sample("the c", 30, temperature=0.7, top_k=4, seed=3) + "\n"


def test_a_directory_without_a_run_is_one_line(tmp_path, assert_refused):
    assert_refused(command, ["sample", tmp_path], "name the directory of a run")


def test_a_text_that_is_another_now_is_not_read(run, tmp_path, assert_refused, capfd):
    """Its symbols may stand for other characters. The run has its own; one of before they were recorded is refused."""
    root = Path(shutil.copytree(run.parent, tmp_path / "copy"))
    config = json.loads((root / "run" / "config.json").read_text())
    config["data"]["file"] = str(root / "book.txt")
    (root / "run" / "config.json").write_text(json.dumps(config))
    (root / "book.txt").write_text("the mat sat on the cat\n" * 400)
    texts = []
    for path in (run, root / "run"):
        capfd.readouterr()
        command(["sample", str(path), "--length", "9"])
        texts.append(capfd.readouterr().out)
    assert texts[0] == texts[1]
    (root / "run" / "task.json").unlink()
    assert_refused(command, ["sample", root / "run", "--length", "3"], "holds a run on a text with SHA-256", code=1)


@pytest.mark.parametrize(
    ("vocabulary", "prompt", "numbers"),
    [
        (WordVocabulary.of("a cat sat"), "a cat", [2, 3]),
        (WordVocabulary.of("a cat sat"), "a cat\n", [2, 3, 0]),
        (ByteVocabulary.of(b"abc"), "cab", [2, 0, 1]),
    ],
)
def test_numbers_of_a_prompt(vocabulary, prompt, numbers):
    assert numbers_of(vocabulary, prompt).tolist() == numbers


def test_a_prompt_of_foreign_bytes_is_refused():
    with pytest.raises(UsageError, match=r"prompt is 'abd', whose byte 0x64 .* it has 'abc'"):
        numbers_of(ByteVocabulary.of(b"abc"), "abd")


def test_several_texts_have_the_seeds_that_follow(run, capsys):
    def said(*flags):
        command(["sample", str(run), "--length", "20", *flags])
        return capsys.readouterr().out

    several = said("--samples", "2", "--seed", "5", "--top-k", "3")
    assert several == f"--- 1\n{said('--seed', '5', '--top-k', '3')}--- 2\n{said('--seed', '6', '--top-k', '3')}"


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_the_temperature_may_be_an_array_and_traced(temperature):
    def draw(temperature):
        return sample(MODEL, VARIABLES, jnp.asarray([1]), 8, jax.random.key(0), temperature)

    expected = draw(temperature)
    np.testing.assert_array_equal(draw(jnp.float32(temperature)), expected)
    np.testing.assert_array_equal(jax.jit(draw)(temperature), expected)
