"""The files of a run: what is in them, what may be read back after any kind of end, and who may write."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import pytest
from tiny import CONFIG, EXPERIMENT, changed, command, lines, tree

from lrpt.cli.command import main
from lrpt.errors import UsageError
from lrpt.runs.configuration import to_json
from lrpt.runs.files import write_json, write_text
from lrpt.runs.layout import OLDER, folders, run_directories
from lrpt.runs.run_directory import REQUIRED, RunDirectory
from lrpt.runs.same_run import check_result


def identity(config=CONFIG, **names):
    return {"experiment": "copy_memory", "preset": "quick", "seed": 0, **names, **to_json(config)}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The directory of a run from the command line."""
    path = tmp_path_factory.mktemp("directory") / "run"
    main(EXPERIMENT, command(path))
    return path


def read(path):
    return json.loads(path.read_text())


def touched(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_run_directories_are_found_at_any_depth_and_without_those_replaced(tmp_path):
    touched(tmp_path, "b/x/config.json", "a/config.json", "a/result.json", "a/checkpoints/4/config.json", "a/figures/result.json")
    touched(tmp_path, f"b/x.1{OLDER}/config.json", "b/none/notes.txt")
    assert run_directories(tmp_path) == [tmp_path / "a", tmp_path / "b" / "x"]
    assert run_directories(tmp_path, "result.json") == run_directories(tmp_path / "a") == [tmp_path / "a"]
    assert run_directories(tmp_path / "nowhere") == []


def test_a_folder_that_is_removed_meanwhile_holds_no_run(tmp_path):
    touched(tmp_path, "a/config.json", "b/config.json")
    walk = folders(tmp_path)
    next(walk)
    shutil.rmtree(tmp_path / "a")
    assert [folder for folder, _, _ in walk] == [tmp_path / "b"]


def test_files(run):
    assert sorted(path.name for path in run.iterdir()) == [
        ".lock", "checkpoints", "config.json", "environment.json", "figures", "metrics.jsonl", "result.json", "task.json"
    ]  # fmt: skip
    assert sorted(path.name for path in (run / "figures").iterdir()) == ["learning_curves.pdf", "learning_curves.png"]
    assert (run / "figures" / "learning_curves.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["11", "8"]


def test_config(run):
    found = read(run / "config.json")
    assert found.pop("classes").keys() == {"model", "data"}
    assert found == identity() | {"run": RunDirectory(run).identifier()}
    assert len(RunDirectory(run).identifier()) == 32


def test_environment(run):
    environment = read(run / "environment.json")
    assert environment.keys() == {
        "python", "versions", "platform", "processor", "cpus", "device", "devices", "matmul_precision", "command", "commit", "dirty"
    }  # fmt: skip
    assert environment["versions"].keys() >= {"jax", "flax", "optax", "orbax-checkpoint", "numpy", "lrpt"}
    assert environment["device"].partition(" ")[0] == jax.default_backend()
    assert environment["devices"] == jax.device_count()
    assert environment["matmul_precision"] == "highest"  # as tests/conftest.py sets it
    assert environment["command"].startswith("python ")


def test_metrics(run):
    found = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [(line["update"], line["split"]) for line in found] == [(u, split) for u in (4, 8, 11) for split in ("train", "valid")]
    assert all(line.keys() >= {"update", "split", "seconds", "loss", "accuracy", "recall"} for line in found)
    assert all(line.keys() >= {"gradient_norm", "recoveries"} for line in found if line["split"] == "train")
    seconds = [line["seconds"] for line in found]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0


def test_result(run):
    result = read(run / "result.json")
    expected = {"experiment": "copy_memory", "preset": "quick", "model": "LRD-GRU 4/2", "seed": 0, "updates": 11, "stopped": "updates"}
    assert expected.items() <= result.items()
    assert result["config"] == to_json(CONFIG)
    assert result["parameters"].keys() == {"true", "paper"}
    assert result["parameters"]["true"] == sum(size for size in sizes(run).values())
    valid = [line for line in lines(run) if line["split"] == "valid"]
    best = min(valid, key=lambda line: line["loss"])
    assert result["best_update"] == best["update"]
    figures = {"loss": best["loss"], "accuracy": best["accuracy"], "recall": best["recall"]}
    highest = {f"highest_{name}": max(line[name] for line in valid) for name in ("accuracy", "recall")}
    assert result["metrics"] == {"valid": figures | highest, "test": figures}
    assert result["seconds"] > 0


def sizes(run):
    """Scalars of each parameter in the newest checkpoint, by its seal."""
    arrays = read(run / "checkpoints" / "11" / "seal.json")["arrays"]
    shapes = {name: json.loads(text[text.index("[") :]) for name, text in arrays.items() if name.startswith(".params")}
    return {name: math.prod(shape) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (changed(model={"rank": 1}), {}),
        (changed(optim={"learning_rate": 0.02}), {}),
        (changed(optim={"decay": 0.5}), {}),
        (changed(optim={"halve_after": 2}), {}),
        (changed(optim={"halvings": 2}), {}),
        (changed(optim={"return_to_best": True}), {}),
        (changed(optim={"weight_decay": 0.1}), {}),
        (changed(optim={"summed_steps": 2}), {}),
        (changed(train={"start": Path("start.npz")}), {}),
        (changed(train={"fresh_every": 2}), {}),
        (changed(train={"batch_size": 5}), {}),
        (changed(train={"evaluate_every": 5}), {}),
        (changed(train={"order": "cyclic"}), {}),
        (changed(data={"lag": 4}), {}),
        (CONFIG, {"seed": 1}),
        (CONFIG, {"experiment": "adding"}),
    ],
    ids=[
        *("model", "optim", "decay", "halve_after", "halvings", "return_to_best", "weight_decay", "summed_steps", "start", "fresh_every"),
        *("batch", "evaluate", "order", "data", "seed", "experiment"),
    ],
)
def test_another_run_is_refused(run, config, names):
    with pytest.raises(
        UsageError, match=f"{run} holds a run with .* = .*, not .*: repeat its flags to resume it, or name another --workdir"
    ):
        RunDirectory(run).check(identity(config, **names))


def test_a_result_of_another_configuration_is_refused(run, tmp_path):
    """As after `config.json` was replaced."""
    shutil.copytree(run, tmp_path / "run")
    one = changed(model={"rank": 1})
    write_json(tmp_path / "run" / "config.json", read(run / "config.json") | to_json(one))
    with pytest.raises(UsageError, match=r"holds a run with model\.matrices\.rank = 2, not 1"):
        RunDirectory(tmp_path / "run").check(identity(one))


def test_of_several_differences_the_plainest_is_named_first(run):
    more = re.escape(" (and 2 more: data.lag, model.matrices.rank): ")
    with pytest.raises(UsageError, match=f"holds a run with seed = 0, not 1{more}"):
        RunDirectory(run).check(identity(changed(model={"rank": 1}, data={"lag": 4}), seed=1))


def test_of_many_differences_four_are_named(run):
    more = re.escape(" (and 4 more: data.lag, model.matrices.rank, optim.learning_rate, ...): ")
    now = identity(changed(model={"rank": 1}, data={"lag": 4}, optim={"learning_rate": 0.5}, train={"batch_size": 5}), seed=1)
    with pytest.raises(UsageError, match=f"holds a run with seed = 0, not 1{more}"):
        RunDirectory(run).check(now)


@pytest.mark.parametrize("train", [{"updates": 99}, {"stop_below": 0.1}, {"updates_per_call": 7}, {"evaluation_batch": 9}])
def test_what_decides_no_numbers_may_change(run, train):
    """Alone it is no reason to refuse; beside a reason it is not the one that is named."""
    now = identity(changed(train=train), preset="paper")
    assert now != read(run / "config.json")
    RunDirectory(run).check(now)
    with pytest.raises(UsageError, match="seed = 0, not 1"):
        RunDirectory(run).check(now | {"seed": 1})


def test_a_setting_that_did_not_exist_when_a_run_was_recorded_has_its_default(run):
    now, later = identity(), identity()
    later["data"] = {**now["data"], "form": "new"}
    RunDirectory(run).check(later, {"data.form": "new"})
    with pytest.raises(UsageError, match=r"data\.form = old, not new"):
        RunDirectory(run).check(later, {"data.form": "old"})


def test_a_start_without_work_is_taken_over(tmp_path):
    """As it is left by a run that went wrong before its first checkpoint."""
    directory = RunDirectory(tmp_path / "run")
    directory.open(identity())
    directory.keep_metrics("")
    directory.release()
    RunDirectory(tmp_path / "run").check(identity(changed(model={"rank": 1})))
    (tmp_path / "run" / "checkpoints" / "4").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"model\.matrices\.rank = 2, not 1"):
        RunDirectory(tmp_path / "run").check(identity(changed(model={"rank": 1})))


