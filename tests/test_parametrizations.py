"""What the Flax modules own, how it is drawn, and what they hand out."""

from dataclasses import dataclass
from functools import cache, partial
from zlib import crc32

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import freeze
from table import (
    BATCH,
    INPUT_SIZE,
    RANK,
    ROWS,
    SIZE,
    SIZES,
    SPEC,
    STEPS,
    Row,
    assert_close,
    assert_equal,
    check_slope,
    every_row,
    parameters_module,
    stored_parameters,
    weighted_sum,
)

from lrpt.cells import CELLS, CellSpec
from lrpt.errors import UsageError
from lrpt.matrices import ROW_AXIS, Bias, Dense, Diagonal, LowRank, Sum, field_of, low_rank_plus_diagonal
from lrpt.networks.sequence_model import ModelConfig
from lrpt.parametrizations import (
    ADAPTERS,
    FORMS,
    PARAMETRIZATIONS,
    MatrixConfig,
    Parameters,
    Parametrization,
    Stored,
    Structured,
    WeightNorm,
    init_parameters,
    label_of,
    row_norms,
)
from lrpt.parametrizations.initialization import INITIALIZATIONS
from lrpt.pytrees import register_fields
from lrpt.recurrence import recur
from lrpt.specs import BiasSpec, MatrixSpec, OperatorSpec, SettingSpec

DENSE = MatrixConfig()
GATES = ("update", "reset", "candidate")
ROW_FACTORS = tuple(ROW_AXIS)


def gru_parameters(recurrent, inputs=DENSE, size=SIZE, input_size=INPUT_SIZE, carry_bias=1.0):
    return Parameters(CELLS["gru"].template(CellSpec(input_size, size, carry_bias)), recurrent, inputs)


@cache
def initialized(recurrent, inputs=DENSE):
    """(stored parameters, filled template) of a GRU as drawn, by a generator that compiles fast."""
    module = gru_parameters(recurrent, inputs)
    stored = jax.jit(module.init)(jax.random.key(0, impl="unsafe_rbg"))
    return stored["params"], module.apply(stored)


def matrices_of(params):
    return [op for gate in params for op in (gate.input, gate.recurrent)]


