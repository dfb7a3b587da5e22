"""Weights by which a network multiplies at each step."""

from dataclasses import dataclass, field

import pytest

from lrpt.cells import CELLS, Cell
from lrpt.errors import UsageError
from lrpt.networks.conditional import ConditionalConfig
from lrpt.networks.configuration import EmbeddingConfig, InputStorageConfig, TiedStorageConfig
from lrpt.networks.counting import averaged_bytes, count, count_in_step, count_parts
from lrpt.networks.highway_classifier import HighwayConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.parametrizations import PARAMETRIZATIONS
from lrpt.specs import BiasSpec, MatrixSpec

N = 16


def network(cell, **changes):
    return ModelConfig(cell, N, matrices=TiedStorageConfig("dense"), embeddings=EmbeddingConfig(N), **changes)


@pytest.mark.parametrize(
    ("config", "matrices"),
    [
        (network("elman"), 2),
        (network("gru"), 2 * 3),
        (network("lstm"), 2 * 4),
        (network("lstm", layers=3), 3 * 2 * 4),
        (network("lstm", layers=3, shared_layers=True), 3 * 2 * 4),
        (network("rhn"), 2 + 2),
        (network("rhn", depth=5), 2 + 5 * 2),
    ],
    ids=["elman", "gru", "lstm", "layers", "shared-layers", "rhn", "deep-rhn"],
)
def test_matrices_of_inputs_and_states_are_counted_and_the_vocabulary_is_not(config, matrices):
    assert [count_in_step(config, symbols, symbols) for symbols in (2, 50)] == [matrices * N * N] * 2


@pytest.mark.parametrize("loop", ["fast", "plain"])
def test_counting_does_not_look_for_devices(loop, monkeypatch):
    monkeypatch.setattr("jax.default_backend", lambda: pytest.fail("JAX was asked for its device"))
    assert count(ModelConfig("gru", 11, rank=2, recurrence=loop), 3, 5).true == 3 * 11 * (5 + 3 + 1) + 11 + 12 * 5


def test_of_other_networks_all_parameters_are_counted():
    config = HighwayConfig()
    assert count_in_step(config, 5, 3) == count(config, 5, 3).true


@pytest.mark.parametrize(
    ("config", "kept", "further"),
    [
        (network("gru", layers=3), 3 * N * N, 3 * 2 * N * N),
        (network("gru", layers=3, shared_layers=True), N * N, 2 * N * N),
        (network("rhn", layers=2, depth=3), 2 * N * N, 2 * N * N),
        (network("gru", layers=2, inputs=InputStorageConfig("low_rank", 2, tied=True)), 2 * 2 * N * 2, 2 * 2 * N * 2),
    ],
    ids=["stack", "shared-layers", "deep-rhn", "tied-low-rank"],
)
def test_the_papers_count_has_one_gates_input_matrix_of_each_layer(config, kept, further):
    parts, counts = count_parts(config, 50, 50), count(config, 50, 50)
    assert (parts["input"], parts["further_input"]) == (kept, further)
    assert counts.true - counts.paper == further + parts["initial_state"]


@pytest.mark.parametrize(
    "config",
    [
        ModelConfig("gru", N, rank=4, embeddings=EmbeddingConfig(N, tied=True)),
        ModelConfig("gru", N, rank=4, weight_norm=True, inputs=InputStorageConfig("low_rank", 2, tied=True), embeddings=EmbeddingConfig(N)),
        ModelConfig("unitary", N),
    ],
    ids=["tied-embedding", "weight-norm", "unitary"],
)
def test_parts_add_up_to_all_parameters(config):
    total = count(config, 50, 50).true
    assert sum(count_parts(config, 50, 50).values()) == total
    assert averaged_bytes(config, 50, 50) == 4 * (total + 2)


def test_operators_of_a_cell_are_multiplied_by_in_every_step():
    """Three rotations, two reflections in complex vectors, the shifts of the nonlinearity, and an input matrix to both parts."""
    assert count_in_step(ModelConfig("unitary", N), 50, 50) == 3 * N + 2 * 2 * N + N + 50 * 2 * N


