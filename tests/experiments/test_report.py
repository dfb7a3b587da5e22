"""REPRODUCTION.md and its pages: collected, refused and written. Expected figures are worked out by hand from curves made up here."""

import json
import os
import shutil

import pytest
from kept_runs import CURVE, ENVIRONMENT, LENGTH, judged, kept_run, make_run, write

from experiments import adding, copy_memory, permuted_mnist
from experiments.report.command import ROOT, main
from experiments.report.kept.records import anonymous, damaged, load, read
from experiments.report.pages import overview
from experiments.report.pages.paper_page import UP, Notes
from experiments.report.papers import low_rank
from experiments.report.wording.markdown import runs_page


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def command(root):
    return lambda words: main(words, root)


@pytest.fixture
def kept(tmp_path):
    """A repository that keeps a finished run."""
    make_run(tmp_path / "runs", test={"loss": 0.0009})
    main(["--collect", str(tmp_path / "runs")], tmp_path)
    return tmp_path


# What is committed


@pytest.mark.slow
def test_the_committed_report_is_what_the_committed_results_say(capsys):
    main(["--check"])  # exits where it is not
    assert f"REPRODUCTION.md: {len(load(ROOT / 'experiments' / 'results'))} runs, " in capsys.readouterr().out


def test_orderings_of_one_model_over_several_are_listed_together():
    assert overview._joined(["a is better than b", "c is ahead", "a is better than d"]) == ["a is better than b and d", "c is ahead"]


def test_a_row_is_listed_with_its_reproduced_values_if_others_are_not(tmp_path):
    """The test accuracy is as published, and the validation accuracy, of another evaluation, is not."""
    flags = "--preset paper --model.parametrization low_rank"
    kept_run(tmp_path, permuted_mnist.EXPERIMENT, flags, 0, {325_000: 0.93}, "accuracy", {"accuracy": 0.92})
    (said,) = overview._reproduced(judged(tmp_path))
    assert "LR-GRU 128/24, permuted sequential MNIST: test accuracy (one seed)" in said


def test_a_row_whose_place_has_no_second_part_is_listed_without_it(tmp_path):
    flags = f"--preset original --train.start {low_rank.START}"
    kept_run(tmp_path, permuted_mnist.EXPERIMENT, flags, 0, {325_000: 0.94}, "accuracy", {"accuracy": 0.92})
    assert overview._reproduced(judged(tmp_path)) == ["Reproduced: LR-GRU 128/24, the published run repeated (2 values) (one seed)."]


def test_the_overview_is_short_and_leaves_details_to_the_pages():
    page = (ROOT / "REPRODUCTION.md").read_text()
    prose = [line for line in page.splitlines() if not line.startswith("|")]
    assert len(" ".join(prose).split()) < 2_150
    assert "\n    - " not in page
    for name in ("low_rank", "variable_computation", "recurrent_highway", "lattice"):
        text, _, details = (ROOT / "docs" / "reproduction" / f"{name}.md").read_text().partition("\n    - ")
        assert text.rpartition("\n- ")[2] in page
        assert details


def test_every_kept_figure_is_shown_on_a_page():
    texts = [path.read_text() for path in (ROOT / "docs" / "reproduction").glob("*.md")]
    drawn = [
        f"{folder}/{path.name}" for folder in ("figures", "schedules") for path in (ROOT / "experiments/results" / folder).glob("*.png")
    ]
    assert not [name for name in drawn if not any(f"({UP}/experiments/results/{name})" in text for text in texts)]


def test_every_kept_study_is_listed_with_its_command():
    text = (ROOT / "docs" / "reproduction" / "runs.md").read_text()
    studies = [path.name for path in (ROOT / "experiments" / "results").glob("*.json") if "options" in json.loads(path.read_text())]
    assert len(studies) > 5
    assert not [name for name in studies if f"\n# {name}\n" not in text]


def test_committed_files_are_small():
    assert all(len(content) < 200_000 for name, content in files(ROOT / "experiments" / "results").items() if name.endswith(".png"))
    others = {name: content for name, content in files(ROOT / "experiments" / "results").items() if not name.endswith(".npz")}
    assert all(len(content) < 1_000_000 for content in others.values())


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
    assert "stopped at update 1,000" in (tmp_path / "docs" / "reproduction" / "runs.md").read_text()


