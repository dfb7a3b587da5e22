"""What a writer of texts asks of its network: from which symbol on it reads, where it starts again, and how texts are joined."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.datasets.vocabulary import Vocabulary, WordVocabulary
from lrpt.errors import UsageError
from lrpt.trained import writing
from lrpt.trained.writing import Writer, numbers_of

CHARACTERS, WORDS = Vocabulary.of("abc "), WordVocabulary.of("cat dog")


@pytest.fixture
def asked(monkeypatch):
    """A network that writes the symbol 3 as often as asked, or what it reads if nothing is asked; the settings of each call."""
    found = []

    def sample(model, variables, read, length, key, temperature, end, top_k):
        found.append((end, top_k, isinstance(temperature, jax.core.Tracer)))
        return jnp.full(length, 3, read.dtype) if length else read

    monkeypatch.setattr(writing, "sample", sample)
    return found


@pytest.mark.parametrize(("streams", "end", "read"), [(True, None, [0, 2, 0, 3, 4]), (False, 0, [0, 3, 4])])
def test_a_network_of_sentences_reads_the_last_one_and_starts_again_at_each_end(streams, end, read, asked):
    writer = Writer(None, CHARACTERS, streams)  # type: ignore[arg-type]
    for temperature in (0.7, 0.8):
        np.testing.assert_array_equal(writer.numbers({}, np.array([2, 0, 3, 4]), 0, temperature=temperature, top_k=5), read)
    assert asked == [(end, 5, True)]  # compiled once for all temperatures


@pytest.mark.parametrize(
    ("vocabulary", "prompt", "text"),
    [(CHARACTERS, "a", "aaa"), (WORDS, "", "dog dog"), (WORDS, "cat", "cat dog dog"), (WORDS, "cat ", "cat dog dog")],
)
def test_words_are_parted_from_the_prompt(vocabulary, prompt, text, asked):
    assert Writer(None, vocabulary, True).text({}, prompt, 2) == text  # type: ignore[arg-type]


def test_a_prompt_of_words_ends_a_line_only_where_it_has_a_line_end():
    assert numbers_of(WORDS, "cat dog").tolist() == [2, 3]
    assert numbers_of(WORDS, "cat\ndog\n").tolist() == [2, 0, 3, 0]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"length": -1}, "length is -1: expected an integer, 0 or more"),
        ({"length": 2, "seed": -1}, "seed is -1: expected an integer from 0 to 4294967295"),
        ({"length": 2, "seed": 0.5}, "seed is 0.5: expected an integer"),
        ({"length": 2, "temperature": -1.0}, "temperature is -1.0: expected a number, 0 or more"),
        ({"length": 2, "top_k": 0}, "top_k is 0: expected an integer, 1 or more"),
    ],
)
def test_settings_of_a_text(settings, says, asked):
    with pytest.raises(UsageError, match=says):
        Writer(None, CHARACTERS, True).text({}, "a", **settings)  # type: ignore[arg-type]
    assert not asked