DAMAGE = {
    "seed is missing": lambda config: config.pop("seed"),
    "model is missing": lambda config: config.pop("model"),
    "seed is 'x', no integer": lambda config: config.update(seed="x"),
    "model.nope is no setting of ModelConfig": lambda config: config["model"].update(nope=1),
    "model.size is -3": lambda config: config["model"].update(size=-3),
    "optim.nope is no setting": lambda config: config["optim"].update(nope=1),
    "data.nope is no setting": lambda config: config["data"].update(nope=1),
    "train is no setting": lambda config: config.update(train=3),
}


@pytest.mark.parametrize("flaw", DAMAGE)
def test_a_damaged_configuration_is_not_called_another_run(flaw, run, tmp_path, assert_refused):
    """No flags could repeat what it says."""
    path = Path(shutil.copytree(run, tmp_path / "run"))
    config = read(path / "config.json")
    DAMAGE[flaw](config)
    write_json(path / "config.json", config)
    words = f"{path / 'config.json'} is damaged ({flaw}): restore it, or name another --workdir"
    assert_refused(partial(main, EXPERIMENT), command(path), words, code=1)


def test_a_run_of_a_class_that_cannot_be_imported_is_another_run(run, tmp_path):
    path = Path(shutil.copytree(run, tmp_path / "run"))
    write_json(path / "config.json", read(path / "config.json") | {"classes": {"model": "gone:Model", "data": "gone:Data"}, "seed": 1})
    with pytest.raises(UsageError, match="holds a run with seed = 1, not 0"):
        RunDirectory(path).check(identity())


