"""The command `sample`, and texts during training: which networks write, and with which seeds and symbols."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from lrpt.cli.finished import sampling
from lrpt.datasets.vocabulary import Vocabulary
from lrpt.errors import UsageError
from lrpt.networks.conditional import ConditionalConfig
from lrpt.networks.sampling import sample
from lrpt.networks.sequence_model import ModelConfig
from lrpt.runs.console import Console
from lrpt.trained import writing
from lrpt.trained.writing import Writer

CHARACTERS = Vocabulary.of("abc ")

NETWORKS_WITH_UNITS = [config.build(15, 5, "all") for config in (ConditionalConfig(4), ModelConfig(size=4, rank=2))]


@pytest.mark.parametrize("model", NETWORKS_WITH_UNITS, ids=["conditional", "sequence model of codes"])
def test_networks_that_read_the_ends_of_words_do_not_write(model, monkeypatch, capsys):
    """Drawn symbols would never complete a word."""
    trained: Any = SimpleNamespace(model=model)
    says = "reads which word or character each symbol completes, and predicts symbols only"
    with pytest.raises(UsageError, match=says):
        Writer(model, CHARACTERS, streams=True)
    with pytest.raises(UsageError, match=says):
        sample(model, {}, jnp.zeros(1, int), 3, jax.random.key(0))
    monkeypatch.setattr(sampling, "read_run", lambda *_: trained)
    sampling.show_ending(Path("run"), Console())
    assert not capsys.readouterr().out


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


def test_equal_networks_of_two_texts_write_with_their_own_symbols(monkeypatch):
    monkeypatch.setattr(writing, "sample", lambda model, variables, read, length, *rest: jnp.full(length, 3, read.dtype))
    said: list[str] = []
    monkeypatch.setattr(Console, "say", lambda _, text: said.append(text.rpartition("\n")[2]))
    monkeypatch.setattr(sampling, "reads_units", lambda model: False)
    samples = sampling.Samples(2, Console(quiet=True))
    for vocabulary in (CHARACTERS, replace(CHARACTERS, symbols=tuple(symbol.upper() for symbol in CHARACTERS.symbols))):
        task = SimpleNamespace(vocabulary=vocabulary, streams=True)
        evaluation: Any = SimpleNamespace(model="equal", label="", update=1, task=task, variables={})
        samples.evaluated(evaluation)
    assert said == ["aa", "AA"]
