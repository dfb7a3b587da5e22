"""Symbols that `sample` draws, and arguments that are none: each has a line that says what to give."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest

from lrpt.errors import UsageError
from lrpt.networks.sampling import sample
from lrpt.networks.sequence_model import ModelConfig

MODEL = ModelConfig("gru", 4, rank=2).build(5, 5, "all")
PROMPT, KEY = jnp.array([1, 2]), jax.random.key(0)


@pytest.fixture(scope="module")
def variables():
    return MODEL.init(jax.random.key(1), PROMPT[None])


@pytest.mark.slow
@pytest.mark.parametrize("top_k", [None, 3])
def test_each_symbol_follows_what_was_read_since_the_last_end(variables, top_k):
    """The oracle reads that part anew for each symbol. Large parameters make the probabilities of different pasts differ."""
    large, prompt, end = jax.tree.map(lambda p: 5 * p, variables), [1, 4, 0, 2, 3], 0
    drawn = sample(MODEL, large, jnp.array(prompt), 20, KEY, end=end, top_k=top_k).tolist()
    assert end in drawn[:-1]
    for place, key in enumerate(jax.random.split(KEY, 20)):
        read = [*prompt, *drawn[:place]]
        since = read[len(read) - 1 - read[::-1].index(end) :]
        logits = MODEL.apply(large, jnp.array([since]))[0, -1]
        least = jnp.sort(logits)[-(top_k or 5)]
        assert drawn[place] == jax.random.categorical(key, jnp.where(logits < least, -jnp.inf, logits)), place


@pytest.mark.parametrize("prompt", ["hello", b"hello", ["hello"]])
def test_a_text_says_how_to_encode_it(prompt, variables):
    with pytest.raises(UsageError, match=r"the prompt is text: encode it, as in trained\.vocabulary\.encode\(text\)"):
        sample(MODEL, variables, prompt, 3, KEY)


@pytest.mark.parametrize(
    "key", [0, jax.random.split(KEY, 3), jnp.zeros(2), jnp.uint32(0), None], ids=["0", "keys", "floats", "seed", "None"]
)
def test_a_key_that_is_none_says_how_to_make_one(key, variables):
    with pytest.raises(UsageError, match=r"key is .*: give one key, such as jax\.random\.key\(0\)"):
        sample(MODEL, variables, PROMPT, 3, key)


@pytest.mark.parametrize("temperature", ["1", None, -1, float("nan")])
def test_a_temperature_that_is_none_is_one_line(temperature, variables):
    with pytest.raises(UsageError, match=r"temperature is .*: expected a number, 0 or more"):
        sample(MODEL, variables, PROMPT, 3, KEY, temperature=temperature)


def test_of_equally_probable_symbols_only_k_are_drawn(variables):
    """A network without parameters finds all symbols equally probable."""
    zeros = jax.tree.map(jnp.zeros_like, variables)
    assert len(set(sample(MODEL, zeros, PROMPT, 30, KEY, top_k=2).tolist())) == 2
    assert len(set(sample(MODEL, zeros, PROMPT, 30, KEY).tolist())) > 2


def test_both_kinds_of_keys_are_keys(variables):
    drawn = [sample(MODEL, variables, PROMPT, 3, key) for key in (KEY, jax.random.PRNGKey(0))]
    assert jnp.array_equal(*drawn)
    assert jax.jit(lambda key: sample(MODEL, variables, PROMPT, 3, key))(KEY).shape == (3,)


class WithoutOutputSize(nn.Module):
    """A network of a user: symbol k follows symbol k - 1."""

    input_size: int

    def advance(self, inputs, mask=None, start=None):
        return jax.nn.one_hot((inputs + 1) % self.input_size, self.input_size), jnp.zeros((inputs.shape[0], 1))


def test_a_network_that_does_not_say_its_output_size_reads_symbols():
    drawn = sample(WithoutOutputSize(5), {}, PROMPT, 3, KEY, temperature=0.0)
    assert drawn.tolist() == [3, 4, 0]


def test_an_infinite_temperature_takes_the_most_probable_symbols_alike(variables):
    best = set(jax.lax.top_k(MODEL.apply(variables, PROMPT[None])[0, -1], 2)[1].tolist())
    drawn = [int(sample(MODEL, variables, PROMPT, 1, jax.random.key(seed), temperature=float("inf"), top_k=2)[0]) for seed in range(30)]
    assert set(drawn) == best
