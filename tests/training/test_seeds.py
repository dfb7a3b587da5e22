"""Several seeds and several devices: the numbers of a run depend neither on its company nor, but for rounding, on the devices."""

import dataclasses
import json
import shutil

import jax
import numpy as np
import pytest
from table import assert_close
from tiny import EVEN, EXPERIMENT, Apart, Listening, assert_same_run, changed, flags, interrupted_after, lines, numbers, rewind

from lrpt.cli.command import main
from lrpt.devices import hardware, parallel
from lrpt.errors import UsageError
from lrpt.runs.checkpoint import Checkpoints
from lrpt.training import program
from lrpt.training.loop import Job, SomeFailed, fit, fit_all
from lrpt.training.run import Run

pytestmark = pytest.mark.slow

SEEDS = (0, 1, 2)


def train(root, seeds=SEEDS, config=EVEN, devices=1):
    return fit(config, {seed: root / str(seed) for seed in seeds}, devices=devices)


@pytest.fixture(scope="module")
def singles(tmp_path_factory):
    """Each seed by itself, on one device."""
    root = tmp_path_factory.mktemp("singles")
    for seed in SEEDS:
        train(root, [seed])
    return root


@pytest.fixture(scope="module")
def three_devices(tmp_path_factory):
    """All seeds at once, each on a device of its own."""
    root = tmp_path_factory.mktemp("three")
    train(root, devices=3)
    return root


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """--seeds 3, from the command line."""
    root = tmp_path_factory.mktemp("command")
    main(EXPERIMENT, [*flags(EVEN), "--devices", "1", "--seeds", "3", "--workdir", str(root)])
    return root


def test_seeds_in_one_go_are_single_runs(singles, command):
    for seed in SEEDS:
        assert numbers(command / f"quick-seed{seed}") == numbers(singles / str(seed))
    losses = [lines(singles / str(seed))[-1]["loss"] for seed in SEEDS]
    assert len(set(losses)) == 3


@pytest.mark.devices(2)
def test_the_best_state_is_read_only_when_a_run_ends(tmp_path, monkeypatch):
    """Seed 1 ends at update 4, and seed 0 at update 12."""
    read, end, best = [], Run._reason_to_stop, Run.best_state
    monkeypatch.setattr(Run, "_reason_to_stop", lambda run, update: "criterion" if run.seed == 1 else end(run, update))
    monkeypatch.setattr(Run, "best_state", lambda run, state: read.append((run.seed, int(state.update))) or best(run, state))
    train(tmp_path, [0, 1], dataclasses.replace(EVEN, data=Apart(6, train_size=50, test_size=20)), devices=2)
    assert read == [(1, 4), (0, 12)]


def test_seeds_and_settings_may_be_numbers_of_numpy(tmp_path):
    config = changed(EVEN, train={"updates": np.int64(12), "checkpoint_minutes": np.float32(0.5)})
    (result,) = fit(config, {np.int64(3): tmp_path / "run"}, devices=1)
    train = result["config"]["train"]
    assert (result["seed"], train["updates"], train["checkpoint_minutes"]) == (3, 12, 0.5)
    assert fit(config, {3: tmp_path / "run"}, devices=1) == [result]


def test_two_seeds_do_not_have_one_directory(tmp_path):
    with pytest.raises(UsageError, match=f"two runs have the directory {tmp_path}: give each run one of its own"):
        fit(EVEN, {0: tmp_path, 1: tmp_path})


def test_summary_has_mean_and_standard_deviation(singles, command):
    summary = json.loads((command / "summary.json").read_text())
    results = [json.loads((command / f"quick-seed{seed}" / "result.json").read_text()) for seed in SEEDS]
    assert summary["results"] == results
    (aggregate,) = summary["aggregate"]
    assert (aggregate["model"], aggregate["preset"], aggregate["seeds"]) == ("LRD-GRU 4/2", "quick", list(SEEDS))
    for split in ("valid", "test"):
        for name, moments in aggregate["metrics"][split].items():
            values = np.array([result["metrics"][split][name] for result in results])
            assert moments["mean"] == pytest.approx(values.sum() / 3)
            assert moments["sd"] == pytest.approx((((values - values.mean()) ** 2).sum() / 2) ** 0.5)
    assert (command / "figures" / "learning_curves.png").read_bytes().startswith(b"\x89PNG")


