"""REPRODUCTION.md: collected, refused, compared and written. Expected figures are worked out by hand from curves made up here."""

import json
import shutil
from dataclasses import replace

import pytest

from experiments import adding, copy_memory, highway_mnist, permuted_mnist
from experiments.parameter_table import command as parameter_table
from experiments.report.command import ROOT, STUDIES, main
from experiments.report.comparison import Spread, compare, same_model, span
from experiments.report.markdown import per_seed, report
from experiments.report.published import (
    ADDING,
    FIXED_LAG,
    HIGHWAY,
    PERMUTED_MNIST,
    VARIABLE_LAG,
    VARIABLE_LENGTH,
)
from experiments.report.records import anonymous, load
from lrpt.analysis.curves import Curve, learning_curves
from lrpt.cli.flags import parse
from lrpt.runs.configuration import to_json
from lrpt.training.run import ENDED

LENGTH = "--preset paper-variable-length"
CURVE = {10_000: 0.0118, 20_000: 0.0024, 28_000: 0.0009}
ENVIRONMENT = {
    "python": "3.11.7",
    "versions": {"jax": "0.10.2", "lrpt": "0.1.0"},
    "platform": "Linux-6.1-x86_64",
    "cpus": 2,
    "device": "cpu cpu",
    "devices": 1,
    "command": "python -m experiments.example --workdir /home/a b/runs --seeds 3",
    "commit": "0123456789abcdef",
    "dirty": False,
}


def identity(experiment, flags, seed):
    command = parse(experiment, flags.split())
    return {"experiment": experiment.name, "preset": command.preset, "seed": seed, **to_json(command.config)}


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2) + "\n")


