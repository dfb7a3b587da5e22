"""Parameters to named arrays and back, through memory and through files that may be broken."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.errors import UsageError
from lrpt.networks.sequence_model import ModelConfig, SequenceModel
from lrpt.runs.named_arrays import digest, from_named, load, load_arrays, save, to_named

MODEL = SequenceModel(ModelConfig(size=4, rank=2), 3, 5)


@pytest.fixture(scope="module")
def params():
    return MODEL.init(jax.random.key(0), jnp.zeros((1, 2), jnp.int32))["params"]


@pytest.fixture(scope="module")
def template():
    return jax.eval_shape(MODEL.init, jax.random.key(0), jnp.zeros((1, 2), jnp.int32))["params"]


def test_an_error_lists_a_few_of_the_parameters_of_a_large_network():
    template = {f"w{i:02d}": np.zeros(2, np.float32) for i in range(20)}
    with pytest.raises(UsageError, match=r"the network needs w00, w01, w02, w03, w04, w05 and 14 more$"):
        from_named(template, {})


def test_names_are_paths(params):
    named = to_named(params)
    assert named["recurrent/cell/recurrent/update/left"].shape == (2, 4)
    assert named["readout/kernel"].shape == (4, 5)
    assert sum(array.size for array in named.values()) == sum(leaf.size for leaf in jax.tree.leaves(params))


def assert_equal(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.parametrize("by_shape", [True, False], ids=["shapes", "parameters"])
def test_round_trip_through_memory_and_file(params, template, tmp_path, by_shape):
    wanted = template if by_shape else jax.tree.map(jnp.zeros_like, params)
    assert_equal(from_named(wanted, to_named(params)), params)
    np.savez(tmp_path / "start.npz", **to_named(params))
    assert_equal(load(tmp_path / "start.npz", wanted), params)
    assert_equal(load(str(tmp_path / "start.npz"), wanted), params)


def test_kept_weights_without_other_collections(params, template, tmp_path):
    """Their names begin with `params/`; those of the whole network keep it, and the digest is the same."""
    named = to_named({"params": params})
    assert all(name.startswith("params/") for name in named)
    np.savez(tmp_path / "model.npz", **named)
    assert_equal(load(tmp_path / "model.npz", template), params)
    assert_equal(load(tmp_path / "model.npz", {"params": template}), {"params": params})
    assert digest(named) == digest(to_named(params))


def test_other_precisions_become_float32(params, template):
    loaded = from_named(template, {name: array.astype(np.float64) for name, array in to_named(params).items()})
    assert_equal(loaded, params)
    assert {leaf.dtype for leaf in jax.tree.leaves(loaded)} == {jnp.dtype("float32")}
    whole = from_named(template, {name: np.ones(array.shape, int) for name, array in to_named(params).items()})
    assert {leaf.dtype for leaf in jax.tree.leaves(whole)} == {jnp.dtype("float32")}


def test_bfloat16_becomes_float32_through_memory_and_file(params, template, tmp_path):
    narrow = jax.tree.map(lambda a: a.astype(jnp.bfloat16), params)
    expected = jax.tree.map(lambda a: a.astype(jnp.float32), narrow)
    assert_equal(from_named(template, to_named(narrow)), expected)
    save(tmp_path / "start.npz", narrow, "--output")
    assert_equal(load(tmp_path / "start.npz", template), expected)


def without(named, name):
    return {key: array for key, array in named.items() if key != name}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: without(a, "readout/bias"), r"'readout/bias' of shape \(5,\) is missing"),
        (lambda a: a | {"readout/scale": np.ones(5)}, r"'readout/scale' is no parameter .* readout/kernel"),
        (lambda a: a | {"readout/kernel": a["readout/kernel"].T}, r"'readout/kernel' has shape \(5, 4\), and the parameter has \(4, 5\)"),
        (lambda a: a | {"readout/bias": np.array(["a"] * 5)}, r"'readout/bias' is of type <U1"),
        (lambda a: a | {"readout/bias": np.ones(5, complex)}, r"'readout/bias' is of type complex128"),
        (lambda a: {}, r"is missing, and no array is found"),
        (lambda a: {"w": np.ones(5)}, r"is missing, and 'w' is found: the network needs"),
        (
            lambda a: {f"model/{name}": array for name, array in a.items()},
            r"is missing, and ('model/[\w/]+'(, )?){3} and \d+ more are found",
        ),
        (lambda a: {"b": 0, "params/a": 0}, r"is missing, and 'b', 'params/a' are found"),
    ],
)
def test_arrays_that_do_not_fit_are_named(params, template, change, message):
    with pytest.raises(UsageError, match=message) as raised:
        from_named(template, change(to_named(params)))
    assert "\n" not in str(raised.value)


def broken(kind: str, path, params):
    """Makes `path` a file of arrays that cannot be used, in the named way."""
    np.savez(path, **to_named(params))
    whole = path.read_bytes()
    if kind in ("missing", "directory"):
        path.unlink()
    if kind == "directory":
        path.mkdir()
    if kind == "npy":
        np.save(path.with_suffix(".npy"), np.ones(3))
        path.with_suffix(".npy").rename(path)
    contents = {"empty": b"", "text": b"not an archive\n", "cut": whole[:-100]}
    if kind in contents:
        path.write_bytes(contents[kind])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "cannot be read"),
        ("directory", "cannot be read"),
        *((kind, "is damaged or no .npz") for kind in ("empty", "text", "cut", "npy")),
    ],
)
def test_a_file_that_cannot_be_used_is_named(params, template, tmp_path, kind, message):
    broken(kind, tmp_path / "start.npz", params)
    with pytest.raises(UsageError, match=rf"start\.npz {message}") as raised:
        load(tmp_path / "start.npz", template)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("save", "message"),
    [(np.savez, r"cannot be read \(a file of [\d,]+ bytes, and the limit is 2,000\)"), (np.savez_compressed, "unpacks to 80,")],
)
def test_a_file_that_is_larger_than_parameters_is_refused_before_it_is_unpacked(tmp_path, save, message):
    save(tmp_path / "large.npz", a=np.zeros(10_000))
    with pytest.raises(UsageError, match=message):
        load_arrays(tmp_path / "large.npz", 2_000)
    np.testing.assert_array_equal(load_arrays(tmp_path / "large.npz", 100_000)["a"], 0)


def test_a_device_is_not_read():
    with pytest.raises(UsageError, match=r"parameter file /dev/null cannot be read \(a device or a pipe\)"):
        load_arrays("/dev/null")


@pytest.mark.parametrize("number", [np.nan, -np.inf, 1e39])
def test_numbers_that_are_not_finite_in_float32_are_refused(params, template, number):
    arrays = to_named(params) | {"readout/bias": np.full(5, number)}
    with pytest.raises(UsageError, match="'readout/bias' holds numbers that are not finite in float32"):
        from_named(template, arrays)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damage_anywhere_is_refused_or_harmless(params, template, tmp_path, save):
    """A flipped byte either leaves the parameters as they were (it lies in padding or time stamps), or is answered by a UsageError."""
    save(tmp_path / "start.npz", **to_named(params))
    whole = (tmp_path / "start.npz").read_bytes()
    for position in np.random.default_rng(0).integers(0, len(whole), 150):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        (tmp_path / "damaged.npz").write_bytes(damaged)
        try:
            loaded = load(tmp_path / "damaged.npz", template)
        except UsageError:
            continue
        assert_equal(loaded, params)


def test_the_digest_is_of_names_shapes_and_numbers():
    one = {"a": np.array([[1.0, 2.0]], np.float32), "b": np.array([3], np.float32)}
    same = {"b": np.array([3]), "a": np.asfortranarray(one["a"].astype(np.float64))}
    assert digest(one) == digest(same)
    others = [{**one, "b": one["b"] + 1}, {**one, "a": one["a"].T}, {"a": one["a"], "c": one["b"]}, {"a": one["a"]}]
    assert len({digest(arrays) for arrays in [one, *others]}) == 5


def test_a_write_that_fails_leaves_the_file_before(tmp_path, monkeypatch):
    save(tmp_path / "start.npz", {"a": np.zeros(3)}, "--output")
    before = (tmp_path / "start.npz").read_bytes()

    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(tmp_path), "write_bytes", full)
    with pytest.raises(UsageError, match=r"start.npz cannot be written \(No space left on device\): name another --output"):
        save(tmp_path / "start.npz", {"a": np.ones(3)}, "--output")
    assert (tmp_path / "start.npz").read_bytes() == before


def test_arrays_have_the_types_of_the_template():
    """A counter in a collection stays an integer, and with 64-bit numbers a start file does not narrow the parameters."""
    template = {"steps": jax.ShapeDtypeStruct((), jnp.int32), "kernel": jax.ShapeDtypeStruct((2,), jnp.bfloat16)}
    found = from_named(template, {"steps": np.float32(3), "kernel": np.ones(2)})
    assert {name: array.dtype for name, array in found.items()} == {"steps": jnp.int32, "kernel": jnp.bfloat16}
    assert found["steps"] == 3


def test_numbers_keep_the_digits_that_the_template_can_hold():
    found = from_named({"steps": jax.ShapeDtypeStruct((), jnp.int32)}, {"steps": np.int64(2**24 + 1)})
    assert found["steps"] == 2**24 + 1
    with jax.enable_x64(True):
        wide = from_named({"kernel": jax.ShapeDtypeStruct((1,), jnp.float64)}, {"kernel": np.array([1 + 1e-12])})
        assert wide["kernel"].dtype == jnp.float64
        assert wide["kernel"][0] == 1 + 1e-12


@pytest.mark.parametrize(("kind", "number"), [(jnp.float16, 1e30), (jnp.int32, 0.5), (jnp.int32, 3e9), (jnp.uint8, -1)])
def test_numbers_that_the_type_of_the_template_cannot_hold_are_refused(kind, number):
    with pytest.raises(UsageError, match=f"'a' holds numbers that {jnp.dtype(kind)}, the type of the parameter, cannot hold"):
        from_named({"a": jax.ShapeDtypeStruct((), kind)}, {"a": np.float64(number)})