def test_an_unfinished_run_is_left_out_of_the_summary(command, tmp_path):
    shutil.copytree(command, tmp_path / "run")
    (tmp_path / "run" / "quick-seed2" / "result.json").unlink()
    (tmp_path / "run" / "elsewhere").mkdir()
    main(EXPERIMENT, [*flags(EVEN), "--devices", "1", "--seeds", "2", "--workdir", str(tmp_path / "run")])
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert [result["seed"] for result in summary["results"]] == [0, 1]


@pytest.mark.devices(3)
def test_seeds_on_their_own_devices_are_single_runs_but_for_rounding(singles, three_devices):
    for seed in SEEDS:
        assert_same_run(three_devices / str(seed), singles / str(seed))


@pytest.mark.devices(4)
@pytest.mark.parametrize("devices", [2, 4])
def test_how_many_devices_seeds_share_makes_no_difference(three_devices, tmp_path, devices):
    """With two devices the third seed trains alone; with four, one device is not needed."""
    train(tmp_path, devices=devices)
    for seed in SEEDS:
        assert numbers(tmp_path / str(seed)) == numbers(three_devices / str(seed))


@pytest.mark.devices(3)
def test_seeds_that_stand_at_different_updates(three_devices, tmp_path):
    """As after a crash between their checkpoints: whoever is behind catches up, and all end with the numbers of an uninterrupted run."""
    for seed in SEEDS:
        shutil.copytree(three_devices / str(seed), tmp_path / str(seed))
    rewind(tmp_path / "0", 8)
    rewind(tmp_path / "1", 0)
    train(tmp_path, devices=3)
    for seed in SEEDS:
        assert numbers(tmp_path / str(seed)) == numbers(three_devices / str(seed))


@pytest.mark.devices(3)
def test_seeds_that_are_stopped_together(three_devices, tmp_path):
    with interrupted_after(2) as raised:
        train(tmp_path, devices=3)
    assert "at update 4" in str(raised.value)
    train(tmp_path, devices=3)
    for seed in SEEDS:
        assert numbers(tmp_path / str(seed)) == numbers(three_devices / str(seed))


@pytest.mark.devices(2)
def test_one_that_diverges_leaves_and_the_others_go_on(tmp_path):
    jobs = [Job(changed(EVEN, optim={"recipe": "adam", "learning_rate": rate}), 0, tmp_path / str(rate)) for rate in (0.01, 1e38)]
    with pytest.raises(SomeFailed, match=rf"in {tmp_path / '1e'}.*38: .* loss is nan at update") as raised:
        fit_all(jobs, devices=2)
    assert list(raised.value.results) == [jobs[0].path]
    assert raised.value.results[jobs[0].path]["updates"] == 12
    assert fit_all(jobs[:1], devices=2)[0]["updates"] == 12


@pytest.mark.devices(2)
@pytest.mark.parametrize("alike", [True, False])
def test_what_has_failed_before_a_signal_is_told(alike, tmp_path):
    """The one that diverged is of the same program as the one that is stopped, or of an earlier one."""
    console = Listening()
    other = changed(EVEN, train={"batch_size": EVEN.train.batch_size}) if alike else changed(EVEN, model={"size": EVEN.model.size + 1})
    diverging = changed(EVEN, optim={"recipe": "adam", "learning_rate": 1e38})
    jobs = [Job(diverging, 0, tmp_path / "bad"), Job(changed(other, optim={"recipe": "adam", "learning_rate": 0.01}), 0, tmp_path / "good")]
    with interrupted_after(6):
        fit_all(jobs, devices=1, console=console)
    assert [warning for warning in console.warnings if "loss is nan at update" in warning]
    assert not (tmp_path / "good" / "result.json").exists()


