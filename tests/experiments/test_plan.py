"""Plans of a reproduction: how much of a run is left, which runs come first, which fit into some hours, which are needed at all."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from kept_runs import identity, make_run, write
from tiny import EXPERIMENT

from experiments.report.claims.planning import Need, distinct_runs
from experiments.report.claims.rows import Planned
from experiments.report.kept.records import anonymous, load
from experiments.reproduce.costs import Cost
from experiments.reproduce.plan import Configuration, Data, PlannedRun, State, runs
from experiments.reproduce.runner import Plan, fitting, rest_in_words
from lrpt.engines.jobs import NamedJob
from lrpt.training.loop import Job

AN_HOUR_AN_UPDATE = SimpleNamespace(of=lambda config, experiment: Cost(3600.0, measured=True))


def flags(hours):
    return f"--preset quick --train.updates {hours} --train.evaluate-every 1"


def run_of(hours, seed=0, **state):
    """Return a run whose updates take an hour each."""
    of = Configuration(Planned("copy_memory", flags(hours), (seed,)), [], Data())
    return PlannedRun(of, NamedJob(Job(of.config, seed, Path(f"{hours}-{seed}")), {}), State(**{"done": False} | state))


def plan_of(*found, slots=1):
    return Plan([], found, AN_HOUR_AN_UPDATE, slots)


def names(found):
    return [run.job.job.path.name for run in found]


@pytest.mark.parametrize(
    ("state", "hours"),
    [({}, 12), ({"updates": 3}, 9), ({"updates": 15}, 0), ({"done": True, "updates": 3}, 0)],
    ids=["new", "begun", "longer", "done"],
)
def test_hours_are_those_of_the_updates_that_are_left(state, hours):
    assert plan_of().hours(run_of(12, **state)) == pytest.approx(hours)


def test_first_seeds_come_first_and_of_a_seed_what_is_finished_first():
    found = [run_of(2, 1), run_of(9, 0), run_of(2, 0), run_of(9, 1, updates=8), run_of(5, 0, done=True), run_of(6, 0, problem="strange")]
    assert names(plan_of(*found).startable) == ["2-0", "9-0", "9-1", "2-1"]


@pytest.mark.parametrize(
    ("slots", "hours", "begun"),
    [
        (1, 5, ["1-0", "3-0", "1-1"]),
        (2, 5, ["1-0", "3-0", "4-0", "1-1"]),  # until 1, 3, 5 and 4
        (2, 4.5, ["1-0", "3-0", "1-1"]),
        (1, None, ["1-0", "3-0", "4-0", "9-0", "1-1"]),
    ],
)
def test_what_fits_is_finished_in_time_one_run_after_the_other_in_each_process(slots, hours, begun):
    found = [run_of(hours_of_run) for hours_of_run in (1, 3, 4, 9)]
    assert names(fitting(plan_of(*found, run_of(1, 1), slots=slots), hours)) == begun


def test_the_time_that_is_left_is_at_least_that_of_the_longest_run():
    said = [rest_in_words(plan_of(*map(run_of, hours), slots=2)) for hours in ((1, 9), (4, 4, 4))]
    assert said[0] == "2 of 2 runs are left: 10.0 hours, at least 9.0 with 2 at a time"
    assert said[1] == "3 of 3 runs are left: 12.0 hours, at least 6.0 with 2 at a time"


def test_runs_that_ended_or_diverged_are_done_here_and_where_they_are_kept(tmp_path):
    """Of seven seeds: kept to the end, cut, or diverged; diverged in the work directory, begun there, not begun, and past a divergence."""
    for seed, curve, test in ((0, {12: 1.0}, {}), (1, {8: 1.0}, None), (2, {8: 1.0}, None)):
        make_run(tmp_path / "kept", EXPERIMENT, flags(12), seed, curve, test=test, command="python -m experiments.copy_memory")
    failure = {"update": 9, "what": "the training loss is nan"}
    write(tmp_path / "kept" / "copy_memory" / "quick-seed2" / "failure.json", failure)
    one = Configuration(Planned("copy_memory", flags(12), tuple(range(7))), [], Data())
    jobs = one.jobs(tmp_path / "runs")
    write(jobs[3].job.path / "failure.json", failure)
    for seed, reached in ((4, "8"), (6, "10")):
        (jobs[seed].job.path / "checkpoints" / reached).mkdir(parents=True)
        write(jobs[seed].job.path / "config.json", identity(EXPERIMENT, flags(12), seed=seed))
    write(jobs[6].job.path / "failure.json", failure)
    found = runs([one], load(tmp_path / "kept"), tmp_path / "runs", tmp_path / "kept")
    assert [(run.state.done, run.state.updates, run.state.problem) for run in found] == [
        (True, 0, ""), (False, 0, ""), (True, 0, ""), (True, 0, ""), (False, 8, ""), (False, 0, ""), (False, 10, "")
    ]  # fmt: skip


@pytest.mark.parametrize(("epochs", "done"), [(20, [True, True, False, False]), (2, [False] * 4)], ids=["same", "others"])
def test_runs_of_a_study_are_done_where_they_are_kept_with_the_same_options(epochs, done, tmp_path):
    book = tmp_path / "warpeace_input.txt"
    book.write_text("".join(f"line {number} of a book\n" for number in range(2_000)))
    words = "convergence --data.file BOOK.txt --parameters 1000000 --models lru gru --seeds 2"
    one = Configuration(Planned("lattice", words, (0, 1)), [], Data(file=book))
    study, options = one.experiment.subcommands["convergence"].study, one.options(tmp_path / "runs")
    rows = [study.identify(options, job.job) | {"loss": 1.5} for job in one.jobs(tmp_path / "runs")[:2]]
    kept = anonymous(study.described(options))
    write(
        tmp_path / "kept" / "lattice_convergence_warpeace_1m.json", {**kept, "options": {**kept["options"], "epochs": epochs}, "runs": rows}
    )
    found = runs([one], [], tmp_path / "runs", tmp_path / "kept")
    assert [run.job.job.path.name for run in found] == [f"{name}-all-lru-seed{seed}" for name in ("lru", "gru") for seed in (0, 1)]
    assert [run.state.done for run in found] == done


@pytest.mark.parametrize(
    ("experiment", "words", "file"),
    [("lattice", "--preset paper --data.file BOOK.txt", Path("mine.txt")), ("char_lm", "--preset paper", None)],
    ids=["book", "source"],
)
def test_a_book_takes_the_place_of_a_book_and_of_no_other_text(experiment, words, file):
    config = Configuration(Planned(experiment, words, (0,)), [], Data(dir=Path("data"), file=Path("mine.txt"))).config
    assert (config.data.dir, config.data.file) == (Path("data"), file)


def test_a_run_is_needed_with_all_seeds_and_at_the_strictest_of_its_claims():
    one, other = Planned("adding", "--preset paper", (0,)), Planned("adding", "--preset paper", (0, 2))
    needed = [Need("first", (one,)), Need("second", (other,), best=True), Need("second", (other,), best=True)]
    assert distinct_runs(needed) == {Planned("adding", "--preset paper", (0, 2), best=True): ["first", "second"]}
