"""The swarm: what it draws, what it writes, and that dots do not hide each other."""

import json
from dataclasses import replace
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

from experiments.jsb import command as jsb
from experiments.jsb.swarm import Options, keep, show, study, width
from experiments.jsb.swarm_figure import beeswarm, by_group, swarm_figure
from lrpt.analysis import plots
from lrpt.cli.command import main
from lrpt.cli.flags import parse_dataclass
from lrpt.cli.studies import Finished
from lrpt.cli.subcommands import options_of
from lrpt.runs.console import Console
from lrpt.runs.run_directory import RunDirectory
from lrpt.tasks import Chorales
from lrpt.tasks.chorales import constant_loss
from lrpt.trained.loading import load
from lrpt.training.loop import most_together


@pytest.mark.slow
def test_sizes_are_those_that_come_closest_to_the_budgets():
    for cell, sizes in jsb.SIZES.items():
        for depth, size in sizes.items():
            assert width(replace(jsb.PAPER.model, cell=cell, depth=depth), jsb.BUDGETS[depth]) == size


def test_settings_are_drawn_within_their_ranges_and_share_programs():
    options = Options(depths=(1, 2), parameters=(2_000, 3_000), settings=20, learning_rate=(1e-3, 1e-1), spread=(1e-4, 1e-2))
    jobs = options.jobs(jsb.PAPER)
    assert len(jobs) == 3 * 2 * 20
    assert most_together(jobs) == 20
    rates, spreads = np.array([(job.config.optim.initial_learning_rate, job.config.model.initial.scale) for job in jobs]).T
    assert len(set(rates)) == len(set(spreads)) == len(set(np.round(spreads / rates, 9))) == len(jobs)
    assert 1e-3 <= rates.min() < 2e-3 < 5e-2 < rates.max() <= 1e-1
    assert 1e-4 <= spreads.min() < 2e-4 < 5e-3 < spreads.max() <= 1e-2
    assert {job.config.model.initial.carry_bias for job in jobs} == {0.0, 1.0, 2.0, 3.0}


def test_every_run_makes_all_updates_and_groups_train_together():
    options = Options(depths=(1,), parameters=(2_000,), settings=20, updates=30, evaluate_every=10)
    trains = [job.config.train for job in options.jobs(jsb.PAPER)]
    assert {(train.updates, train.evaluate_every, train.patience) for train in trains} == {(30, 10, None)}
    assert study("jsb", jsb.PAPER).together(options) == (20, jsb.PAPER.train.batch_size)


def test_settings_of_other_seeds_and_depths_are_others():
    """Also at a depth that the paper has not, whose number might be that of another depth."""

    def rates(seed):
        jobs = Options(cells=("rhn",), depths=(3, 6), parameters=(3_000, 5_000), settings=4, seed=seed).jobs(jsb.PAPER)
        return {job.config.optim.initial_learning_rate for job in jobs}

    assert len(rates(0) | rates(1)) == 2 * 2 * 4


def test_settings_depend_on_architecture_and_depth_alone():
    """Two commands for parts of a swarm train the runs of the whole one."""
    whole = {job.path: job for job in Options(parameters=(2_000, 3_000, 4_000, 5_000), settings=2).jobs(jsb.PAPER)}
    part = Options(cells=("dts_rnn", "dt_rnn"), depths=(6, 2), parameters=(5_000, 3_000), settings=2).jobs(jsb.PAPER)
    assert len(part) == 8
    assert all(whole[job.path] == job for job in part)


def test_the_preset_paper_has_the_budgets_of_the_presets():
    words = ["--preset", "paper", "--data.dir", "D", "--settings", "3"]
    found = options_of(jsb.EXPERIMENT.subcommands["swarm"], words, "python -m experiments.jsb swarm")
    assert (found.preset, found.data.source, str(found.data.dir), found.settings, found.updates) == ("paper", "jsb", "D", 3, 700)
    assert dict(zip(found.depths, found.parameters, strict=True)) == {1: 150_000, 2: 300_000, 4: 600_000, 6: 900_000}


def test_the_constant_predictor_gives_the_shares_of_the_notes():
    """A bias is fitted to the predicted frames by Newton's method; nothing else is learned."""
    train = Chorales(length=8).build(0).splits["train"]
    pieces = train.batch(train.arrays, jnp.arange(train.size))
    frames = np.asarray(pieces.targets, np.float64)[np.asarray(pieces.mask)]
    bias = np.zeros(88)
    for _ in range(30):
        p = 1 / (1 + np.exp(-bias))
        bias = np.clip(bias + (frames.mean(axis=0) - p) / np.maximum(p * (1 - p), 1e-9), -30, 30)
    losses = np.logaddexp(0, bias) - frames * bias
    assert constant_loss(train) == pytest.approx(losses.sum(axis=1).mean(), rel=1e-6)


