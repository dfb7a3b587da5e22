"""Weights from PyTorch and to it: files, all layers and directions, outputs that agree to 1e-6; nothing in a file is run."""

import json
import pickle
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from lrpt.cells import CELLS, ElmanParams, Gate
from lrpt.compression.network import compress
from lrpt.errors import UsageError
from lrpt.interop import factorized, files
from lrpt.interop.pytorch import as_linen, bound, bound_layers, is_state_dict, read, read_layers, replaced, write
from lrpt.matrices import Bias, LowRank, Sum
from lrpt.networks.recurrent import Recurrent, initial_row
from lrpt.networks.sequence_model import ModelConfig, SequenceModel

WIDTH, SIZE, BATCH, STEPS = 3, 5, 4, 6


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def module_of(torch, tmp_path_factory):
    """The class in the source that the command writes, imported from there."""
    namespace = {"__name__": "network"}
    exec(compile(factorized.source(), "network.py", "exec"), namespace)
    folder = tmp_path_factory.mktemp("networks")

    def load(arrays):
        _, path = factorized.write(folder, arrays)
        return namespace["Network"].load(path)

    return load


def network_of(arrays):
    """Return the module with these arrays, of the class that is installed with this library."""
    from lrpt.interop.torch_network import Network

    return Network(json.loads(arrays["config"].item()), {name: array for name, array in arrays.items() if name != "config"})


def inputs(width=WIDTH):
    return np.random.default_rng(0).standard_normal((BATCH, STEPS, width)).astype(np.float32)


def compressed(cells, rank=2):
    found = {name: (compress(params, network, rank=rank), network) for name, (params, network) in cells.items()}
    return {name: (small.params, Recurrent(small.config, network.input_size)) for name, (small, network) in found.items()}


@pytest.mark.slow
def test_integers_of_three_axes_are_numbers_and_not_symbols(torch, module_of):
    cells = {"l0": read({name: array.numpy() for name, array in torch.nn.GRU(WIDTH, SIZE).state_dict().items()})}
    network = module_of(factorized.of_layers(*bound(compressed(cells)), WIDTH))
    numbers = torch.arange(BATCH * STEPS * WIDTH).reshape(BATCH, STEPS, WIDTH)
    with torch.no_grad():
        np.testing.assert_array_equal(network(numbers)[0], network(numbers.float())[0])


def outputs(cells, xs):
    module, params = as_linen(cells)
    return np.asarray(module.apply({"params": params}, jnp.asarray(xs)))


