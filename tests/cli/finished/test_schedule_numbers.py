"""Numbers of schedules that are made up here, of networks that are never run."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lrpt.cli.finished.schedule_numbers import ScheduleTrace, around_words, summarize
from lrpt.datasets.vocabulary import Vocabulary
from lrpt.networks.variable_computation import VariableConfig


def test_operations_on_characters_are_those_of_the_first_eight_places():
    """The other eight are buffer bits."""
    model = VariableConfig("vcrnn", 5, parametrization="dense", lag=16)
    trained: Any = SimpleNamespace(config=SimpleNamespace(model=model), interface=SimpleNamespace(input_size=2))
    m = np.tile([1.0] * 8 + [0.0] * 8, 3)
    found = summarize(trained, ScheduleTrace(np.zeros(len(m), int), m[:, None]))
    assert found.on_characters == 1
    assert found.by_place == [1] * 8 + [0] * 8


def test_a_leading_blank_ends_no_word_and_of_several_the_first_does():
    vocabulary, text = Vocabulary.of("abc "), " ab  c a"
    symbols = np.array([vocabulary.symbols.index(character) for character in text])
    trained: Any = SimpleNamespace(vocabulary=vocabulary)
    found = around_words(trained, ScheduleTrace(symbols, np.arange(8.0)[:, None]), reach=0)
    assert found.words == 2
    assert found.means == [pytest.approx((3 + 6) / 2)]
