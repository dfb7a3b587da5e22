"""The starts that the original code of the lattice units, and of the GRUs on characters, has."""

from statistics import NormalDist

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.networks.conditional import ConditionalConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.parametrizations.initialization import INITIALIZATIONS

WIDTH, SYMBOLS = 64, 300


def assert_uniform_within(values, bound):
    """These are uniform within the bound, as far as their number lets one see."""
    values = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(values)])
    assert np.abs(values).max() <= bound
    assert np.std(values) == pytest.approx(bound / np.sqrt(3), rel=0.05)


@pytest.mark.parametrize("kind", ["dense", "low_rank_plus_diagonal"])
def test_a_lattice_starts_as_in_the_original_code(kind):
    config = ModelConfig(
        "lru", WIDTH, parametrization=kind, rank=16, carry_bias=0.0, initialization="lru", layers=2, trainable_initial_state=False
    )
    params = config.build(SYMBOLS, SYMBOLS, "all").init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))["params"]
    table = params["embedding"]["table"]
    assert (table.shape, float(jnp.std(table))) == ((SYMBOLS, WIDTH), pytest.approx(1, rel=0.05))
    assert_uniform_within(params["recurrent"]["cell"], WIDTH**-0.5)
    assert_uniform_within(params["readout"], WIDTH**-0.5)
    assert_uniform_within(params["readout"]["bias"], WIDTH**-0.5)
    assert len(params["readout"]["bias"]) == SYMBOLS


@pytest.mark.parametrize("cell", ["rhn", "rhn_uncoupled"])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["dense", "low_rank_plus_diagonal"])
def test_the_first_transition_of_an_rhn_counts_input_and_state(cell, kind, tied):
    """In the original code of the lattice units, it is `nn.Linear(2 n, n)`, whose weights and biases are uniform in +-1/sqrt(2 n)."""
    config = ModelConfig(cell, WIDTH, depth=2, parametrization=kind, rank=16, tied=tied, carry_bias=0.0, initialization="lru")
    params = config.build(WIDTH, 5, "all").init(jax.random.key(0), jnp.zeros((1, 1, WIDTH)))["params"]["recurrent"]["cell"]
    layers = [{name: part for name, part in params["recurrent"].items() if str(layer) in name.split("_")} for layer in (0, 1)]
    biases = [[bias for name, bias in params["bias"].items() if name.startswith(f"{layer}_")] for layer in (0, 1)]
    assert_uniform_within(params["input"], (2 * WIDTH) ** -0.5)
    for part, bound in zip(layers, ((2 * WIDTH) ** -0.5, WIDTH**-0.5), strict=True):
        assert_uniform_within(part, bound)
    assert max(np.abs(bias).max() for bias in biases[0]) <= (2 * WIDTH) ** -0.5 < max(np.abs(bias).max() for bias in biases[1])


@pytest.mark.parametrize("name", sorted(set(INITIALIZATIONS) - {"lru"}))
def test_other_initializations_take_no_notice_of_what_a_matrix_is_a_block_of(name):
    assert INITIALIZATIONS[name].of_block(7) is INITIALIZATIONS[name]


def test_of_the_factors_of_an_embedding_only_the_table_starts_as_an_embedding():
    config = ModelConfig("lru", WIDTH, rank=16, initialization="lru", embedding_rank=32)
    embedding = config.build(SYMBOLS, SYMBOLS, "all").init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))["params"]["embedding"]
    assert (embedding["table"].shape, float(jnp.std(embedding["table"]))) == ((SYMBOLS, 32), pytest.approx(1, rel=0.05))
    assert embedding["spread"].shape == (32, WIDTH)
    assert_uniform_within(embedding["spread"], WIDTH**-0.5)


@pytest.mark.parametrize("config", [ModelConfig(size=WIDTH, initialization="uniform"), ConditionalConfig(WIDTH, initialization="uniform")])
def test_uniform_starts_are_those_of_readouts_too(config):
    params = config.build(2 * SYMBOLS, SYMBOLS, "all").init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))["params"]
    assert_uniform_within(params["readout"], config.initial.scale)
    assert np.std(params["readout"]["bias"]) > 0


def test_a_readout_goes_by_the_width_of_the_fast_level():
    """A conditional network, whose slow level and symbols have other widths."""
    config = ConditionalConfig(WIDTH, slow_size=4, initialization="lru")
    params = config.build(2 * SYMBOLS, SYMBOLS, "all").init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))["params"]
    assert_uniform_within(params["readout"], WIDTH**-0.5)


def test_an_input_matrix_goes_by_the_width_of_its_outputs():
    config = ModelConfig("elman", 100, parametrization="dense", initialization="lru")
    params = config.build(SYMBOLS, 5, "last").init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))["params"]
    assert_uniform_within(params["recurrent"]["cell"]["input"], 0.1)