IN_THE_WAY = ["config.json", "environment.json", "metrics.jsonl", "result.json", "failure.json"]


@pytest.mark.parametrize("name", IN_THE_WAY)
def test_a_directory_in_the_place_of_a_file_is_named(name, run, tmp_path, assert_refused):
    """The same command would not resume: it would fail again."""
    path = Path(shutil.copytree(run, tmp_path / "run"))
    for each in {name, "result.json"}:
        (path / each).unlink(missing_ok=True)
    (path / name).mkdir()
    says = f"{path / name} is a directory: remove or rename it, or name another --workdir, and repeat the command"
    assert_refused(partial(main, EXPERIMENT), command(path, changed(train={"updates": 12})), says, code=1, printed=True)


@pytest.mark.parametrize("name", ["checkpoints", "figures"])
def test_a_file_in_the_place_of_a_directory_is_named(name, tmp_path, assert_refused):
    path = tmp_path / "run"
    path.mkdir()
    (path / name).write_text("")
    says = f"{path / name} is a file, and no directory: remove or rename it, or name another --workdir, and repeat the command"
    assert_refused(partial(main, EXPERIMENT), command(path), says, code=1, printed=True)


@pytest.mark.parametrize("name", [name for name in IN_THE_WAY if name != "environment.json"])
def test_a_pipe_in_the_place_of_a_file_is_named(name, run, tmp_path, assert_refused):
    """Reading one would wait for ever."""
    path = Path(shutil.copytree(run, tmp_path / "run"))
    for each in {name, "result.json"}:
        (path / each).unlink(missing_ok=True)
    os.mkfifo(path / name)
    says = f"{path / name} is a device or a pipe: remove or rename it, or name another --workdir, and repeat the command"
    assert_refused(partial(main, EXPERIMENT), command(path, changed(train={"updates": 12})), says, code=1, printed=True)


