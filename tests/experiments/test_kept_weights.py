"""Weights that are kept with results: collected from checkpoints, evaluated again, noticed when changed, used without the run."""

import json
import re
import shutil
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
import tiny

from experiments import char_lm
from experiments.report.command import main as report
from experiments.report.kept import verification
from experiments.report.kept import weights as kept_weights
from lrpt.cli.command import closing, main
from lrpt.cli.flags import parse
from lrpt.runs.files import sealed
from lrpt.trained.loading import Loaded, load

pytestmark = pytest.mark.slow

ADDED = {"model.npz", "weights.json"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "tiny"
    main(tiny.EXPERIMENT, [*tiny.flags(), "--workdir", str(path)])
    return path


@pytest.fixture(scope="module")
def collected(run, tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    report(["--collect", str(run)], root)
    return root


@pytest.fixture
def root(collected, tmp_path):
    return Path(shutil.copytree(collected, tmp_path / "root"))


def kept(root):
    return root / "experiments" / "results" / "copy_memory" / "tiny"


def verified(root, capsys, *names):
    report(["--verify", *names], root)
    return capsys.readouterr().out.splitlines()


def test_collected_weights_are_those_of_the_best_checkpoint(run, root):
    assert {path.name for path in kept(root).iterdir()} == {"config.json", "environment.json", "metrics.jsonl", "result.json", *ADDED}
    one, other = load(run), load(kept(root))
    assert not one.is_kept
    assert other.is_kept
    assert one.update == other.update == json.loads((run / "result.json").read_text())["best_update"]
    assert one.interface == other.interface
    assert one.config == other.config
    jax.tree.map(np.testing.assert_array_equal, one.variables, other.variables)
    jax.tree.map(np.testing.assert_array_equal, one.initial, other.initial)


def test_metrics_are_reproduced_but_for_rounding(root, capsys):
    progress, line, total = verified(root, capsys, "copy_memory")
    assert progress == "copy_memory/tiny: evaluating its weights ..."
    assert re.match(r"copy_memory/tiny: (equal; |close; .* the largest relative difference is [\d.]+e-0[789] )", line), line
    assert total in ("1 results: 1 equal", "1 results: 1 close")
    assert verified(root, capsys)[1] == verified(root, capsys, "copy_memory/tiny")[1] == line


def test_a_line_is_printed_before_each_part_that_takes_long(root, capfd, monkeypatch):
    before, evaluate = {}, Loaded.evaluate

    def evaluated(trained):
        before["evaluation"] = capfd.readouterr().out
        return evaluate(trained)

    def analysed(trained):
        before["analysis"] = capfd.readouterr().out
        return {}

    monkeypatch.setattr(Loaded, "evaluate", evaluated)
    monkeypatch.setattr(verification, "analyse", analysed)
    (kept(root) / "analysis.json").write_text(json.dumps(sealed({"update": 0, "valid_loss": 0.0})))
    report(["--verify"], root)
    assert before == {
        "evaluation": "copy_memory/tiny: evaluating its weights ...\n",
        "analysis": "copy_memory/tiny: computing analysis.json again, which may take minutes ...\n",
    }


def change(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(sealed(content) if path.name == "result.json" else content))


def scaled(factor):
    def scale(result):
        result["metrics"]["test"]["loss"] *= factor

    return scale


def test_rounding_of_another_machine_is_told(root, capsys):
    change(kept(root) / "result.json", scaled(1 + 5e-6))
    _, line, _ = verified(root, capsys)
    found = re.match(r"copy_memory/tiny: close; valid and test within 1e-05, the largest relative difference is (\S+) \(test loss: ", line)
    assert abs(float(found[1]) - 5e-6) < 1e-6


def test_another_printed_metric_fails(root, assert_refused):
    change(kept(root) / "result.json", scaled(1.001))
    assert_refused(partial(report, root=root), ["--verify"], "1 of 1 results do not verify: copy_memory/tiny", code=1, printed=True)


@pytest.mark.parametrize("damage", ["weights", "digest", "gone"])
def test_changed_weights_fail(damage, root, capsys):
    path = kept(root) / "model.npz"
    if damage == "weights":
        with np.load(path) as stored:
            arrays = dict(stored)
        np.savez_compressed(path, **{name: array + 1e-3 for name, array in arrays.items()})
    elif damage == "digest":
        (kept(root) / "weights.json").write_text("{}")
    else:
        path.unlink()
    with pytest.raises(SystemExit) as leaving:
        report(["--verify"], root)
    assert leaving.value.code == 1
    assert capsys.readouterr().out.startswith("copy_memory/tiny: changed; ")


@pytest.fixture
def without_weights(root):
    for name in ADDED:
        (kept(root) / name).unlink()
    return root


@pytest.mark.parametrize("names", [(), ("copy_memory",)])
def test_a_result_without_weights_is_named(names, without_weights, capsys):
    assert verified(without_weights, capsys, *names)[0] == "copy_memory/tiny: no weights; nothing to evaluate"


def test_a_run_without_weights_that_is_named_is_refused(without_weights, assert_refused):
    says = "no weights are kept of copy_memory/tiny: docs/reproduction/models.md lists the runs"
    assert_refused(partial(report, root=without_weights), ["--verify", "copy_memory/tiny"], says, code=1, printed=True)


def test_a_run_directory_is_verified_by_its_checkpoint(run, root, capsys):
    said, line, _ = verified(root, capsys, str(run))
    assert said == f"{run}: evaluating its weights ..."
    assert re.match(rf"{run}: (equal|close); ", line)


def test_a_directory_of_runs_and_a_path_of_a_kept_result_are_names_too(run, root, capsys):
    (*_, line) = verified(root, capsys, str(run.parent), str(kept(root)))
    assert line in ("2 results: 2 equal", "2 results: 2 close")
    assert verified(root, capsys, str(kept(root)))[0] == "copy_memory/tiny: evaluating its weights ..."


def test_a_path_of_a_run_without_weights_is_refused(without_weights, assert_refused):
    flags = ["--verify", str(kept(without_weights))]
    assert_refused(partial(report, root=without_weights), flags, "no weights are kept of copy_memory/tiny", code=1, printed=True)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--verify", "sorting"], "no result is called 'sorting', and no run is in a directory of that name: choose from copy_memory, or"),
        (["--verify", "copy_memory/tiny0"], "of that name: did you mean copy_memory/tiny"),
        (["--verify", "--check"], "exclude each other"),
    ],
)
def test_wrong_flags(flags, says, root, assert_refused):
    assert_refused(partial(report, root=root), flags, says)