def test_parts_of_a_conditional_network():
    """Units are the larger table here; the other one and the matrix between the levels are further inputs."""
    n, s, S, U = 7, 5, 3, 11
    config = ConditionalConfig(n, s)
    parts = count_parts(config, S * (1 + U), S)
    assert {name: size for name, size in parts.items() if size} == {
        "recurrent": n**2 + s**2,
        "bias": n + s,
        "input": U * s,
        "further_input": S * n + s * n,
        "readout": n * S + S,
    }
    assert sum(parts.values()) == count(config, S * (1 + U), S).true


def test_a_configuration_with_a_list_is_counted_each_time():
    """Shapes are kept by configuration, and one with a list cannot be a key."""

    @dataclass(frozen=True)
    class Own(ModelConfig):
        notes: list[str] = field(default_factory=list)

    matrices = TiedStorageConfig("low_rank", 2)
    assert count(Own(size=6, matrices=matrices), 1, 2) == count(ModelConfig(size=6, matrices=matrices), 1, 2)


def test_a_cell_that_is_registered_again_is_counted_again(monkeypatch):
    """As in a notebook, where the cell of one name changes."""
    found = []
    for cell in ("gru", "elman", "gru"):
        monkeypatch.setitem(CELLS, "mine", CELLS[cell])
        mine, original = (ModelConfig(name, 6, parametrization="dense") for name in ("mine", cell))
        assert count(mine, 1, 2) == count(original, 1, 2)
        found.append(count(mine, 1, 2).true)
    assert found[0] == found[2] > found[1]


def test_a_parametrization_that_is_registered_again_is_counted_again(monkeypatch):
    for kind in ("dense", "low_rank", "dense"):
        monkeypatch.setitem(PARAMETRIZATIONS, "mine", PARAMETRIZATIONS[kind])
        mine, original = (ModelConfig("elman", 6, rank=2, parametrization=name) for name in ("mine", kind))
        assert count(mine, 1, 2) == count(original, 1, 2)


def test_a_cell_that_takes_the_place_of_one_that_was_deleted_is_counted_again(tables):
    """Python reuses the addresses of deleted objects."""
    for width in range(1, 40):
        CELLS.pop("mine", None)
        CELLS["mine"] = Cell(lambda params, carry, x: (carry, (carry, ())), lambda spec, width=width: {"b": BiasSpec(width)})
        assert count_parts(ModelConfig("mine", 8, parametrization="dense"), 3, 2)["bias"] == width


def test_entries_that_swap_their_names_are_counted_again(tables):
    first, second = (
        Cell(lambda params, carry, x: (carry, (carry, ())), lambda spec, width=width: {"b": BiasSpec(width)}) for width in (3, 5)
    )
    for names in (("one", "other"), ("other", "one")):
        for name, cell in zip(names, (first, second), strict=True):
            CELLS.pop(name, None)
            CELLS[name] = cell
        found = [count_parts(ModelConfig(name, 8, parametrization="dense"), 3, 2)["bias"] for name in names]
        assert found == [3, 5]


@pytest.mark.parametrize("inputs", [InputStorageConfig("dense"), InputStorageConfig("low_rank", 2, tied=True)], ids=["dense", "tied"])
def test_gates_whose_names_begin_like_that_of_the_shared_projection_are_gates(inputs, tables):
    def template(spec):
        return {name: MatrixSpec(spec.input_size, spec.size, "input", group="x") for name in ("shared_y", "own", "shared")}

    CELLS["mine"] = Cell(lambda params, carry, x: (carry, (carry, ())), template)
    parts = count_parts(ModelConfig("mine", N, inputs=inputs, embeddings=EmbeddingConfig(N)), 50, 50)
    of_gate, projection = (N * N, 0) if inputs.kind == "dense" else (2 * N, 2 * N)
    assert (parts["input"], parts["further_input"]) == (of_gate + projection, 2 * of_gate)


@pytest.mark.parametrize("function", [count, count_in_step, averaged_bytes])
@pytest.mark.parametrize(("config", "given"), [("gru", "'gru'"), (None, "None"), (ModelConfig, "ModelConfig")])
def test_what_is_no_configuration_is_one_line(function, config, given):
    with pytest.raises(
        UsageError, match=rf"config is {given}: give the configuration of a network, such as lrpt\.ModelConfig\('gru', 128\)"
    ):
        function(config, 3, 2)
