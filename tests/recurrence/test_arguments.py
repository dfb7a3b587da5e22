"""Arguments of `recur` that do not fit are one line that names them."""

from inspect import unwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from table import BATCH, INPUT_SIZE, SIZE, STEPS, Row, network

from lrpt.cells import CELLS, CellSpec
from lrpt.errors import UsageError
from lrpt.matrices import Dense, LowRank
from lrpt.parametrizations import init_parameters
from lrpt.recurrence import LOOPS, Tuning, recur

XS = (STEPS, BATCH, INPUT_SIZE)


def of_shapes(carry=(BATCH, SIZE), xs=XS, types=(jnp.float32, jnp.float32)):
    return jnp.ones(carry, types[0]), jnp.ones(xs, types[1])


REFUSED = {
    "rows": (of_shapes((BATCH + 1, SIZE)), rf"the carry has shape \({BATCH + 1}, {SIZE}\), and inputs .*give a carry of shape \({BATCH}, "),
    "axes": (of_shapes((SIZE,)), rf"the carry has shape \({SIZE},\), and inputs"),
    "batch first": (of_shapes(xs=(BATCH, STEPS, INPUT_SIZE)), rf"time first: for {BATCH} steps of {STEPS} rows"),
    "width of the carry": (of_shapes((BATCH, SIZE + 1)), rf"takes vectors of width {SIZE}, .*in a step with the carry float32 \({BATCH}, "),
    "width of the inputs": (
        of_shapes(xs=(STEPS, BATCH, 7)),
        rf"of width {INPUT_SIZE}, .* and the input float32 \({BATCH}, 7",
    ),
    "integers": (
        of_shapes(types=(jnp.int32, jnp.float32)),
        rf"^the carry is int32: give floats, as zero_carry .*in a step with the carry int32 \({BATCH}, {SIZE}\)",
    ),
    "booleans": (of_shapes(types=(jnp.bool_, jnp.float32)), r"changed the carry from bool .*; the carry is bool: give floats"),
    "complex": (
        of_shapes(types=(jnp.float32, jnp.complex64)),
        "the carry from float32 .* to complex64 .*, with the input complex64.*inputs of the carry's dtype",
    ),
    "half": (of_shapes(types=(jnp.float16, jnp.float32)), "changed the carry from float16 .* to float32 .*: pass a carry"),
}


def step(params, h, x):
    """A cell whose types nobody checks."""
    h = jnp.tanh(params["input"].apply(x) + params["recurrent"].apply(h))
    return h, (h, None)


PARAMS = {"input": Dense(jnp.ones((INPUT_SIZE, SIZE))), "recurrent": LowRank(jnp.ones((2, SIZE)), jnp.ones((2, SIZE)))}


def assert_one_line(says, step, params, carry, xs, *mask, **how):
    with pytest.raises(UsageError, match=says) as error:
        unwrap(recur)(step, params, carry, xs, *mask, **how)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("transform", [jax.jit, jax.checkpoint])
def test_a_transformed_step_is_refused_by_the_loop_that_intercepts_its_products(transform):
    carry, xs = of_shapes()
    assert_one_line(r"wrapped in .*such as jax\.jit or jax\.checkpoint, .*'plain'", transform(step), PARAMS, carry, xs, loop="fast")
    assert recur(transform(step), PARAMS, carry, xs, loop="plain")[1].shape == (STEPS, BATCH, SIZE)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("what", REFUSED)
def test_carry_and_inputs_that_do_not_fit(what, loop):
    (carry, xs), says = REFUSED[what]
    assert_one_line(says, step, PARAMS, carry, xs, loop=loop)


def test_a_step_with_arrays_that_do_not_fit():
    says = r"shapes do not fit in a step with the carry float32 \(4, 3\) and the input float32 \(4, 2\): "
    assert_one_line(says, lambda _, h, x: (h + x, (h, None)), None, jnp.ones((4, 3)), jnp.ones((5, 4, 2)))


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("use", "kind"),
    [
        (lambda h: h if h.sum() > 0 else -h, jax.errors.TracerBoolConversionError),
        (np.tanh, jax.errors.TracerArrayConversionError),
        (lambda h: h * float(h[0, 0]), jax.errors.ConcretizationTypeError),
    ],
    ids=["if", "numpy", "float"],
)
def test_errors_of_jax_about_traced_values_pass_unchanged(use, kind, loop):
    with pytest.raises(kind, match=r"docs\.jax\.dev") as error:
        unwrap(recur)(lambda _, h, x: (use(h), (h, None)), None, jnp.ones((4, 3)), jnp.ones((5, 4, 1)), loop=loop)
    assert not any("same cell" in note for note in getattr(error.value, "__notes__", ()))


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("step", [step, lambda params, h, x: (jnp.tanh(h + jnp.mean(x)), (h, None))])
def test_a_carry_of_integers_says_so(step, loop):
    carry, xs = of_shapes(types=(jnp.int32, jnp.float32))
    assert_one_line("the carry is int32: give floats", step, PARAMS, carry, xs, loop=loop)


