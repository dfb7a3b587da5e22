"""What a writer of texts asks of its network: from which symbol on it reads, where it starts again, and how texts are joined."""

import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.cli import sampling
from lrpt.cli.sampling import Writer
from lrpt.datasets.vocabulary import Vocabulary, WordVocabulary

CHARACTERS, WORDS = Vocabulary.of("abc "), WordVocabulary.of("cat dog")


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