def fields_of(operator):
    """The stored arrays of an operator, or of the terms of a sum, by field."""
    return {field_of(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(operator)}


def of_role(params, role):
    return [getattr(gate, role) for gate in params]


@pytest.mark.parametrize("kind", ["dense", "low_rank", "low_rank_plus_diagonal"])
@pytest.mark.parametrize("tied", [False, True])
def test_names_and_shapes(kind, tied):
    module = gru_parameters(MatrixConfig(kind, RANK, tied))
    stored = jax.eval_shape(module.init, jax.random.key(0))["params"]
    factors = {
        "dense": {"kernel": (SIZE, SIZE)},
        "low_rank": {"left": (RANK, SIZE), "right": (RANK, SIZE)},
        "low_rank_plus_diagonal": {"left": (RANK, SIZE), "right": (RANK, SIZE), "diagonal": (SIZE,)},
    }[kind]
    if tied and kind != "dense":
        recurrent = {"shared": {"right": factors.pop("right")}, **dict.fromkeys(GATES, factors)}
    else:
        recurrent = dict.fromkeys(GATES, factors)
    assert jax.tree.map(jnp.shape, stored) == {
        "recurrent": recurrent,
        "input": {gate: {"kernel": (INPUT_SIZE, SIZE)} for gate in GATES},
        "bias": dict.fromkeys(GATES, (SIZE,)),
    }


def test_matrices_that_are_handed_out_hold_what_is_stored():
    stored, params = initialized(MatrixConfig("low_rank_plus_diagonal", RANK, tied=True), MatrixConfig("low_rank", 1))
    shared = stored["recurrent"]["shared"]["right"]
    for name, gate in zip(GATES, params, strict=True):
        assert_equal(gate.recurrent, low_rank_plus_diagonal(**stored["recurrent"][name], right=shared))
        assert_equal(gate.input, LowRank(**stored["input"][name]))
        assert_equal(gate.bias, Bias(stored["bias"][name]))


def test_untied_matrices_share_nothing():
    _, params = initialized(MatrixConfig("low_rank", RANK))
    leaves = [leaf for op in of_role(params, "recurrent") for leaf in jax.tree.leaves(op)]
    assert len({leaf.tobytes() for leaf in map(np.asarray, leaves)}) == 6


def test_gradient_of_a_shared_projection_is_the_sum_over_gates():
    row = Row("gru", "low_rank", tied=True)
    _, module = parameters_module(row)
    stored = stored_parameters(row)

    def weighted(stored):
        return sum(i * op.to_dense().sum() for i, op in enumerate(of_role(module.apply(stored), "recurrent")))

    actual = jax.grad(weighted)(stored)["params"]["recurrent"]["shared"]["right"]
    of_each = [i * op.left.sum(1) for i, op in enumerate(of_role(module.apply(stored), "recurrent"))]
    np.testing.assert_allclose(actual, np.tile(sum(of_each)[:, None], (1, SIZE)), rtol=1e-5)


@pytest.mark.parametrize("kind", ["dense", "low_rank_plus_diagonal"])
def test_draws_are_glorot_uniform_of_each_factors_own_shape_and_small_diagonals(kind):
    n, d, m = 60, 20, 30
    module = gru_parameters(MatrixConfig(kind, d), size=n, input_size=m, carry_bias=4.0)
    stored = jax.jit(module.init)(jax.random.key(0))["params"]
    paths = jax.tree_util.tree_leaves_with_path({role: stored[role] for role in ("recurrent", "input")})
    assert len(paths) == {"dense": 6, "low_rank_plus_diagonal": 12}[kind]
    for path, leaf in paths:
        bound = 0.01 if path[-1].key == "diagonal" else np.sqrt(6 / sum(leaf.shape))
        largest = np.abs(leaf).max()
        assert 0.9 * bound < largest <= bound, jax.tree_util.keystr(path)
        assert abs(leaf.mean()) < 4 * bound / np.sqrt(3 * leaf.size)
        np.testing.assert_allclose(leaf.std(), bound / np.sqrt(3), rtol=0.25)
    assert len({np.asarray(leaf).tobytes() for _, leaf in paths}) == len(paths)
    assert_equal(stored["bias"], {"update": jnp.full(n, 4.0), "reset": jnp.zeros(n), "candidate": jnp.zeros(n)})


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ROWS if row.cell == "gru"], ids=str)
def test_gradients_of_stored_parameters_equal_finite_differences(row):
    """Through whatever shares, normalizes or adds."""
    _, module = parameters_module(row)
    rng = np.random.default_rng(5)
    with jax.enable_x64(True):
        at = jax.tree.map(lambda a: np.asarray(a, np.float64), stored_parameters(row))
        along = jax.tree.map(lambda a: rng.standard_normal(a.shape), at)

        @jax.jit
        @jax.value_and_grad
        def loss_and_gradient(stored):
            return weighted_sum([jnp.sin(op.to_dense()) for op in matrices_of(module.apply(stored))])

        def loss(step):
            return loss_and_gradient(jax.tree.map(lambda a, d: a + step * d, at, along))[0]

        check_slope(loss, loss_and_gradient(at)[1], along)


@every_row
def test_every_row_is_stored_as_float32_and_handed_out_in_the_shapes_that_were_asked_for(row):
    template, module = parameters_module(row)
    shapes = jax.eval_shape(module.init, jax.random.key(0))
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(shapes))
    specs, treedef = jax.tree.flatten(template)
    shape_of = {BiasSpec: lambda spec: (spec.size,), OperatorSpec: lambda spec: spec.shape, SettingSpec: lambda spec: ()}
    for spec, op in zip(specs, treedef.flatten_up_to(jax.eval_shape(module.apply, shapes)), strict=True):
        if isinstance(spec, MatrixSpec):
            assert op.shape == jax.eval_shape(lambda op: op.to_dense(), op).shape == (spec.n_in, spec.n_out)
        else:
            assert [leaf.shape for leaf in jax.tree.leaves(op)] == [shape_of[type(spec)](spec)]


def test_parameters_are_drawn_without_a_module_as_with_one():
    cell, config = CELLS["gru"], MatrixConfig("low_rank_plus_diagonal", 2)
    template = cell.template(SPEC)
    drawn = init_parameters(jax.random.key(1), template, config)
    module = Parameters(template, config, MatrixConfig())
    assert_equal(drawn, module.apply(module.init(jax.random.key(1))))
    xs = jnp.ones((STEPS, BATCH, SPEC.input_size))
    _, ys = recur(cell.step, drawn, cell.zero_carry(SPEC, (BATCH,)), xs, outputs="last")
    assert ys.shape == (BATCH, SPEC.size)
    assert all(type(gate.recurrent) is Dense for gate in init_parameters(jax.random.key(1), template))


