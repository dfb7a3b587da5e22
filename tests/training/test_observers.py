"""Observers see every evaluation and change no number; event files of TensorBoard; texts at evaluations and at the end."""

import math
import sys
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import pytest
from tiny import CONFIG, lines, numbers

from experiments.char_lm import EXPERIMENT
from lrpt.cli.command import main
from lrpt.devices import hardware
from lrpt.errors import UsageError
from lrpt.runs.console import Bar, Console
from lrpt.training.event_files import EventFiles
from lrpt.training.loop import Job, fit_all
from lrpt.training.run import Run


class Recorder:
    def __init__(self):
        self.seen = []

    def evaluated(self, evaluation):
        self.seen.append(evaluation)


@pytest.mark.parametrize("kind", ["low_rank", "dense"])
def test_a_hopper_gpu_says_that_there_is_a_kernel(kind, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(hardware, "on_hopper", lambda: True)
    model = replace(CONFIG.model, cell="gru", parametrization=kind)
    fit_all([Job(replace(CONFIG, model=model, train=replace(CONFIG.train, updates=1)), 0, tmp_path / "run")], devices=1, console=Console())
    assert ("on this GPU, --model.recurrence kernel" in capsys.readouterr().out) == (kind == "low_rank")


def test_the_bar_shows_the_loss_of_the_last_update_of_a_call(tmp_path, monkeypatch):
    """Calls end at updates 3, 4, 7, 8 and 11. Calls of one update show the loss of each."""
    shown = []
    monkeypatch.setattr(Bar, "advance", lambda bar, update, loss: shown[-1].update({update: loss}))
    for count in (1, 3):
        shown.append({})
        fit_all([Job(replace(CONFIG, train=replace(CONFIG.train, updates_per_call=count)), 0, tmp_path / str(count))], devices=1)
    single, several = shown
    assert list(several) == [3, 4, 7, 8, 11]
    assert several == pytest.approx({update: single[update] for update in several}, rel=1e-4)


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    root, recorder = tmp_path_factory.mktemp("observed"), Recorder()
    fit_all([Job(CONFIG, 0, root / "run")], devices=1, observers=[recorder])
    fit_all([Job(CONFIG, 0, root / "alone")], devices=1)
    return root, recorder


@pytest.mark.slow
def test_they_see_what_is_written_and_change_no_number(observed):
    root, recorder = observed
    assert [evaluation.update for evaluation in recorder.seen] == [4, 8, 11]
    assert numbers(root / "run") == numbers(root / "alone")
    written = [line for line in lines(root / "run") if line["split"] == "valid"]
    for evaluation, line in zip(recorder.seen, written, strict=True):
        assert evaluation.path == root / "run"
        assert evaluation.metrics["valid"]["loss"] == line["loss"]
        assert set(evaluation.metrics) == {"train", "valid"}


def test_event_files_hold_every_evaluation(observed, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    root, recorder = observed
    files = EventFiles()
    for evaluation in recorder.seen:
        files.evaluated(evaluation._replace(path=tmp_path))
    read = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    for split in ("train", "valid"):
        expected = [(line["update"], line["loss"]) for line in lines(root / "run") if line["split"] == split]
        found = [(event.step, event.tensor_proto.float_val[0]) for event in read.Tensors(f"{split}/loss")]
        assert [step for step, _ in found] == [step for step, _ in expected]
        assert [value for _, value in found] == pytest.approx([value for _, value in expected])


class Writer:
    """What `EventFiles` uses of TensorBoard's writer. Each open one has a file and a thread."""

    open: ClassVar[list[str]] = []

    def __init__(self, path):
        self.path = path
        self.open.append(path)

    def add_scalar(self, *_):
        pass

    def flush(self):
        pass

    def close(self):
        self.open.remove(self.path)


@pytest.mark.parametrize("ends", ["well", "by a loss that is not finite"])
def test_event_files_of_runs_that_have_ended_are_closed(ends, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.summary", SimpleNamespace(Writer=Writer))
    seen, evaluated, had_failed = [], Run.evaluated, ends != "well"

    def fails(run, update, metrics, *more):
        return evaluated(run, update, {**metrics, "loss": math.inf} if had_failed and update == 8 else metrics, *more)

    class Counter(Recorder):
        def evaluated(self, evaluation):
            seen.append(len(Writer.open))

    monkeypatch.setattr(Run, "evaluated", fails)
    monkeypatch.setattr(Writer, "open", [])
    jobs = [Job(CONFIG, seed, tmp_path / str(seed)) for seed in (0, 1)]
    with pytest.raises(UsageError) if had_failed else nullcontext():
        fit_all(jobs, devices=1, observers=[EventFiles(), Counter()])
    assert seen == [1] * (2 if had_failed else 6)
    assert not Writer.open


def test_tensorboard_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.summary", None)
    with pytest.raises(UsageError, match=r"not installed: pip install -e '\.\[tensorboard\]'"):
        EventFiles()


@pytest.mark.slow
def test_texts_are_printed_at_evaluations_and_at_the_end(tmp_path, capsys):
    (tmp_path / "book.txt").write_text("the cat sat on the mat\n" * 400)
    words = "--no-compare --model.size 8 --model.rank 2 --train.updates 2 --train.evaluate-every 1 --train.batch-size 4 --devices 1"
    words += f" --data.file {tmp_path / 'book.txt'} --data.steps 10 --workdir {tmp_path / 'run'} --samples 12"
    main(EXPERIMENT, words.split())
    said = capsys.readouterr().out
    for update in (1, 2):
        text = said.partition(f"writes at update {update}:\n")[2]
        assert len(text) > 12
        assert set(text[:12]) <= set("the cat sat on the mat\n\ufffd")
    assert f"{tmp_path / 'run'} writes:\n" in said


def test_a_task_without_text_writes_none(assert_refused):
    from experiments.adding import EXPERIMENT as ADDING

    assert_refused(lambda words: main(ADDING, words), ["--samples", "10"], "samples is 10, and adding has no text to write")