@pytest.mark.parametrize(("limit", "says"), [("LARGEST", "of at most 10"), ("LARGEST_TOGETHER", "all weights together")])
def test_large_weights_are_left_out(limit, says, run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(kept_weights, limit, 10)
    report(["--collect", str(run)], tmp_path)
    assert says in capsys.readouterr().out
    assert not ADDED & {path.name for path in kept(tmp_path).iterdir()}


def test_collecting_again_reads_no_checkpoint(run, root, monkeypatch):
    monkeypatch.setattr(kept_weights, "load", None)
    before = tiny.tree(kept(root))
    report(["--collect", str(run)], root)
    assert tiny.tree(kept(root)) == before


def test_weights_go_with_the_evaluation_that_they_belong_to(run, root):
    change(kept(root) / "weights.json", lambda content: content.update(update=4, valid_loss=9.0))
    report(["--collect", str(run)], root)
    assert load(kept(root)).update == load(run).update


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A run of a language model, its kept result, and no text any more."""
    root = tmp_path_factory.mktemp("text")
    (root / "book.txt").write_text("the cat sat on the mat\n" * 400)
    flags = ["--no-compare", "--model.size", "8", "--model.rank", "2", "--train.updates", "2", "--train.batch-size", "4", "--devices", "1"]
    main(char_lm.EXPERIMENT, [*flags, "--data.file", str(root / "book.txt"), "--data.steps", "10", "--workdir", str(root / "run")])
    report(["--collect", str(root / "run")], root)
    return root


def test_sampling_from_a_kept_result_needs_no_text(text, tmp_path, monkeypatch, capsys):
    result = text / "experiments/results/char_lm/run"
    main(char_lm.EXPERIMENT, ["sample", str(text / "run"), "--length", "40"])
    written = capsys.readouterr().out
    before = tiny.tree(result)
    monkeypatch.chdir(tmp_path)
    (text / "book.txt").rename(text / "moved.txt")
    try:
        main(char_lm.EXPERIMENT, ["sample", str(result), "--length", "40"])
        assert capsys.readouterr().out == written
        line = verified(text, capsys)[0]
        assert line.startswith("char_lm/run: skipped; its data cannot be read: ")
    finally:
        (text / "moved.txt").rename(text / "book.txt")
    assert tiny.tree(result) == before


def test_the_last_state_is_not_kept(text, assert_refused):
    result = text / "experiments/results/char_lm/run"
    assert_refused(partial(main, char_lm.EXPERIMENT), ["sample", result, "--state", "last"], "weights of the best state alone")


def test_hints_follow_workdir_and_seed(tmp_path):
    command = parse(char_lm.EXPERIMENT, ["--workdir", str(tmp_path), "--seed", "3"])
    hints = closing(char_lm.EXPERIMENT, command)
    assert f"sample {tmp_path}/quick-lrd-seed3 " in hints
    assert closing(char_lm.EXPERIMENT, parse(char_lm.EXPERIMENT, [])) == char_lm.EXPERIMENT.closing