def stored_shapes(row):
    return jax.eval_shape(parameters_module(row)[1].init, jax.random.key(0))["params"]


def test_layers_are_named_by_their_numbers_and_each_has_its_own_projection():
    stored = stored_shapes(Row("rhn", "low_rank", tied=True))
    gates = {"0_candidate", "0_transform", "1_candidate", "1_transform"}
    assert set(stored["recurrent"]) == gates | {"shared_0", "shared_1"}
    assert set(stored["bias"]) == gates
    assert set(stored["input"]) == {"0_candidate", "0_transform"}


def test_a_second_bias_has_its_whole_path_for_a_name():
    assert set(stored_shapes(Row("gru_cudnn", "dense"))["bias"]) == {*GATES, "candidate_recurrent_bias"}


def test_operators_of_a_cell_are_stored_as_they_are():
    stored = stored_shapes(Row("unitary", "dense"))
    operators = {f"rotations_{k}": (SIZE,) for k in range(3)} | {f"reflections_{k}": (2 * SIZE,) for k in range(2)} | {"bias": (SIZE,)}
    assert jax.tree.map(jnp.shape, stored) == {"input": {"input": {"kernel": (INPUT_SIZE, 2 * SIZE)}}, "operator": operators}


def test_biases_follow_the_initialization_unless_their_cell_says_more():
    stored, _ = initialized(MatrixConfig(initialization="uniform", initial_scale=0.3))
    assert_equal(stored["bias"]["update"], jnp.ones(SIZE))
    drawn = np.concatenate([stored["bias"]["reset"], stored["bias"]["candidate"]])
    assert len(set(drawn)) == 2 * SIZE
    assert 0.1 < np.abs(drawn).max() <= 0.3


def test_same_key_same_draw():
    init = jax.jit(gru_parameters(MatrixConfig("low_rank", RANK)).init)
    one, same, other = (init(jax.random.key(seed))["params"]["recurrent"]["update"]["left"] for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


NORMALIZED = [row for row in ROWS if row.cell == "gru" and row.weight_norm]
every_normalized_row = pytest.mark.parametrize("row", NORMALIZED, ids=str)


@every_normalized_row
def test_rows_have_the_norms_that_are_stored_and_those_of_projections_one(row):
    _, module = parameters_module(row)
    stored = stored_parameters(row)
    params = module.apply(stored)
    for role in ("recurrent", "input"):
        for name, op in zip(GATES, of_role(params, role), strict=True):
            scales = stored["params"][f"{role}_scale"][name]
            own = fields_of(op)
            assert set(scales) == set(own) & set(ROW_FACTORS) - {"right"}
            for factor in set(own) & set(ROW_FACTORS):
                norms = np.linalg.norm(np.asarray(own[factor], np.float64), axis=ROW_AXIS[factor])
                expected = np.ones(RANK) if factor == "right" else np.abs(scales[factor])
                np.testing.assert_allclose(norms, expected, rtol=1e-6)


@every_normalized_row
def test_rows_point_where_the_stored_directions_do(row):
    _, module = parameters_module(row)
    stored = stored_parameters(row)
    handed_out = jax.tree.map(np.asarray, module.apply(stored))
    for name, op in zip(GATES, of_role(handed_out, "recurrent"), strict=True):
        directions = {**stored["params"]["recurrent"].get("shared", {}), **stored["params"]["recurrent"][name]}
        for factor, value in directions.items():
            if factor == "diagonal":
                np.testing.assert_array_equal(fields_of(op)["diagonal"], value)
                continue
            axis = ROW_AXIS[factor]
            unit = value / np.linalg.norm(value, axis=axis, keepdims=True)
            scale = 1.0 if factor == "right" else np.expand_dims(stored["params"]["recurrent_scale"][name][factor], axis)
            np.testing.assert_allclose(fields_of(op)[factor], scale * unit, rtol=2e-6, atol=1e-7)


@pytest.mark.slow
@every_normalized_row
def test_starts_where_the_plain_network_does_but_for_projections(row):
    def start(weight_norm):
        kind = MatrixConfig(row.parametrization, RANK, row.tied, weight_norm, **SIZES)
        return initialized(kind, MatrixConfig(weight_norm=weight_norm))[1]

    plain, normalized = start(False), start(True)

    def compare(path, a, b):
        if path[-1].name == "right":
            b = b / np.linalg.norm(b, axis=1, keepdims=True)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)

    jax.tree_util.tree_map_with_path(compare, normalized, plain)