@pytest.mark.parametrize("name", ["config.json", "result.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff\x00", b'{"model": ', b"[" * 100_000])
def test_files_that_are_no_json_objects(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    directory = RunDirectory(tmp_path)
    advice = "remove it" if name == "result.json" else "restore it"
    with pytest.raises(UsageError, match=f"{tmp_path / name} is damaged, or no JSON of this library: {advice}, or name another --workdir"):
        directory.result() if name == "result.json" else directory.check(identity())


def test_a_run_without_its_configuration_is_refused(run, tmp_path):
    shutil.copytree(run, tmp_path / "copy")
    (tmp_path / "copy" / "config.json").unlink()
    with pytest.raises(UsageError, match=r"holds a run without config\.json: restore that file"):
        RunDirectory(tmp_path / "copy").check(identity())


def test_a_result_that_is_none(tmp_path):
    write_json(tmp_path / "result.json", {"updates": 3})
    with pytest.raises(UsageError, match=r"result\.json is damaged"):
        RunDirectory(tmp_path).result()


def test_metrics_that_are_not_finite_are_read_as_nan(tmp_path):
    directory = RunDirectory(tmp_path)
    directory.append_metrics([{"update": 1, "split": "valid", "loss": 1e3, "perplexity": math.inf}])
    metrics = {"loss": 1e3, "perplexity": math.inf}
    returned = directory.write_result({**dict.fromkeys(REQUIRED), "config": {}, "metrics": {"valid": metrics, "test": metrics}})
    assert '"perplexity": null' in (tmp_path / "result.json").read_text()
    for found in (returned, directory.result()):
        assert [f"{found['metrics'][split]['perplexity']:.5g}" for split in ("valid", "test")] == ["nan", "nan"]
    assert math.isnan(directory.metrics()[0]["perplexity"])


def test_a_result_stays_unless_its_metrics_will_be_written_again(tmp_path):
    directory, metrics = RunDirectory(tmp_path), {"valid": {"loss": 1.0}, "test": {"loss": 1.0}}
    directory.append_metrics([{"update": 4, "split": "valid"}, {"update": 8, "split": "valid"}])
    whole = directory.metrics_text()
    directory.write_result({**dict.fromkeys(REQUIRED), "config": {}, "metrics": metrics})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"update": 12, "sp')
    assert not directory.keep_metrics(whole)
    assert (tmp_path / "metrics.jsonl").read_text() == whole
    assert directory.result() is not None
    assert directory.keep_metrics(whole.replace("4", "3"))  # the lines before it had been altered
    directory.keep_metrics(whole.splitlines(keepends=True)[0])
    assert directory.result() is None


@pytest.mark.parametrize(("number", "advice"), [(28, "free space there and repeat the command"), (13, "make it writable, or name another")])
def test_a_directory_that_cannot_be_opened_says_what_to_do(tmp_path, monkeypatch, number, advice):
    def fail(path, content):
        raise OSError(number, "no")

    monkeypatch.setattr("lrpt.runs.run_directory.write_json", fail)
    with pytest.raises(UsageError, match=rf"cannot be written \(no\): {advice}"):
        RunDirectory(tmp_path / "run").open(identity())


@pytest.mark.parametrize("cut", range(1, 33, 3))
def test_a_line_that_was_cut_is_no_line(tmp_path, cut):
    directory = RunDirectory(tmp_path)
    directory.append_metrics([{"update": 4, "split": "valid"}, {"update": 8, "split": "valid"}])
    whole = (tmp_path / "metrics.jsonl").read_bytes()
    (tmp_path / "metrics.jsonl").write_bytes(whole[:-cut])
    assert [line["update"] for line in directory.metrics()] == ([4, 8] if cut == 1 else [4])
    directory.keep_metrics(whole.decode().splitlines(keepends=True)[0])
    directory.append_metrics([{"update": 8, "split": "valid"}])
    assert (tmp_path / "metrics.jsonl").read_bytes() == whole


@pytest.mark.parametrize("passed", [6, 8])
def test_a_failure_is_forgotten_once_training_has_passed_it(tmp_path, passed):
    directory = RunDirectory(tmp_path)
    directory.write_failure(6, "the training loss is nan")
    directory.append_metrics([{"update": 4, "split": "valid", "loss": 1.0}])
    assert directory.failure() == {"update": 6, "what": "the training loss is nan"}
    directory.append_metrics([{"update": passed, "split": "valid", "loss": 1.0}])
    assert directory.failure() is None


def test_a_run_with_a_result_has_not_diverged(tmp_path):
    """As after a failure at an update that the run, asked for fewer, no longer has."""
    directory = RunDirectory(tmp_path)
    directory.write_failure(6, "the training loss is nan")
    assert directory.divergence() == {"update": 6, "what": "the training loss is nan"}
    metrics = {"valid": {"loss": 1.0}, "test": {"loss": 1.0}}
    directory.write_result({**dict.fromkeys(REQUIRED), "config": {}, "metrics": metrics})
    assert directory.divergence() is None


def test_a_setting_that_the_configuration_has_lost_is_named(tmp_path):
    result = {"config": {"optim": {"recipe": "adam", "decay": 0.5}}}
    check_result(tmp_path, {"optim": {"recipe": "adam", "decay": 0.5, "new": 1}}, result)
    with pytest.raises(UsageError, match=r"config\.json: optim\.decay is missing, and result\.json has 0\.5: restore config\.json"):
        check_result(tmp_path, {"optim": {"recipe": "adam"}}, result)


@pytest.mark.parametrize("line", ["3", "[]", "{}", "null", "\x00\x00", '{"split": "valid"}', '{"update": "x", "split": "valid"}'])
def test_a_line_that_is_none_is_skipped(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_text(f'{line}\n{{"update": 4, "split": "valid"}}\n')
    assert RunDirectory(tmp_path).metrics() == [{"update": 4, "split": "valid"}]


def test_a_file_is_replaced_as_a_whole(tmp_path, monkeypatch):
    write_text(tmp_path / "file", "old")

    def fail(self, text, **how):
        with open(self, "w") as file:
            file.write(text[:2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", fail)
    with pytest.raises(OSError, match="No space left"):
        write_text(tmp_path / "file", "new content")
    assert tree(tmp_path) == {"file": b"old"}


HOLD = """
import sys
from filelock import FileLock
lock = FileLock(sys.argv[1] + "/.lock")
lock.acquire()
print("claimed", flush=True)
sys.stdin.read()
"""


def test_a_directory_is_free_when_its_process_is_dead(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    directory = RunDirectory(tmp_path)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"claimed\n"
        with pytest.raises(UsageError, match=f"another command is at work in {tmp_path}: wait for its end, or name another --workdir"):
            directory.lock()
        process.kill()
    directory.lock()
    directory.lock()
    with pytest.raises(UsageError, match="another command is at work"):
        RunDirectory(tmp_path).lock()
    directory.release()
    other = RunDirectory(tmp_path)
    other.lock()
    other.release()
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    asked = []

    def unsupported(*_):
        asked.append(tmp_path)
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", unsupported)
    found = set()
    for _ in range(2):
        RunDirectory(tmp_path).open(identity())
        found.add(RunDirectory(tmp_path).identifier())
    assert len(asked) >= 2  # some versions of filelock ask twice
    assert read(tmp_path / "config.json") == identity() | {"run": found.pop()}
    assert not found
