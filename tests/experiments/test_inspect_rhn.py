"""The tool that looks into a trained network: what it reads is what the model computes, and every command draws or says something."""

import json
import math
import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import wiki
from experiments.inspect_rhn import dropout, spectra
from experiments.inspect_rhn.command import main
from experiments.inspect_rhn.numbers import discs_of, flow_of, gates_of
from experiments.inspect_rhn.reading import all_jacobians, both, jacobians, loss_of, reading
from experiments.jsb import command as jsb
from experiments.report.command import main as report
from experiments.report.kept.analyses import by_step
from lrpt.analysis.gradient_flow import products, step_bound
from lrpt.cli.command import main as train
from lrpt.recurrence import recur
from lrpt.runs.console import Console
from lrpt.runs.files import sealed
from lrpt.trained.loading import load

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
    read = reading(trained, trained.initial, 1)
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
    jax.tree.map(np.testing.assert_array_equal, both(trained)["untrained"]["params"], drawn["params"])


@pytest.mark.parametrize(
    ("command", "figure", "says"),
    [
        ("discs --steps 1 2", "discs.png", ["untrained", "spectral radius"]),
        ("flow --steps 3", "flow.png", ["untrained", "bound of the norm", "from step 1"]),
        ("gates --gate carry", "carry_gates.png", ["mean carry gate", "untrained", "trained"]),
        ("lesions --examples 3", "lesions.png", ["gate closed", "gate held open", "the first 3 training examples"]),
        ("lesions", "lesions.png", ["the whole training split"]),
        ("starts --spreads 0.1 --sizes 3", "starts.png", ["mean radius"]),
    ],
)
def test_every_command_draws(command, figure, says, music, capsys):
    name, *flags = command.split()
    main([name, str(music), *flags])
    said = " ".join(capsys.readouterr().out.split())
    assert all(words in said for words in says)
    assert (music / "figures" / figure).exists()
    numbers = json.loads((music / figure).with_suffix(".json").read_text())
    printed = [float(word) for word in said.split() if re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", word)]
    for value in jax.tree.leaves(numbers):
        assert isinstance(value, str) or min(abs(value - one) for one in printed) <= 6e-4 * max(1, abs(value))


def cells(capsys):
    """Return the cells of all printed lines."""
    return [re.split(r"  +", line.strip()) for line in capsys.readouterr().out.splitlines()]


def test_increases_of_lesions_are_those_over_the_loss_of_the_whole_network(music, capsys):
    main(["lesions", str(music), "--examples", "3"])
    found = json.loads((music / "lesions.json").read_text())
    said, intact = cells(capsys), found["intact"]
    for layer, (shut, opened) in enumerate(zip(found["shut"], found["opened"], strict=True), 1):
        assert [str(layer), *(f"{number:.5g}" for number in (shut, shut - intact, opened, opened - intact))] in said
    assert len(found["shut"]) == 2


def test_means_of_gates_stand_before_their_deviations(music, capsys):
    main(["gates", str(music)])
    found = {(one["network"], one["layer"]): one for one in json.loads((music / "transform_gates.json").read_text())}
    first = [f"{found[network, 1][what]:.3f}" for network in ("untrained", "trained") for what in ("mean", "deviation")]
    assert ["1", *first] in cells(capsys)


def test_norms_stand_before_their_roots_and_the_spectral_radius(music, capsys):
    main(["flow", str(music), "--steps", "3"])
    (one,) = (one for one in json.loads((music / "flow.json").read_text()) if (one["network"], one["steps"]) == ("trained", 3))
    numbers = f"{one['norm']:.4g}", f"{one['by_step']:.4f}", f"{one['spectral_radius']:.4g}", f"{one['bound']:.4g}"
    assert ["trained", "3", *numbers] in cells(capsys)


def test_eigenvalues_at_initialization_are_those_of_the_depth_and_the_bias_of_the_run(music, capsys, monkeypatch):
    given, sweep = [], spectra.initialization_sweep
    monkeypatch.setattr(spectra, "initialization_sweep", lambda *words, **how: given.append(how) or sweep(*words, **how))
    main(["starts", str(music), "--spreads", "0.1", "--sizes", "3"])
    assert given == [{"depth": 2, "carry_bias": 2.0, "identity": False}]
    assert [line[:2] for line in cells(capsys) if len(line) == 5][1:] == [["3", "0.1"]]


@pytest.mark.parametrize(("command", "column", "steps"), [("discs", "step", {1}), ("flow --start 2", "steps", {1, 2, 4})])
def test_steps_that_are_not_given_are_those_that_the_sequences_have(command, column, steps, music):
    """The defaults are for longer sequences than these, of five steps."""
    name, *flags = command.split()
    main([name, str(music), *flags])
    assert {one[column] for one in json.loads((music / f"{name}.json").read_text())} == steps


@pytest.mark.parametrize("command", ["discs --steps 1", "flow --steps 2", "bounds", "gates", "lesions --examples 2"])
def test_a_kept_result_is_read_like_its_run(command, music, tmp_path, capsys):
    report(["--collect", str(music)], tmp_path)
    (kept,) = (path.parent for path in tmp_path.rglob("model.npz"))
    capsys.readouterr()
    name, *flags = command.split()
    said = []
    for run in (music, kept):
        main([name, str(run), *flags, "--output", str(tmp_path)])
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


def test_collection_keeps_the_analysis_and_verification_repeats_it(music, tmp_path, capfd, assert_refused):
    report(["--collect", str(music)], tmp_path)
    (kept,) = tmp_path.rglob("analysis.json")
    main(["lesions", str(music)])
    analysis = json.loads(kept.read_text())
    assert analysis["highway"]["lesions"] == json.loads((music / "lesions.json").read_text())
    lengths = np.asarray(reading(load(music), load(music).variables, 8).mask).sum(axis=0)
    assert [np.shape(gates) for gates in analysis["highway"]["activity"]] == [(2, length) for length in lengths[:4]]
    report(["--verify"], tmp_path)
    assert "analysis.json: the largest difference is 0.0e+00" in capfd.readouterr().out
    analysis["highway"]["gates"][0]["mean"] += 0.01
    kept.write_text(json.dumps(sealed(analysis)))
    assert_refused(lambda words: report(words, tmp_path), ["--verify"], "do not verify", code=1, printed=True)


def test_the_kept_activity_is_that_of_the_first_examples(music):
    """Without steps after the end of an example, and to four decimals."""
    activity = gates_of(load(music), 8)[1]
    kept = by_step(activity[:2])
    for found, of_example in zip(kept, activity[:2], strict=True):
        np.testing.assert_allclose(found, of_example[:, : len(found[0])], atol=5e-5)
        assert np.isnan(of_example[:, len(found[0]) :]).all()


def test_bounds_are_singular_values(music, capsys):
    """gamma sigma_max by the eigenvalues of R R^T."""
    main(["bounds", str(music)])
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("trained")]
    cell = load(music).variables["params"]["recurrent"]["cell"]["recurrent"]
    assert len(lines) == 4
    for _, layer, name, sigma, gamma, bound, below in lines:
        assert below == ("yes" if float(bound) < 1 else "no")
        R = np.float64(cell[f"{int(layer) - 1}_{name}"]["kernel"])
        largest = np.sqrt(np.linalg.eigvalsh(R @ R.T)[-1])
        assert float(sigma) == pytest.approx(largest, abs=1e-4)
        assert float(bound) == pytest.approx({"candidate": 1, "transform": 0.25}[name] * largest, abs=1e-4)
        assert float(gamma) == {"candidate": 1, "transform": 0.25}[name]


