"""Texts by a trained language model: prompts as symbols, and symbols as the text that continues them."""

import flax.linen as nn
import jax
import numpy as np
from jaxtyping import Array, Int, PyTree

from lrpt.datasets.vocabulary import (
    UNKNOWN,
    UNKNOWN_CHARACTER,
    UNKNOWN_WORD,
    ByteCharacters,
    ByteVocabulary,
    Vocabulary,
    WordVocabulary,
)
from lrpt.errors import UsageError, check_seed
from lrpt.networks.sampling import check_settings, check_writes, sample
from lrpt.tasks.task import AnyVocabulary

BEGINNING = 0
"""Symbol 0, the line end, with which every text begins in training and sampling. A network of sentences starts at each of them again."""

SHOWN = 10
"""Largest number of unknown characters or words in a warning."""


class Writer:
    """A language model that writes texts. It is compiled once for each length of prompt and text, and each number of `top_k`.

    Args:
      model: the network.
      vocabulary: its symbols.
      streams: whether it was trained on one stream; otherwise it starts from its initial state after each line end.

    Raises:
      UsageError: the inputs of the network also say which unit each symbol completes.
    """

    def __init__(self, model: nn.Module, vocabulary: AnyVocabulary, streams: bool) -> None:
        check_writes(model)
        self.model, self.vocabulary, self.streams = model, vocabulary, streams
        self._sample = jax.jit(self._draw, static_argnames=("length", "top_k"))

    def numbers(
        self,
        variables: PyTree,
        prompt: Int[np.ndarray, " p"],
        length: int,
        seed: int = 0,
        temperature: float = 1.0,
        top_k: int | None = None,
    ) -> Int[np.ndarray, " n"]:
        """Return the numbers of the symbols that continue a prompt. The settings are those of `lrpt.networks.sampling.sample`.

        Raises:
          UsageError: the length is negative, the seed is not from 0 to 2^32 - 1, the temperature is negative, or top_k is below 1.
        """
        read = np.concatenate([[BEGINNING], prompt]).astype(np.int32)
        if not self.streams:
            read = read[np.flatnonzero(read == BEGINNING)[-1] :]
        check_settings(read, length, temperature, top_k)
        check_seed(seed)
        return np.asarray(self._sample(variables, read, jax.random.key(seed), float(temperature), length=length, top_k=top_k))

    def text(self, variables: PyTree, prompt: str, length: int, seed: int = 0, temperature: float = 1.0, top_k: int | None = None) -> str:
        """Return the prompt and its continuation.

        Raises:
          UsageError: as in `numbers`; or the vocabulary lacks a symbol of the prompt.
        """
        symbols = self.numbers(variables, numbers_of(self.vocabulary, prompt), length, seed, temperature, top_k)
        between = " " if isinstance(self.vocabulary, WordVocabulary) and prompt[-1:].strip() != "" else ""
        return prompt + between + self.vocabulary.decode(symbols)

    def _draw(self, variables: PyTree, read: Array, key: Array, temperature: Array, length: int, top_k: int | None) -> Array:
        return sample(self.model, variables, read, length, key, temperature, None if self.streams else BEGINNING, top_k)


def numbers_of(vocabulary: AnyVocabulary, prompt: str) -> Int[np.ndarray, " p"]:
    """Encode a prompt. For words, add no line end that is not in the prompt.

    Raises:
      UsageError: the prompt has a symbol that the vocabulary does not have.
    """
    text = prompt.encode() if isinstance(vocabulary, ByteVocabulary) else prompt
    if isinstance(vocabulary, ByteCharacters):
        text = prompt.encode().decode("latin-1")
    try:
        numbers = vocabulary.encode(text)  # type: ignore[arg-type]
    except ValueError as error:
        known = "".join(vocabulary.symbols)
        raise UsageError(f"prompt is {prompt!r}, whose {error} in the text that was learned: it has {known[:80]!r}") from None
    unfinished = isinstance(vocabulary, WordVocabulary) and numbers.size and not prompt.rstrip(" \t").endswith("\n")
    return numbers[:-1] if unfinished else numbers


def unknown_in_words(vocabulary: AnyVocabulary, prompt: str) -> str:
    """Return a line that names the characters or words of a prompt that are read as the unknown symbol, '' if there are none.

    Raises:
      UsageError: the vocabulary has none of them.
    """
    units, unit = parts_of(vocabulary, prompt), "word" if isinstance(vocabulary, WordVocabulary) else "character"
    unknown = [part for part in units if UNKNOWN in numbers_of(vocabulary, part)]
    if not unknown:
        return ""
    if len(unknown) == len(units):
        raise UsageError(f"prompt is {prompt!r}: expected at least one {unit} of the text that was learned")
    shown = ", ".join(map(repr, unknown[:SHOWN])) + (f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else "")
    return f"the text that was learned has no {unit} {shown}: the network reads the unknown symbol instead"


def parts_of(vocabulary: AnyVocabulary, prompt: str) -> list[str]:
    """Return the characters or words of a prompt, each once, without a given unknown symbol; none if a vocabulary has no such symbol."""
    if isinstance(vocabulary, WordVocabulary):
        return [word for word in dict.fromkeys(prompt.split()) if word != UNKNOWN_WORD]
    return [sign for sign in dict.fromkeys(prompt) if sign != UNKNOWN_CHARACTER] if isinstance(vocabulary, Vocabulary) else []