def test_a_finished_run_that_is_given_more_updates_is_unfinished_again(kept):
    make_run(kept / "runs", curve=CURVE | {30_000: 0.002})  # leaves result.json as it was
    main(["--collect", str(kept / "runs")], kept)
    (record,) = load(kept / "experiments" / "results")
    assert (record.result, record.updates) == (None, 30_000)
    assert not list(kept.rglob("results/*/*/result.json"))


def test_a_diverged_run_is_kept_as_such_until_it_went_past_the_update(tmp_path):
    path = make_run(tmp_path / "runs", curve={500: 0.2, 1000: 0.1})
    write(path / "failure.json", {"update": 1200, "what": "the training loss is nan"})
    main(["--collect", str(tmp_path / "runs")], tmp_path)
    (record,) = load(tmp_path / "experiments" / "results")
    assert (record.failure, record.state) == ({"update": 1200, "what": "the training loss is nan"}, "diverged at update 1,200")
    make_run(tmp_path / "runs", curve={500: 0.2, 1000: 0.1, 1500: 0.05})
    main(["--collect", str(tmp_path / "runs")], tmp_path)
    (record,) = load(tmp_path / "experiments" / "results")
    assert (record.failure, record.updates) == (None, 1500)
    assert not list(tmp_path.glob("experiments/results/*/*/failure.json"))


def test_a_run_that_diverged_before_its_first_evaluation_is_kept(tmp_path, capsys):
    """Without it, a report would average the seeds that did not diverge."""
    path = make_run(tmp_path / "runs", curve={})
    write(path / "failure.json", {"update": 3, "what": "the training loss is nan"})
    make_run(tmp_path / "runs", seed=1, test={"loss": 0.0009})
    for _ in range(2):  # the second time over what is kept already
        main(["--collect", str(tmp_path / "runs")], tmp_path)
    assert "was not evaluated yet" not in capsys.readouterr().err
    records = load(tmp_path / "experiments" / "results")
    assert [(record.updates, record.seconds, record.state) for record in records] == [
        (0, 0, "diverged at update 3"),
        (28_000, 2_800, "all updates made"),
    ]
    assert "| 0 | diverged at update 3 | 0:00:00 |" in runs_page(records, {})
    main([], tmp_path)  # writes the report
    assert "It was not evaluated before." in (tmp_path / "docs/reproduction/low_rank.md").read_text()


@pytest.mark.parametrize(("finished", "failed"), [(None, True), (500, True), (1000, False)])
def test_a_test_loss_that_diverged_at_the_last_evaluation_is_a_failure_unless_there_is_a_result_of_it(finished, failed, tmp_path):
    """The metrics of the update are recorded before the test loss is computed."""
    test = None if finished is None else {"loss": 0.1}
    curve = {500: 0.2, 1000: 0.1}
    path = make_run(tmp_path / "copy_memory", curve={when: loss for when, loss in curve.items() if when <= (finished or 1000)}, test=test)
    write(path / "failure.json", {"update": 1000, "what": "the test loss is nan"})
    record = read(path)
    assert record is not None
    assert (record.failure is not None) is failed


def test_the_run_that_went_further_stays(kept, capsys):
    before = files(kept / "experiments")
    make_run(kept / "others", curve={500: 0.1})
    main(["--collect", str(kept / "others")], kept)
    assert "went further" in capsys.readouterr().err
    assert files(kept / "experiments") == before


def study(folder, name, runs, **options):
    """Write the summary of a study beside one of its runs, and return what is kept of it."""
    make_run(folder / "runs", test={"loss": 0.0009})
    summary = {
        "study": name.removesuffix(".json"),
        "options": {"workdir": "/home/a/runs", **options},
        "runs": [{"seed": k} for k in range(runs)],
    }
    write(folder / name, summary)
    return {**summary, "options": {"workdir": "PATH", **options}}