def test_jacobians_over_several_steps_are_those_of_the_composed_steps(music):
    """Forward-mode differentiation of three steps at once, against the product of the Jacobians of single steps."""
    trained = load(music)
    read = reading(trained, trained.variables, 8)
    step = lambda s, x: read.network.cell.step(read.params, s[None], x[None])[0][0]  # noqa: E731
    of_step, counted = all_jacobians(read, [2, 3, 4])
    found = products(of_step)

    def composed(s, xs):
        for x in xs:
            s = step(s, x)
        return s

    for example in np.flatnonzero(counted.all(axis=0))[:2]:
        s = step(read.carry[example], read.xs[0, example])
        for k in (1, 2, 3):
            expected = jax.jacfwd(composed)(s, read.xs[1 : 1 + k, example])
            np.testing.assert_allclose(found[k - 1, example], expected, atol=1e-5)


@pytest.mark.parametrize("run", ["music", "text"])
def test_the_loss_on_the_whole_training_split(run, request):
    """A loop over all pieces, or over one stream, sums the losses; the state of the text is carried on in 8 streams."""
    trained = load(request.getfixturevalue(run))
    train, params = trained.task.splits["train"], trained.variables["params"]
    found = loss_of(trained, None)(params)
    if run == "music":
        pieces = train.batch(train.arrays, jnp.arange(train.size))
        logits = np.asarray(trained.model.apply(trained.variables, pieces.inputs, pieces.mask), np.float64)
        losses = (np.logaddexp(0, logits) - logits * np.asarray(pieces.targets)).sum(axis=-1)[np.asarray(pieces.mask)]
    else:
        chunk = -(-train.size // 8)
        losses = np.concatenate([_of_windows(trained, rows) for rows in np.split(np.arange(train.size), range(chunk, train.size, chunk))])
    assert found == pytest.approx(losses.mean(), rel=1e-4)


def _of_windows(trained, rows):
    """Return the losses of consecutive windows of a stream, read symbol by symbol."""
    train = trained.task.splits["train"]
    state, losses = trained.start(1), []
    for row in rows:
        window = train.batch(train.arrays, jnp.asarray([row]))
        counted = np.ones(window.targets.shape[1], bool) if window.mask is None else np.asarray(window.mask[0])
        for x, y, counts in zip(window.inputs[0], window.targets[0], counted, strict=True):
            if counts:
                state, logits = trained.step(state, x[None])
                losses.append(float(jax.nn.logsumexp(logits[0]) - logits[0, y]))
    return losses


def test_monte_carlo_is_told_beside_the_usual_loss(text, capsys):
    main(["monte-carlo", str(text), "--passes", "2", "--rows", "2"])
    said = " ".join(capsys.readouterr().out.split())
    assert "mean of probabilities" in said
    assert "without dropout: " in said


def test_the_loss_without_dropout_is_that_of_the_same_split(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(dropout, "monte_carlo", lambda *_, **__: SimpleNamespace(loss=3.0, passes=[4.0, 6.0], left_out=0))
    losses = {"valid": {"loss": 1.0}, "test": {"loss": 2.0}}
    trained = SimpleNamespace(model=None, variables=None, task=SimpleNamespace(splits=losses), evaluate=lambda: losses)
    options = SimpleNamespace(split="valid", passes=2, rows=1, seed=0, worst=math.inf, numbers=tmp_path)
    dropout.show_monte_carlo(options, trained, Console())
    said = cells(capsys)
    assert said[1:3] == [["mean of probabilities", "3.0000", "20.086"], ["single passes, mean", "5.0000", "148.413"]]
    assert said[-1] == ["without dropout: 1.0000 nats, perplexity 2.718"]
    found = json.loads((tmp_path / "monte_carlo.json").read_text())
    assert (found["mean_of_probabilities"], found["without_dropout"]) == (3.0, 1.0)


def test_a_limit_of_the_perplexity_is_one_of_the_loss_in_nats():
    assert dropout._nats(math.e) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("", "needs a subcommand: choose from discs, flow, bounds, gates, lesions, starts, monte-carlo"),
        ("discs RUN --steps 1 99", "steps is 1 99: the sequences of this run have 5 steps, so choose numbers from 1 to 5"),
        ("flow RUN --start 3 --steps 4", "start is 3 and steps is 4: the sequences of this run have 5 steps, so end at the last"),
        ("flow RUN --start 6", "start is 6: the sequences of this run have 5 steps"),
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


def test_discs_are_means_over_examples(music):
    trained = load(music)
    found, _ = discs_of(trained, 8, steps=[1, 5])
    read = reading(trained, trained.variables, 8)
    for step, J in zip((1, 5), jacobians(read, [1, 5]), strict=True):
        (disc,) = [one for one in found if (one.network, one.step) == ("trained", step)]
        largest = np.abs(np.linalg.eigvals(np.float64(J))).max(axis=-1)
        off = np.abs(J).sum(axis=-1) - np.abs(np.diagonal(J, axis1=-2, axis2=-1))
        assert disc.radius == pytest.approx(off.mean(), rel=1e-4)
        assert disc.centre == pytest.approx(np.diagonal(J, axis1=-2, axis2=-1).mean(), rel=1e-4)
        assert (disc.spectral_radius, disc.logarithm) == pytest.approx((largest.mean(), np.log(largest).mean()), rel=1e-4)


def test_flow_is_the_geometric_mean_over_examples(music):
    trained = load(music)
    spans, _ = flow_of(trained, 8, 2, 3)
    read = reading(trained, trained.variables, 8)
    of_step, counted = all_jacobians(read, [2, 3, 4])
    whole = counted.all(axis=0)
    over, state, bounds = products(of_step[:, whole]), read.carry, []
    for x in read.xs[:4]:
        bounds.append(step_bound(read.params, state, x))
        state, _ = read.network.cell.step(read.params, state, x)
    bounds = np.stack(bounds[1:])[:, whole]
    for span in (one for one in spans if one.network == "trained"):
        norms = np.linalg.norm(over[span.steps - 1], 2, axis=(-2, -1))
        norm, bound = np.exp(np.log(norms).mean()), np.exp(np.log(bounds[: span.steps].prod(axis=0)).mean())
        assert (span.norm, span.by_step, span.bound) == pytest.approx((norm, norm ** (1 / span.steps), bound), rel=1e-4)


def test_gates_deviate_within_a_layer(music):
    means, activity = gates_of(load(music), 8)
    found = [(one.mean, one.deviation) for one in means if one.network == "trained"]
    assert found == [pytest.approx((np.nanmean(own), np.nanstd(own))) for own in np.moveaxis(activity, 1, 0)]
