"""The tool that looks into a trained network: what it reads is what the model computes, and every command draws or says something."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import wiki
from experiments.inspect_rhn import jacobians, main, reading, untrained
from experiments.jsb import command as jsb
from lrpt.cli.command import main as train
from lrpt.recurrence import recur
from lrpt.training.loading import load

pytestmark = pytest.mark.slow

SMALL = "--no-compare --model.size 5 --model.depth 2 --devices 1"
FEW = f"{SMALL} --train.updates 2 --train.batch-size 4 --train.evaluation-batch 8"


@pytest.fixture(scope="module")
def music(tmp_path_factory):
    path = tmp_path_factory.mktemp("music") / "run"
    train(jsb.EXPERIMENT, [*FEW.split(), "--data.length", "6", "--workdir", str(path)])
    return path


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    (folder / "text").write_bytes(b"the cat sat on a mat. " * 20)
    flags = ["--model.embedding", "3", "--model.word-dropout", "0.2", "--data.steps", "4", "--data.file", str(folder / "text")]
    train(wiki.EXPERIMENT, [*FEW.split(), *flags, "--workdir", str(folder / "run")])
    return folder / "run"


@pytest.mark.parametrize("run", ["music", "text"])
def test_reads_what_the_model_reads(run, request):
    trained = load(request.getfixturevalue(run))
    read = reading(trained, trained.variables, 3)
    _, y = recur(read.network.cell.step, read.params, read.carry, read.xs, read.mask)
    readout = trained.variables["params"]["readout"]
    train = trained.task.splits["train"]
    batch = train.batch(train.arrays, jnp.arange(3))
    expected = trained.model.apply(trained.variables, batch.inputs, batch.mask)
    np.testing.assert_allclose(jnp.swapaxes(y @ readout["kernel"], 0, 1) + readout["bias"][None, None], expected, atol=1e-6)


def test_jacobians_by_finite_differences(music):
    trained = load(music)
    read = reading(trained, untrained(trained), 1)
    step = lambda s, x: read.network.cell.step(read.params, s, x)[0]  # noqa: E731
    s = step(read.carry, read.xs[0])
    e = 1e-2 * jnp.eye(5)
    differences = (step(s + e, jnp.tile(read.xs[1], (5, 1))) - step(s - e, jnp.tile(read.xs[1], (5, 1)))) / 2e-2
    np.testing.assert_allclose(jacobians(read, [2])[0][0], differences.T, atol=1e-4)


def test_examples_that_end_before_a_step_are_left_out(music):
    trained = load(music)
    read = reading(trained, trained.variables, 8)
    lengths = np.asarray(read.mask).sum(axis=0)
    assert lengths.min() < 5 == lengths.max()
    assert [len(J) for J in jacobians(read, [1, 5])] == [8, np.sum(lengths == 5)]


def test_the_start_is_the_one_that_was_drawn(music):
    trained = load(music)
    drawn = trained.model.init(jax.random.key(0), jnp.zeros((1, 2, 88)))
    jax.tree.map(np.testing.assert_array_equal, untrained(trained)["params"], drawn["params"])


@pytest.mark.parametrize(
    ("command", "figure", "says"),
    [
        ("discs --steps 1 2", "discs.png", ["untrained", "spectral radius"]),
        ("gates --gate carry", "carry_gates.png", ["mean carry gate"]),
        ("lesions --examples 3", "lesions.png", ["layer closed", "increase"]),
        ("starts --spreads 0.1 --sizes 3", "starts.png", ["mean radius"]),
    ],
)
def test_every_command_draws(command, figure, says, music, capsys):
    name, *flags = command.split()
    main([name, str(music), *flags])
    said = " ".join(capsys.readouterr().out.split())
    assert all(words in said for words in says)
    assert (music / "figures" / figure).exists()


def test_monte_carlo_is_told_beside_the_usual_loss(text, capsys):
    main(["monte-carlo", str(text), "--passes", "2", "--rows", "2"])
    said = " ".join(capsys.readouterr().out.split())
    assert "mean of probabilities" in said
    assert "without dropout: " in said


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("", "needs a subcommand: choose from discs, gates, lesions, starts, monte-carlo"),
        ("discs RUN --steps 99", "steps is 99: expected numbers from 1 to 5"),
        ("gates RUN --gate reset", "gate is 'reset': choose from "),
        ("gates RUN --examples 1000", "examples is 1000, and the run has 229 of them: choose fewer"),
        ("lesions RUN --examples 0", "examples is 0: expected 1 or more"),
        ("monte-carlo RUN", "name a run of a language model"),
        ("monte-carlo RUN --worst 1", "worst is 1.0: expected a perplexity above 1"),
        ("monte-carlo RUN --split all", "split is 'all': choose from train, valid, test"),
        ("discs nowhere", "name the directory of a run"),
    ],
)
def test_bad_input_is_one_line(command, says, music, assert_refused):
    assert_refused(main, [music if word == "RUN" else word for word in command.split()], says)