@pytest.mark.parametrize(
    ("name", "options", "target"),
    [
        ("fair_crossing.json", {"equal": "time"}, "fair_crossing_time"),
        ("swarm.json", {"data": {"source": "jsb"}}, "jsb_swarm"),
        ("convergence.json", {"data": {"source": "ptb_joined", "file": None}}, "lattice_convergence_ptb"),
        ("convergence.json", {"data": {"source": "ptb_joined", "file": None}, "parameters": 1_000_000}, "lattice_convergence_ptb_1m"),
        ("efficiency.json", {"data": {"source": "python", "file": "warpeace_input.txt"}}, "lattice_efficiency_warpeace"),
        ("gradients.json", {"data": {"source": "enwik8", "file": "prefix"}}, "lattice_gradients_enwik8"),
    ],
)
def test_the_summary_of_a_study_is_kept_and_not_its_runs(name, options, target, tmp_path, capsys):
    expected = study(tmp_path / "study", name, 3, **options)
    main(["--collect", str(tmp_path / "study")], tmp_path)
    results = tmp_path / "experiments" / "results"
    assert list(files(results)) == [f"{target}.json"]
    assert json.loads((results / f"{target}.json").read_text()) == expected
    assert f"{target}.json: 3 runs" in capsys.readouterr().out
    study(tmp_path / "study", name, 2, **options)
    main(["--collect", str(tmp_path / "study")], tmp_path)
    assert json.loads((results / f"{target}.json").read_text()) == expected
    assert f"{target}.json has more runs (3) than" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "whole"), [("result.json", "its directory"), ("metrics.jsonl", "its directory"), ("swarm.json", "it")])
def test_files_of_a_run_are_removed_together_and_a_summary_alone(name, whole, tmp_path):
    assert str(damaged(tmp_path / name, "it is empty")).endswith(f"{name} is damaged (it is empty): restore it, or remove {whole}")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("convergence.json", {"source": "python", "file": None}),
        ("convergence.json", {"source": "python", "file": "my_book.txt"}),
        ("swarm.json", {"source": "chords", "file": None}),
    ],
)
def test_studies_that_the_report_does_not_show_are_refused(name, data, tmp_path, assert_refused):
    study(tmp_path / "study", name, 1, data=data)
    assert_refused(command(tmp_path), ["--collect", str(tmp_path)], f"{name} is no study that the report shows", code=1)
    write(tmp_path / "study" / name, "{")
    assert_refused(command(tmp_path), ["--collect", str(tmp_path)], f"{name} is damaged (it is not JSON)", code=1)
    assert not (tmp_path / "experiments").exists()


@pytest.mark.parametrize(
    ("name", "before", "now", "differs"),
    [
        ("fair_crossing.json", {}, {"data": {"source": "python"}}, "data.source is not that of the published comparison"),
        ("fair_crossing.json", {}, {"budget": 9}, "budget is not that of the published comparison"),
        ("fair_crossing.json", {"depth": 2, "rates": [0.01]}, {"depth": 2, "rates": [0.02]}, "rates is not that of the published"),
        ("convergence.json", {"epochs": 20}, {"epochs": 2}, "lattice_convergence_ptb.json differ in epochs"),
        ("swarm.json", {"parameters": [9, 19]}, {"parameters": [9, 29]}, "jsb_swarm.json differ in parameters"),
    ],
)
def test_a_summary_of_other_options_does_not_replace_the_kept_one(name, before, now, differs, tmp_path, assert_refused):
    data = {"fair_crossing.json": "ptb", "convergence.json": "ptb_joined", "swarm.json": "jsb"}[name]
    usual = {"equal": "time", "data": {"source": data, "file": None}}
    study(tmp_path / "study", name, 1, **usual, **before)
    main(["--collect", str(tmp_path / "study")], tmp_path)
    kept = files(tmp_path / "experiments")
    study(tmp_path / "study", name, 2, **(usual | now))
    assert_refused(command(tmp_path), ["--collect", str(tmp_path)], differs, code=1)
    assert files(tmp_path / "experiments") == kept


def test_parts_of_a_study_are_joined(tmp_path):
    data, results = {"source": "ptb_joined", "file": None}, tmp_path / "experiments" / "results"

    def part(models, losses, starts=("lru",)):
        runs = [
            {"model": model, "initialization": start, "share": 100, "seed": 0, "loss": loss}
            for model, loss in losses.items()
            for start in starts
        ]
        options = {"workdir": "/home/a/runs", "data": data, "models": models, "initialization": starts, "seeds": 1}
        write(tmp_path / "study" / "convergence.json", {"study": "convergence", "options": options, "runs": runs, "rankings": models})
        main(["--collect", str(tmp_path / "study")], tmp_path)
        kept = json.loads((results / "lattice_convergence_ptb.json").read_text())
        assert set(kept["options"]["initialization"]) == {run["initialization"] for run in kept["runs"]}
        return kept["options"]["models"], {run["model"]: run["loss"] for run in kept["runs"]}

    assert part(["lru", "gru"], {"lru": 1.0, "gru": 2.0}) == (["lru", "gru"], {"lru": 1.0, "gru": 2.0})
    assert part(["gru", "rhn"], {"gru": 2.5, "rhn": 3.0}) == (["lru", "gru", "rhn"], {"lru": 1.0, "gru": 2.5, "rhn": 3.0})
    assert part(["rhn"], {"rhn": 9.0}) == (["lru", "gru", "rhn"], {"lru": 1.0, "gru": 2.5, "rhn": 3.0})  # the kept one has more
    part(["lstm"], {"lstm": 4.0}, ("lru", "glorot"))
    part(["grid-lstm"], {"grid-lstm": 5.0})