def make_run(
    runs,
    experiment=copy_memory.EXPERIMENT,
    flags=LENGTH,
    seed=0,
    curve=CURVE,
    score="loss",
    test=None,
    name=None,
    stopped="updates",
    **environment,
):
    """A run directory with one evaluation for each point of `curve`; finished if it has test figures."""
    config = identity(experiment, flags, seed)
    path = runs / experiment.name / (name or f"{config['preset']}-seed{seed}")
    write(path / "config.json", config)
    write(path / "environment.json", ENVIRONMENT | environment)
    lines = []
    for update, value in curve.items():
        lines.append({"update": update, "seconds": update / 10, "split": "train", "loss": 1.0})
        lines.append({"update": update, "seconds": update / 10, "split": "valid", "loss": 1.0, score: value})
    write(path / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    if test is not None:
        ends = {"updates": max(curve), "stopped": stopped, "seconds": max(curve) / 10, "metrics": {"valid": {score: 1}, "test": test}}
        write(
            path / "result.json", {**{k: config[k] for k in ("experiment", "preset", "seed")}, "model": "a model", **ends, "config": config}
        )
    return path


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def command(root):
    return lambda words: main(words, root)


def comparison(root, study, claim=0):
    return next(c for c in compare([study], load(root / "experiments" / "results")) if c.claim is study.claims[claim])


@pytest.fixture
def kept(tmp_path):
    """A repository that keeps a finished run."""
    make_run(tmp_path / "runs", test={"loss": 0.0009})
    main(["--collect", str(tmp_path / "runs")], tmp_path)
    return tmp_path


# What is committed


def test_the_committed_report_is_what_the_committed_results_say(capsys):
    main(["--check"])  # exits where it is not
    assert f"REPRODUCTION.md: {len(load(ROOT / 'experiments' / 'results'))} runs, " in capsys.readouterr().out


def test_committed_files_are_small():
    assert all(len(content) < 150_000 for name, content in files(ROOT / "experiments" / "results").items() if name.endswith(".png"))
    assert all(len(content) < 1_000_000 for content in files(ROOT / "experiments" / "results").values())


# What was published


def test_rows_of_table_1_are_those_of_the_parameter_table():
    models = [c.model for c in compare([PERMUTED_MNIST], [])]
    assert models == [p.config.label for p in parameter_table.PUBLISHED if p.where == "Table 1"]


def test_models_of_the_texts():
    assert [(c.model, c.config.data.variant, c.config.data.lag) for c in compare([VARIABLE_LENGTH, FIXED_LAG], [])] == [
        ("LRD-GRU 128/50", "variable_length", 100),
        ("LRD-GRU 128/50 weight norm", "variable_length", 100),
        ("UNITARY WITHOUT FOURIER 721", "variable_length", 100),
        ("GRU 128", "fixed", 500),
        ("LR-GRU 128/50", "fixed", 500),
        ("LRD-GRU 128/50", "fixed", 500),
        ("LRD-GRU 128/50 weight norm", "fixed", 500),
        ("UNITARY WITHOUT FOURIER 721", "fixed", 500),
    ]
    assert [c.model for c in compare([ADDING], [])] == ["LR-GRU 128/24", "LRD-GRU 128/24"]


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_points_of_logs_are_tabulated_and_fall_on_evaluations(study):
    config = study.experiment.presets["paper"].config
    assert set(study.log) <= set(study.updates)
    assert all(update % config.train.evaluate_every == 0 for update in study.updates)
    assert all(c.status == "not yet run at full scale" for c in compare([study], []))


# Collecting


def test_keeps_the_small_files_only(kept):
    source = kept / "runs" / "copy_memory" / "paper-variable-length-seed0"
    write(source / "checkpoints" / "28000" / "config.json", "not a run")
    write(source / "figures" / "a.png", "")
    main(["--collect", str(kept / "runs")], kept)
    results = kept / "experiments" / "results"
    assert files(results).keys() == {f"copy_memory/{source.name}/{name}" for name in files(source) if "/" not in name}
    for name in ("config.json", "metrics.jsonl", "result.json"):
        assert (results / "copy_memory" / source.name / name).read_bytes() == (source / name).read_bytes()
    environment = json.loads((results / "copy_memory" / source.name / "environment.json").read_text())
    assert environment == ENVIRONMENT | {"command": "python -m experiments.example --workdir PATH --seeds 3"}


def test_an_unfinished_run_is_kept_up_to_its_last_whole_line(tmp_path, capsys):
    path = make_run(tmp_path / "runs", curve={500: 0.2, 1000: 0.1})
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"update": 1500, "sec')
    make_run(tmp_path / "runs", seed=1, curve={})
    main(["--collect", str(tmp_path / "runs")], tmp_path)
    assert "seed1 was not evaluated yet" in capsys.readouterr().err
    (record,) = load(tmp_path / "experiments" / "results")
    assert (record.result, record.updates, record.state) == (None, 1000, "stopped at update 1,000")
    main([], tmp_path)
    assert "seed0 is partial: stopped at update 1,000" in capsys.readouterr().err
    assert "stopped at update 1,000" in (tmp_path / "REPRODUCTION.md").read_text()


def test_a_finished_run_that_is_given_more_updates_is_unfinished_again(kept):
    make_run(kept / "runs", curve=CURVE | {30_000: 0.002})  # leaves result.json as it was
    main(["--collect", str(kept / "runs")], kept)
    (record,) = load(kept / "experiments" / "results")
    assert (record.result, record.updates) == (None, 30_000)
    assert not list(kept.rglob("results/*/*/result.json"))


def test_the_run_that_went_further_stays(kept, capsys):
    before = files(kept / "experiments")
    make_run(kept / "others", curve={500: 0.1})
    main(["--collect", str(kept / "others")], kept)
    assert "went further" in capsys.readouterr().err
    assert files(kept / "experiments") == before


def test_two_runs_of_one_name_are_refused_before_anything_is_written(kept, assert_refused):
    before = files(kept / "experiments")
    make_run(kept / "others", flags=f"{LENGTH} --train.batch-size 10")
    make_run(kept / "others", seed=1)
    assert_refused(command(kept), ["--collect", str(kept / "others")], "differ in train.batch_size", code=1)
    assert files(kept / "experiments") == before


def test_metrics_that_are_too_large_are_refused(tmp_path, assert_refused):
    make_run(tmp_path / "runs", curve=dict.fromkeys(range(1, 8_000), 0.5))
    assert_refused(command(tmp_path), ["--collect", str(tmp_path / "runs")], "only up to 1,000,000 are kept", code=1)


@pytest.mark.parametrize("arguments", [["--collect", "nowhere"], ["--collect", ".", "--check"], ["--colect", "runs"], ["--collect"]])
def test_wrong_flags(arguments, tmp_path, monkeypatch, assert_refused):
    monkeypatch.chdir(tmp_path)
    assert_refused(command(tmp_path), arguments)
    assert not files(tmp_path)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/data", "PATH"),
        ("~/data", "PATH"),
        ("~somebody/data", "PATH"),
        ("../data", "PATH"),
        ("C:\\Users\\me", "PATH"),
        ("gs://bucket/data", "PATH"),
        ("python -m x --data.dir /home/A B/data --seed 3", "python -m x --data.dir PATH --seed 3"),
        ("python -m x --data.dir=/data --workdir=../a", "python -m x --data.dir=PATH --workdir=PATH"),
        ("python /home/me/x.py --seed 3", "python PATH --seed 3"),
        ("python -m x --workdir runs/a --seed 3", "python -m x --workdir runs/a --seed 3"),
        ("LRD-GRU 128/24", "LRD-GRU 128/24"),
        ("Linux-6.1-x86_64", "Linux-6.1-x86_64"),
    ],
)
def test_paths_of_a_machine(text, clean):
    assert anonymous({"a": [text, 3, None]}) == {"a": [clean, 3, None]}
    assert anonymous(clean) == clean


