"""Runs commands of tiny experiments, each in a process of its own that a signal ends at a given place.

    python driver.py JOBS

JOBS is a JSON list of {"argv": [...], "end": name of a function below or null, "at": call of that number, "log": file}; "experiment" names
another one than copy_memory. With "together": n it is one run of n processes, of which "of" is the number of the one that ends, and each
has a log of its own, FILE.0 and so on. The packages are imported once; each process is a fork, made before JAX starts. Prints the JSON list
of exit statuses, negative for a signal that nobody caught, and lists of them where processes ran together.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from experiments import char_lm, copy_memory
from lrpt.cli.command import main
from lrpt.runs import checkpoint
from lrpt.runs.checkpoint import Checkpoints
from lrpt.runs.run_directory import RunDirectory
from lrpt.training.trainer import Trainer

EXPERIMENTS = {module.EXPERIMENT.name: module.EXPERIMENT for module in (char_lm, copy_memory)}

# What a shell starts in the background ignores SIGINT, and hands that on to whatever it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def before(owner: Any, name: str, at: int, act: Callable[..., None]) -> None:
    """Puts `act` before the call number `at` of a function."""
    function, calls = getattr(owner, name), iter(range(1, 10**9))

    def replaced(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == at:
            act(*args)
        return function(*args, **kwargs)

    setattr(owner, name, replaced)


def kill(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_in_training(at: int) -> None:
    """Before the updates of a call are collected."""
    before(Trainer, "_train_call", at, kill)


def kill_in_metrics(at: int) -> None:
    """With half of an evaluation's lines written."""

    def half(directory: RunDirectory, lines: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        with (directory.path / "metrics.jsonl").open("a") as file:
            file.write(text[: 3 * len(text) // 4])
        kill()

    before(RunDirectory, "append_metrics", at, half)


def kill_between_metrics_and_checkpoint(at: int) -> None:
    before(Checkpoints, "save", at, kill)


def kill_in_checkpoint(at: int) -> None:
    """With all arrays written, before the directory gets its name."""

    def at_commit(source: Any, *_: Any) -> None:
        if "orbax-checkpoint-tmp" in os.fspath(source):
            kill()

    for name in ("rename", "replace"):
        function = getattr(os, name)
        setattr(os, name, lambda *args, function=function: (at_commit(*args), function(*args))[1])
    del at


def kill_before_the_seal(at: int) -> None:
    before(checkpoint, "write_json", at, kill)


def kill_before_the_result(at: int) -> None:
    before(RunDirectory, "write_result", at, kill)


def interrupt(at: int) -> None:
    before(Trainer, "_train_call", at, lambda *_: os.kill(os.getpid(), signal.SIGINT))


def terminate(at: int) -> None:
    before(Trainer, "_train_call", at, lambda *_: os.kill(os.getpid(), signal.SIGTERM))


def interrupt_twice(at: int) -> None:
    """Interrupt twice: the second one does not wait for the end of the call."""
    before(Trainer, "_train_call", at, lambda *_: [os.kill(os.getpid(), signal.SIGINT) for _ in range(2)])


def interrupt_before_training(at: int) -> None:
    before(RunDirectory, "lock", at, lambda *_: os.kill(os.getpid(), signal.SIGINT))


def run(job: dict[str, Any]) -> None:
    """Do what the child does; it leaves through `sys.exit` or a signal."""
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(log, 2)
    if job["end"]:
        globals()[job["end"]](job["at"])
    main(EXPERIMENTS[job.get("experiment", "copy_memory")], job["argv"])


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def statuses(job: dict[str, Any]) -> int | list[int]:
    """Forks, waits, and returns the exit status, or those of all processes of the run."""
    if "together" not in job:
        return status(start(job))
    address = ["--distributed.coordinator-address", f"127.0.0.1:{free_port()}", "--distributed.num-processes", str(job["together"])]
    several = []
    for i in range(job["together"]):
        own = {"argv": [*job["argv"], *address, "--distributed.process-id", str(i)], "log": f"{job['log']}.{i}"}
        several.append(job | own | {"end": job["end"] if i == job["of"] else None})
    return [status(child) for child in [start(one) for one in several]]


def status(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def start(job: dict[str, Any]) -> int:
    """Forks, and returns the number of the child."""
    child = os.fork()
    if child == 0:
        try:
            run(job)
            code = 0
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        sys.stderr.flush()
        if jax.distributed.is_initialized():
            jax.distributed.shutdown()  # as at the end of any process that no os._exit cuts short
        os._exit(code)
    return child


if __name__ == "__main__":
    print(json.dumps([statuses(job) for job in json.loads(Path(sys.argv[1]).read_text())]))