@pytest.mark.devices(3)
def test_one_that_cannot_be_saved_leaves_and_the_others_go_on(tmp_path, monkeypatch):
    """A full disk is one line of that run; the other one has its result."""
    save = Checkpoints.save

    def save_unless_full(checkpoints, update, *rest):
        if "seed1" in str(checkpoints.path):
            raise OSError(f"the checkpoint of update {update} could not be written to {checkpoints.path} (no space)")
        return save(checkpoints, update, *rest)

    monkeypatch.setattr(Checkpoints, "save", save_unless_full)
    with pytest.raises(SomeFailed) as failed:
        fit(EVEN, {0: tmp_path / "seed0", 1: tmp_path / "seed1"}, devices=1)
    assert "could not be written" in str(failed.value)
    assert (tmp_path / "seed0" / "result.json").exists()
    assert not (tmp_path / "seed1" / "result.json").exists()


def test_one_whose_checkpoints_are_damaged_stays_behind_and_the_others_go_on(three_devices, tmp_path):
    with interrupted_after(2):
        train(tmp_path, devices=3)
    for seal in (tmp_path / "0" / "checkpoints").glob("*/seal.json"):
        seal.write_text("{}")
    with pytest.raises(SomeFailed, match=str(tmp_path / "0")) as raised:
        train(tmp_path, devices=3)
    assert raised.value.errors.keys() == {tmp_path / "0"}
    assert [result["updates"] for result in raised.value.results.values()] == [12, 12]
    for seed in (1, 2):
        assert numbers(tmp_path / str(seed)) == numbers(three_devices / str(seed))


@pytest.mark.devices(3)
def test_who_meets_the_criterion_leaves_and_the_others_go_on(three_devices, tmp_path):
    finals = {seed: [line for line in lines(three_devices / str(seed)) if line["split"] == "valid"] for seed in SEEDS}
    first = min(SEEDS, key=lambda seed: finals[seed][0]["loss"])
    below = finals[first][0]["loss"] + 1e-4
    results = train(tmp_path, config=changed(EVEN, train={"stop_below": below}), devices=3)
    assert [result["stopped"] for result in results].count("criterion") >= 1
    for seed, result in zip(SEEDS, results, strict=True):
        reached = [line["update"] for line in finals[seed] if line["loss"] < below]
        assert result["updates"] == (reached[0] if reached else 12)
        assert result["stopped"] == ("criterion" if reached else "updates")
        whole = lines(three_devices / str(seed))
        assert lines(tmp_path / str(seed)) == [line for line in whole if line["update"] <= result["updates"]]


@pytest.mark.devices(4)
def test_data_parallel_is_one_device_but_for_rounding(singles, tmp_path):
    """Four devices, one example of each batch on each."""
    train(tmp_path, [0], devices=4)
    assert_same_run(tmp_path / "0", singles / "0")


@pytest.mark.devices(4)
def test_evaluation_counts_every_example_once_on_any_number_of_devices(singles, tmp_path):
    """20 examples in chunks of 7: the last one is padded, and rounded up to what the devices divide."""
    config = changed(EVEN, train={"evaluation_batch": 7, "updates": 4})
    train(tmp_path / "four", [0], config, devices=4)
    train(tmp_path / "one", [0], config, devices=1)
    expected = lines(singles / "0")[:2]
    for path in ("four", "one"):
        for found, line in zip(lines(tmp_path / path / "0"), expected, strict=True):
            assert_close([found["loss"], found["accuracy"], found["recall"]], [line["loss"], line["accuracy"], line["recall"]])