@every_normalized_row
def test_gradients_to_directions_are_orthogonal_to_them(row):
    _, module = parameters_module(row)
    stored = stored_parameters(row)

    @jax.jit
    @jax.grad
    def to_stored(stored):
        return sum(jnp.sin(3 * leaf).sum() for leaf in jax.tree.leaves(module.apply(stored)))

    gradient = to_stored(stored)["params"]
    for role in ("recurrent", "input"):
        for name, factors in gradient[role].items():
            for factor in set(factors) & set(ROW_FACTORS):
                g, v = np.asarray(factors[factor], np.float64), stored["params"][role][name][factor]
                products = (g * v).sum(ROW_AXIS[factor])
                assert np.abs(products).max() < 1e-5 * np.linalg.norm(g) * np.linalg.norm(v)
                assert np.linalg.norm(g) > 0


def test_arrays_of_one_field_have_scales_of_their_own():
    class Twice(Parametrization):
        @nn.compact
        def __call__(self):
            return {"a": Sum(tuple(Dense(self.factor(f"a{k}", kernel=(2, 3))["kernel"]) for k in range(2)))}

    matrices, stored = WeightNorm(Twice({}, DENSE)).init_with_output(jax.random.key(0))
    scales = stored["params"]["a"]
    assert scales.keys() == {"terms_0_kernel", "terms_1_kernel"}
    for k, term in enumerate(matrices["a"].terms):
        np.testing.assert_allclose(np.linalg.norm(term.kernel, axis=0), scales[f"terms_{k}_kernel"], rtol=1e-6)


def test_row_norms_of_small_rows_are_exact():
    """The constant under the root is for zeros alone."""
    sizes = 10.0 ** -np.arange(11)
    rows = np.float32(sizes[:, None] * [3, 4])
    np.testing.assert_allclose(row_norms(jnp.asarray(rows), 1)[:, 0], 5 * sizes, rtol=1e-6)


def test_rows_of_projections_have_the_norm_that_is_asked_for():
    specs = {"a": MatrixSpec(4, 3, "recurrent")}
    inner = PARAMETRIZATIONS["low_rank"](specs, MatrixConfig("low_rank", 2))
    (matrices, stored) = WeightNorm(inner, projection_scale=2.5).init_with_output(jax.random.key(0))
    np.testing.assert_allclose(np.linalg.norm(matrices["a"].right, axis=1), 2.5, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(matrices["a"].left, axis=0), stored["params"]["a"]["left"], rtol=1e-6)


def test_row_norms_of_zeros_have_a_finite_gradient():
    gradient = jax.grad(lambda a: row_norms(a, 0).sum())(jnp.zeros((3, 2)))
    assert np.isfinite(gradient).all()


def test_rows_of_half_precision_are_normalized_in_single_precision():
    """The square of 300 overflows in float16, and the constant under the root is zero there."""
    rows = jnp.array([[0.0, 0.0, 0.0], [300.0, 300.0, 300.0]], jnp.float16)
    np.testing.assert_allclose(row_norms(rows, 1)[:, 0], [1e-15, 300 * 3**0.5], rtol=1e-3)
    inner = PARAMETRIZATIONS["low_rank"]({"a": MatrixSpec(4, 3, "recurrent")}, MatrixConfig("low_rank", 2))
    _, stored = WeightNorm(inner).init_with_output(jax.random.key(0))
    half = jax.tree.map(lambda a: a.astype(jnp.float16) * 0, stored)
    matrices = WeightNorm(inner).apply(half)
    assert {(leaf.dtype, bool(np.isfinite(leaf).all())) for leaf in jax.tree.leaves(matrices)} == {(jnp.dtype("float16"), True)}