def dl4mt_params(kind, seed=0, size=96):
    config = ModelConfig(
        "gru_reset_after", size, parametrization=kind, rank=24, carry_bias=0.0, initialization="dl4mt", trainable_initial_state=False
    )
    return config.build(51, 51, "all").init(jax.random.key(seed), jnp.zeros((1, 1), jnp.int32))["params"]


def assert_normal(values, deviation):
    """These are normal with the given standard deviation: so are their quartiles, which are those of no uniform or orthogonal numbers."""
    values = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(values)])
    assert np.mean(values) == pytest.approx(0, abs=4 * deviation / np.sqrt(values.size))
    assert np.std(values) == pytest.approx(deviation, rel=0.03)
    quartile = deviation * NormalDist().inv_cdf(0.75)
    np.testing.assert_allclose(np.quantile(values, [0.25, 0.75]), [-quartile, quartile], rtol=0.05)
    assert np.abs(values).max() > 3 * deviation


def test_square_matrices_of_grus_on_characters_start_orthogonal():
    """`ortho_weight` of dl4mt-lm takes the left singular vectors of normal numbers: here NumPy draws such matrices."""
    rng, size = np.random.default_rng(0), 96
    found = [dl4mt_params("dense", seed)["recurrent"]["cell"]["recurrent"] for seed in (0, 1)]
    drawn = [np.asarray(gate["kernel"], np.float64) for gates in found for gate in gates.values()]
    original = [np.linalg.svd(rng.standard_normal((size, size)))[0] for _ in drawn]
    for matrix in (*drawn, *original):
        np.testing.assert_allclose(matrix.T @ matrix, np.eye(size), atol=1e-5)
        np.testing.assert_allclose(np.linalg.svd(matrix, compute_uv=False), 1, atol=1e-5)
    quantiles = [np.quantile(np.abs(np.stack(matrices)), [0.25, 0.5, 0.75, 0.95]) for matrices in (drawn, original)]
    np.testing.assert_allclose(*quantiles, rtol=0.05)
    products = [one.T @ other for k, one in enumerate(drawn) for other in drawn[:k]]
    assert all(np.abs(product).max() < 0.7 for product in products)  # gates and seeds have matrices of their own


@pytest.mark.parametrize("kind", ["dense", "low_rank", "low_rank_plus_diagonal"])
def test_all_else_of_grus_on_characters_starts_small(kind):
    """dl4mt-lm: `norm_weight` draws with a standard deviation of 0.01, diagonals are uniform within 0.01, and biases are zero."""
    params = dl4mt_params(kind)
    cell = params["recurrent"]["cell"]
    assert_normal(cell["input"], 0.01)
    assert_normal(params["readout"]["kernel"], 0.01)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves((cell["bias"], params["readout"]["bias"])))
    for gate in cell["recurrent"].values() if kind != "dense" else ():
        assert_normal((gate["left"], gate["right"]), 0.01)
        assert np.std(np.tensordot(gate["right"], gate["left"], (0, 0))) == pytest.approx(1e-4 * np.sqrt(24), rel=0.1)
    if kind == "low_rank_plus_diagonal":
        assert_uniform_within([gate["diagonal"] for gate in cell["recurrent"].values()], 0.01)


SCALE = 0.3


@pytest.mark.parametrize(
    ("name", "matrix", "diagonal", "offset"),
    [
        ("glorot", ("uniform", np.sqrt(6 / 400)), ("uniform", 0.01), None),
        ("dl4mt", ("normal", 0.01), ("uniform", 0.01), None),
        ("uniform", ("uniform", SCALE), ("uniform", SCALE), ("uniform", SCALE)),
        ("normal", ("normal", SCALE), ("normal", SCALE), None),
    ],
    ids=["glorot", "dl4mt", "uniform", "normal"],
)
def test_what_is_drawn_for_matrices_diagonals_and_biases(name, matrix, diagonal, offset):
    """None stands for zeros."""
    start = INITIALIZATIONS[name]
    for draw, shape, expected in ((start.matrix, (150, 250), matrix), (start.diagonal, (5000,), diagonal), (start.offset, (5000,), offset)):
        drawn = np.asarray(draw(jax.random.key(0), shape, SCALE))
        if expected is None:
            assert not drawn.any()
        elif expected[0] == "uniform":
            assert_uniform_within(drawn, expected[1])
        else:
            assert np.std(drawn) == pytest.approx(expected[1], rel=0.05)
            assert 3 * expected[1] < np.abs(drawn).max() < 6 * expected[1]


def test_the_scale_is_that_of_embeddings_and_readouts():
    config = ModelConfig(size=64, initialization="uniform", initial_scale=0.3, embedding=64, embedding_rank=32)
    params = config.build(300, 300, "all").init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))["params"]
    for part in (params["embedding"]["table"], params["embedding"]["spread"], params["readout"]["kernel"], params["readout"]["bias"]):
        assert np.abs(part).max() <= 0.3
        assert np.std(part) == pytest.approx(0.3 / np.sqrt(3), rel=0.1)
