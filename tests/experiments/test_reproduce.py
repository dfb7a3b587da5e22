"""`python -m experiments.reproduce` with two small models as the claims of a paper."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import EXPERIMENT, changed, interrupted_after, lines, numbers

from experiments import variable_computation, word_lm
from experiments.lattice import command as lattice
from experiments.replay.logs import LOGS
from experiments.replay.starts import original_start
from experiments.report.claims.contests import Final
from experiments.report.claims.matching import configuration
from experiments.report.claims.paper import Paper
from experiments.report.claims.relations import Relation, Versus
from experiments.report.claims.rows import Network, Planned, Quantity, Row
from experiments.report.kept.collecting import collect
from experiments.report.wording.markdown import RESULTS
from experiments.report.writing import PAPERS
from experiments.reproduce import archives, runner
from experiments.reproduce.command import main
from experiments.reproduce.costs import Cost, Costs, estimate
from experiments.reproduce.plan import CLOSE, Configuration, Data, State
from lrpt.engines.schedule import newest_checkpoint
from lrpt.errors import UsageError
from lrpt.runs.console import Console
from lrpt.runs.named_arrays import digest
from lrpt.training.loop import fit

pytestmark = pytest.mark.slow

SMALL = (
    "--preset quick --model.size 4 --model.rank 2 --train.updates 12 --train.batch-size 4 --train.evaluate-every 4 "
    "--train.stop-below None --data.lag 3 --data.train-size 50 --data.test-size 20"
)
FASTER = f"{SMALL} --optim.learning-rate 0.02"
NEEDS_BOOK = "--preset paper --data.file BOOK.txt --train.updates 2"
NAMES = {"experiment": "copy_memory", "preset": "quick"}


SWARM = "swarm --cells rhn dts_rnn --depths 1 --parameters 200 --settings 2 --updates 4 --evaluate-every 2 --data.dir DIR"
CONVERGENCE = "convergence --data.source ptb_joined --data.dir DIR --data.text-share"


class OfStudy:
    """A relation of a study."""

    scale = ""

    def __init__(self, experiment, flags):
        self.planned = lambda seeds: [Planned(experiment, flags, (0,))]


def network(title, flags, experiment=EXPERIMENT):
    return Network(title, experiment, flags)


def of_relations(*relations):
    return Paper("other", "", "", (), relations, (), (), "", "", lambda judged: ())


def paper(*further):
    small, faster = network("small", SMALL), network("faster", FASTER)
    relation = Relation("Figure 1", "faster is better", Final("loss", "loss", "{}"), (Versus(faster, small),))
    rows = (Row("Table 1", "small", (), small), Row("Table 2", "faster", (), faster), Row("Table 3", "lost", ()))
    return Paper("fake", "A paper", "", (*rows, *further), (relation,), (), (), "", "", lambda judged: ())


@pytest.fixture
def plan(monkeypatch, tmp_path):
    """Return a function that runs the command: seconds are those of `COSTS`, and nothing is kept yet."""
    root = tmp_path / "root"
    (root / RESULTS).mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(runner, "PAPERS", (paper(),))
    monkeypatch.setattr(runner, "ROOT", root)
    monkeypatch.setattr(Costs, "_of", lambda self, config, experiment: Cost(300.0, measured=True))  # 12 updates: an hour
    return lambda *words: main([*words, "--workdir", str(tmp_path / "runs"), "--seeds", "1", "--processes", "1"])


def reproduced(plan, *words):
    with pytest.raises(SystemExit) as leaving:
        plan(*words)
    return leaving.value.code


def test_list_says_what_is_there_and_what_is_left(plan, tmp_path, capsys):
    fit(configuration(EXPERIMENT, SMALL), {0: tmp_path / "kept"}, names=NAMES, devices=1)
    assert reproduced(plan, "--list") == 0
    before = capsys.readouterr().out
    assert before.count("    0 of 1                    12         1.00         1.00  copy_memory quick-size4-") == 2
    assert "2 of 2 runs are left: 2.0 hours, at least 2.0 with 1 at a time" in before
    collect(tmp_path / "kept", tmp_path / "root" / RESULTS, Console(quiet=True))
    assert reproduced(plan, "--list") == 0
    after = capsys.readouterr().out
    assert after.count("    1 of 1                    12         1.00         0.00  copy_memory quick-size4-") == 1
    assert "1 of 2 runs are left: 1.0 hours" in after
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("best", [False, True])
def test_another_evaluation_interval_makes_another_run_if_the_best_evaluation_counts(best, plan, tmp_path, capsys, monkeypatch):
    score = Quantity("loss", lambda run: run.tested("loss"), "{:.2f}", best=best)
    row = Row("Table 1", "small", (score,), network("small", SMALL))
    monkeypatch.setattr(runner, "PAPERS", (Paper("fake", "", "", (row,), (), (), (), "", "", lambda judged: ()),))
    kept = changed(configuration(EXPERIMENT, SMALL), train={"evaluate_every": 6})
    fit(kept, {0: tmp_path / "kept"}, names=NAMES, devices=1)
    collect(tmp_path / "kept", tmp_path / "root" / RESULTS, Console(quiet=True))
    assert reproduced(plan, "--list") == 0
    assert ("1 of 1 runs are left" in capsys.readouterr().out) == best


def test_only_what_fits_is_trained_then_the_rest_and_both_are_collected(plan, tmp_path, capsys):
    """Of two runs of an hour each, one fits into an hour and a half. The second command goes on with the other."""
    results = tmp_path / "results"
    assert reproduced(plan, "--list", "--hours", "1.5") == 0
    assert "1 of 2 open runs are finished within 1.5 h\n" in capsys.readouterr().out
    assert reproduced(plan, "--hours", "0.5") == 0
    assert "0 of 2 open runs are finished within 0.5 h; the shortest takes 1.00 h" in capsys.readouterr().out
    assert reproduced(plan, "--hours", "1.5") == 0
    assert "1 of 2 runs are left: 1.0 hours" in capsys.readouterr().out
    (first,) = (path.parent for path in (tmp_path / "runs").rglob("result.json"))
    before = lines(first)
    assert not results.exists()

    assert reproduced(plan, "--collect", str(results)) == 0
    assert "all 2 runs are done" in capsys.readouterr().out
    assert len(list(results.glob("copy_memory/*/result.json"))) == len(list(results.glob("copy_memory/*/model.npz"))) == 2
    assert lines(first) == before
    config = configuration(EXPERIMENT, SMALL)
    fit(config, {0: tmp_path / "single"}, devices=1)
    path = configured()[0].jobs(tmp_path / "runs")[0].job.path
    assert numbers(path, config) == numbers(tmp_path / "single", config)


def test_another_machine_goes_on_with_what_was_left(plan, tmp_path, capsys):
    folder = tmp_path / "archives"
    job = configured()[0].jobs(tmp_path / "runs")[0]
    with interrupted_after(2):
        fit(job.job.config, {0: job.job.path}, names=NAMES, devices=1)
    assert reproduced(plan, "--hours", "0.01", "--unfinished", str(folder)) == 0
    (archive,) = folder.rglob("*.tar.xz")
    shutil.rmtree(tmp_path / "runs")
    damaged = archive.with_name(f"{configured()[1].jobs(tmp_path)[0].job.path.name}.tar.xz")
    damaged.write_bytes(b"damaged")
    capsys.readouterr()
    assert reproduced(plan, "--unfinished", str(folder)) == 1
    said = capsys.readouterr()
    assert "unpacked, at update " in said.out
    assert "is damaged" in said.err
    assert "1 of 2 runs are left" in said.out
    assert list(folder.rglob("*.tar.xz")) == [damaged], "it may be restored, so it is neither removed nor trained anew"
    damaged.unlink()
    assert reproduced(plan, "--unfinished", str(folder)) == 0


def test_the_archive_of_a_machine_that_went_further_stays(plan, tmp_path, capsys):
    """The work directory is of an earlier update. It is moved aside, and the other archives are packed even if one run cannot be read."""
    jobs = [one.jobs(tmp_path / "runs")[0].job for one in configured()]
    for job in jobs:
        with interrupted_after(1):
            fit(job.config, {0: job.path}, names=NAMES, devices=1)
    shutil.copytree(tmp_path / "runs", tmp_path / "older")
    with interrupted_after(1):
        fit(jobs[0].config, {0: jobs[0].path}, names=NAMES, devices=1)
    further = newest_checkpoint(jobs[0].path)
    archives.keep(jobs[0].path, tmp_path / "archives")
    shutil.rmtree(tmp_path / "runs")
    (tmp_path / "older").rename(tmp_path / "runs")
    (jobs[1].path / "environment.json").unlink()
    assert reproduced(plan, "--hours", "0.01", "--unfinished", str(tmp_path / "archives")) == 1
    said = capsys.readouterr()
    assert f"unpacked, at update {further}; what was there did not come as far, and is now {jobs[0].path}.1.older" in said.out
    assert f"{archives.archive_of(jobs[0].path, tmp_path / 'archives')}: update {further}" in said.out
    assert f"{jobs[1].path} cannot be packed (No such file or directory)" in said.err


def test_a_run_does_not_take_the_place_of_a_damaged_archive(plan, tmp_path, capsys):
    job = configured()[0].jobs(tmp_path / "runs")[0].job
    with interrupted_after(2):
        fit(job.config, {0: job.path}, names=NAMES, devices=1)
    archive = archives.keep(job.path, tmp_path / "archives")
    archive.write_bytes(archive.read_bytes()[:500])
    assert reproduced(plan, "--hours", "0.01", "--unfinished", str(tmp_path / "archives")) == 1
    assert capsys.readouterr().err.count("is damaged") == 1, "once, not again when runs are packed"
    assert len(archive.read_bytes()) == 500


@pytest.mark.parametrize("how", ["packed", "collected"])
def test_a_run_that_cannot_be_kept_is_named_and_the_status_says_so(how, plan, tmp_path, capsys, monkeypatch):
    job = configured()[0].jobs(tmp_path / "runs")[0]
    with interrupted_after(2):
        fit(job.job.config, {0: job.job.path}, names=NAMES, devices=1)
    if how == "packed":
        monkeypatch.setattr("experiments.reproduce.archives.LARGEST", 100)
        assert reproduced(plan, "--hours", "0.01", "--unfinished", str(tmp_path / "archives")) == 1
        assert "of at most 100: keep" in capsys.readouterr().err
    else:
        fit(job.job.config, {0: job.job.path}, names=NAMES, devices=1)
        (job.job.path / "metrics.jsonl").write_text("{\n")
        assert reproduced(plan, "--hours", "0.01", "--collect", str(tmp_path / "results")) == 1
        assert "is not collected: " in capsys.readouterr().err


def test_missing_data_and_a_strange_directory_do_not_stop_the_others(plan, tmp_path, capsys, monkeypatch):
    """The book is not there, and one directory holds a run of another width."""
    book = Row("Table 4", "book", (), network("book", NEEDS_BOOK, lattice.EXPERIMENT))
    monkeypatch.setattr(runner, "PAPERS", (paper(book),))
    fit(
        configuration(EXPERIMENT, f"{SMALL} --model.size 3"),
        {0: configured()[1].jobs(tmp_path / "runs")[0].job.path},
        names=NAMES,
        devices=1,
    )
    assert reproduced(plan, "--data.file", str(tmp_path / "book.txt"), "--collect", str(tmp_path / "results")) == 1
    said = capsys.readouterr().err
    assert "lattice paper-fileBOOK.txt-updates2 is skipped (1 runs): " in said
    assert str(tmp_path / "book.txt") in said
    assert "holds a run with model.size = 3, not 4" in said
    assert len(said.splitlines()) == 2
    assert (configured()[0].jobs(tmp_path / "runs")[0].job.path / "result.json").exists()


FROM_FILE = (
    "--preset paper-variable-length --train.updates 1 --train.batch-size 2 --train.evaluate-every 1 --data.lag 3 --data.train-size 4 "
    "--data.test-size 4 --train.start start.npz"
)


@pytest.mark.parametrize(("run", "status"), [("variable_length", 0), ("nothing", 1)])
def test_a_missing_start_file_is_written_before_the_run_that_needs_it(run, status, plan, tmp_path, capfd, monkeypatch):
    """Without it, the run is named and the others are trained."""
    before = ("experiments.replay", run, "--start", "start.npz")
    row = Row("Table 4", "repeated", (), Network("repeated", EXPERIMENT, FROM_FILE, before))
    monkeypatch.setattr(runner, "PAPERS", (paper(row),))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(tmp_path)
    assert reproduced(plan, "--list") == 0
    assert not Path("start.npz").exists()
    assert reproduced(plan, "--claims", "repeated", "Table 1") == status
    said = capfd.readouterr()
    (path,) = Path("runs").rglob("quick-size4*/result.json")
    if status:
        assert "start.npz was not written: python -m experiments.replay nothing --start start.npz" in said.err
        assert "parameter file start.npz cannot be read" in said.err
        assert "1 of 2 runs are left" in said.out
    else:
        (path,) = Path("runs").rglob("*start.npz-seed0/config.json")
        drawn = original_start(LOGS[run].config, *LOGS[run].widths)
        assert json.loads(path.read_text())["start_sha256"] == digest({name: array.astype("float32") for name, array in drawn.items()})


def test_kept_runs_of_start_files_began_from_what_the_commands_of_their_claims_write():
    """These are the parameters of 2016."""
    configs = [json.loads(path.read_text()) for path in (Path(__file__).parents[2] / RESULTS).rglob("config.json")]
    started = [config for config in configs if "start_sha256" in config]
    assert started
    for config in started:
        networks = {row.network for paper in PAPERS for row in paper.rows if row.network and row.network.before}
        (network,) = (one for one in networks if one.before[-1] == config["train"]["start"])
        log = LOGS[network.before[1]]
        drawn = original_start(log.config, *log.widths)
        assert config["start_sha256"] == digest({name: array.astype("float32") for name, array in drawn.items()})


def test_a_run_from_a_start_file_has_one_seed_and_its_command_below_that_of_the_file():
    found = Network("repeated", EXPERIMENT, FROM_FILE, ("experiments.replay", "--start", "start.npz")).planned(range(3))
    assert found.seeds == (0,)
    assert found.lines == ["python -m experiments.replay --start start.npz", f"python -m experiments.copy_memory {FROM_FILE}"]


def configured():
    return [Configuration(Planned("copy_memory", words, (0,)), [], Data()) for words in (SMALL, FASTER)]


def planned_runs(updates):
    """Return the runs of two seeds with these numbers of updates, of a command each. An update costs 300 seconds."""
    commands = [Configuration(Planned("copy_memory", f"{SMALL} --train.updates {count}", (0, 1)), [], Data()) for count in updates]
    return [runner.PlannedRun(one, job, State(done=False)) for one in commands for job in one.jobs(Path("runs"))]


class Costly(Costs):
    def __init__(self):
        pass

    def of(self, config, experiment):
        return Cost(300.0, measured=True)


def test_first_seeds_come_first_and_cheaper_runs_before_others():
    plan = runner.Plan([], planned_runs((24, 12)), Costly(), 1)
    assert [(run.job.job.seed, plan.hours(run)) for run in plan.startable] == [(0, 1), (0, 2), (1, 1), (1, 2)]


def test_runs_of_several_lengths_are_listed_with_their_mean_hours():
    own = planned_runs((12, 36))
    row = runner._row(own[0].of, own, runner.Plan([], own, Costly(), 1))
    assert row[:5] == ["0", "0 of 4", "12 to 36", "2.00", "8.00"]


def test_a_program_that_cannot_be_run_here_makes_the_status_1(plan, tmp_path, monkeypatch):
    row = Row("Table 4", "book", (), network("book", NEEDS_BOOK, lattice.EXPERIMENT))
    monkeypatch.setattr(runner, "PAPERS", (Paper("fake", "", "", (row,), (), (), (), "", "", lambda judged: ()),))
    assert reproduced(plan, "--data.file", str(tmp_path / "book.txt")) == 1


@pytest.fixture
def swarm(plan, monkeypatch):
    """Put a study beside the two models of `plan`."""
    relation = Relation("Figure 4", "deep ones are harder to optimize", None, (OfStudy("jsb", SWARM),))
    monkeypatch.setattr(runner, "PAPERS", (paper(), of_relations(relation)))


@pytest.mark.usefixtures("swarm")
def test_a_study_is_listed_with_the_hours_of_its_runs(plan, tmp_path, capsys):
    """Four runs of four updates: a third of an hour each."""
    assert reproduced(plan, "--list", "--paper", "other", "--data.dir", str(tmp_path)) == 0
    said = capsys.readouterr().out
    command_line = SWARM.replace("DIR", str(tmp_path))
    assert f"     1    0 of 4                     4         0.33         1.33  study jsb {command_line}\n" in said
    assert "4 of 4 runs are left: 1.3 hours, at least 1.3 with 1 at a time" in said
    assert "copy_memory" not in said
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("swarm")
def test_a_study_is_trained_in_parts_and_says_where_its_summary_is(plan, tmp_path, capsys):
    """Two of its four runs fit into 0.7 hours. Its runs are neither collected nor packed, and its summary is not that of a paper."""
    folder = tmp_path / "runs" / "jsb" / "swarm"
    further = ["--paper", "other", "--unfinished", str(tmp_path / "archives"), "--collect", str(tmp_path / "results")]
    assert reproduced(plan, "--hours", "0.7", *further[:4]) == 0
    said = capsys.readouterr().out
    assert f"2 of 4 runs are finished   summary: {folder / 'swarm.json'}" in said
    assert "2 of 4 runs are left" in said
    assert reproduced(plan, *further) == 1
    said = capsys.readouterr()
    assert f"4 of 4 runs are finished   summary: {folder / 'swarm.json'}" in said.out
    assert "all 4 runs are done" in said.out
    assert "is no study that the report shows" in said.err
    assert not list(tmp_path.glob("archives/*"))
    assert not list(tmp_path.glob("results/*"))


def test_a_study_without_its_data_is_named_and_does_not_stop_the_others(plan, tmp_path, capsys, monkeypatch):
    relation = Relation("Figure 6", "fewer epochs", None, (OfStudy("lattice", f"{CONVERGENCE} 10"),))
    monkeypatch.setattr(runner, "PAPERS", (paper(), of_relations(relation)))
    data = ["--data.dir", str(tmp_path / "data")]
    assert reproduced(plan, "--list", *data) == 0
    listed = capsys.readouterr().out
    assert "study lattice convergence --data.source ptb_joined" in listed
    assert "its runs cannot be counted: missing data" in listed
    assert "2 of 2 runs are left" in listed
    monkeypatch.setattr("lrpt.datasets.sources._downloads", False)
    assert reproduced(plan, "--hours", "0.01", *data) == 1
    assert "--data.text-share 10" in (said := capsys.readouterr().err)
    assert "is skipped: missing data" in said


@pytest.mark.parametrize(("scale", "sizes"), [("published", {4}), ("smaller", {2, 3}), ("all", {2, 3, 4})])
def test_a_scale_chooses_between_published_runs_and_those_that_stand_in_for_them(scale, sizes, plan, capsys, monkeypatch):
    networks = {size: network(str(size), f"{SMALL} --model.size {size} --model.rank 1") for size in (2, 3, 4)}
    row = Row("Table 1", "four", (), networks[4], stand_ins=(networks[2],))
    versions = (Versus(networks[4], networks[4]), Versus(networks[3], networks[2], "3 units"))
    relation = Relation("Figure 1", "wider is better", Final("loss", "loss", "{}"), versions)
    monkeypatch.setattr(runner, "PAPERS", (Paper("fake", "", "", (row,), (relation,), (), (), "", "", lambda judged: ()),))
    assert reproduced(plan, "--list", "--scale", scale) == 0
    assert {int(size) for size in re.findall("-size(.)-", capsys.readouterr().out)} == sizes


def planned_flags(scale, *claims):
    return {planned.flags for need in runner.chosen(runner.PAPERS, (), claims, 1, scale) for planned in need.runs}


def test_the_command_in_the_docstring_plans_the_six_depths():
    (words,) = re.findall(r"`python -m experiments.reproduce --scale (\w+) --claims \"(.*)\" --data.dir DIR`", word_lm.__doc__)
    assert planned_flags(*words) == {f"--preset equal-{depth}" for depth in word_lm.EQUAL_DEPTHS}


@pytest.mark.parametrize(
    ("claims", "flags"),
    [
        ("Figure 5a", {f"--preset equal-{depth}" for depth in word_lm.EQUAL_DEPTHS} | {"--preset small-1", "--preset small-3"}),
        ("VCGRU-1024 > GRU-458", {"--preset small-vcgru", "--preset small-gru"}),
        ("Table 1, PTB, 10M", {f"{CONVERGENCE} 10 --parameters 1000000"}),
    ],
    ids=["depths", "gru", "lattice"],
)
def test_stand_ins_of_the_papers_are_planned(claims, flags):
    assert flags <= planned_flags("smaller", claims)
    assert not flags & planned_flags("published", claims)


def test_a_claim_whose_first_runs_are_smaller_has_them_at_every_scale():
    relation = Relation("Figure 1", "faster is better", None, (Versus(network("faster", FASTER), network("small", SMALL), "4 units"),))
    assert [len(relation.planned((0,), scale)) for scale in ("published", "smaller", "all")] == [2, 2, 2]


def test_a_measurement_is_kept_for_the_machine(tmp_path, monkeypatch):
    """The second time nothing is measured; other lengths of training cost as much for each update, other widths do not."""

    class Engine:
        accelerators, calls = 0, 0

        def call(self, function, *arguments):
            self.calls += 1
            return function(*arguments)

    config = configuration(EXPERIMENT, SMALL)
    engine, path = Engine(), tmp_path / "costs.json"
    (job,) = configured()[0].jobs(tmp_path / "runs")
    costs = Costs(engine, path)
    assert not costs.of(config).measured
    assert costs.measure(job) == ""
    found = Costs(engine, path).of(config)
    assert found.measured
    assert 0 < found.seconds < 60
    assert Costs(engine, path).measure(job) == ""
    assert engine.calls == 1
    assert Costs(engine, path).of(changed(config, train={"updates": 99})) == found
    assert not Costs(engine, path).of(changed(config, model={"size": 5})).measured
    assert not (tmp_path / "runs").exists()
    path.write_text("[damaged")
    assert not Costs(engine, path).of(config).measured


def test_an_estimate_grows_with_the_work():
    config = configuration(EXPERIMENT, "--preset paper")
    longer, wider = (configuration(EXPERIMENT, f"--preset paper {words}") for words in ("--data.lag 1000", "--model.size 256"))
    assert estimate(longer, False) == pytest.approx(2 * estimate(config, False), rel=0.05)
    assert estimate(wider, False) == pytest.approx(2 * estimate(config, False), rel=0.05)  # the rank stays
    assert estimate(config, True) < estimate(config, False)


def test_an_estimate_knows_how_many_matrices_a_cell_has():
    """An Elman network has one recurrent and one input matrix, a GRU three of both, an LSTM four."""
    rnn, gru, lstm = (
        estimate(configuration(variable_computation.EXPERIMENT, f"--preset {cell}-1024"), False) for cell in ("rnn", "gru", "lstm")
    )
    assert (gru / rnn, lstm / rnn) == (pytest.approx(3), pytest.approx(4))


def test_estimates_do_not_make_jax_look_for_devices():
    """Else a process that only plans would hold the memory of a GPU."""
    config = "configuration(experiment_named('char_lm'), '--preset paper')"
    code = f"""if True:
        from jax._src import xla_bridge
        from experiments.report.claims.matching import configuration
        from experiments.reproduce.costs import estimate
        from experiments.sweep import experiment_named
        assert estimate({config}, False) > 0
        assert not xla_bridge._backends
    """
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--hours", "0"], "hours is 0: expected a number above 0"),
        (["--hours", "-1"], "hours is -1"),
        (["--hours", "nan"], "hours is nan"),
        (["--paper", "nope"], "unknown paper 'nope': choose from fake"),
        (
            ["--claims", "Table 9"],
            "unknown claim 'Table 9': give a part of a name that docs/reproduction lists; similar ones: 'Table 3', 'Table 2', 'Table 1'",
        ),
        (["--claims", "nonsense"], "unknown claim 'nonsense': give a part of a name that docs/reproduction lists"),
        (["--claims", "lost"], "nothing here runs 'Table 3: lost' at --scale published: docs/reproduction says why"),
        (["--claims", "faster", "--scale", "smaller"], "'Table 2: faster' and 1 other claims at --scale smaller"),
        (["--scale", "tiny"], "scale"),
        (["--seeds", "0"], "seeds is 0"),
        (["--address", "head:1"], "engine is local"),
    ],
)
def test_wrong_flags(words, says, assert_refused, monkeypatch):
    monkeypatch.setattr(runner, "PAPERS", (paper(),))
    assert_refused(main, words, says)


def test_an_unknown_claim_has_a_short_answer():
    words = "6 no wrose than 5, tied"
    with pytest.raises(UsageError) as error:
        runner.chosen(runner.PAPERS, (), (words,), 1)
    said = str(error.value)
    assert "'6 no worse than 5, tied'" in said
    assert said.count("'") == 2 * (1 + CLOSE)
    assert len(said) < 300


def test_every_run_of_the_papers_has_a_directory_of_its_own():
    """Studies of one text share a directory, in which they share runs."""
    found = runner.chosen(runner.PAPERS, (), (), 2, "all")
    plan = [one for one in runner.configurations(found, Data()) if not one.is_study or "efficiency" in one.planned.flags]
    directories = [(one.planned.experiment, one.name) for one in plan]
    assert len(set(directories)) == len(directories)
    assert max(len(name) for _, name in directories) < 150


def test_a_run_that_cannot_be_collected_does_not_stop_the_others(plan, tmp_path, capsys):
    """The place of the results is a file, so that a directory in it cannot be made."""
    (tmp_path / "results").write_text("")
    assert reproduced(plan, "--collect", str(tmp_path / "results" / "kept")) == 1
    said = capsys.readouterr()
    assert said.err.count("is not collected") == 2
    assert "all 2 runs are done" in said.out


def test_directories_are_named_by_all_values_of_a_flag():
    names = [Configuration(Planned("variable_computation", f"--model.guided-symbols 0 {k} --seed-free", (0,)), [], Data()) for k in (2, 3)]
    assert [one.name for one in names] == ["quick-guided_symbols0_2-seed_free", "quick-guided_symbols0_3-seed_free"]