# Reading what is kept


def edited(name, **changes):
    def damage(run):
        content = json.loads((run / name).read_text())
        write(run / name, {k: v for k, v in (content | changes).items() if v is not ...})

    return damage


def lines_of(run):
    return (run / "metrics.jsonl").read_text().splitlines(keepends=True)


DAMAGE = {
    "config.json is missing": lambda run: (run / "config.json").unlink(),
    "environment.json is missing": lambda run: (run / "environment.json").unlink(),
    "metrics.jsonl is missing": lambda run: (run / "metrics.jsonl").unlink(),
    "config.json is cut": lambda run: write(run / "config.json", (run / "config.json").read_text()[:-30]),
    "result.json is cut": lambda run: write(run / "result.json", (run / "result.json").read_text()[:-30]),
    "result.json is empty": lambda run: write(run / "result.json", ""),
    "result.json is a list": lambda run: write(run / "result.json", []),
    "environment.json is binary": lambda run: (run / "environment.json").write_bytes(b"\xff\xfe\x00"),
    "environment.json names a path": edited("environment.json", command="python -m x --workdir /home/me"),
    "environment.json has no versions": edited("environment.json", versions=...),
    "config.json is another experiment's": lambda run: (edited("config.json", experiment="adding")(run), (run / "result.json").unlink()),
    "config.json has a seed that is no number": edited("config.json", seed="0"),
    "result.json is another seed's": edited("result.json", seed=5),
    "result.json is of a later update": edited("result.json", updates=30_000),
    "result.json has no metrics": edited("result.json", metrics=...),
    "result.json has no test figures": edited("result.json", metrics={"valid": {}}),
    "metrics.jsonl is cut": lambda run: write(run / "metrics.jsonl", "".join(lines_of(run))[:-5]),
    "metrics.jsonl is damaged in between": lambda run: write(
        run / "metrics.jsonl", "".join([*lines_of(run)[:2], "?\n", *lines_of(run)[2:]])
    ),
    "metrics.jsonl is out of order": lambda run: write(run / "metrics.jsonl", "".join(lines_of(run)[::-1])),
    "metrics.jsonl is short": lambda run: write(run / "metrics.jsonl", "".join(lines_of(run)[:2])),
    "metrics.jsonl has no evaluation": lambda run: (write(run / "metrics.jsonl", lines_of(run)[0]), (run / "result.json").unlink()),
}

BLAMED = dict.fromkeys(["metrics.jsonl is missing", "metrics.jsonl is short"], "result.json")


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_files_are_refused_by_name(what, kept, assert_refused):
    write(kept / "REPRODUCTION.md", "as before")
    run = kept / "experiments" / "results" / "copy_memory" / "paper-variable-length-seed0"
    DAMAGE[what](run)
    for arguments in ([], ["--check"]):
        assert_refused(command(kept), arguments, str(run / BLAMED.get(what, what.split()[0])), code=1)
    assert (kept / "REPRODUCTION.md").read_text() == "as before"


def test_a_damaged_run_stops_collecting(kept, assert_refused):
    before = files(kept / "experiments")
    make_run(kept / "others")
    write(make_run(kept / "others", seed=1) / "config.json", "{")
    assert_refused(command(kept), ["--collect", str(kept / "others")], "config.json is damaged", code=1, warned=True)
    assert files(kept / "experiments") == before


# Comparing


def test_which_runs_are_of_a_model():
    config = parse(copy_memory.EXPERIMENT, LENGTH.split()).config
    recorded = identity(copy_memory.EXPERIMENT, f"{LENGTH} --train.updates 7 --train.evaluate-every 50 --model.recurrence plain", 3)
    assert same_model(config, recorded)
    assert not same_model(config, identity(copy_memory.EXPERIMENT, f"{LENGTH} --train.batch-size 10", 3))
    assert not same_model(config, recorded | {"model": recorded["model"] | {"dropout": 0.5}})
    older = recorded | {"model": {k: v for k, v in recorded["model"].items() if k != "weight_norm"}}
    assert same_model(config, older)
    assert not same_model(replace(config, model=replace(config.model, weight_norm=True)), older)