def test_a_counter_beside_a_state_is_no_carry_of_integers():
    with pytest.raises(UsageError, match="shapes do not fit") as error:
        unwrap(recur)(lambda _, c, x: ((c[0] + x, c[1]), (c[0], None)), None, (jnp.ones((4, 3)), jnp.ones(4, int)), jnp.ones((5, 4, 2)))
    assert "give floats" not in str(error.value)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("use", [lambda matrix, h: h @ matrix, jnp.dot])
def test_a_matrix_that_is_used_without_apply(use, loop):
    with pytest.raises(TypeError) as error:
        unwrap(recur)(lambda p, h, x: (use(p["recurrent"], h), (h, None)), PARAMS, *of_shapes(), loop=loop)
    assert any("a matrix is used by .apply(h)" in note for note in error.value.__notes__)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_step_that_changes_the_shape_of_its_carry(loop):
    says = r"the step changed the carry from float32 \(4, 3\) to float32 \(4, 2\), with the input float32 \(4, 1\): pass a carry"
    assert_one_line(says, lambda _, h, x: (h[:, :2], (h, None)), None, jnp.ones((4, 3)), jnp.ones((5, 4, 1)), loop=loop)


@pytest.mark.parametrize(("step", "says"), [("gru", "the step is 'gru': give a function"), (network(Row("gru", "dense")).cell, "a Cell:")])
def test_a_step_that_is_no_function(step, says):
    assert_one_line(says, step, None, *of_shapes())


@pytest.mark.parametrize("kind", [float, int])
def test_masks_that_are_not_boolean(kind):
    assert_one_line("the mask is .*32: give booleans", step, PARAMS, *of_shapes(), jnp.ones((STEPS, BATCH), kind))


def test_a_mask_of_a_single_sequence_without_an_axis_of_rows():
    says = "time first; a single sequence needs an axis of one row in inputs, mask and carry"
    assert_one_line(says, step, PARAMS, *of_shapes((SIZE,), (STEPS, INPUT_SIZE)), jnp.ones(STEPS, bool))


def test_inputs_of_different_lengths():
    xs = jnp.ones((3, 2, 1)), jnp.ones((4, 2, 1))
    assert_one_line("inputs have shapes .*: give arrays with the same number", lambda _, h, x: (h, (h, x)), None, jnp.ones((2, 1)), xs)


@pytest.mark.parametrize("loop", ["plain", "checkpoint", "fast"])
def test_single_sequences_and_carries_of_open_type_pass(loop):
    net = network(Row("gru", "low_rank"))
    end, ys = recur(net.cell.step, net.params, net.carry[0], net.xs[:, 0], loop=loop)
    assert (end.shape, ys.shape) == ((SIZE,), (STEPS, SIZE))
    end, _ = recur(lambda _, n, x: (n + jnp.mean(x), (x, None)), None, 0, net.xs, loop="plain")
    assert end.dtype == jnp.float32
    halves = jax.tree.map(lambda a: a.astype(jnp.float16), (net.params, net.carry, net.xs))
    assert recur(net.cell.step, *halves, loop=loop)[1].dtype == jnp.float16


def test_inputs_without_arrays():
    assert_one_line("the inputs contain no arrays: give arrays", lambda _, h, x: (h, (h, None)), None, jnp.ones((2, 1)), ())


