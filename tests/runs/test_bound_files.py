"""Files of a run that were altered, shortened or taken from another run: noticed wherever they are read, in one line."""

import json
import shutil
from functools import partial

import pytest
from tiny import CONFIG, EXPERIMENT, arrays, changed, command, numbers

from lrpt.cli.command import main
from lrpt.errors import UsageError
from lrpt.runs.run_directory import RunDirectory

train = partial(main, EXPERIMENT)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Directories of two runs that differ in the seed."""
    root = tmp_path_factory.mktemp("runs")
    train(command(root / "mine"))
    train(command(root / "other", CONFIG, "--seed", "1"))
    return root


@pytest.fixture
def mine(runs, tmp_path):
    shutil.copytree(runs / "mine", tmp_path / "mine")
    return tmp_path / "mine"


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content, indent=2))


@pytest.mark.slow
def test_files_are_valid_json(mine):
    files = [*mine.glob("*.json"), *mine.glob("checkpoints/*/seal.json")]
    assert len(files) >= 4  # configuration, environment, result and at least one seal
    for path in files:
        not_json = []  # Python reads NaN and Infinity, which are no JSON
        json.loads(path.read_text(), parse_constant=not_json.append)
        assert not not_json, f"{path.name} holds {not_json}"


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["metrics"]["test"].update(loss=r["metrics"]["test"]["loss"] + 1e-9),
        lambda r: r["metrics"]["valid"].update(accuracy=None),
        lambda r: r.update(updates=12),
        lambda r: r.update(model="GRU 4"),
        lambda r: r.pop("sha256"),
    ],
)
def test_an_altered_result(mine, change, assert_refused):
    edit(mine / "result.json", change)
    assert_refused(train, command(mine), f"{mine / 'result.json'} was altered", "restore it, or remove it to train again", code=1)


def test_the_result_of_another_run(runs, mine, assert_refused):
    shutil.copy(runs / "other" / "result.json", mine)
    assert_refused(train, command(mine), f"{mine / 'result.json'} belongs to another run", code=1)


def another_number(lines):
    return [lines[0].replace('"loss": ', '"loss": 1'), *lines[1:]]


@pytest.mark.parametrize("harm", [lambda lines: lines[:-1], lambda lines: lines[1:], lambda lines: [], another_number])
def test_metrics_of_a_finished_run_that_are_not_what_they_were(mine, harm, assert_refused):
    path = mine / "metrics.jsonl"
    path.write_text("".join(harm(path.read_text().splitlines(keepends=True))))
    assert_refused(train, command(mine), f"{path} is not what this run wrote", "remove result.json and repeat the command", code=1)
    with pytest.raises(UsageError, match="is not what this run wrote"):
        RunDirectory(mine).result()


def test_the_remedy_for_them_works(runs, mine, capsys):
    (mine / "metrics.jsonl").unlink()
    (mine / "result.json").unlink()
    train(command(mine))
    assert "restored from the checkpoint of update 11" in capsys.readouterr().err
    assert numbers(mine) == numbers(runs / "mine")


def test_a_checkpoint_of_another_run(runs, mine, capsys):
    """As it would have given a wrong result before, without a word."""
    (mine / "result.json").unlink()
    shutil.rmtree(mine / "checkpoints" / "11")
    shutil.copytree(runs / "other" / "checkpoints" / "11", mine / "checkpoints" / "11")
    train(command(mine))
    assert "the checkpoint of update 11" in (warning := capsys.readouterr().err)
    assert "it belongs to another run" in warning
    assert numbers(mine) == numbers(runs / "mine")


@pytest.mark.slow
def test_metrics_may_grow_beyond_a_result(mine, tmp_path):
    """A finished run that is asked for more updates is a run in progress, whose earlier result still fits."""
    longer = changed(train={"updates": 15})
    RunDirectory(mine).append_metrics([{"update": 12, "split": "valid", "loss": 1.0}])
    assert RunDirectory(mine).result() is not None
    train(command(mine, longer))
    train(command(tmp_path / "longer", longer))
    assert arrays(mine, longer) == arrays(tmp_path / "longer", longer)
    assert [line["update"] for line in RunDirectory(mine).metrics()] == [4, 4, 8, 8, 11, 11, 12, 12, 15, 15]


def test_a_test_loss_that_is_not_finite(tmp_path, monkeypatch, assert_refused):
    monkeypatch.setattr("lrpt.training.trainer.Trainer._test", lambda self: [{"loss": float("nan")} for _ in self.runs])
    assert_refused(train, command(tmp_path / "run"), "test loss is nan at update 11", "the last good checkpoint", code=1, printed=True)
    assert not (tmp_path / "run" / "result.json").exists()