def test_spread_over_seeds(tmp_path):
    results = tmp_path / "experiments" / "results"
    for seed, update in enumerate((25_000, 28_000, 34_000)):
        make_run(
            results, seed=seed, curve={500: 0.2, 20_000: 0.001, update: 0.0009}, test={"loss": 0.0009}, stopped="criterion", command="x"
        )
    make_run(results, seed=7, curve={500: 0.2, 10_000: 0.01}, command="x")
    c = comparison(tmp_path, VARIABLE_LENGTH)
    assert c.values(c.claim.quantities[0]) == {0: 25_000, 1: 28_000, 2: 34_000}
    assert c.verdicts == {0: True, 1: True, 2: False, 7: None}
    assert c.status == "run at smaller scale: 10,000 of 30,000 updates; 2 of 3 other seeds reproduce it"
    assert per_seed([c]).splitlines()[2] == (
        "| first update with test cross-entropy < 1e-3 | LRD-GRU 128/50 "
        "| 25,000 | 28,000 | 34,000 | not in 10,000 | 29,000 | 4,583 | 25,000 | 34,000 |"
    )
    text = report(compare(STUDIES, load(results)), load(results))
    assert (
        "first update with test cross-entropy < 1e-3: 29,000 ± 4,583 (3 of 4 seeds) | 4 (0, 1, 2, 7) | 10,000 to 34,000 | CPU, 2 cores"
        in text
    )


@pytest.mark.parametrize(
    ("stopped", "rules", "status"),
    [
        ("annealed", "", "not reproduced"),
        ("updates", "", "run at smaller scale: 9,000 of 35,000 updates"),
        ("patience", "--train.patience 2", "run at smaller scale: 9,000 of 35,000 updates"),
    ],
)
def test_a_run_that_a_rule_of_training_ended_is_over(tmp_path, stopped, rules, status):
    """But not by a rule that the published configuration does not have."""
    results, flags = tmp_path / "experiments" / "results", f"--preset paper {rules}"
    figures = {"curve": {9_000: 0.98}, "score": "accuracy", "test": {"accuracy": 0.98}}
    make_run(results, highway_mnist.EXPERIMENT, flags, stopped=stopped, command="x", **figures)
    assert comparison(tmp_path, HIGHWAY).status == status
    assert load(results)[0].state == ENDED[stopped]


def test_moments():
    assert Spread.of([2.0, 4.0, 9.0]) == Spread(5.0, pytest.approx(13**0.5), 2.0, 9.0)
    assert Spread.of([3.0]) == Spread(3.0, None, 3.0, 3.0)
    assert (span([3_000, 1_000, 2_000]), span([1_500])) == ("1,000 to 3,000", "1,500")


COPY_LAG = (copy_memory.EXPERIMENT, "--preset paper-variable-lag --train.stop-below None", VARIABLE_LAG)
ADD = (adding.EXPERIMENT, "--preset paper", ADDING)
IMAGES = (permuted_mnist.EXPERIMENT, "--preset paper", PERMUTED_MNIST)


@pytest.mark.parametrize(
    ("task", "claim", "score", "curve", "test", "status"),
    [
        (COPY_LAG, 0, "loss", {37_500: 0.0009}, {}, "reproduced"),
        (COPY_LAG, 0, "loss", {38_000: 0.0009}, {}, "not reproduced"),
        (COPY_LAG, 0, "loss", {37_500: 0.001, 39_000: 0.001}, {}, "not reproduced"),
        (COPY_LAG, 0, "loss", {37_500: 0.001}, None, "run at smaller scale: 37,500 of 38,000 updates"),
        (COPY_LAG, 1, "accuracy", {80_000: 1.0}, {}, "reproduced"),
        (COPY_LAG, 1, "accuracy", {80_000: 1 - 8e-7}, {}, "run at smaller scale: 80,000 of 87,000 updates"),
        (COPY_LAG, 1, "accuracy", {87_000: 1 - 8e-7, 90_000: 1.0}, {}, "not reproduced"),
        (ADD, 1, "loss", {14_000: 0.01, 14_500: 0.0034}, {}, "reproduced"),
        (ADD, 1, "loss", {14_500: 0.0036, 20_000: 0.001}, {}, "not reproduced"),
        (ADD, 1, "loss", {14_000: 0.0036}, None, "run at smaller scale: 14,000 of 14,500 updates"),
        (ADD, 1, "loss", {14_000: 0.0031}, None, "run at smaller scale: 14,000 of 14,500 updates"),
        (IMAGES, 4, "accuracy", {25_800: 0.72}, {"accuracy": 0.71}, "run at smaller scale: 25,800 of 325,000 updates"),
        (IMAGES, 4, "accuracy", {300_000: 0.9361, 325_000: 0.9}, {"accuracy": 0.9301}, "reproduced"),
        (IMAGES, 4, "accuracy", {325_000: 0.9359}, {"accuracy": 0.9301}, "not reproduced"),
        (IMAGES, 4, "accuracy", {300_000: 0.95}, None, "run at smaller scale: 300,000 of 325,000 updates"),
        (
            (copy_memory.EXPERIMENT, "--preset paper --model.parametrization dense", FIXED_LAG),
            0,
            "loss",
            {500: 0.1},
            None,
            "run; no figure to compare with",
        ),
    ],
)
def test_status_of_one_seed(task, claim, score, curve, test, status, tmp_path):
    experiment, flags, study = task
    make_run(tmp_path / "experiments" / "results", experiment, flags, curve=curve, score=score, test=test, command="x")
    assert comparison(tmp_path, study, claim).status == status


