"""Several workers and many runs: each is trained once, none is lost, and what fails is named."""

import itertools
import json
from pathlib import Path

import pytest
from tiny import CONFIG, EVEN, EXPERIMENT, flags, numbers

from experiments import sweep
from experiments.report.collecting import collect
from experiments.sweep import Options, Worker, main, tasks_of
from lrpt.errors import UsageError
from lrpt.runs.claims import Claims
from lrpt.runs.console import Console
from lrpt.runs.run_directory import InUse
from lrpt.runs.signals import Interrupted
from lrpt.training.loop import fit


def test_runs_of_a_sweep_are_those_of_single_commands(tmp_path, capsys):
    """One of them is claimed by a worker that is dead; the other is already at work when the results are collected."""
    root = tmp_path / "sweep"
    (root / "quick-seed9").mkdir(parents=True)
    (root / "quick-seed9" / "config.json").write_text("{}")  # another worker is just making it
    Claims(root / "claims", 1).take("quick-seed1")
    words = ["copy_memory", "--seeds", "2", "--workdir", str(root), "--stale", "1", "--", *flags(EVEN), "--devices", "1"]
    with pytest.raises(SystemExit) as leaving:
        main(words)
    assert leaving.value.code == 0
    fit(EVEN, {1: tmp_path / "single"}, devices=1)
    assert numbers(root / "quick-seed1") == numbers(tmp_path / "single")
    assert len(json.loads((root / "summary.json").read_text())["results"]) == 2
    assert {path.name for path in (root / "claims").iterdir()} == {"quick-seed0.1.json", "quick-seed1.1.json", "quick-seed1.2.json"}

    capsys.readouterr()
    collect(root, tmp_path / "results", Console())
    assert {path.name for path in (tmp_path / "results" / "copy_memory").iterdir()} == {"quick-seed0", "quick-seed1"}
    assert "quick-seed9 was not evaluated yet: left out" in "".join(capsys.readouterr().err.split("\n"))


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """A worker whose training is the function `train` of the test."""

    def make(train, claims=None):
        def fit_all(jobs, **options):
            (job,) = jobs
            train(job)
            job.path.mkdir(parents=True, exist_ok=True)
            (job.path / "result.json").write_text("{}")

        monkeypatch.setattr(sweep, "fit_all", fit_all)
        monkeypatch.setattr(sweep, "is_finished", lambda job, names: True)
        options = Options(presets=("quick", "paper"), seeds=2, workdir=tmp_path)
        tasks, _ = tasks_of(EXPERIMENT, options, [*flags(CONFIG), "--no-compare"])
        return Worker(tasks, claims or Claims(tmp_path / "claims", 60), options, 1, Console(quiet=True))

    return make


def test_every_run_is_trained_once(worker):
    trained = []
    assert worker(lambda job: trained.append(job.path.name)).run() == {}
    assert trained == ["quick-seed0", "paper-seed0", "quick-seed1", "paper-seed1"]
    assert worker(pytest.fail).run() == {}


def test_a_run_that_fails_is_named_and_the_others_go_on(worker):
    trained = []

    def train(job):
        trained.append(job.path.name)
        if job.path.name == "paper-seed0":
            raise UsageError("the loss is nan", code=1)

    assert worker(train).run() == {"paper-seed0": "the loss is nan"}
    assert worker(pytest.fail).run() == {"paper-seed0": "the loss is nan"}
    assert trained == ["quick-seed0", "paper-seed0", "quick-seed1", "paper-seed1"]


def test_a_run_in_other_hands_is_left_to_them(worker):
    """First a plain command is at work in its directory; then it ends."""
    trained = []

    def train(job):
        trained.append(job.path.name)
        if trained.count("quick-seed0") == 1 and job.path.name == "quick-seed0":
            raise InUse("another command is at work")

    assert worker(train).run() == {}
    assert trained == ["quick-seed0", "paper-seed0", "quick-seed1", "paper-seed1", "quick-seed0"]


def test_a_worker_that_is_stopped_leaves_its_run_to_others_at_once(worker, tmp_path):
    def stop(job):
        raise Interrupted(15, 3)

    with pytest.raises(Interrupted):
        worker(stop).run()
    assert Claims(tmp_path / "claims", 1e9).take("quick-seed0").tries == 1


def test_a_worker_that_slept_goes_on_with_another_run(worker, tmp_path):
    """Its run was taken over meanwhile, and is not touched any more."""
    trained = []

    def sleep(job):
        trained.append(job.path.name)
        if len(trained) == 1:
            Path(tmp_path / "claims" / "quick-seed0.2.json").write_text('{"state": "failed", "reason": "by another worker"}')
            raise Interrupted(15, 3)

    assert worker(sleep).run() == {"quick-seed0": "by another worker"}
    assert trained == ["quick-seed0", "paper-seed0", "quick-seed1", "paper-seed1"]


def test_a_run_with_which_workers_are_lost_is_given_up(worker, tmp_path):
    claims = tmp_path / "claims"
    claims.mkdir()
    (claims / "quick-seed0.3.json").write_text('{"state": "held", "tries": 3, "progress": 0}')
    passing = Claims(claims, 1, itertools.count().__next__)
    (reason,) = worker(lambda job: None, passing).run().values()
    assert reason == "3 workers in a row were lost with it, and none wrote a checkpoint"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no experiment is named"),
        (["nothing"], "'nothing' is no experiment"),
        (["report"], "'report' is no experiment"),
        (["copy_memory", "--presets", "nope"], "unknown preset 'nope'"),
        (["copy_memory", "--seeds", "0"], "seeds is 0"),
        (["copy_memory", "--stale", "0"], "stale is 0"),
        (["copy_memory", "--", "--model.size", "0"], "model.size is 0"),
        (["copy_memory", "--", "--distributed.auto"], "leave --distributed out"),
    ],
)
def test_wrong_flags(words, says, assert_refused):
    assert_refused(main, words, says)


@pytest.mark.parametrize(
    ("before", "flags", "says"),
    [
        ([], ["--preset", "paper"], "--preset stands behind --"),
        ([], ["--seeds=3"], "--seeds=3 stands behind --"),
        (["--presets", "quick", "quick"], [], "presets is quick quick"),
        ([], ["--model.rank", "99"], "rank 99 does not fit"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_claimed(tmp_path, assert_refused, before, flags, says):
    assert_refused(main, ["copy_memory", *before, "--workdir", tmp_path / "sweep", "--", *flags], says)
    assert not (tmp_path / "sweep").exists()


def test_results_of_another_configuration_are_refused(tmp_path, capsys):
    path = tmp_path / "quick-seed0"
    fit(EVEN, {0: path}, devices=1, names={"experiment": "copy_memory", "preset": "quick"})
    for flag, value, code in (("--model.rank", "1", 2), ("--train.updates", "14", 0)):
        with pytest.raises(SystemExit) as leaving:
            main(["copy_memory", "--workdir", str(tmp_path), "--", *flags(EVEN), flag, value, "--devices", "1"])
        assert leaving.value.code == code
    assert "holds a run with model.matrices.rank = 2, not 1" in " ".join(capsys.readouterr().err.split())
    assert json.loads((path / "result.json").read_text())["updates"] == 14