def test_runs_that_diverged_are_kept_until_they_are_trained_again(tmp_path):
    data, target = {"source": "ptb_joined", "file": None}, tmp_path / "experiments" / "results" / "lattice_convergence_ptb.json"

    def row(model):
        return {"model": model, "initialization": "lru", "share": 100, "seed": 0}

    def diverged(runs, ended):
        options = {"data": data, "models": [*runs, *ended], "initialization": ["lru"], "seeds": 1}
        ends = [{**row(model), "update": 7} for model in ended]
        content = {"study": "convergence", "options": options, "runs": [row(model) for model in runs], "diverged": ends}
        write(tmp_path / "study" / "convergence.json", content)
        main(["--collect", str(tmp_path / "study")], tmp_path)
        return [one["model"] for one in json.loads(target.read_text())["diverged"]]

    assert diverged(["lru", "gru"], ["rhn"]) == ["rhn"]
    assert diverged(["lstm"], ["rhn", "grid-lstm"]) == ["rhn", "grid-lstm"]
    assert diverged(["rhn"], []) == ["grid-lstm"]


def test_a_summary_of_the_same_options_with_more_models_and_another_machine_replaces_the_kept_one(tmp_path):
    usual = {"data": {"source": "ptb_joined", "file": None, "dir": "/data"}, "models": ["lru"], "seeds": 1, "devices": 1}
    study(tmp_path / "study", "convergence.json", 1, **usual)
    main(["--collect", str(tmp_path / "study")], tmp_path)
    study(tmp_path / "study", "convergence.json", 2, **usual | {"models": ["gru", "lru"], "seeds": 3, "devices": None, "patience": 3})
    main(["--collect", str(tmp_path / "study")], tmp_path)
    kept = json.loads((tmp_path / "experiments" / "results" / "lattice_convergence_ptb.json").read_text())
    assert len(kept["runs"]) == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[]", "has no options"),
        ("[" * 100_000, "is not JSON"),
        ('{"options": {"equal": "time"}}', "has no runs"),
        ('{"options": {"equal": "time"}, "runs": null}', "has no runs"),
        ('{"options": {"equal": "time"}, "runs": []}', "has no runs"),
        ('{"options": {"equal": "money"}, "runs": [{"seed": 0}]}', "is no study that the report shows"),
    ],
)
def test_a_damaged_summary_is_refused_by_name(content, says, tmp_path, assert_refused):
    write(tmp_path / "study" / "fair_crossing.json", content)
    is_damage = not says.startswith("is no study")
    line = f"fair_crossing.json {'is damaged (it ' * is_damage}{says}"
    assert_refused(command(tmp_path), ["--collect", str(tmp_path)], line, code=1)
    assert not (tmp_path / "experiments").exists()
    if is_damage:
        write(tmp_path / "experiments" / "results" / "fair_crossing_time.json", content)
        assert_refused(command(tmp_path), [], f"fair_crossing_time.json is damaged (it {says})", code=1)


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
    "config.json is nested too deeply": lambda run: write(run / "config.json", "[" * 100_000),
    "config.json is a pipe": lambda run: ((run / "config.json").unlink(), os.mkfifo(run / "config.json")),
    "config.json has a setting that the result has not": lambda run: edited(
        "config.json", optim=json.loads((run / "config.json").read_text())["optim"] | {"learning_rate": 0.5}
    )(run),
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


def test_a_run_whose_configuration_was_changed_is_not_collected(kept, assert_refused):
    before, run = files(kept / "experiments"), make_run(kept / "others", test={"loss": 0.1})
    optim, train = (json.loads((run / "config.json").read_text())[group] for group in ("optim", "train"))
    edited("config.json", optim=optim | {"learning_rate": 0.5})(run)
    says = f"{run / 'config.json'}: optim.learning_rate is 0.5, and result.json has {optim['learning_rate']}: restore config.json"
    assert_refused(command(kept), ["--collect", str(kept / "others")], says, code=1)
    assert files(kept / "experiments") == before
    edited("config.json", optim=optim, train=train | {"updates": 99_000})(run)
    command(kept)(["--collect", str(kept / "others")])