@pytest.mark.slow
def test_trains_everything_and_keeps_what_a_figure_needs(tmp_path, capsys):
    flags = "swarm --data.length 4 --cells rhn dt_rnn --depths 1 2 --parameters 2000 3000 --settings 2 --updates 2 --evaluate-every 1"
    arguments = [*flags.split(), "--devices", "1", "--workdir", str(tmp_path)]
    main(jsb.EXPERIMENT, arguments)
    summary = json.loads((tmp_path / "swarm.json").read_text())
    dots = summary["dots"]
    assert [(dot["cell"], dot["depth"]) for dot in dots] == [(c, d) for c in ("rhn", "dt_rnn") for d in (1, 2) for _ in range(2)]
    assert all(dot["updates"] == 2 and 0 < dot["lowest_train_loss"] < 88 for dot in dots)
    assert all(abs(dot["parameters"] - (2_000, 3_000)[dot["depth"] - 1]) < 200 for dot in dots)
    assert summary["options"]["settings"] == 2
    assert summary["constant_predictor_loss"] == constant_loss(Chorales(length=4).build(0).splits["train"])
    assert (tmp_path / "figures" / "swarm.png").exists()
    assert json.loads((tmp_path / "rhn-depth1-setting0" / "config.json").read_text())["preset"] == "quick"
    assert "rhn" in capsys.readouterr().out
    for name in ("result.json", "environment.json"):
        (tmp_path / "rhn-depth1-setting0" / name).unlink()
    options = parse_dataclass(Options, arguments[1:], "", "", Options())
    study("jsb", jsb.PAPER).conclude(options, options.jobs(jsb.PAPER), Console(quiet=True))
    assert json.loads((tmp_path / "swarm.json").read_text())["dots"] == dots[1:]
    longer = parse_dataclass(Options, [*arguments[1:], "--updates", "3"], "", "", Options())
    study("jsb", jsb.PAPER).conclude(longer, longer.jobs(jsb.PAPER), Console(quiet=True))
    assert json.loads((tmp_path / "swarm.json").read_text())["options"]["updates"] == 2, "no run is finished at the length of another"
    trained = load(tmp_path / "dt_rnn-depth2-setting1")
    assert (trained.config.model.cell, trained.config.model.initial.scale) == ("dt_rnn", dots[-1]["initial_scale"])

    main(jsb.EXPERIMENT, arguments)  # all but one are finished
    assert json.loads((tmp_path / "swarm.json").read_text())["dots"][1:3] == dots[1:3]


@pytest.mark.slow
def test_a_directory_that_cannot_be_read_does_not_hide_why_training_ended(tmp_path, capsys):
    """The damaged run ends the command. The summary of the others is written, and leaves it out."""
    flags = "swarm --data.length 4 --cells rhn --depths 1 --parameters 2000 --settings 2 --updates 2 --evaluate-every 1 --devices 1"
    arguments = [*flags.split(), "--workdir", str(tmp_path)]
    main(jsb.EXPERIMENT, arguments)
    (tmp_path / "swarm.json").unlink()
    (tmp_path / "rhn-depth1-setting1" / "result.json").write_text("no JSON")
    with pytest.raises(SystemExit):
        main(jsb.EXPERIMENT, arguments)
    said = capsys.readouterr().err
    assert said.count("lrpt: error: ") == 1
    assert "swarm.json leaves it out" in said
    assert [dot["seed"] for dot in json.loads((tmp_path / "swarm.json").read_text())["dots"]] == [0]


@pytest.mark.slow
def test_a_setting_that_diverges_has_no_dot_and_is_named(tmp_path, capsys):
    flags = "swarm --data.length 4 --cells rhn --depths 1 --parameters 2000 --settings 2 --updates 2 --evaluate-every 1 --devices 1"
    arguments = [*flags.split(), "--workdir", str(tmp_path)]
    main(jsb.EXPERIMENT, arguments)
    directory = RunDirectory(tmp_path / "rhn-depth1-setting1")
    (directory.path / "result.json").unlink()
    directory.write_failure(2, "the training loss is nan")
    options = parse_dataclass(Options, arguments[1:], "", "", Options())
    study("jsb", jsb.PAPER).conclude(options, options.jobs(jsb.PAPER), Console())
    summary = json.loads((tmp_path / "swarm.json").read_text())
    assert [dot["seed"] for dot in summary["dots"]] == [0]
    assert summary["diverged"] == [{"cell": "rhn", "depth": 1, "size": summary["dots"][0]["size"], "seed": 1, "update": 2}]
    assert "1 of 2 runs are finished, 1 diverged" in capsys.readouterr().out