@pytest.mark.devices(4)
def test_one_device_by_default_where_the_batch_does_not_divide():
    assert jax.local_device_count() == 4
    assert parallel.layout(1, 4) == parallel.Layout(1, 4)
    assert parallel.layout(1, 6) == parallel.Layout(1, 1)
    assert parallel.layout(5, 6) == parallel.Layout(4, 1)
    assert parallel.layout(2, 6) == parallel.Layout(2, 1)
    assert parallel.layout(5, 6, 2) == parallel.Layout(2, 1)


@pytest.mark.devices(4)
def test_accelerators_stack_models(monkeypatch):
    monkeypatch.setattr(hardware, "on_cpu", lambda: False)
    assert parallel.layout(2, 6) == parallel.Layout(2, 1)
    assert parallel.layout(5, 6) == parallel.Layout(8, 1, 2)
    assert len(parallel.layout(5, 6).devices) == 4
    assert parallel.layout(5, 6, 1) == parallel.Layout(5, 1, 5)


@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=pytest.mark.devices(2))])
def test_stacked_models_are_single_runs_but_for_rounding(devices, singles, tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "on_cpu", lambda: False)
    train(tmp_path, devices=devices)
    for seed in SEEDS:
        assert_same_run(tmp_path / str(seed), singles / str(seed))


@pytest.fixture
def traces(monkeypatch):
    """The shape of the indices at each tracing of the updates of a call."""
    found = []
    counted = program.train_steps

    def train_steps(*args):
        found.append(args[5].shape)
        return counted(*args)

    monkeypatch.setattr(program, "train_steps", train_steps)
    return found


def test_hyperparameters_vary_within_one_program(tmp_path, traces):
    """Learning rates and carry biases train side by side; each run is the one that its own command would have made."""
    config = changed(EVEN, train={"updates_per_call": 4})
    words = [*flags(config), "--devices", "1"]
    main(EXPERIMENT, [*words, "--vary", "optim.learning-rate=0.01,0.003", "model.carry-bias=0,2", "--workdir", str(tmp_path / "all")])
    assert traces == [(4, 4)]
    main(EXPERIMENT, [*words, "--optim.learning-rate", "0.003", "--model.initial.carry-bias", "2", "--workdir", str(tmp_path / "one")])
    changes = {"model": {"carry_bias": 2.0}, "optim": {"learning_rate": 0.003}}
    together = tmp_path / "all" / "quick-learning_rate0.003-carry_bias2-seed0"
    assert numbers(together, changed(config, **changes)) == numbers(tmp_path / "one", changed(config, **changes))
    summary = json.loads((tmp_path / "all" / "summary.json").read_text())
    labels = [row["label"] for row in summary["aggregate"]]
    assert len(set(labels)) == 4
    assert "LRD-GRU 4/2 carry_bias 2.0, learning_rate 0.003" in labels


def test_one_program_for_all_seeds(tmp_path, traces):
    """Each length of a call is traced once, however many groups there are."""
    config = changed(EVEN, train={"updates_per_call": 4, "evaluation_batch": 10})  # no other test has this program
    train(tmp_path, config=config, devices=1)
    assert traces == [(4, 4)]


@pytest.mark.devices(2)
def test_each_seed_is_summarized_by_its_own_task(tmp_path, monkeypatch):
    """As of a cross-validation whose folds are seeds, and whose errors have the units of the fold."""
    build = type(EVEN.data).build

    def with_unit(self, seed):
        return dataclasses.replace(build(self, seed), summarize=lambda means: {**means, "unit": 10.0 + seed})

    monkeypatch.setattr(type(EVEN.data), "build", with_unit)
    results = train(tmp_path, [0, 1], devices=2)
    for seed, result in enumerate(results):
        assert {split: metrics["unit"] for split, metrics in result["metrics"].items()} == dict.fromkeys(result["metrics"], 10.0 + seed)
        assert {line["unit"] for line in lines(tmp_path / str(seed))} == {10.0 + seed}