@pytest.mark.parametrize(
    ("recurrent", "inputs", "message"),
    [
        (MatrixConfig("low_rank", 7), DENSE, "rank 7 does not fit the recurrent matrix 'update' of 6 x 6: choose one from 1 to 6"),
        (MatrixConfig("low_rank_plus_diagonal", 0), DENSE, "rank 0 does not fit the recurrent matrix"),
        (MatrixConfig("low_rank", -1), DENSE, "rank -1 does not fit"),
        (DENSE, MatrixConfig("low_rank", 4), r"rank 4 does not fit the input matrix 'update' of 3 x 6: choose one from 1 to 3"),
        (DENSE, MatrixConfig("low_rank_plus_diagonal", 1), "needs a square matrix, and the input matrix 'update' is 3 x 6"),
    ],
)
def test_what_does_not_fit_is_one_line(recurrent, inputs, message):
    with pytest.raises(UsageError, match=message) as error:
        jax.eval_shape(gru_parameters(recurrent, inputs).init, jax.random.key(0))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "hankel"}, "the parametrization of a MatrixConfig is 'hankel': choose from "),
        ({"initialization": "xavier"}, "the initialization of a MatrixConfig is 'xavier': choose from glorot"),
        ({"rank": 2.5}, r"rank is 2\.5: expected an integer"),
        ({"blocks": "4"}, "blocks is '4': expected an integer"),
        ({"rank": None}, "rank is None: expected an integer"),
        ({"rank": True}, "rank is True: expected an integer"),
        ({"density": "a"}, "density is 'a': expected a number"),
        ({"initial_scale": None}, "initial_scale is None: expected a number"),
        ({"initial_scale": float("nan")}, "initial_scale is nan: expected a finite number above 0"),
    ],
)
def test_settings_of_matrices_are_checked_when_they_are_built(settings, message):
    with pytest.raises(UsageError, match=message):
        MatrixConfig(**settings)


@pytest.mark.parametrize("role", ["recurrent", "input"])
def test_a_parametrization_that_this_process_does_not_know_is_one_line(role, tables):
    config = MatrixConfig("circulant")
    del PARAMETRIZATIONS["circulant"]
    chosen = {"recurrent": DENSE, "input": DENSE, role: config}
    with pytest.raises(UsageError, match=f"the {role} parametrization is 'circulant': choose from circulant_plus_diagonal, "):
        jax.eval_shape(gru_parameters(*chosen.values()).init, jax.random.key(0))


def of_specs(made):
    """A parametrization that returns `made(array)` for each matrix."""

    class Own(Parametrization):
        @nn.compact
        def __call__(self):
            return {name: made(self.param(name, nn.initializers.ones, (spec.n_in, spec.n_out))) for name, spec in self.specs.items()}

    return Own


def returning(value):
    class Own(Parametrization):
        def __call__(self):
            return value

    return Own


@dataclass(frozen=True)
class Unregistered:
    kernel: jax.Array

    def apply(self, v):
        return v @ self.kernel


@register_fields
@dataclass(frozen=True)
class Labelled:
    kernel: jax.Array
    label: str = "mine"

    def apply(self, v):
        return v @ self.kernel


@register_fields
@dataclass(frozen=True)
class Scaled:
    """A multiple of the identity, of which it does not know the size."""

    diagonal: jax.Array

    def apply(self, v):
        return v * self.diagonal[0]

    def to_dense(self):
        return jnp.diag(self.diagonal)


@register_fields
@dataclass(frozen=True)
class WithoutApply:
    kernel: jax.Array


ASKED = "return a dict with a matrix for each name in self.specs: update, reset, candidate"
OWN_MISTAKES = {
    "empty": (returning({}), f"returned matrices named nothing: {ASKED}"),
    "list": (returning([]), f"returned a list: {ASKED}"),
    "no return": (returning(None), f"returned None: {ASKED}"),
    "other names": (returning({"update": Dense(jnp.ones((2, 2)))}), f"returned matrices named update: {ASKED}"),
    "more names": (
        returning(dict.fromkeys((*GATES, "more"), Dense(jnp.ones((2, 2))))),
        f"returned matrices named update, reset, candidate, more: {ASKED}",
    ),
    "array": (of_specs(lambda array: array), "returned an array for 'update', which has no method apply: return an object with apply"),
    "no apply": (of_specs(WithoutApply), "returned a WithoutApply for 'update', which has no method apply: return an object"),
    "unregistered": (
        of_specs(Unregistered),
        r"decorate the dataclass Unregistered with lrpt\.pytrees\.register_fields",
    ),
    "unregistered part": (of_specs(lambda array: Sum((Unregistered(array),))), "returned a Sum .*: decorate the dataclass Unregistered"),
    "setting": (of_specs(Labelled), "one is a str: keep it in a field with the metadata"),
    "narrow": (
        of_specs(lambda array: Dense(array[:, :2])),
        r"a Dense for 'update', whose apply\(v\) of one row gives \(1, 2\): expected \(1, 6\) for a matrix of 6 x 6",
    ),
    "one entry": (of_specs(lambda array: Scaled(array[0, :1])), r"whose to_dense\(\) gives \(1, 1\): expected \(6, 6\)"),
    "too short": (of_specs(lambda array: Diagonal(array[0, :3])), r"whose apply\(v\) of one row gives an error \(.*\): expected \(1, 6\)"),
    "class": (Labelled, r"^PARAMETRIZATIONS\['own'\] is Labelled, a class of matrices: give a subclass of lrpt\.Parametrization"),
}