def test_of_two_runs_of_a_seed_the_one_that_went_further_counts(tmp_path):
    results = tmp_path / "experiments" / "results"
    make_run(results, curve={10_000: 0.01}, name="a", command="x")
    make_run(results, curve={12_000: 0.009}, name="b", command="x", device="gpu NVIDIA H200", devices=2)
    make_run(results, curve={11_000: 0.008}, name="c", command="x")
    (run,) = comparison(tmp_path, VARIABLE_LENGTH).runs
    assert (run.name, run.hardware) == ("b", "2 x NVIDIA H200")


# Writing


def test_the_same_files_give_the_same_bytes(tmp_path, capsys):
    kinds = [(adding.EXPERIMENT, "--preset paper", 0), (copy_memory.EXPERIMENT, LENGTH, 1), (copy_memory.EXPERIMENT, LENGTH, 0)]
    written = []
    for order in (kinds, kinds[::-1]):
        root = tmp_path / str(len(written))
        for experiment, flags, seed in order:
            make_run(root / "runs", experiment, flags, seed, curve={500: 0.1, 1000: 0.05})
        main(["--collect", str(root / "runs")], root)
        main([], root)
        shutil.rmtree(root / "runs")
        written.append(files(root))
    assert written[0] == written[1]
    assert {"REPRODUCTION.md", "experiments/results/figures/adding.png"} < written[0].keys()
    assert all(len(content) < 150_000 for content in written[0].values())
    assert str(tmp_path) not in written[0]["REPRODUCTION.md"].decode()


def test_curve_beside_the_published_log(kept):
    main([], kept)
    text = (kept / "REPRODUCTION.md").read_text()
    assert "| update | published log, LRD-GRU 128/50 | LRD-GRU 128/50, seed 0 |" in text
    assert "| 10,000 | 0.0144 | 0.0118 |" in text
    assert "| 20,000 | 0.0024 | 0.0024 |" in text
    assert "| 29,500 | 0.0006 | – |" in text
    assert "![Copy, variable length, N = 100](experiments/results/figures/copy_variable_length.png)" in text
    assert "`python -m experiments.example --workdir PATH --seeds 3`" in text
    assert "| 1 | CPU, 2 cores | 0123456789 | 3.11.7 | 0.10.2 |" in text


def test_check_finds_what_is_stale(kept, assert_refused):
    assert_refused(command(kept), ["--check"], "REPRODUCTION.md", code=1)
    main([], kept)
    main(["--check"], kept)
    (kept / "experiments" / "results" / "figures" / "copy_variable_length.png").unlink()
    assert_refused(command(kept), ["--check"], "copy_variable_length.png is missing", code=1)
    main([], kept)
    make_run(kept / "runs", seed=1)
    main(["--collect", str(kept / "runs")], kept)
    assert_refused(command(kept), ["--check"], code=1, warned=True)


def test_published_points_are_drawn(tmp_path):
    curves = [Curve("ours", [1, 2], [0.3, 0.2])]
    plain = learning_curves(curves, "loss", tmp_path / "a.png").read_bytes()
    marked = learning_curves(curves, "loss", tmp_path / "b.png", published=[Curve("theirs", [1, 2], [0.25, 0.15])]).read_bytes()
    assert plain != marked
