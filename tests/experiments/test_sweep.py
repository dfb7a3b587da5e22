"""A sweep of real runs: each is trained once, equal ones too, and what fails is named."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny import EVEN, EXPERIMENT, changed, flags, numbers

from experiments import sweep
from experiments.report.kept.collecting import collect
from experiments.sweep import Options, Part, main, part_of, split
from lrpt.engines.jobs import NamedJob
from lrpt.engines.schedule import Report
from lrpt.errors import UsageError
from lrpt.runs.console import Console
from lrpt.training.loop import Job, fit


def swept(*words):
    with pytest.raises(SystemExit) as leaving:
        main([str(word) for word in words])
    return leaving.value.code


@pytest.mark.slow
def test_runs_of_a_sweep_are_those_of_single_commands(tmp_path, capsys):
    """Equal runs are trained once; a directory that another command is just making is left out of the results."""
    root = tmp_path / "sweep"
    (root / "quick-seed9").mkdir(parents=True)
    (root / "quick-seed9" / "config.json").write_text("{}")
    words = ["copy_memory", "--workdir", root, *flags(EVEN), "--model.matrices.kind", "dense", "--vary", "model.rank=1,2"]
    assert swept(*words) == 0
    fit(changed(EVEN, model={"parametrization": "dense"}), {0: tmp_path / "single"}, devices=1)
    assert numbers(root / "quick-rank1-seed0", changed(EVEN, model={"parametrization": "dense"})) == numbers(
        tmp_path / "single", changed(EVEN, model={"parametrization": "dense"})
    )
    assert not (root / "quick-rank2-seed0").exists()
    assert "2 runs, of which 1 are equal to others: 1 are trained" in capsys.readouterr().out
    assert len(json.loads((root / "summary.json").read_text())["results"]) == 1

    collect(root, tmp_path / "results", Console())
    assert {path.name for path in (tmp_path / "results" / "copy_memory").iterdir()} == {"quick-rank1-seed0"}
    assert "quick-seed9 was not evaluated yet: left out" in "".join(capsys.readouterr().err.split("\n"))


OWN = """
from tiny import EVEN
from lrpt.cli.experiment import Experiment, Preset