def test_a_damaged_run_stops_collecting(kept, assert_refused):
    before = files(kept / "experiments")
    make_run(kept / "others")
    write(make_run(kept / "others", seed=1) / "config.json", "{")
    assert_refused(command(kept), ["--collect", str(kept / "others")], "config.json is damaged", code=1, warned=True)
    assert files(kept / "experiments") == before


# Writing


@pytest.mark.slow
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
    assert not any(str(tmp_path) in content.decode() for name, content in written[0].items() if name.endswith(".md"))


def test_curve_beside_the_published_log(kept):
    main([], kept)
    text = (kept / "docs" / "reproduction" / "low_rank_curves.md").read_text()
    assert "| run | 1,000 | 2,000 | 4,000 | 6,000 | 8,000 | 10,000 | 12,000 |" in text
    assert "| LRD-GRU 128/50, published log | 0.1101 | 0.0856 | 0.0536 | 0.0320 | 0.0205 | 0.0144 | 0.0090 |" in text
    assert "| LRD-GRU 128/50, seed 0 | – | – | – | – | – | 0.0118 | – |" in text
    assert "![Copying, variable length, N = 100](../../experiments/results/figures/copy_variable_length.png)" in text
    runs = (kept / "docs" / "reproduction" / "runs.md").read_text()
    assert "python -m experiments.example --workdir PATH --seeds 3" in runs
    assert "| 0123456789 | CPU, 2 cores | 3.11.7 |" in runs


@pytest.mark.slow
def test_check_finds_what_is_stale(kept, assert_refused):
    assert_refused(command(kept), ["--check"], "REPRODUCTION.md", code=1, printed=True)
    for folder in ("figures", "schedules"):  # pages show them, whatever is kept
        shutil.copytree(ROOT / "experiments" / "results" / folder, kept / "experiments" / "results" / folder)
    main([], kept)
    main(["--check"], kept)
    for image in ("figures/copy_variable_length.png", "schedules/bits-vcrnn-seed0.png"):
        path = kept / "experiments" / "results" / image
        before = path.read_bytes()
        path.unlink()
        assert_refused(command(kept), ["--check"], f"results/{image}, which ", code=1, printed=True)
        path.write_bytes(before)
    for page in ("low_rank", "lattice", "runs", "verdicts"):
        path = kept / "docs" / "reproduction" / f"{page}.md"
        before = path.read_text()
        path.write_text(before + "by hand")
        assert_refused(command(kept), ["--check"], f"{page}.md is not what the results say", code=1, printed=True)
        path.write_text(before)
    (kept / "docs" / "reproduction" / "old.md").write_text("")
    assert_refused(command(kept), ["--check"], "old.md is no page", code=1, printed=True)
    (kept / "docs" / "reproduction" / "old.md").unlink()
    make_run(kept / "runs", seed=1)
    main(["--collect", str(kept / "runs")], kept)
    assert_refused(command(kept), ["--check"], code=1, warned=True, printed=True)


def test_notes_stand_below_their_table_once_with_numbers():
    notes = Notes([("few updates", ""), ("", "quoted"), ("few updates", "quoted"), ("", "")])
    verdict = "smaller scale (few updates; one seed)"
    assert notes.below == "- [1] few updates\n- [2] quoted"
    assert [notes.marked(None, row) for row in range(4)] == ["no claim [1]", "no claim [2]", "no claim [1] [2]", "no claim"]
    assert [notes.marks(row) for row in range(4)] == [["[1]"], ["[2]"], ["[1]", "[2]"], []]
    assert (notes.marked(verdict, 0), notes.marked(verdict, 3)) == ("smaller scale (one seed) [1]", verdict)


@pytest.mark.parametrize(
    ("rows", "below"), [([("few", ""), ("few", "")], "Smaller scale: few."), ([("few", ""), ("", "")], "- [1] few"), ([], "")]
)
def test_a_note_that_all_rows_share_has_no_number(rows, below):
    notes = Notes(rows)
    assert notes.below == below
    if rows:
        assert notes.marked(None, 0) == "no claim" + " [1]" * below.startswith("-")
