"""The benchmark: what it counts, what it writes, and what it says. No test looks at a time."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure

from experiments.benchmark import command, presentation, rounds, worker
from experiments.benchmark.command import Options, main
from experiments.benchmark.contenders import CONTENDERS, TWO, equal_operations, flax_network
from experiments.benchmark.presentation import COLUMNS, best_against_rivals, markdown, table
from experiments.benchmark.rounds import Process
from experiments.benchmark.workloads import ALL, WORKLOADS, make_task, sizes
from lrpt.networks.sequence_model import ModelConfig
from lrpt.runs.console import Console

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"


def row(contender, ms, measure="train", workload="adding"):
    figures = {"cpu_ms": ms, "page_faults": 0, "parameters": 10, "flops": 1e9, "share_of_peak": 0.1}
    return {"workload": workload, "contender": contender, "measure": measure, "median_ms": ms, "min_ms": ms, "max_ms": ms, **figures}


def report(*rows):
    return {"date": "2026-01-01", "processor": "P", "cores": 2, "versions": {"jax": "1"}, "rounds": 1, "rows": list(rows)}


@pytest.mark.slow
def test_one_contender_from_the_command_line(tmp_path, capsys):
    main(
        [
            "--workloads",
            "adding",
            "--contenders",
            "fast",
            "--rounds",
            "1",
            "--json",
            str(tmp_path / "b.json"),
            "--figure",
            str(tmp_path / "b.png"),
        ]
    )
    written = json.loads((tmp_path / "b.json").read_text())
    assert [(r["workload"], r["contender"], r["measure"]) for r in written["rows"]] == [("adding", "fast", m) for m in ("train", "forward")]
    train = written["rows"][0]
    assert train["min_ms"] == train["median_ms"] == train["max_ms"] > 0
    assert train["parameters"] == 20_225
    assert 0 < train["temporary_bytes"] < 32 * 2**20
    assert (tmp_path / "b.png").stat().st_size > 1000
    assert "adding: milliseconds for an update" in capsys.readouterr().out


def test_a_contender_that_cannot_be_built_says_why():
    with pytest.raises(RuntimeError, match="KeyError: 'nobody'"):
        Process("adding", "nobody")


def test_operations_are_products_with_matrices():
    w = WORKLOADS["copy"]
    forward = 520 * 20 * 2 * (3 * (2 * 128 * 50 + 128) + 128 * 10 + 10)
    assert sizes(w, w.model)["flops"] == 3 * forward
    dense = ModelConfig(size=128, parametrization="dense")
    assert sizes(w, dense)["flops"] == 6 * 520 * 20 * (3 * 128**2 + 128 * 10 + 10)


def test_a_single_prediction_multiplies_by_the_readout_once():
    w = WORKLOADS["adding"]
    products = 750 * 3 * (2 * 128 * 24 + 128 + 2 * 128) + 128 + 1  # of one sequence
    assert sizes(w, w.model)["flops"] == 6 * 20 * products


def test_products_with_embeddings_count():
    """A tied readout multiplies by the embedding matrix, and vectors of symbols by the input matrices."""
    w = WORKLOADS["word_rhn_5"]
    own = 2 * (5 + 1) * 830**2  # two gates: five recurrent layers and the input
    assert sizes(w, w.model)["flops"] == 6 * 35 * 20 * (own + 10_000 * 830 + 10_000)


@pytest.mark.parametrize("name", ALL)
def test_workloads_have_the_shapes_they_say(name):
    w = ALL[name]
    inputs, targets, *mask = make_task(w).splits["train"].arrays
    assert inputs.shape[:2] == (w.batch, w.steps)
    assert targets.shape == ((w.batch, w.steps) if w.reads == "all" else (w.batch,))
    assert [m.sum() for m in mask] == [w.lengths.sum()] * w.ragged


def test_more_than_half_of_the_steps_of_sentences_are_padding():
    w = WORKLOADS["sentences"]
    assert 0.45 < w.lengths.sum() / (w.batch * w.steps) < 0.5
    assert w.lengths.max() == w.steps
    assert sizes(w, w.model)["flops"] / sizes(replace(w, ragged=False), w.model)["flops"] == pytest.approx(
        w.lengths.sum() / (w.batch * w.steps)
    )


def test_the_unit_of_equal_operations_has_a_quarter_of_the_products():
    w = WORKLOADS["vcrnn"]
    _, config = equal_operations(w)
    assert (config.cell, 4 * config.size**2) == ("elman", w.model.size**2)


def test_quick_keeps_what_was_chosen_of_the_main_contenders():
    assert Options().chosen() == Options()
    quick = Options(quick=True, workloads=("adding", "char"), rounds=9).chosen()
    assert (quick.workloads, quick.rounds) == (("char",), 3)
    assert set(quick.contenders) < set(CONTENDERS)


def test_the_fastest_rival_is_named():
    rows = [row("plain", 60.0), row("torch", 50.0), row("fast", 24.0), row("fast-dense", 1.0), row("fast", 8.0, "forward")]
    assert best_against_rivals(rows) == "2.1x torch"
    assert best_against_rivals(rows[:2]) == ""


def test_the_kernel_is_ours_and_stacked_models_are_no_rivals():
    rows = [row("plain", 60.0), row("fast", 24.0), row("kernel", 3.0), row("plain-8-models", 1.0), row("kernel-8-models", 0.5)]
    assert best_against_rivals(rows) == "20.0x plain"


def test_only_a_gpu_has_contenders_for_gpus(monkeypatch):
    monkeypatch.setattr(rounds, "visible_accelerators", list)
    names = {name: rounds.takes_part(name, "pixels_512_20") for name in ("fast", "cudnn-lstm", "kernel")}
    assert names == {"fast": True, "cudnn-lstm": False, "kernel": False}
    monkeypatch.setattr(rounds, "visible_accelerators", lambda: ["0"])
    assert rounds.takes_part("cudnn-lstm", "pixels_512_20")
    assert [rounds.takes_part("kernel", f"pixels_{n}_20") for n in (128, 256, 512)] == [True, True, False]


def test_a_contender_that_takes_too_long_is_left_out(monkeypatch):
    monkeypatch.setattr(rounds, "PATIENCE", 0.01)
    with pytest.raises(RuntimeError, match="it ended without a word"):
        Process("adding", "fast")


def test_a_contender_that_dies_while_it_is_measured_says_why(monkeypatch):
    code = """print('{"measures": ["train"]}', flush=True); raise SystemExit('killed')"""
    popen = subprocess.Popen
    monkeypatch.setattr(rounds.subprocess, "Popen", lambda _, **options: popen([sys.executable, "-S", "-c", code], **options))
    with Process("adding", "fast") as process:
        process._process.wait()
        with pytest.raises(RuntimeError, match="killed"):
            process.time("train")


class Given:
    """A contender, or the peak, whose times are given."""

    def __init__(self, workload, contender):
        self.metrics = {"flops": 2e6} if contender == "peak" else {"flops": 3e6, "parameters": 7, "flags": "", "compile_seconds": 9.0}
        self.left = {"train": [1.0, 1.0, 1.0]} if contender == "peak" else {"train": [8.0, 1.0, 3.0], "forward": [2.0, 2.0, 4.0]}
        self.measures, self.times = list(self.left), {}

    def time(self, measure):
        ms = self.left[measure].pop(0)
        self.times.setdefault(measure, []).append({"ms": ms, "cpu_ms": 2 * ms, "page_faults": 0})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def test_rows_are_medians_of_rounds_and_their_share_of_the_peak(monkeypatch):
    """The peak is 2e9 operations a second. A forward pass has a third of the operations of an update."""
    monkeypatch.setattr(rounds, "Process", Given)
    train, forward = rounds.measure("adding", ["fast"], 3, Console(quiet=True))
    assert [train[name] for name in ("median_ms", "min_ms", "max_ms", "cpu_ms")] == [3.0, 1.0, 8.0, 6.0]
    assert (train["peak_flops_per_second"], train["share_of_peak"]) == pytest.approx((2e9, 0.5))
    assert (forward["flops"], forward["share_of_peak"]) == pytest.approx((1e6, 0.25))


@pytest.mark.parametrize(("contender", "flags"), [("plain", ""), ("fast", "--xla_cpu_prefer_vector_width=512")])
def test_each_contender_has_its_own_flags_and_none_of_the_user(contender, flags, monkeypatch):
    seen, popen = [], subprocess.Popen
    code = "import os; print('{\"measures\": []}', flush=True)"

    def start(_, **options):
        seen.append(options["env"]["XLA_FLAGS"])
        return popen([sys.executable, "-S", "-c", code], **options)

    monkeypatch.setenv("XLA_FLAGS", "--of_the_user")
    monkeypatch.setattr(rounds.subprocess, "Popen", start)
    with Process("adding", contender):
        assert seen == [flags]


def test_contenders_on_two_devices_split_the_batch_and_others_do_not():
    split = {name: one.build.keywords.get("shards", 1) for name, one in CONTENDERS.items()}
    assert split == {name: 2 if TWO in one.flags else 1 for name, one in CONTENDERS.items()}


@pytest.mark.parametrize(("name", "pack"), [("plain", "never"), ("fast", "auto"), ("fast-padded", "never")])
def test_sentences_are_packed_by_the_fast_loop_but_for_the_contender_without_packing(name, pack):
    network = CONTENDERS[name].build.args[0]
    assert network(WORKLOADS["sentences"])[1].loop.pack == pack


def test_times_of_stacked_models_are_those_of_one():
    small = replace(WORKLOADS["adding"], steps=3, batch=2)
    timed = CONTENDERS["plain-8-models"].build(small)
    timed.train()
    assert (timed.updates, timed.forward) == (8, None)


def test_a_time_is_that_of_one_of_the_updates_of_a_call(monkeypatch):
    monkeypatch.setattr(worker, "WINDOW", 0)
    monkeypatch.setattr(worker, "time", SimpleNamespace(perf_counter=iter([1.0, 9.0, 9.0]).__next__))
    assert worker.timed(lambda: None, 8)["ms"] == 1000


def test_processor_time_and_page_faults_are_those_of_the_updates_alone(monkeypatch):
    """Two updates, of 0.3 + 0.1 s and 6 page faults together."""
    usage = [SimpleNamespace(ru_utime=u, ru_stime=s, ru_minflt=faults) for u, s, faults in ((5.0, 2.0, 10), (5.3, 2.1, 16))]
    monkeypatch.setattr(worker, "WINDOW", 0)
    monkeypatch.setattr(worker, "resource", SimpleNamespace(getrusage=lambda _: usage.pop(0), RUSAGE_SELF=0))
    found = worker.timed(lambda: None, 2)
    assert (found["cpu_ms"], found["page_faults"]) == (pytest.approx(200), 3)


@pytest.mark.parametrize("name", ["adding", "lstm"])
def test_the_last_output_of_flax_is_that_of_the_last_step(name):
    small = replace(WORKLOADS[name], steps=3, batch=2)
    xs, key = np.ones((2, 3, small.input_size), np.float32), jax.random.key(0)
    last, every = (flax_network(replace(small, reads=reads))[0].init_with_output(key, xs)[0] for reads in ("last", "all"))
    np.testing.assert_allclose(last, every[:, -1], atol=1e-6)


@pytest.mark.parametrize("low_rank", [False, True])
@pytest.mark.parametrize("name", ["copy", "sentences"])
def test_predictions_of_contenders_in_pytorch_meet_their_targets(name, low_rank, monkeypatch):
    """Rows are step by step; those of padding do not count."""
    torch, seen = pytest.importorskip("torch"), []
    from experiments.benchmark import pytorch

    small = replace(WORKLOADS[name], model=WORKLOADS["copy"].model, steps=5, batch=3)
    loss = torch.nn.functional.cross_entropy
    monkeypatch.setattr(torch.nn.functional, "cross_entropy", lambda *arguments: seen.append(arguments) or loss(*arguments))
    pytorch.build(small, low_rank)[1]()
    _, targets, *mask = make_task(small).splits["train"].arrays
    expected = targets.T[mask[0].T if mask else ...].ravel()
    ((predictions, found),) = seen
    assert predictions.shape == (len(expected), small.output_size)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("cell", ["gru", "gru_reset_after"])
def test_an_open_update_gate_keeps_the_state_of_the_contender_in_pytorch(cell):
    torch = pytest.importorskip("torch")
    from experiments.benchmark.pytorch import LowRankGRU

    network = LowRankGRU(replace(WORKLOADS["copy"], model=ModelConfig(cell, 4, rank=2)))
    x, h = torch.zeros(2, 3 * 4), torch.ones(2, 4)
    x[:, :4] = 50
    torch.testing.assert_close(network.step(h, x), h)


@pytest.mark.parametrize(("name", "kind"), [("torch", "dense"), ("torch-low-rank", "low_rank_plus_diagonal")])
def test_operations_of_contenders_in_pytorch_are_those_of_their_matrices(name, kind):
    """No two of them share a projection, whatever the workload has."""
    pytest.importorskip("torch")
    small = replace(WORKLOADS["adding"], steps=3, batch=2)
    flops = sizes(small, replace(small.model, parametrization=kind))["flops"]
    for tied in (False, True):
        assert CONTENDERS[name].build(replace(small, model=replace(small.model, tied=tied))).metrics["flops"] == flops


def test_ratios_are_against_rivals_in_the_same_table():
    columns, lines = table([row("plain", 60.0), row("fast", 24.0), row("fast", 8.0, "forward"), row("flax", 78.0)])
    assert columns == COLUMNS
    fast = dict(zip(columns, lines[1], strict=True))
    assert (fast["plain is x"], fast["flax is x"], fast["torch is x"], fast["forward ms"]) == ("2.50", "3.25", "", "8.0")


def test_columns_of_the_table_have_the_units_of_their_heads():
    (line,) = table([{**row("fast", 24.0), "temporary_bytes": 3 * 2**20, "compile_seconds": 1.5}])[1]
    fast = dict(zip(COLUMNS, line, strict=True))
    assert [fast[name] for name in ("MFLOP", "of peak", "temporary MiB", "compile s")] == ["1,000", "10 %", "3.0", "1.5"]


def test_whiskers_reach_from_the_shortest_to_the_longest_time():
    axes = Figure().subplots()
    presentation._bars(axes, "adding", [{**row("fast", 24.0), "min_ms": 23.0, "max_ms": 30.0}])
    (whisker,) = axes.containers[-1].errorbar.lines[2][0].get_segments()
    assert [x for x, _ in whisker] == pytest.approx([23.0, 30.0])


def test_workloads_that_were_measured_before_an_interruption_are_in_the_file(tmp_path, monkeypatch):
    def measure(workload, *_):
        if workload == "copy":
            raise KeyboardInterrupt
        return [row("plain", 60.0)]

    monkeypatch.setattr(command, "measure", measure)
    with pytest.raises(SystemExit):
        main(["--workloads", "adding", "copy", "--json", str(tmp_path / "b.json")])
    assert [one["workload"] for one in json.loads((tmp_path / "b.json").read_text())["rows"]] == ["adding"]


def test_reports_are_joined_and_told_in_markdown(tmp_path, capsys):
    for name, workload in (("a", "adding"), ("b", "copy")):
        (tmp_path / name).write_text(json.dumps(report(row("plain", 60.0, workload=workload), row("fast", 24.0, workload=workload))))
    main(["--from-json", str(tmp_path / "a"), str(tmp_path / "b"), "--markdown"])
    said = capsys.readouterr().out
    assert "| ms for an update | adding | copy |" in said
    assert "| 24.0 (2.5x) | 24.0 (2.5x) |" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--workloads", "chess"], "workloads is 'chess'"),
        (["--contenders", "fast", "tortoise"], "contenders is 'tortoise'"),
        (["--rounds", "0"], "rounds is 0"),
        (["--from-json", "nowhere.json"], "from-json is nowhere.json"),
        (["--quick", "--workloads", "adding"], "workloads is adding: --quick measures only permuted_mnist, copy"),
        (["--quick", "--contenders", "fast"], "contenders is fast: --quick measures only plain"),
    ],
)
def test_bad_input_is_one_line(arguments, says, assert_refused):
    assert_refused(main, arguments, says)


@pytest.mark.parametrize("lacks", ["processor", "min_ms"])
def test_a_report_without_a_field_is_refused(lacks, tmp_path, assert_refused):
    content = report({name: value for name, value in row("plain", 1.0).items() if name != lacks})
    (tmp_path / "a").write_text(json.dumps({name: value for name, value in content.items() if name != lacks}))
    arguments = ["--from-json", tmp_path / "a", "--markdown", "--figure", tmp_path / "a.png"]
    assert_refused(main, arguments, "expected a file that python -m experiments.benchmark --json wrote")


def test_a_file_that_cannot_be_written_is_one_line(tmp_path, assert_refused):
    (tmp_path / "a").write_text(json.dumps(report(row("plain", 60.0))))
    arguments = ["--from-json", tmp_path / "a", "--json", tmp_path]
    assert_refused(main, arguments, f"Is a directory ({tmp_path}): tables of complete workloads are shown", code=1)


def test_a_peak_that_cannot_be_measured_is_one_line(monkeypatch, assert_refused):
    def fail(workload, name):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(rounds, "Process", fail)
    arguments = ["--workloads", "adding", "--contenders", "fast"]
    assert_refused(main, arguments, "adding: the peak of this machine cannot be measured: out of memory", code=1, warned=True)


def test_reports_of_two_machines_are_not_joined(tmp_path, assert_refused):
    (tmp_path / "a").write_text(json.dumps(report(row("plain", 1.0))))
    (tmp_path / "b").write_text(json.dumps({**report(row("plain", 1.0)), "cores": 64}))
    assert_refused(main, ["--from-json", tmp_path / "a", tmp_path / "b"], "cores 64 beside 2")
    (tmp_path / "b").write_text(json.dumps({**report(row("plain", 1.0)), "gpu": "G"}))
    assert_refused(main, ["--from-json", tmp_path / "a", tmp_path / "b"], "gpu G beside None")
    (tmp_path / "b").write_text(json.dumps({**report(row("plain", 1.0)), "versions": {"jax": "2"}}))
    assert_refused(main, ["--from-json", tmp_path / "a", tmp_path / "b"], "versions {'jax': '2'} beside {'jax': '1'}")


def test_options_name_everything_there_is():
    assert Options().workloads == tuple(WORKLOADS)
    assert Options().contenders == tuple(CONTENDERS)


@pytest.mark.parametrize(
    ("name", "page"), [("benchmark.json", "performance.md"), ("benchmark_h100.json", "gpu.md"), ("benchmark_h200.json", "gpu.md")]
)
def test_the_table_of_the_documentation_is_that_of_the_committed_times(name, page):
    said = list(markdown(json.loads((RESULTS / name).read_text())))
    text = (ROOT / "docs" / page).read_text()
    assert [line for line in said if line not in text] == []