EXPERIMENT = Experiment("own", "Repeat symbols.", "nothing", {"quick": Preset(EVEN, "tiny")})
"""


@pytest.mark.slow
def test_an_experiment_of_the_user_is_swept_by_the_name_of_its_module(tmp_path, monkeypatch):
    """Workers are other processes, which import the module, too."""
    (tmp_path / "mine_own.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    paths = [str(tmp_path), *(str(Path(__file__).parents[up]) for up in (1, 2))]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    assert swept("mine_own", "--seeds", 2, "--workdir", tmp_path / "runs") == 0
    (first, second) = json.loads((tmp_path / "runs" / "summary.json").read_text())["results"]
    assert (first["experiment"], first["seed"], second["seed"]) == ("own", 0, 1)
    assert numbers(tmp_path / "runs" / "quick-seed0", EVEN)


@pytest.mark.slow
def test_a_run_that_fails_is_named_and_the_others_go_on(tmp_path, capsys):
    """One learning rate leads to a loss that is not finite."""
    config = changed(EVEN, optim={"recipe": "adding"})
    words = [word for word in flags(config) if word not in ("--optim.learning-rate", "0.01")]
    assert swept("copy_memory", "--workdir", tmp_path, *words, "--vary", "optim.learning-rate=0.01,1e38") == 1
    said = capsys.readouterr()
    assert "quick-learning_rate1e38-seed0 has failed: " in said.err
    assert (tmp_path / "quick-learning_rate0.01-seed0" / "result.json").exists()
    assert "1 of 2 runs" in said.out


@pytest.mark.slow
def test_two_sweeps_train_each_run_once(tmp_path):
    """Of the same command started twice at once, whoever comes second to a run leaves it to the first."""
    long = changed(EVEN, train={"updates": 60, "evaluate_every": 4})
    command = [sys.executable, "-m", "experiments.sweep", "copy_memory", "--seeds", "2", "--workdir", str(tmp_path / "runs"), *flags(long)]
    both = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [(one.communicate(timeout=300)[1], one.returncode) for one in both] == [("", 0), ("", 0)]
    for seed in (0, 1):
        fit(long, {seed: tmp_path / f"single{seed}"}, devices=1)
        assert numbers(tmp_path / "runs" / f"quick-seed{seed}", long) == numbers(tmp_path / f"single{seed}", long)


@pytest.mark.slow
def test_ctrl_c_leaves_every_run_resumable(tmp_path, capsys):
    long = changed(EVEN, train={"updates": 100_000})
    words = ["copy_memory", "--workdir", tmp_path, *flags(long)]

    def interrupt():
        while not (tmp_path / "quick-seed0" / "checkpoints" / "4").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    assert swept(*words) == 130
    assert "stopped with 0 of 1 runs finished; the same command goes on" in capsys.readouterr().err
    stopped = max(int(path.name) for path in (tmp_path / "quick-seed0" / "checkpoints").iterdir())
    shorter = changed(EVEN, train={"updates": stopped + 4})
    assert swept("copy_memory", "--workdir", tmp_path, *flags(shorter)) == 0
    fit(shorter, {0: tmp_path / "single"}, devices=1)
    assert numbers(tmp_path / "quick-seed0", shorter) == numbers(tmp_path / "single", shorter)


def test_flags_of_the_experiment_need_no_separator():
    words = ["adding", "jsb", "--seeds", "2", "--train.updates", "5", "--presets", "a", "b", "--huge", "--vary", "x=1,2", "y=3"]
    names, ours, others = split(words, Options)
    assert names == ["adding", "jsb"]
    assert ours == ["--seeds", "2", "--presets", "a", "b", "--huge"]
    assert others == ["--train.updates", "5", "--vary", "x=1,2", "y=3"]
    assert split(["adding", "--seeds=2", "--", "--seeds", "3"], Options)[1:] == (["--seeds=2"], ["--seeds", "3"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no experiment is named"),
        (["nothing"], "'nothing' is no experiment"),
        (["report"], "'report' is no experiment"),
        (["numpy"], "'numpy' is no experiment: `python -m experiments` lists them; a module of yours needs an EXPERIMENT"),
        (["no.such"], "'no.such' is no experiment"),
        (["adding", "adding"], "none twice"),
        (["copy_memory", "--presets", "nope"], "unknown preset 'nope'"),
        (["copy_memory", "--presets", "quick", "quick"], "presets is quick quick"),
        (["copy_memory", "--presets", "quick", "wide-state"], "tables of copy_memory show loss of quick, recall of wide-state"),
        (["copy_memory", "--seeds", "0"], "seeds is 0"),
        (
            ["copy_memory", "--seeds", "1000000000"],
            "runs: about 1,000,000,000, and the limit is 10,000",
        ),
        (["copy_memory", "--model.size", "0"], "model.size is 0"),
        (["copy_memory", "--preset", "paper"], "--preset"),
        (["copy_memory", "--", "--seeds=3"], "--seeds=3"),
        (["copy_memory", "--distributed.auto"], "leave --distributed out"),
        (["copy_memory", "--nothing", "3"], "--nothing"),
        (["copy_memory", "--address", "head:1"], "engine is local"),
    ],
)
def test_wrong_flags(words, says, assert_refused):
    assert_refused(main, words, says)


def test_what_does_not_fit_is_said_before_anything_is_made(tmp_path, assert_refused):
    assert_refused(main, ["copy_memory", "--workdir", tmp_path / "sweep", "--model.rank", "999"], "rank 999 does not fit")
    assert not (tmp_path / "sweep").exists()


@pytest.mark.slow
def test_results_of_another_configuration_are_refused(tmp_path, capsys):
    path = tmp_path / "quick-seed0"
    fit(EVEN, {0: path}, devices=1, names={"experiment": "copy_memory", "preset": "quick"})
    for flag, value, code in (("--model.matrices.rank", "1", 2), ("--train.updates", "14", 0)):
        assert swept("copy_memory", "--workdir", tmp_path, *flags(EVEN), flag, value) == code
    assert "holds a run with model.matrices.rank = 2, not 1" in " ".join(capsys.readouterr().err.split())
    assert json.loads((path / "result.json").read_text())["updates"] == 14


def test_every_configuration_gets_its_first_seed_early(tmp_path):
    part = part_of(EXPERIMENT, tmp_path, Options(seeds=2, workdir=tmp_path), ["--vary", "model.rank=1,2"])
    assert [(one.job.seed, one.job.config.model.matrices.rank) for one in part.jobs] == [(0, 1), (0, 2), (1, 1), (1, 2)]


def test_the_limit_of_runs_counts_experiments_presets_and_seeds(monkeypatch):
    monkeypatch.setattr(sweep, "part_of", lambda *_: Part(EXPERIMENT, Path(), (), None, "loss"))
    monkeypatch.setattr(sweep, "train_all", lambda *_: Report([], {}))
    with pytest.raises(UsageError, match="runs: about 12,000, and the limit is 10,000"):
        sweep.sweep([EXPERIMENT] * 2, Options(presets=("a", "b", "c"), seeds=2_000), [], Console(quiet=True))


def test_seeds_follow_the_first_one(tmp_path):
    part = part_of(EXPERIMENT, tmp_path, Options(seed=5, seeds=2, workdir=tmp_path), [])
    assert [(one.job.seed, one.job.path.name) for one in part.jobs] == [(5, "quick-seed5"), (6, "quick-seed6")]


def test_each_of_several_experiments_has_a_directory_of_its_own(tmp_path):
    options = Options(workdir=tmp_path)
    assert [sweep._root(EXPERIMENT, options, several) for several in (False, True)] == [tmp_path, tmp_path / EXPERIMENT.name]


def test_runs_that_another_command_trains_are_not_in_the_table(tmp_path, monkeypatch):
    jobs = tuple(NamedJob(Job(EVEN, seed, tmp_path / f"run{seed}"), {}) for seed in range(3))
    shown = []
    monkeypatch.setattr(sweep, "RunDirectory", lambda path: SimpleNamespace(result=lambda: {"a": 1}))
    monkeypatch.setattr(sweep, "summarize", lambda *given: shown.append(given[3]))
    sweep._summarize(Part(EXPERIMENT, tmp_path, jobs, None, "loss"), Report([jobs[0], jobs[2]], {}), True, Console(quiet=True))
    assert shown == [[tmp_path / "run0", tmp_path / "run2"]]


@pytest.mark.parametrize(("failed", "status"), [({}, 0), ({"run": "it died"}, 1)])
def test_a_failed_run_is_in_the_exit_status_and_experiments_know_of_no_limit_if_the_sweep_does_not(failed, status, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(sweep, "train_all", lambda *_: Report([], {tmp_path / name: why for name, why in failed.items()}))
    monkeypatch.setattr(sweep, "part_of", lambda *words: given.append(words[-1]) or Part(EXPERIMENT, tmp_path, (), None, "loss"))
    assert sweep.sweep([EXPERIMENT], Options(huge=True, workdir=tmp_path), ["--a"], Console(quiet=True)) == status
    assert given == [["--a", "--huge"]]


@pytest.mark.parametrize("all_rates", [False, True])
def test_all_learning_rates_are_listed_if_asked_for(all_rates, tmp_path, monkeypatch):
    jobs = (NamedJob(Job(EVEN, 0, tmp_path / "run"), {}),)
    chosen = []
    monkeypatch.setattr(sweep, "RunDirectory", lambda path: SimpleNamespace(result=lambda: {"a": 1}))
    monkeypatch.setattr(sweep, "has_rates_to_choose", lambda results: True)
    monkeypatch.setattr(sweep, "summarize", lambda *given: chosen.append(given[-1]))
    sweep._summarize(Part(EXPERIMENT, tmp_path, jobs, None, "loss"), Report([*jobs], {}), all_rates, Console(quiet=True))
    assert chosen == [not all_rates]
