"""Sampling of text from a language model."""

from numbers import Real
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Integer, PyTree

from lrpt.errors import UsageError, check_count, is_integer
from lrpt.networks.conditional import ConditionalNetwork
from lrpt.networks.protocol import Start
from lrpt.precision import at_least_single
from lrpt.symbols import units_of

COLD = 1e-6
"""Temperatures below are 0: dividing by them overflows."""


def sample(
    model: nn.Module,
    variables: PyTree,
    prompt: Integer[Array, " p"] | Integer[np.ndarray, " p"],
    length: int,
    key: Array,
    temperature: float | Float[Array, ""] = 1.0,
    end: int | None = None,
    top_k: int | None = None,
) -> Int[Array, " length"]:
    """Draw symbols that follow a prompt, with probabilities softmax(logits / temperature). Each drawn symbol is the next input.

    Every call is compiled anew. To sample often, compile it once: `jax.jit(sample, static_argnames=("model", "length", "end", "top_k"))`. A
    trained network has `sample` for texts, which is compiled once (`lrpt.trained.loading.Loaded.sample`).

    Args:
      model: a network with a method `advance` that predicts at every step. Its inputs are the symbols that it predicts.
      variables: its parameters and other collections.
      prompt: one symbol or more, such as what the `encode` of a vocabulary returns.
      length: number of symbols to draw.
      key: PRNG key.
      temperature: values below 1 favour probable symbols; 0 always takes the most probable one.
      end: the symbol after which the network restarts from its initial state, if it was trained on sentences that end with it. The prompt
        is read from its last `end` on, if it has one.
      top_k: draw from the k most probable symbols only (None: from all).

    Raises:
      UsageError: the temperature is negative or no number, top_k is below 1, the prompt is text or not one sequence of symbols, the key
        is no PRNG key, the length is negative, `end` is none of the symbols, the network does not predict at every step, or its inputs also
        say which unit they complete.
    """
    check_writes(model)
    check_no_text(prompt, "the prompt is text: encode it, as in trained.vocabulary.encode(text)")
    _check_key(key)
    check_settings(jnp.asarray(prompt), length, temperature, top_k)
    prompt = jnp.asarray(prompt, jnp.int32)  # a vocabulary encodes as uint8 or uint16, which cells do not declare

    def draw(key: Array, logits: Array) -> Array:
        logits = at_least_single(logits)  # Gumbel noise of half precision takes a few values only
        scaled = logits / jnp.maximum(temperature, COLD)
        if top_k is not None and top_k < logits.size:
            _, places = jax.lax.top_k(logits, top_k)
            scaled = jnp.full_like(scaled, -jnp.inf).at[places].set(scaled[places])
        drawn = jax.random.categorical(key, scaled)
        return jnp.where(temperature < COLD, jnp.argmax(logits), drawn)

    def step(state: tuple[Any, Array], key: Array) -> tuple[tuple[Any, Array], Array]:
        carry, logits = state
        symbol = draw(key, logits)
        start = Start(carry, jnp.asarray(False) if end is None else symbol == end)
        predictions, carry = model.apply(variables, symbol[None, None], None, start, method="advance")  # type: ignore[misc]
        return (carry, predictions[0, 0]), symbol

    counts = None if end is None else _from_last(prompt, end)[None]
    predictions, carry = model.apply(variables, prompt[None], counts, method="advance")  # type: ignore[misc]
    _check_predictions(predictions, end)
    _, symbols = jax.lax.scan(step, (carry, predictions[0, -1]), jax.random.split(key, length))
    return symbols


def _from_last(prompt: Int[Array, " p"], end: int) -> Bool[Array, " p"]:
    """Return which symbols of a prompt count: those from the last `end` on, or all if there is none. The prompt may be traced."""
    places = jnp.arange(prompt.size)
    return places >= jnp.max(jnp.where(prompt == end, places, 0))


def reads_units(model: Any) -> bool:
    """Return whether the inputs of a network are not only symbols, but also say which word or character each symbol completes."""
    if isinstance(model, ConditionalNetwork):
        return True
    sizes: list[Any] = [getattr(model, name, None) for name in ("input_size", "output_size")]  # a network of a user may lack them
    return all(map(is_integer, sizes)) and units_of(*sizes) > 0


def check_writes(model: Any) -> None:
    """Check that the inputs of a network are the symbols that it predicts.

    Raises:
      UsageError: its inputs also say which unit each symbol completes. Drawn symbols would never complete one.
    """
    if reads_units(model):
        raise UsageError("the network reads which word or character each symbol completes, and predicts symbols only: sample another one")


def check_no_text(given: Any, says: str) -> None:
    """Raise a UsageError if `given` is text, or a list of texts. JAX would raise a TypeError that does not say what to do.

    Args:
      given: an argument that is to hold numbers.
      says: the message.
    """
    if isinstance(given, str | bytes) or (isinstance(given, list | tuple) and given and isinstance(given[0], str | bytes)):
        raise UsageError(says)


def _check_key(key: Any) -> None:
    """Raise a UsageError unless `key` is one PRNG key, as `jax.random.key` or `jax.random.PRNGKey` returns it."""
    dtype = getattr(key, "dtype", None)
    is_typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if dtype is None or jnp.ndim(key) != (0 if is_typed else 1) or not (is_typed or dtype == jnp.uint32):
        given = repr(key) if dtype is None else f"{dtype} of shape {jnp.shape(key)}"
        raise UsageError(f"key is {given}: give one key, such as jax.random.key(0)")


def check_settings(prompt: Array | np.ndarray, length: int, temperature: Any, top_k: int | None) -> None:
    """Check arguments of `sample`.

    Raises:
      UsageError: one of them is not allowed.
    """
    if prompt.ndim != 1 or not prompt.size or not jnp.issubdtype(prompt.dtype, jnp.integer):
        raise UsageError(f"the prompt is {prompt.dtype} of shape {prompt.shape}: give one symbol or more, as integers of shape (p,)")
    check_count("length", length, 0)
    if not isinstance(temperature, Tracer) and not (isinstance(temperature, Real | Array) and float(temperature) >= 0):
        raise UsageError(f"temperature is {temperature!r}: expected a number, 0 or more")
    if top_k is not None:
        check_count("top_k", top_k)


def _check_predictions(predictions: Array, end: int | None) -> None:
    if predictions.ndim != 3:
        raise UsageError(f"the network predicts {predictions.shape}: give one that reads 'all' steps, (batch, time, symbols)")
    if end is not None and not 0 <= end < predictions.shape[-1]:
        raise UsageError(f"end is {end}: expected a symbol from 0 to {predictions.shape[-1] - 1}, or None")