@pytest.mark.parametrize("weight_norm", [False, True])
@pytest.mark.parametrize("mistake", OWN_MISTAKES)
def test_mistakes_in_a_parametrization_of_a_user_are_one_line(mistake, weight_norm, monkeypatch):
    entry, says = OWN_MISTAKES[mistake]
    monkeypatch.setitem(PARAMETRIZATIONS, "own", entry)
    module = gru_parameters(MatrixConfig("own", weight_norm=weight_norm))
    with pytest.raises(UsageError, match=says) as error:
        jax.eval_shape(module.init, jax.random.key(0))
    assert "\n" not in str(error.value)
    assert "'own'" in str(error.value)


@pytest.mark.parametrize("rank", [0, -2])
def test_factors_of_a_user_without_entries_are_one_line(rank, monkeypatch):
    class Own(Parametrization):
        @nn.compact
        def __call__(self):
            return {name: Dense(**self.factor(name, kernel=(self.config.rank, spec.n_out))) for name, spec in self.specs.items()}

    monkeypatch.setitem(PARAMETRIZATIONS, "own", Own)
    with pytest.raises(UsageError, match=rf"update would have the array kernel of shape \({rank}, \d+\): choose another rank"):
        jax.eval_shape(gru_parameters(MatrixConfig("own", rank=rank)).init, jax.random.key(0))


@pytest.mark.parametrize(
    "made", [Dense, *(partial(Labelled, label=number) for number in (2.0, 2, 2j)), lambda array: Dense(np.ones(array.shape))]
)
def test_matrices_of_a_user_hold_arrays_and_numbers(made, monkeypatch):
    monkeypatch.setitem(PARAMETRIZATIONS, "own", of_specs(made))
    assert jax.eval_shape(gru_parameters(MatrixConfig("own")).init, jax.random.key(0))["params"]["recurrent"].keys() == set(GATES)


def test_low_rank_inputs_may_be_tied_and_normalized():
    stored, params = initialized(DENSE, MatrixConfig("low_rank", 2, tied=True, weight_norm=True))
    assert stored["input"]["shared"]["right"].shape == (2, INPUT_SIZE)
    assert set(stored["input_scale"]) == set(GATES)
    assert_close(of_role(params, "input")[0].right, of_role(params, "input")[2].right)
    assert all(isinstance(op, Dense) for op in of_role(params, "recurrent"))