def test_a_mask_needs_rows_in_every_part_of_the_carry():
    carry = jnp.ones((BATCH, SIZE)), jnp.zeros(())
    says = rf"the carry has an array of shape \(\), and there is a mask: give it a row for each of {BATCH} rows"
    assert_one_line(says, lambda _, c, x: (c, (c[0], None)), None, carry, jnp.ones(XS), jnp.ones((STEPS, BATCH), bool))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"chunk": 0}, "chunk is 0: expected 1 or more"),
        ({"chunk": 2.5}, "chunk is 2.5: expected an integer"),
        ({"unroll": 0}, "unroll is 0: expected 1 or more"),
        ({"store": "some"}, "store is 'some': choose from auto, all, boundaries"),
        ({"pack": "often"}, "pack is 'often': choose from auto, always, never"),
    ],
)
def test_choices_of_a_loop(settings, says):
    with pytest.raises(UsageError, match=says):
        unwrap(Tuning.__init__)(object.__new__(Tuning), **settings)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("cell", "carry"), [("gru", lambda h: (h, h)), ("gru", lambda h: None), ("lstm", lambda h: h), ("lstm", lambda h: {"h": h, "c": h})]
)
def test_an_error_about_a_carry_of_another_cell_says_which_it_was(loop, cell, carry):
    net = network(Row(cell, "dense"))
    with pytest.raises((TypeError, AttributeError)) as error:
        unwrap(recur)(unwrap(net.cell.step), net.params, carry(jnp.zeros((BATCH, SIZE))), net.xs, loop=loop)
    note, *_ = error.value.__notes__  # the others are JAX's
    assert f"parameters of type {type(net.params).__name__}, in a step with the carry" in note
    assert "of the same cell" in note


def test_python_numbers_are_parameters_and_states_like_others():
    def counted(params, carry, x):
        gain, matrix = params
        h, steps = carry
        h = jnp.tanh(gain * matrix["recurrent"].apply(h) + matrix["input"].apply(x))
        return (h, steps + 1), (h, None)

    def loss(params, loop):
        (h, steps), _ = recur(counted, params, (jnp.ones((BATCH, SIZE)), 0), jnp.ones(XS), loop=loop)
        return jnp.sum(h) * steps

    expected, gradient = jax.value_and_grad(loss)((0.5, PARAMS), "plain")
    for loop in LOOPS:
        assert float(loss((0.5, PARAMS), loop)) == pytest.approx(float(expected))
        assert float(jax.grad(loss)((0.5, PARAMS), loop)[0]) == pytest.approx(float(gradient[0]), rel=1e-5)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_mask_needs_rows_in_every_output(loop):
    def mean(params, h, x):
        h, (y, _) = step(params, h, x)
        return h, (y, {"mean": jnp.mean(h), "units": jnp.mean(h, 0)})

    carry, xs = of_shapes()
    mask = jnp.ones((STEPS, BATCH), bool)
    says = rf"the step has an output of shape \(\) at \[1\]\['mean'\], and there is a mask: .*\({BATCH}, ...\)"
    assert_one_line(says, mean, PARAMS, carry, xs, mask, outputs="info", loop=loop)
    assert unwrap(recur)(mean, PARAMS, carry, xs, outputs="info", loop=loop)[1][1]["mean"].shape == (STEPS,)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("types", "says"),
    [
        (("int32", "float32"), "^the carry is int32: give floats, as zero_carry of the cell returns them"),
        (("float32", "complex64"), "^the input is complex, which this step does not take: give floats"),
        (("complex64", "float32"), "^the carry is complex, which this step does not take: give floats"),
        (("complex64", "complex64"), "^the carry is complex and the input is complex, which"),
    ],
)
def test_types_that_a_cell_does_not_take_are_one_line(types, says, loop):
    """The step of a unitary network makes complex numbers of the halves of its state, whose error of JAX names no argument."""
    cell, spec = CELLS["unitary"], CellSpec(INPUT_SIZE, SIZE)
    params = init_parameters(jax.random.key(0), cell.template(spec))
    carry = cell.zero_carry(spec, (BATCH,)).astype(types[0])
    assert_one_line(f"{says}.* \\(in a step with the carry {types[0]}", unwrap(cell.step), params, carry, jnp.ones(XS, types[1]), loop=loop)


def test_an_error_about_shapes_is_no_matter_of_complex_numbers():
    def of_wrong_shapes(params, h, x):
        return h, (h + jnp.ones(SIZE + 1), None)

    assert_one_line(
        "^shapes do not fit in a step with the carry complex64", of_wrong_shapes, None, *of_shapes(types=(jnp.complex64, jnp.float32))
    )