def test_a_dot_has_the_lowest_losses_of_the_training_and_the_validation_split(tmp_path):
    lines = [("train", 3.0), ("valid", 1.0), ("train", 2.0), ("valid", 4.0), ("train", 5.0)]
    job = Options(cells=("rhn",), depths=(1,), parameters=(2_000,), settings=1, workdir=tmp_path).jobs(jsb.PAPER)[0]
    job.path.mkdir()
    RunDirectory(job.path).append_metrics([{"update": k, "split": split, "loss": loss} for k, (split, loss) in enumerate(lines)])
    metrics = {"valid": {"loss": 1.0}, "test": {"loss": 1.5}}
    row = keep(Options(), job, {"parameters": {"true": 2_000, "paper": 1_900}, "metrics": metrics, "updates": 5, "seconds": 1.0})
    assert (row["lowest_train_loss"], row["lowest_valid_loss"], row["parameters"]) == (2.0, 1.0, 2_000)
    settings = row["learning_rate"], row["initial_scale"], row["carry_bias"]
    initial = job.config.model.initial
    assert settings == (job.config.optim.initial_learning_rate, initial.scale, initial.carry_bias)


def test_networks_that_learned_more_than_the_shares_of_the_notes_are_counted(tmp_path, capsys):
    options = Options(Chorales(length=4), cells=("rhn",), depths=(1,), parameters=(2_000,), settings=3, workdir=tmp_path)
    dots = [{"cell": "rhn", "depth": 1, "lowest_train_loss": loss, "updates": 2} for loss in (1.0, 50.0, 60.0)]
    found = show(options, [Finished(job, {}, dot) for job, dot in zip(options.jobs(jsb.PAPER), dots, strict=True)], Console())
    assert 1 < found["constant_predictor_loss"] < 50
    assert "1 of 3 networks have a lower loss than the best constant predictor" in capsys.readouterr().out


def test_dots_are_grouped_by_architecture_and_depth():
    dots = [{"cell": "rhn", "depth": depth, "lowest_train_loss": loss} for depth, loss in [(2, 3.0), (1, 2.0), (1, 1.0)]]
    assert by_group(dots) == {"rhn": {1: [2.0, 1.0], 2: [3.0]}}


def test_dots_stand_beside_the_number_of_their_depth(tmp_path, monkeypatch):
    """Two architectures, of which the second one has no network of depth 1."""
    drawn = []
    monkeypatch.setattr(plots, "_save_png", lambda figure, path: drawn.append(figure))
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: None)
    swarm_figure({"rhn": {1: [1.0], 4: [2.0]}, "dt_rnn": {4: [3.0]}}, tmp_path / "a.png", "", 5.0)
    axes = drawn[0].axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "4"]
    assert [line.get_xdata().tolist() for line in axes.lines[:2]] == [pytest.approx([-0.2, 0.8]), pytest.approx([1.2])]
    assert axes.lines[2].get_ydata() == [5.0, 5.0]


def test_no_two_dots_are_at_one_place():
    rng = np.random.default_rng(0)
    heights = rng.uniform(0, 1, 60)
    x = beeswarm(heights, 0.05)
    apart = (np.abs(x[:, None] - x) >= 1) | (np.abs(heights[:, None] - heights) >= 0.05)
    assert np.all(apart | np.eye(60, dtype=bool))
    assert x[np.argmin(heights)] == 0


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--preset large", "unknown preset 'large' of swarm: choose from quick, paper"),
        ("--cells gru", "cells is 'gru': choose from "),
        ("--depths 1 2", "parameters has 4 numbers and depths 2: give the same number of both"),
        ("--settings 0", "settings is 0: expected 1 or more"),
        ("--learning-rate 1 0.1", "learning_rate is 1.0 0.1: expected two finite numbers above 0, the smaller one first"),
        ("--learning-rate 1e-3 inf", "learning_rate is 0.001 inf: expected two finite numbers"),
        ("--spread 0 0.1", "spread is 0.0 0.1: expected two finite numbers above 0"),
        ("--cells rhn rhn", "cells is rhn rhn"),
        ("--depths 2 2 --parameters 2000 3000", "depths is 2 2"),
        ("--carry-bias", "carry_bias is empty: give at least one number"),
    ],
)
def test_bad_options_are_one_line(flags, says, assert_refused):
    assert_refused(partial(main, jsb.EXPERIMENT), ["swarm", *flags.split()], says)


def test_settings_are_uniform_over_the_logarithm():
    options = Options(depths=(1, 2), parameters=(2_000, 3_000), settings=20, learning_rate=(1e-4, 1.0), spread=(1e-8, 1e-2))
    configs = [job.config for job in options.jobs(jsb.PAPER)]
    rates, spreads = [config.optim.initial_learning_rate for config in configs], [config.model.initial.scale for config in configs]
    for values, middle in ((rates, 1e-2), (spreads, 1e-5)):
        assert middle / 5 < np.median(values) < 5 * middle