def test_each_group_has_its_own_projection():
    specs = {name: MatrixSpec(4, 4, "recurrent", group) for name, group in (("a", "one"), ("b", "one"), ("c", "two"))}
    module = PARAMETRIZATIONS["low_rank"](specs, MatrixConfig("low_rank", 2, tied=True))
    op, stored = jax.jit(module.init_with_output)(jax.random.key(0))
    assert set(stored["params"]) == {"a", "b", "c", "shared_one", "shared_two"}
    assert_equal(op["a"].right, op["b"].right)
    assert not np.array_equal(op["a"].right, op["c"].right)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (MatrixConfig("monarch", blocks=5), "blocks 5 do not divide the recurrent matrix 'update' of 12 x 12: .* are 4 and 6"),
        (MatrixConfig("kronecker", blocks=0), "blocks 0 do not divide .*: the nearest that do are 1"),
        (MatrixConfig("block_diagonal", blocks=13), "blocks 13 do not divide .*: the nearest that do are 12"),
        (MatrixConfig("tensor_train", 17, blocks=4), "rank 17 does not fit .*: choose one from 1 to 9"),
        (MatrixConfig("householder", 13), "rank 13 does not fit the recurrent matrix 'update' of 12 x 12: choose one from 1 to 12"),
        (MatrixConfig("toeplitz_like_plus_diagonal", 0), "rank 0 does not fit"),
        (MatrixConfig("sparse", density=1.5), "density is 1.5 for the recurrent matrix 'update': expected a share above 0, at most 1"),
        (MatrixConfig("circulant", weight_norm=True), "weight_norm needs matrices with rows of their own, and 'update' is a Circulant"),
        (MatrixConfig("adapter", 2, weight_norm=True), "weight_norm would train the norms of frozen matrices"),
    ],
)
def test_sizes_that_do_not_fit_a_structure_are_one_line(config, message):
    with pytest.raises(UsageError, match=message) as error:
        jax.eval_shape(gru_parameters(config, size=12).init, jax.random.key(0))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("config", "shape", "message"),
    [
        (MatrixConfig("low_rank", 4), (6, 3), "rank 4 does not fit the recurrent matrix 'a' of 6 x 3: choose one from 1 to 3"),
        (MatrixConfig("block_diagonal", blocks=4), (12, 10), "blocks 4 do not divide .* of 12 x 10: the nearest that do are 2"),
        (MatrixConfig("tensor_train", 5, blocks=2), (12, 12), "rank 5 does not fit .*: choose one from 1 to 4"),
    ],
)
def test_the_smaller_of_two_sizes_decides(config, shape, message):
    module = PARAMETRIZATIONS[config.kind]({"a": MatrixSpec(*shape, "recurrent")}, config)
    with pytest.raises(UsageError, match=message):
        jax.eval_shape(module.init, jax.random.key(0))


def test_a_density_of_one_is_every_entry():
    module = PARAMETRIZATIONS["sparse"]({"a": MatrixSpec(6, 3, "recurrent")}, MatrixConfig("sparse", density=1.0))
    assert np.all(module.init_with_output(jax.random.key(0))[0]["a"].to_dense())


@pytest.mark.parametrize("kind", ["circulant", "toeplitz_like"])
def test_matrices_that_are_square_only_say_so(kind):
    with pytest.raises(UsageError, match=f"{kind} needs a square matrix, and the input matrix 'update' is 3 x 12"):
        jax.eval_shape(gru_parameters(DENSE, MatrixConfig(kind, 2), size=12).init, jax.random.key(0))


@pytest.mark.parametrize("kind", [kind for kind in FORMS if not kind.startswith(("low_rank", "householder"))])
def test_structured_matrices_start_with_entries_as_large_as_those_of_full_ones(kind):
    """Within a factor of two: the variance of Glorot's entries is 1/n. Low-rank factors follow the original code, reflections are fixed."""
    n = 64
    config = MatrixConfig(kind, 4, blocks=8, density=0.25)
    module = PARAMETRIZATIONS[kind]({"a": MatrixSpec(n, n, "recurrent")}, config)
    (matrix, _) = module.init_with_output(jax.random.key(0))
    variance = float(jnp.sum(jnp.square(matrix["a"].to_dense()))) / n
    assert 0.5 < variance < (8 if kind.startswith("tensor_train") else 2)


def test_entries_of_sparse_matrices_are_drawn_by_the_numbers_of_their_inputs_and_outputs():
    """Each of 40 outputs sees 5 of 18 inputs, a share of 0.26 rounded from 4.7; each input is seen by 11 of the outputs."""
    module = PARAMETRIZATIONS["sparse"]({"a": MatrixSpec(18, 40, "recurrent")}, MatrixConfig("sparse", density=0.26))
    (matrix, _) = module.init_with_output(jax.random.key(0))
    entries = np.abs(matrix["a"].entries)
    assert entries.shape == (40, 5)
    bound = np.sqrt(6 / (11 + 5))
    assert 0.95 * bound < entries.max() <= bound


def test_tied_adapters_share_nothing():
    """Their full matrices were trained apart."""
    stored = jax.eval_shape(gru_parameters(MatrixConfig("adapter", RANK, tied=True)).init, jax.random.key(0))
    factors = {"left": (RANK, SIZE), "right": (RANK, SIZE)}
    assert jax.tree.map(jnp.shape, stored["params"]["recurrent"]) == dict.fromkeys(GATES, factors)


