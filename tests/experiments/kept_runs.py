"""Run directories made up for tests of the report, and the verdicts on them."""

import json
from functools import partial

from tiny import CONFIG

from experiments import copy_memory, music
from experiments.report.claims.judged import Judged
from experiments.report.claims.rows import Evidence
from experiments.report.kept.records import Record, load
from experiments.report.papers import low_rank
from experiments.report.papers import variable_computation_networks as computing
from lrpt.cli.flags import parse
from lrpt.runs.configuration import to_json
from lrpt.runs.files import sealed

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
    analysis=None,
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
    if analysis is not None:
        of = {"update": max(curve), "valid_loss": curve[max(curve)] if score == "loss" else 1.0, "part": "valid", "steps": 50_000}
        write(path / "analysis.json", sealed({**of, **analysis}))
    if test is not None:
        ends = {"updates": max(curve), "stopped": stopped, "seconds": max(curve) / 10, "metrics": {"valid": {score: 1}, "test": test}}
        ends["best_update"] = min(curve, key=curve.get) if score == "loss" else min(curve)
        names = {k: config[k] for k in ("experiment", "preset", "seed")}
        write(path / "result.json", sealed({**names, "model": "a model", **ends, "config": config}))
    return path


kept_run = partial(make_run, command="python -m experiments.example")
"""A run directory whose command names no path, as of a run that was collected."""


def in_training(path, name, value):
    """Add a metric to the training metrics of a run, as a function of the update."""
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    added = [line | ({name: value(line["update"])} if line["split"] == "train" else {}) for line in lines]
    write(path / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in added))


def judged(root, paper=low_rank.PAPER):
    """Return the claims of a paper, judged by the runs that a directory has."""
    return Judged(paper, Evidence(load(root)))


def relation(root, sentence, paper=low_rank.PAPER):
    """Return the first relation that begins with a sentence, judged."""
    return judged(root, paper).relation(sentence)


def characters(root, flags, seed, operations, bits):
    """A finished run on characters with this many operations of a step, and bits per character."""
    test, name = {"bits_per_character": bits, "multiplications": operations}, f"{flags}-{seed}".replace(" ", "")
    kept_run(root, computing.CHARS, f"--preset {flags}", seed, {37_620: bits}, "bits_per_character", test, name=name)


def melodies(root, seed, bars, others):
    """A finished run on melodies with these means of m on bars and on other notes."""
    notes = {"bars": {"bar": [bars, 300], "no bar": [others, 900]}}
    kept_run(root, music.EXPERIMENT, "--preset paper", seed, {2_640: 8.6}, "perplexity", {}, stopped="patience", analysis={"notes": notes})


def recorded(curve, score="loss", split="valid", test=None, failure=None):
    """Return a run with a curve by update, and a result if it has a figure of the test part."""
    lines = tuple({"update": update, "split": split, score: value} for update, value in curve.items())
    result = test and {"metrics": {"test": {score: test}}, "stopped": "updates", "updates": max(curve), "best_update": max(curve)}
    return Record("run", {"experiment": "copy_memory", "seed": 3, **to_json(CONFIG)}, {}, lines, result, failure)
