"""What a writer of texts asks of its network: from which symbol on it reads, where it starts again, and how texts are joined."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.cli.finished import sampling
from lrpt.cli.finished.sampling import Writer
from lrpt.datasets.vocabulary import Vocabulary, WordVocabulary
from lrpt.errors import UsageError
from lrpt.networks.conditional import ConditionalConfig
from lrpt.networks.sampling import sample
from lrpt.networks.sequence_model import ModelConfig
from lrpt.runs.console import Console

CHARACTERS, WORDS = Vocabulary.of("abc "), WordVocabulary.of("cat dog")

NETWORKS_WITH_UNITS = [config.build(15, 5, "all") for config in (ConditionalConfig(4), ModelConfig(size=4, rank=2))]


@pytest.mark.parametrize("model", NETWORKS_WITH_UNITS, ids=["conditional", "sequence model of codes"])
def test_networks_that_read_the_ends_of_words_do_not_write(model, monkeypatch, capsys):
    """Drawn symbols would never complete a word."""
    interface = SimpleNamespace(streams=True)
    trained: Any = SimpleNamespace(model=model, vocabulary=CHARACTERS, interface=interface)
    says = "reads which word or character each symbol completes, and predicts symbols only"
    with pytest.raises(UsageError, match=says):
        sampling.writer_of(sampling.Options(Path("run")), trained)
    with pytest.raises(UsageError, match=says):
        sample(model, {}, jnp.zeros(1, int), 3, jax.random.key(0))
    monkeypatch.setattr(sampling, "read_run", lambda *_: trained)
    sampling.show_ending(Path("run"), Console())
    assert not capsys.readouterr().out


@pytest.fixture
def asked(monkeypatch):
    """A network that writes the symbol 3 as often as asked, or what it reads if nothing is asked; the settings of each call."""
    found = []

    def sample(model, variables, read, length, key, temperature, end, top_k):
        found.append((end, top_k, temperature))
        return jnp.full(length, 3, read.dtype) if length else read

    monkeypatch.setattr(sampling, "sample", sample)
    return found


@pytest.mark.parametrize(("streams", "end", "read"), [(True, None, [0, 2, 0, 3, 4]), (False, 0, [0, 3, 4])])
def test_a_network_of_sentences_reads_the_last_one_and_starts_again_at_each_end(streams, end, read, asked):
    writer = Writer(None, CHARACTERS, streams, 0, 0.7, 5)  # type: ignore[arg-type]
    np.testing.assert_array_equal(writer.numbers({}, np.array([2, 0, 3, 4])), read)
    assert asked == [(end, 5, 0.7)]


@pytest.mark.parametrize(
    ("vocabulary", "prompt", "text"),
    [(CHARACTERS, "a", "aaa"), (WORDS, "", "dog dog"), (WORDS, "cat", "cat dog dog"), (WORDS, "cat ", "cat dog dog")],
)
def test_words_are_parted_from_the_prompt(vocabulary, prompt, text, asked):
    assert Writer(None, vocabulary, True, 2).text({}, prompt) == text  # type: ignore[arg-type]


def test_a_prompt_of_words_ends_a_line_only_where_it_has_a_line_end():
    assert sampling.numbers_of(WORDS, "cat dog").tolist() == [2, 3]
    assert sampling.numbers_of(WORDS, "cat\ndog\n").tolist() == [2, 0, 3, 0]


def test_each_text_has_the_seed_after_that_of_the_last():
    assert [*sampling.Options(Path("run"), seed=5, samples=3).seeds] == [5, 6, 7]


@pytest.mark.parametrize("model", NETWORKS_WITH_UNITS, ids=["conditional", "sequence model of codes"])
def test_samples_of_networks_that_read_the_ends_of_words_are_left_out_with_one_warning(model, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(Console, "warn", lambda _, text: said.append(text))
    samples = sampling.Samples(5, Console(quiet=True))
    for update in (10, 20):
        evaluation: Any = SimpleNamespace(model=model, label="VCRNN seed 0", update=update)
        samples.evaluated(evaluation)
    assert said == ["VCRNN seed 0 writes no text, because it also reads which unit each symbol completes"]


def test_equal_networks_of_two_texts_write_with_their_own_symbols(asked, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(Console, "say", lambda _, text: said.append(text.rpartition("\n")[2]))
    monkeypatch.setattr(sampling, "reads_units", lambda model: False)
    samples = sampling.Samples(2, Console(quiet=True))
    for vocabulary in (CHARACTERS, replace(CHARACTERS, symbols=tuple(symbol.upper() for symbol in CHARACTERS.symbols))):
        task = SimpleNamespace(vocabulary=vocabulary, streams=True)
        evaluation: Any = SimpleNamespace(model="equal", label="", update=1, task=task, variables={})
        samples.evaluated(evaluation)
    assert said == ["aa", "AA"]