def test_names_of_networks_say_what_their_matrices_are(tables):
    PARAMETRIZATIONS["mine"] = PARAMETRIZATIONS["dense"]
    assert label_of(MatrixConfig("monarch_plus_diagonal", blocks=8)) == ("MOD-", "/8")
    assert label_of(MatrixConfig("tensor_train", 3, blocks=8)) == ("TT-", "/8/3")
    assert label_of(MatrixConfig("low_rank_plus_diagonal", 24)) == ("LRD-", "/24")
    assert label_of(MatrixConfig("adapter", 24)) == ("LoRA-", "/24")
    assert len({label_of(MatrixConfig(kind)) for kind in (*FORMS, *ADAPTERS)}) == len(FORMS) + len(ADAPTERS)
    assert label_of(MatrixConfig("dense")) == ("", "")
    assert label_of(MatrixConfig("mine")) == ("mine-", "")


def test_a_form_of_the_user_has_its_own_abbreviation(monkeypatch):
    class Mine(type(FORMS["low_rank"])):
        short = "MINE"

    monkeypatch.setitem(PARAMETRIZATIONS, "mine", partial(Structured, form=Mine()))
    assert label_of(MatrixConfig("mine", 4)) == ("MINE-", "/4")


def test_parameters_without_a_module_have_nothing_frozen():
    template = CELLS["gru"].template(CellSpec(4, 4))
    with pytest.raises(UsageError, match="matrices are stored as adapter, with a frozen part that is no parameter: use a ModelConfig"):
        init_parameters(jax.random.key(0), template, MatrixConfig("adapter", 2))


def test_a_parametrization_of_a_user_may_say_which_sizes_it_reads(tables):
    class Ranked(Parametrization):
        settings = ("rank",)

    class Silent(Parametrization):
        pass

    PARAMETRIZATIONS.update(ranked=Ranked, silent=Silent, formed=partial(Structured, form=FORMS["monarch"]))
    ranked, silent, formed = (ModelConfig("gru", 32, parametrization=kind, rank=2) for kind in ("ranked", "silent", "formed"))
    assert (ranked.label, silent.label, formed.label) == ("ranked-GRU 32/2", "silent-GRU 32", "formed-GRU 32/4")
    assert (set(ranked.matrices.unused), set(formed.matrices.unused)) == ({"blocks", "density"}, {"rank", "density", "tied"})
    assert silent.matrices.unused == {}


@pytest.mark.parametrize("initialization", INITIALIZATIONS)
def test_a_factor_of_one_axis_is_drawn_as_a_matrix_of_one_row(initialization):
    class Vectors(Parametrization):
        @nn.compact
        def __call__(self):
            return self.factor("a", vector=(5,)) | self.factor("b", vector=(1, 5))

    config = MatrixConfig(initialization=initialization)
    shapes = jax.eval_shape(Vectors({}, config).init, jax.random.key(0))["params"]
    assert jax.tree.map(lambda a: a.shape, shapes) == {"a": {"vector": (5,)}, "b": {"vector": (1, 5)}}
    key, start = jax.random.key(1), INITIALIZATIONS[initialization]
    assert_equal(Stored((5,)).draw(key, start, 0.1), Stored((1, 5)).draw(key, start, 0.1)[0])


@pytest.mark.parametrize("config", [MatrixConfig("low_rank", RANK, tied=True), MatrixConfig("adapter", RANK)], ids=["tied", "adapter"])
def test_variables_may_be_frozen_dicts(config):
    module = gru_parameters(config)
    stored = jax.jit(module.init)(jax.random.key(0, impl="unsafe_rbg"))
    assert_equal(module.apply(freeze(stored)), module.apply(stored))


@pytest.mark.parametrize("role", ["recurrent", "input"])
def test_places_of_sparse_matrices_follow_from_role_and_name(role):
    """No file holds them: with others, kept weights would be those of another network."""
    matrix = FORMS["sparse"].matrix("update", MatrixSpec(6, 6, role), MatrixConfig("sparse"), {"entries": jnp.zeros((6, 3))})
    rng = np.random.default_rng([crc32(f"{role}/update".encode()), 6, 6, 3])
    np.testing.assert_array_equal(matrix.places, np.sort(np.argsort(rng.random((6, 6)), axis=1)[:, :3], axis=1))