def test_layers_that_are_read_know_the_lengths_of_sequences():
    suffixes = {"l0": WIDTH, "l0_reverse": WIDTH, "l1": 2 * SIZE, "l1_reverse": 2 * SIZE}
    shapes = {f"weight_{role}_{name}": (3 * SIZE, n) for name, width in suffixes.items() for role, n in (("ih", width), ("hh", SIZE))}
    shapes |= {f"bias_{role}_{name}": (3 * SIZE,) for name in suffixes for role in ("ih", "hh")}
    rng = np.random.default_rng(0)
    module, params = as_linen(read_layers({name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}))
    xs = inputs()
    padded = module.apply({"params": params}, xs, seq_lengths=jnp.full(len(xs), 2))
    np.testing.assert_allclose(padded[:, :2], module.apply({"params": params}, xs[:, :2]), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
@pytest.mark.parametrize("directions", [1, 2])
def test_layers_in_and_compressed_layers_out(kind, directions, torch, module_of):
    torch.manual_seed(0)
    theirs = getattr(torch.nn, kind)(WIDTH, SIZE, 2, batch_first=True, bidirectional=directions == 2)
    cells = read_layers({name: array.numpy() for name, array in theirs.state_dict().items()})
    assert len(cells) == 2 * directions
    xs = inputs()
    with torch.no_grad():
        np.testing.assert_allclose(outputs(cells, xs), theirs(torch.tensor(xs))[0].numpy(), atol=1e-6)
        small = compressed(cells)
        expected = outputs(small, xs)
        theirs.load_state_dict({name: torch.tensor(array) for name, array in write(*bound(small)).items()})
        np.testing.assert_allclose(theirs(torch.tensor(xs))[0].numpy(), expected, atol=1e-6)
        network = module_of(factorized.of_layers(*bound(small), WIDTH))
        found, _ = network(torch.tensor(xs))
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
    assert sum(p.numel() for p in network.parameters()) == sum(a.size for params, _ in small.values() for a in jax.tree.leaves(params))


NETWORKS = {
    "gru": (ModelConfig("gru", SIZE, rank=2), "last", None),
    "gru_reset_after, dense": (ModelConfig("gru_reset_after", SIZE, parametrization="dense"), "all", None),
    "lstm": (ModelConfig("lstm", SIZE, rank=2), "all", None),
    "lstm, tied": (ModelConfig("lstm", SIZE, parametrization="low_rank", rank=2, tied=True, layers=2), "all", 7),
    "embedding": (
        ModelConfig("gru_cudnn", SIZE, rank=2, embedding=4, embedding_rank=2, layers=2, input_parametrization="low_rank"),
        "last",
        7,
    ),
    "tied embedding": (ModelConfig("lstm", SIZE, rank=2, weight_norm=True, embedding=SIZE, tie_embedding=True), "all", 7),
    "tied embedding with a rank": (ModelConfig("gru", SIZE, rank=2, embedding=SIZE, tie_embedding=True, embedding_rank=2), "all", 7),
}


def trained(name):
    """A model with noise in all its parameters, and inputs."""
    config, reads, symbols = NETWORKS[name]
    model = SequenceModel(config, symbols or WIDTH, 7, reads)
    xs = inputs() if symbols is None else np.random.default_rng(0).integers(0, symbols, (BATCH, STEPS))
    params = model.init(jax.random.key(0), jnp.asarray(xs))["params"]
    leaves, treedef = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    return model, treedef.unflatten(a + 0.2 * jax.random.normal(k, a.shape) for a, k in zip(leaves, keys, strict=True)), xs


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_trained_networks_as_modules_of_pytorch(name, torch, module_of):
    model, params, xs = trained(name)
    network = module_of(factorized.of_model(params, model.config, model.input_size, model.reads))
    expected = np.asarray(model.apply({"params": params}, jnp.asarray(xs)))
    with torch.no_grad():
        found, _ = network(torch.tensor(xs))
        np.testing.assert_allclose(found.numpy(), expected, atol=2e-6)
        _, state = network(torch.tensor(xs[:, :2]))
        again, _ = network(torch.tensor(xs[:, 2:]), state)
    np.testing.assert_allclose(again.numpy(), expected if model.reads == "last" else expected[:, 2:], atol=2e-6)


def test_a_network_of_symbols_may_be_in_double_precision(torch, module_of):
    model, params, xs = trained("tied embedding")
    network = module_of(factorized.of_model(params, model.config, model.input_size, model.reads))
    with torch.no_grad():
        expected, _ = network(torch.tensor(xs))
        found, _ = network.double()(torch.tensor(xs))
    assert (expected.dtype, found.dtype) == (torch.float32, torch.float64)
    np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gru", "gru_reset_after, dense", "lstm", "embedding"])
def test_gradients_of_the_module_are_those_of_the_network(name, torch, module_of):
    """All of it may be trained in PyTorch: gradients of a weighted sum of the predictions, which reach the first steps."""
    model, params, xs = trained(name)

    def arrays_of(tree):
        return factorized.of_model(tree, model.config, model.input_size, model.reads)

    network = module_of(arrays_of(params))
    found, _ = network(torch.tensor(xs))
    weights = np.random.default_rng(1).standard_normal(found.shape).astype(np.float32)
    (torch.tensor(weights) * found).sum().backward()
    gradients = jax.grad(lambda params: jnp.sum(weights * model.apply({"params": params}, jnp.asarray(xs))))(params)
    expected = {f"root.{name}": array for name, array in arrays_of(gradients).items() if name != "config"}
    assert {name for name, _ in network.named_parameters()} == expected.keys()
    for name, parameter in network.named_parameters():
        np.testing.assert_allclose(parameter.grad.numpy(), expected[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_state_is_continued_with_its_gradient(torch):
    cells = read_layers(random_state("l0", gates=4))
    arrays = factorized.of_layers(*bound(cells), WIDTH)
    network = network_of(arrays)
    first, rest = torch.tensor(inputs()[:, :1], requires_grad=True), torch.tensor(inputs()[:, 1:])
    _, state = network(first)
    network(rest, state)[0].sum().backward()
    apart = first.grad.clone()
    first.grad = None
    network(torch.cat([first, rest], 1))[0][:, 1:].sum().backward()
    np.testing.assert_allclose(apart.numpy(), first.grad.numpy(), atol=1e-6)


@pytest.mark.parametrize("name", ["int32", "int16", "uint8"])
def test_symbols_may_be_integers_of_any_width(name, torch):
    network = network_of(factorized.of_layers(*bound(read_layers(random_state("l0"))), WIDTH))
    symbols = np.random.default_rng(0).integers(0, WIDTH, (BATCH, STEPS))
    with torch.no_grad():
        expected = network(torch.nn.functional.one_hot(torch.tensor(symbols), WIDTH).float())[0]
        np.testing.assert_array_equal(network(torch.tensor(symbols.astype(name)))[0], expected)


def test_a_network_without_an_initial_state_may_be_in_double_precision(torch):
    """Whatever its inputs are: numbers, symbols or integers that stand for numbers."""
    network = network_of(factorized.of_layers(*bound(read_layers(random_state("l0"))), WIDTH))
    numbers = torch.arange(BATCH * STEPS * WIDTH).reshape(BATCH, STEPS, WIDTH) % 5
    with torch.no_grad():
        for xs in (torch.tensor(inputs()), numbers, numbers[..., 0] % WIDTH):
            expected, _ = network.float()(xs)
            found, state = network.double()(xs.double() if xs.is_floating_point() else xs)
            assert found.dtype == state["l0"][0].dtype == torch.float64
            np.testing.assert_allclose(found, expected, atol=2e-6)


def test_a_network_that_does_not_name_a_scaling_scales_nothing(torch):
    arrays = factorized.of_layers(*bound(read_layers(random_state("l0"))), WIDTH)
    config = json.loads(arrays["config"].item())
    older = {**arrays, "config": np.array(json.dumps({name: value for name, value in config.items() if name != "scaling"}))}
    with torch.no_grad():
        found, expected = (network_of(each)(torch.tensor(inputs()))[0] for each in (older, arrays))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("torch")
def test_nothing_in_a_factorized_network_is_run(tmp_path):
    from lrpt.interop import torch_network

    np.savez(tmp_path / "network.npz", config=np.array("{}"), bias=np.array([Harmful()], object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        torch_network.Network.load(tmp_path / "network.npz")


@pytest.mark.parametrize(
    ("name", "layers", "parts"),
    [("gru", 1, "h"), ("lstm, tied", 2, "hc"), ("tied embedding", 1, "hc"), ("tied embedding with a rank", 1, "h")],
)
def test_arrays_of_a_network_are_named_by_layer_and_part(name, layers, parts):
    model, params, _ = trained(name)
    arrays = factorized.of_model(params, model.config, model.input_size, model.reads)
    config = json.loads(arrays.pop("config").item())
    assert config["layers"] == [[f"l{k}"] for k in range(layers)]
    assert (config["cell"], config["reads"], config["input_size"]) == (model.config.cell, model.reads, model.input_size)
    assert {key for key in arrays if key.startswith("initial")} == {f"initial.l{k}.{part}" for k in range(layers) for part in parts}
    states = params["recurrent"]["initial_state"]
    for k in range(layers):
        state = states[str(k)] if layers > 1 else states
        for part in parts:
            np.testing.assert_array_equal(arrays[f"initial.l{k}.{part}"], state[part] if parts == "hc" else state)


def test_the_module_is_told_the_directions_of_each_layer():
    cells = read_layers(random_state("l0", "l0_reverse"))
    arrays = factorized.of_layers(*bound(cells), WIDTH)
    assert json.loads(arrays["config"].item())["layers"] == [["l0", "l0_reverse"]]
    for name, (params, _) in cells.items():
        np.testing.assert_array_equal(arrays[f"{name}.reset.recurrent.kernel"], params["cell"]["recurrent"]["reset"]["kernel"])


def test_layers_that_share_their_parameters_are_written_for_each():
    config = ModelConfig("gru_reset_after", SIZE, parametrization="dense", layers=3, shared_layers=True)
    network = Recurrent(config, SIZE)
    arrays = write(*bound_layers(network.init(jax.random.key(0), jnp.zeros((1, 1, SIZE)))["params"], network))
    assert {name.rpartition("_")[2] for name in arrays} == {"l0", "l1", "l2"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, arrays[f"{name.rpartition('_')[0]}_l0"])


def test_sums_of_two_matrices_of_one_kind_have_no_module():
    twice = Sum((LowRank(np.ones((1, 2)), np.ones((1, 2))),) * 2)
    layer = ElmanParams(Gate(twice, twice, Bias(np.ones(2))))
    with pytest.raises(UsageError, match=r"a matrix is a LowRank \+ LowRank, and the PyTorch module has Dense, LowRank, Diagonal and sums"):
        factorized.of_layers("gru", {"l0": layer}, 2)


@pytest.mark.parametrize("name", ["gru_reset_after, dense", "lstm, tied"])
def test_trained_networks_as_state_dicts(name, torch):
    model, params, _ = trained(name)
    config, xs = model.config, inputs(model.input_size)
    network = Recurrent(config, model.input_size)
    kind = torch.nn.LSTM if config.cell == "lstm" else torch.nn.GRU
    theirs = kind(model.input_size, SIZE, config.layers, batch_first=True)
    theirs.load_state_dict({n: torch.tensor(a) for n, a in write(*bound_layers(params["recurrent"], network)).items()})
    own = initial_row(params["recurrent"], network)

    def stacked(part):
        rows = [getattr(row, part, row) for row in (own if config.layers > 1 else (own,))]
        return torch.tensor(np.repeat(np.stack(rows)[:, None], BATCH, 1))

    state = (stacked("h"), stacked("c")) if config.cell == "lstm" else stacked("h")
    _, expected = network.apply({"params": params["recurrent"]}, jnp.swapaxes(xs, 0, 1))
    with torch.no_grad():
        np.testing.assert_allclose(theirs(torch.tensor(xs), state)[0].numpy(), jnp.swapaxes(expected, 0, 1), atol=2e-6)


def test_parameters_in_the_place_of_a_cell_are_one_line():
    network = Recurrent(ModelConfig("gru_cudnn", SIZE, rank=2), WIDTH)
    params = network.init(jax.random.key(0), jnp.zeros((1, 1, WIDTH)))["params"]
    with pytest.raises(UsageError, match=r"cell is a dict: give the name of a cell .*write\(\*bound\(\{'l0': \(params, network\)\}\)\)"):
        write(params, network)


def test_cells_that_pytorch_has_not():
    network = Recurrent(ModelConfig("gru", SIZE, rank=2), WIDTH)
    params = network.init(jax.random.key(0), jnp.zeros((1, 1, WIDTH)))["params"]
    with pytest.raises(
        UsageError, match=r"cell gru is none of PyTorch's layers.* here: use the module in network\.py, or an exported program"
    ):
        write(*bound_layers(params, network))
    for cell, kind in (("elman", "low_rank"), ("gru", "monarch")):
        network = Recurrent(ModelConfig(cell, SIZE, parametrization=kind, rank=2, blocks=SIZE), WIDTH)
        params = network.init(jax.random.key(0), jnp.zeros((1, 1, WIDTH)))["params"]
        with pytest.raises(UsageError, match=f"cell {cell} is none of PyTorch's layers.* here: use an exported program"):
            write(*bound_layers(params, network))
    network = Recurrent(ModelConfig("elman", SIZE, rank=2), WIDTH)
    params = network.init(jax.random.key(0), jnp.zeros((1, 1, WIDTH)))["params"]
    with pytest.raises(UsageError, match="cell elman cannot be written for PyTorch"):
        factorized.of_layers(*bound_layers(params, network), WIDTH)
    assert set(factorized.CELLS) <= CELLS.keys()


def random_state(*suffixes, gates=3):
    rng, rows = np.random.default_rng(0), gates * SIZE
    shapes = {"weight_ih": (rows, WIDTH), "weight_hh": (rows, SIZE), "bias_ih": (rows,), "bias_hh": (rows,)}
    return {f"{name}_{end}": rng.standard_normal(shape).astype(np.float32) for end in suffixes for name, shape in shapes.items()}


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def gru_of_pytorch(of_input, of_state, state):
    """Compute the equations in the documentation of `torch.nn.GRU`."""
    (r_x, z_x, n_x), (r_h, z_h, n_h) = (np.split(part, 3, axis=-1) for part in (of_input, of_state))
    z = sigmoid(z_x + z_h)
    return ((1 - z) * np.tanh(n_x + sigmoid(r_x + r_h) * n_h) + z * state[0],)


def lstm_of_pytorch(of_input, of_state, state):
    """Compute the equations in the documentation of `torch.nn.LSTM`; the state is (h, c)."""
    i, f, g, o = np.split(of_input + of_state, 4, axis=-1)
    c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def outputs_of_pytorch(arrays, step, xs):
    w = {name: np.asarray(array, np.float64) for name, array in arrays.items()}
    state, ys = (np.zeros((BATCH, SIZE)),) * 2, []
    for x in np.swapaxes(xs, 0, 1):
        of_input, of_state = (v @ w[f"weight_{k}_l0"].T + w[f"bias_{k}_l0"] for k, v in (("ih", x), ("hh", state[0])))
        state = step(of_input, of_state, state)
        ys.append(state[0])
    return np.stack(ys, 1)


@pytest.mark.parametrize(("gates", "step"), [(3, gru_of_pytorch), (4, lstm_of_pytorch)])
def test_state_dicts_are_read_and_written_as_pytorch_computes_them(gates, step):
    """Without PyTorch, whose equations are known."""
    arrays, xs = random_state("l0", gates=gates), inputs()
    cells = read_layers(arrays)
    written, expected = write(*bound(cells)), outputs_of_pytorch(arrays, step, xs)
    np.testing.assert_allclose(outputs(cells, xs), expected, atol=2e-6)
    np.testing.assert_allclose(outputs_of_pytorch(written, step, xs), expected, atol=2e-6)
    assert {name: array.shape for name, array in written.items()} == {name: array.shape for name, array in arrays.items()}


@pytest.mark.parametrize(("gates", "step"), [(3, gru_of_pytorch), (4, lstm_of_pytorch)])
def test_each_direction_of_a_layer_has_its_own_parameters(gates, step):
    """Outputs of both directions are in the order of the inputs, those of the forward one first."""
    arrays, xs = random_state("l0", "l0_reverse", gates=gates), inputs()
    of_reverse = {name.removesuffix("_reverse"): array for name, array in arrays.items() if name.endswith("_reverse")}
    expected = outputs_of_pytorch(arrays, step, xs), outputs_of_pytorch(of_reverse, step, xs[:, ::-1])[:, ::-1]
    np.testing.assert_allclose(outputs(read_layers(arrays), xs), np.concatenate(expected, -1), atol=2e-6)


def test_bfloat16_of_safetensors_becomes_float32(tmp_path):
    pytest.importorskip("safetensors")
    array = np.array([[0.1, -3.0, 1e30]], jnp.bfloat16)
    header = json.dumps({"a": {"dtype": "BF16", "shape": [1, 3], "data_offsets": [0, 6]}}).encode()
    (tmp_path / "w.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + array.tobytes())
    found = files.load_weights(tmp_path / "w.safetensors")["a"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, array.astype(np.float32))


def test_a_missing_direction_is_named():
    arrays = random_state("l0", "l0_reverse", "l1_reverse")
    with pytest.raises(UsageError, match="weight_hh_l1"):
        read_layers(arrays)


def params_of(cell):
    start = cell.initialize_carry(jax.random.key(0), (1, WIDTH))
    return cell.init(jax.random.key(0), start, jnp.zeros((1, WIDTH)))["params"]


def test_one_of_several_cells_must_be_chosen():
    both = {"GRUCell_0": params_of(nn.GRUCell(SIZE)), "rnn": {"cell": params_of(nn.GRUCell(SIZE))}}
    with pytest.raises(UsageError, match=r"pass the part of one cell, such as params\['GRUCell_0'\]$"):
        read(both)
    with pytest.raises(UsageError, match=r"pass the part of one cell, such as arrays\['params'\]\['GRUCell_0'\]$"):
        read({"params": both})
    assert read(both["GRUCell_0"])[1].config.cell == "gru_cudnn"
    state = random_state("l0")
    flat = {f"{name}.{key}": array for name in ("encoder", "decoder") for key, array in state.items()}
    with pytest.raises(UsageError, match=r"pass the arrays of one cell, such as those whose names begin with 'decoder\.'$"):
        read(flat)


def test_other_cells_are_named():
    with pytest.raises(UsageError, match="MGUCell, which is neither a GRU nor an LSTM"):
        read({"cell": params_of(nn.MGUCell(SIZE))})
    with pytest.raises(UsageError, match=r"array 'hr\.kernel' is missing"):
        read({name: part for name, part in params_of(nn.GRUCell(SIZE)).items() if name != "hr"})
    stacked, lstm = (nnx.to_pure_dict(nnx.state(kind(WIDTH, SIZE, rngs=nnx.Rngs(0)))) for kind in (nnx.GRUCell, nnx.LSTMCell))
    with pytest.raises(UsageError, match=r"found none: torch\.nn GRU.* flax\.linen GRUCell.* can be read; dense_h is of flax\.nnx"):
        read(stacked)
    with pytest.raises(UsageError, match=r"if_ is of a flax\.nnx\.LSTMCell: torch\.nn GRU, .* can be read$"):
        read(lstm)
    with pytest.raises(UsageError, match=r"found none: .* OptimizedLSTMCell can be read$"):
        read({"kernel": np.ones((3, 3))})
    with pytest.raises(UsageError, match=r"found none: the arrays have the layers l0, l0_reverse$"):
        read(random_state("l0") | random_state("l0_reverse"), "l5")


def without(arrays, *names):
    return {name: array for name, array in arrays.items() if name not in names}


BOTH = random_state("l0", "l0_reverse")
REFUSED = {
    "misspelt": (without(BOTH, "bias_hh_l0") | {"bias_hh_l0_": BOTH["bias_hh_l0"]}, "array 'bias_hh_l0_' is none of a GRU or LSTM: rename"),
    "both misspelt": (without(BOTH, "bias_ih_l0", "bias_hh_l0") | {"b_ih_l0": BOTH["bias_ih_l0"]}, "array 'b_ih_l0' is none of a GRU"),
    "one of two": (without(BOTH, "bias_ih_l0"), "array 'bias_ih_l0' is missing, and 'bias_hh_l0' is there: give all biases of the network"),
    "one direction": (without(BOTH, "bias_ih_l0_reverse", "bias_hh_l0_reverse"), "array 'bias_ih_l0_reverse' is missing, and 'bias_hh_l0'"),
    "a cell": (
        {"weight_ih": BOTH["weight_ih_l0"], "weight_hh": BOTH["weight_hh_l0"], "bias_ih": BOTH["bias_ih_l0"]},
        "'bias_hh' is missing",
    ),
}


@pytest.mark.parametrize(("arrays", "says"), REFUSED.values(), ids=REFUSED)
def test_a_missing_bias_is_not_zero_if_there_are_others(arrays, says):
    for prefix in ("", "rnn."):
        with pytest.raises(UsageError, match=says):
            read_layers({f"{prefix}{name}": array for name, array in arrays.items()})


def test_a_network_without_biases_has_zeros():
    """Biases of other modules do not count."""
    arrays = {f"rnn.{name}": array for name, array in BOTH.items() if "bias" not in name} | {
        "head.bias": np.ones(3),
        "bias_out": np.ones(3),
    }
    for params, _ in read_layers(arrays).values():
        assert all(not bias.any() for bias in params["cell"]["bias"].values())


@pytest.mark.parametrize(("kind", "map"), [(nn.GRUCell, "hn"), (nn.GRUCell, "ir"), (nn.LSTMCell, "ho"), (nn.OptimizedLSTMCell, "hi")])
def test_a_missing_bias_of_a_cell_of_flax_is_not_zero(kind, map):
    params = params_of(kind(SIZE))
    read(params)
    with pytest.raises(UsageError, match=rf"array '{map}\.bias' is missing, and '\w\w\.bias' is there"):
        read({**params, map: {"kernel": params[map]["kernel"]}})
    with pytest.raises(UsageError, match=rf"array '{map}\.bais' is none of a GRU or LSTM: rename it"):
        read({**params, map: {"kernel": params[map]["kernel"], "bais": params[map]["bias"]}})
    no_biases = {name: {"kernel": part["kernel"]} for name, part in params.items()}
    assert all(not bias.any() for bias in read(no_biases)[0]["cell"]["bias"].values())


def test_compressed_layers_are_flax_layers_with_their_network():
    cells = read_layers({name: array.astype(np.float64) for name, array in random_state("l0").items()})
    ((params, network),) = cells.values()
    found = compress(params, network, rank=SIZE)
    smaller = {"l0": (found.params, found.network)}
    np.testing.assert_allclose(outputs(smaller, inputs()), outputs(cells, inputs()), atol=1e-4)
    assert {array.dtype for array in jax.tree.leaves(found.params)} == {np.dtype(np.float32)}
    for wrong, kinds in (((found.params, found.config), r"\(dict, ModelConfig\)"), (found.params, "a dict")):
        for use in (as_linen, bound):
            with pytest.raises(
                UsageError, match=rf"the layer 'l0' is {kinds}: give \(params, network\), or \(small\.params, small\.network\)"
            ):
                use({"l0": wrong})


def test_other_arrays_of_a_state_dict_stay():
    arrays = {f"rnn.{name}": array for name, array in random_state("l0").items()} | {"head": {"weight": np.ones(3)}}
    found = replaced(arrays, {"weight_hh_l0": np.zeros((15, SIZE))})
    assert found.keys() == {*(f"rnn.{name}" for name in random_state("l0")), "head.weight"}
    assert not found["rnn.weight_hh_l0"].any()
    assert found["rnn.weight_ih_l0"] is arrays["rnn.weight_ih_l0"]


@pytest.mark.parametrize("prefix", ["", "decoder.cell."])
def test_arrays_of_a_cell_are_replaced_although_they_have_no_suffix(prefix):
    own = {f"{prefix}{name.removesuffix('_l0')}": array for name, array in random_state("l0").items()}
    assert is_state_dict(own)
    changed = {name: np.zeros_like(array) for name, array in random_state("l0").items()}
    assert not any(array.any() for array in replaced(own, changed).values())
    with pytest.raises(UsageError, match="the state dict has no weight_hh_l1: give the one that was read"):
        replaced(own, {"weight_hh_l1": np.zeros(1)})


def test_biases_that_a_state_dict_does_not_have_are_not_added():
    own = {name: array for name, array in random_state("l0").items() if "bias" not in name}
    assert replaced(own, random_state("l0")).keys() == own.keys()
    assert not is_state_dict({"hn": {"kernel": np.ones(1)}})


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".pt"])
def test_files(suffix, tmp_path):
    needed = {".safetensors": "safetensors", ".pt": "torch"}
    if suffix in needed:
        pytest.importorskip(needed[suffix])
    arrays = random_state("l0")
    arrays["transposed"] = arrays["weight_ih_l0"].T
    files.save_weights(tmp_path / f"w{suffix}", arrays)
    found = files.load_weights(tmp_path / f"w{suffix}")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    assert list(read_layers(found)) == ["l0"]


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_a_file_is_whole_or_as_before(suffix, tmp_path, monkeypatch):
    pytest.importorskip({".safetensors": "safetensors", ".pt": "torch"}[suffix])
    path = tmp_path / f"w{suffix}"
    files.save_weights(path, {"a": np.ones(3, np.float32)})
    before = path.read_bytes()

    def full(self, content):
        with self.open("wb") as file:
            file.write(content[:9])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UsageError, match=r"cannot be written \(No space left"):
        files.save_weights(path, {"a": np.zeros(3, np.float32)})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_source_of_the_module_is_whole_or_as_before(tmp_path, monkeypatch):
    def full(self, text, **_):
        with self.open("w") as file:
            file.write(text[:9])
        raise OSError(28, "No space left on device")

    (tmp_path / "network.py").write_text("before")
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        factorized.write(tmp_path, factorized.of_layers(*bound(read_layers(random_state("l0"))), WIDTH))
    assert (tmp_path / "network.py").read_text() == "before"


def test_layers_of_two_cells_and_no_layers_are_refused():
    of_gru, of_lstm = (read_layers(random_state("l0", gates=gates))["l0"] for gates in (3, 4))
    with pytest.raises(UsageError, match="the cells of the layers are gru_cudnn, lstm: give one or more layers with one kind of cell"):
        bound({"l0": of_gru, "l1": of_lstm})
    with pytest.raises(UsageError, match="the cells of the layers are none: give one or more layers"):
        bound({})


def test_layers_that_are_read_run_with_the_loop_of_their_network():
    ((params, _),) = read_layers(random_state("l0")).values()
    config = ModelConfig("gru_cudnn", SIZE, parametrization="dense", recurrence="plain", trainable_initial_state=False)
    module, _ = as_linen({"l0": (params, Recurrent(config, WIDTH))})
    assert module.layers[0].loop == config.loop != ModelConfig().loop


def test_bfloat16(torch, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    arrays = {name: torch.tensor(array).bfloat16() for name, array in random_state("l0").items()}
    safetensors.save_file(arrays, tmp_path / "w.safetensors")
    torch.save({"model": {"rnn": torch.nn.ParameterDict(arrays).state_dict()}, "epoch": 3}, tmp_path / "w.pt")
    (params, _) = read_layers(files.load_weights(tmp_path / "w.safetensors"))["l0"]
    (nested, _) = read_layers(files.load_weights(tmp_path / "w.pt"))["l0"]
    expected = arrays["weight_hh_l0"].float().numpy()[:SIZE].T
    np.testing.assert_array_equal(params["cell"]["recurrent"]["reset"]["kernel"], expected)
    np.testing.assert_array_equal(nested["cell"]["recurrent"]["reset"]["kernel"], expected)


def test_numbers_of_other_types_are_read_or_left_out(torch, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    arrays = {"half": torch.tensor([0.5, -3.0]).half(), "double": torch.tensor([0.1]).double(), "steps": torch.tensor([7])}
    safetensors.save_file(arrays, tmp_path / "w.safetensors")
    torch.save({**arrays, "epoch": 3}, tmp_path / "w.pt")
    for suffix, names in ((".safetensors", {"half", "double"}), (".pt", {"half", "double", "steps"})):
        found = files.load_weights(tmp_path / f"w{suffix}")
        assert found.keys() == names
        np.testing.assert_array_equal(found["half"], np.array([0.5, -3.0]))
        np.testing.assert_allclose(found["double"], [0.1], rtol=1e-6)
    assert found["steps"].dtype == np.int64


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin"])
def test_parameters_that_have_gradients_are_read_from_each_file_of_pytorch(suffix, torch, tmp_path):
    """As `dict(module.named_parameters())` has them. The path may be text."""
    module = torch.nn.GRU(WIDTH, SIZE)
    path = f"{tmp_path}/w{suffix}"
    torch.save(dict(module.named_parameters()), path)
    found = files.load_weights(path)
    assert found.keys() == module.state_dict().keys()
    for name, tensor in module.state_dict().items():
        np.testing.assert_array_equal(found[name], tensor.numpy())


def test_a_file_of_pytorch_that_is_not_there_is_not_called_damaged(torch, tmp_path):
    with pytest.raises(UsageError, match=r"gone\.pt cannot be read \(No such file or directory\): name a file of weights") as raised:
        files.load_weights(tmp_path / "gone.pt")
    assert raised.value.code == 2


def test_a_file_of_one_tensor_is_no_state_dict(torch, tmp_path):
    torch.save(torch.ones(3), tmp_path / "w.pt")
    with pytest.raises(UsageError, match=r"w\.pt holds a Tensor: save module\.state_dict\(\)$"):
        files.load_weights(tmp_path / "w.pt")


class Harmful:
    """What runs code when it is unpickled."""

    def __reduce__(self):
        return (json.loads, ("[1]",))


def test_nothing_in_a_file_is_run(torch, tmp_path):
    torch.save({"weight_hh_l0": Harmful()}, tmp_path / "w.pt")
    with pytest.raises(UsageError, match="damaged or holds more than weights") as raised:
        files.load_weights(tmp_path / "w.pt")
    assert raised.value.code == 1
    (tmp_path / "w.pth").write_bytes(pickle.dumps(Harmful()))
    with pytest.raises(UsageError, match="damaged or holds more than weights"):
        files.load_weights(tmp_path / "w.pth")


@pytest.mark.parametrize(
    ("name", "content", "says"), [("w.safetensors", b"no", "damaged or no"), ("w.safetensors", None, "cannot be read")]
)
def test_files_that_cannot_be_read(name, content, says, tmp_path):
    pytest.importorskip("safetensors")
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=says):
        files.load_weights(tmp_path / name)


def test_a_package_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(UsageError, match=r"needs PyTorch, which is not installed: pip install -e '\.\[torch\]'"):
        files.load_weights(tmp_path / "w.pt")
    monkeypatch.setitem(__import__("sys").modules, "safetensors.numpy", None)
    with pytest.raises(UsageError, match=r"needs safetensors, which is not installed: pip install -e '\.\[torch\]', or use \.npz$"):
        files.load_weights(tmp_path / "w.safetensors")


def test_other_suffixes_are_not_written(tmp_path):
    with pytest.raises(UsageError, match="no suffix of a file of weights"):
        files.save_weights(tmp_path / "w.h5", {})
