"""What is too large is refused before anything is made, with the estimate and the limit; published configurations pass."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

import experiments
from experiments.adding import EXPERIMENT as ADDING
from experiments.char_lm import EXPERIMENT as TEXT
from experiments.copy_memory import EXPERIMENT as COPY
from experiments.inspect_rhn.command import main as inspect_rhn
from experiments.music import EXPERIMENT as MUSIC
from experiments.sweep import main as sweep
from lrpt.cli import limits
from lrpt.cli.command import main
from lrpt.cli.flags import combinations
from lrpt.errors import UsageError
from lrpt.networks.counting import count
from lrpt.networks.sequence_model import ModelConfig

GIB = 2**30
VALUES = ",".join(map(str, range(1, 60)))

HUGE = [
    (ADDING, ["--seeds", "100000"], "runs: about 100,000, and the limit is 10,000"),
    (ADDING, ["--vary", *(f"{flag}={VALUES}" for flag in ("model.rank", "model.size", "train.batch-size", "optim.decay-after"))], "runs: "),
    (ADDING, ["--model.layers", "1000000"], "model.layers times model.depth: about 1,000,000"),
    (ADDING, ["--model.depth", "1000000", "--model.cell", "rhn"], "model.layers times model.depth: about 1,000,000"),
    (
        ADDING,
        ["--model.size", "10000000"],
        "the network would need about 98,543 MiB of memory, and the limit is 8,192 MiB: "
        "choose a smaller --model.size (10,000,000), --train.batch-size (20) or --data.length (50), or",
    ),
    (COPY, ["--model.size", "10000000"], "the network would need about"),
    (ADDING, ["--model.size", "200001"], "and the limit is 200,000 units: choose a smaller --model.size (200,001)"),
    (ADDING, ["--model.size", str(10**30)], "choose a smaller --model.size (1.0e+30)"),
    (COPY, ["--model.embeddings.width", str(10**30)], "--model.embeddings.width (1.0e+30), --train.batch-size"),
    (ADDING, ["--data.length", "1000000000000"], "the data would need about 778,198,242,187 MiB of memory, and the limit is 8,192 MiB"),
    (ADDING, ["--data.length", "1000000000000"], "choose a smaller --data.length (1,000,000,000,000), --data.train-size (100,000) or"),
    (ADDING, ["--data.train-size", str(10**20)], "examples of the data: about 1.0e+20"),
    (MUSIC, ["--data.tunes", "100000000"], "choose a smaller --data.tunes (100,000,000), or"),
]


@pytest.mark.parametrize(("experiment", "words", "says"), HUGE, ids=[" ".join(words)[:40] for _, words, _ in HUGE])
def test_the_huge_is_refused_at_once(experiment, words, says, assert_refused, monkeypatch):
    monkeypatch.setattr(limits, "memory_limit", lambda: 8 * GIB)
    begun = time.process_time()
    assert_refused(lambda words: main(experiment, words), words, says, "add --huge")
    assert time.process_time() - begun < 2


def test_a_file_that_memory_cannot_hold_is_refused_before_it_is_read(tmp_path, assert_refused, monkeypatch):
    """A file with a hole, which takes no room on the disk, and a folder with it."""
    monkeypatch.setattr(limits, "memory_limit", lambda: 8 * GIB)
    for name in ("large.abc", "small.abc"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(GIB + 2**20 if name == "large.abc" else 10)
    for path in (tmp_path, tmp_path / "large.abc"):
        words = ["--data.file", str(path), "--workdir", str(tmp_path / "run")]
        says = f"data.file is {path}: reading it would need about 8,200 MiB of memory", "choose a smaller --data.file, or add --huge"
        assert_refused(lambda words: main(MUSIC, words), words, *says)
    assert limits.file_bytes(tmp_path / "small.abc") == 10
    assert limits.file_bytes(tmp_path / "missing") == 0


def test_half_of_the_memory_of_this_machine_or_container_is_the_limit(monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "CONTAINER", tmp_path / "memory.max")
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000}.__getitem__)
    assert limits.memory_limit() == 4096 * 500
    for content, limit in (("max", 4096 * 500), (str(4096 * 100), 4096 * 50), (str(4096 * 2000), 4096 * 500)):
        limits.CONTAINER.write_text(content)
        assert limits.memory_limit() == limit

    limits.CONTAINER.unlink()

    def unknown(name):
        raise ValueError(name)

    monkeypatch.setattr("os.sysconf", unknown)
    assert limits.memory_limit() == 16 * GIB


def test_a_folder_counts_as_what_a_task_reads_of_it(tmp_path, assert_refused, monkeypatch):
    """So a folder that is named instead of a text is refused as such."""
    monkeypatch.setattr(limits, "memory_limit", lambda: 8 * GIB)
    with (tmp_path / "large.bin").open("wb") as file:
        file.truncate(2 * GIB)
    words = ["--data.file", str(tmp_path), "--workdir", str(tmp_path / "run"), "--no-compare"]
    assert_refused(lambda words: main(TEXT, words), words, "cannot be read (Is a directory)", "name a text file in UTF-8")


def test_tools_refuse_the_huge_too(assert_refused, monkeypatch):
    monkeypatch.setattr(limits, "memory_limit", lambda: 8 * GIB)
    assert_refused(sweep, ["adding", "--seeds", "1000000000"], "runs: about 1,000,000,000")
    assert_refused(
        inspect_rhn, ["starts", "--sizes", "100000000"], "sizes is 100000000: a matrix would need about", "choose smaller --sizes"
    )


def test_a_flag_goes_on(monkeypatch):
    monkeypatch.setattr(limits, "memory_limit", lambda: 8 * GIB)
    with pytest.raises(UsageError):
        combinations(ADDING, ["--model.layers", "2000"])
    assert combinations(ADDING, ["--model.layers", "2000", "--huge"])[""].config.model.layers == 2000


@pytest.mark.parametrize("model", [SimpleNamespace(), SimpleNamespace(size="small", layers=(8, 8)), SimpleNamespace(size=8)])
def test_a_network_without_sizes_passes(model):
    """A user's own, of which nothing is known; its data are checked all the same."""
    config = replace(ADDING.presets["quick"].config, model=model)
    limits.check_sizes([config], huge=False)
    with pytest.raises(UsageError, match="examples of the data"):
        limits.check_sizes([replace(config, data=replace(config.data, train_size=10**12))], huge=False)


@pytest.mark.parametrize(
    ("model", "tolerance"),
    [
        (ModelConfig("gru", size=512, parametrization="dense", embedding=4096), 0.1),
        (ModelConfig("gru", size=4096, rank=64), 0.1),
        (ModelConfig("gru", size=512, parametrization="dense", layers=4), 0.5),  # without the matrices between layers
    ],
    ids=["embedding", "low rank", "layers"],
)
def test_a_parameter_takes_memory_for_its_gradient_and_two_moments_too(model, tolerance):
    config = COPY.presets["quick"].config
    config = replace(config, model=model, train=replace(config.train, batch_size=1, evaluation_batch=1))
    assert limits.model_bytes(config) == pytest.approx(4 * 4 * count(model, 10, 10).true, rel=tolerance)


def test_every_preset_passes_on_a_small_machine(monkeypatch):
    monkeypatch.setattr(limits, "memory_limit", lambda: 8 * GIB)
    held = [getattr(experiments.module(name), "EXPERIMENT", None) for name in experiments.names()]
    configs = [preset.config for experiment in held if experiment for preset in experiment.presets.values()]
    assert len(configs) > 30
    limits.check_sizes(configs, huge=False)
