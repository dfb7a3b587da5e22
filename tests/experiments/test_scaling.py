"""Costs of growth: the formulas against the bytes really exchanged, and against each other."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import EVEN

from experiments import wiki
from experiments.adding import EXPERIMENT as ADDING
from experiments.scaling import command as scaling
from experiments.scaling import measured, sheet
from experiments.scaling.command import main, need
from experiments.scaling.measured import engine_seconds
from experiments.scaling.memory import Fit, fit, largest, longest, recurrent_parameters
from experiments.scaling.processor_time import Descendants, Spent, spend
from lrpt.devices import parallel
from lrpt.errors import UsageError
from lrpt.networks.counting import averaged_bytes, count
from lrpt.networks.sequence_model import ModelConfig, SequenceModel
from lrpt.runs.console import Console
from lrpt.training.step import Collectives, init_state, train_step


def exchanged(jaxpr):
    """Bytes of all sums over the devices in a program."""
    found = 0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name.startswith("psum"):
            found += sum(v.aval.size * v.aval.dtype.itemsize for v in eqn.invars)
        for value in eqn.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                found += exchanged(inner)
    return found


@pytest.mark.parametrize("parametrization", ["dense", "low_rank_plus_diagonal"])
def test_averaged_bytes_are_those_of_the_sums_in_the_program(parametrization):
    """Parameters and three figures: loss, accuracy and recall."""
    task = EVEN.data.build(0)
    config = ModelConfig(size=4, rank=2, parametrization=parametrization, recurrence="plain")
    model, optimizer = SequenceModel(config, task.input_size, task.output_size, task.reads), EVEN.optim.build()
    layout, train = parallel.Layout(1, 2), task.splits["train"]
    collectives = Collectives(parallel.average(layout))
    state = jax.eval_shape(lambda: init_state(model, task, optimizer, 0))

    def update(state, indices):
        return train_step(model, task, optimizer, state, train.batch(train.arrays, indices), collectives)

    program = jax.make_jaxpr(update, axis_env=[(parallel.AXIS, 2)])(state, jnp.zeros((2,), jnp.int32))
    assert exchanged(program.jaxpr) == averaged_bytes(config, task.input_size, task.output_size, num_metrics=3)
    assert averaged_bytes(config, task.input_size, task.output_size, 0) == 4 * count(config, task.input_size, task.output_size).true


def test_what_each_host_takes():
    model = ModelConfig(size=8, rank=2)
    one, four = (need(model, 5, 16, 50, hosts) for hosts in (1, 4))
    true = count(model, 5, 5).true
    assert (one.operations, one.sent) == (6 * true * 16 * 50, 0)
    assert four.operations == one.operations / 4
    assert four.sent == 1.5 * (4 * true + 8)


LINEAR = Fit(12.0, 40.0, 3e3, 5e6)


def test_the_fit_finds_the_coefficients():
    found = fit(lambda n, t: LINEAR.bytes(n, 20 * t), batch=20, sizes=(64, 128))
    np.testing.assert_allclose(found, LINEAR, rtol=1e-6)


@pytest.mark.parametrize(("size", "batch", "budget"), [(128, 20, 1e9), (1024, 1, 3e8)])
def test_the_longest_sequence_fits_and_one_step_more_does_not(size, batch, budget):
    parameters = recurrent_parameters(size, 8)
    steps = longest(LINEAR, parameters, size, batch, budget)
    taken = [16 * parameters + LINEAR.bytes(size, batch * t) for t in (steps, steps + 1)]
    assert taken[0] <= budget < taken[1]


def test_the_largest_state_fits_and_one_unit_more_does_not():
    size = largest(LINEAR, 8, 100, 20, 1e9)
    taken = [16 * recurrent_parameters(n, 8) + LINEAR.bytes(n, 2000) for n in (size, size + 1)]
    assert taken[0] <= 1e9 < taken[1]
    assert largest(LINEAR, 8, 10**9, 20, 1e9) == 0
    assert longest(LINEAR, 10**9, 8, 20, 1e9) == 0


def test_recurrent_parameters_are_counted():
    assert recurrent_parameters(19, 8) == count(ModelConfig(size=19, rank=8), 2, 1).true


def test_tables_on_paper(capsys, monkeypatch):
    highway = [one for one in scaling.PUBLISHED if one.where == "appendix A.1"]
    monkeypatch.setattr(scaling, "PUBLISHED", [*scaling.PUBLISHED[:2], *highway])
    main(["traffic"])
    main(["hosts", "--hosts", "32", "--gigabits", "100"])
    out = capsys.readouterr().out
    assert "GRU 128" in out
    assert [line.split()[-4] for line in out.splitlines() if "Highway" in line] == ["LR-Highway", "LRD-Highway"]
    assert "4 rows on each host" in out


def rows_of(capsys, first):
    """Return the cells of the printed lines that begin with `first`."""
    return [re.split(r"  +", line.strip()) for line in capsys.readouterr().out.splitlines() if line.startswith(first)]


def test_traffic_is_printed_beside_the_true_number_of_parameters(capsys, monkeypatch):
    (one,) = (each for each in scaling.PUBLISHED if each.printed == "41,738")
    monkeypatch.setattr(scaling, "PUBLISHED", [one])
    main(["traffic"])
    true = count(one.config, *one.sizes).true
    assert rows_of(capsys, one.where)[0][-2:] == [f"{true:,}", f"{averaged_bytes(one.config, *one.sizes):,}"]


def test_days_of_the_text8_model_are_those_of_computing_and_sending(capsys):
    """32 hosts of 50 TFLOP/s each, and a ring of 100 Gbit/s, which are 12.5 GB/s."""
    config = wiki.EXPERIMENT.presets["text8-10x1500"].config
    compute = 6 * count(config.model, 27, 27).true * 128 * 50 / 32 / 50e12
    send = 2 * 31 / 32 * averaged_bytes(config.model, 27, 27) / 12.5e9
    main(["hosts", "--hosts", "32", "--teraflops", "50", "--gigabits", "100"])
    share, days = 100 * compute / (compute + send), 500 * 14_062 * (compute + send) / 86_400
    assert rows_of(capsys, "100 Gbit/s") == [["100 Gbit/s", f"{1e3 * send:.1f} ms", f"{share:.2g} %", f"{days:,.1f}"]]


def test_what_fits_is_printed_for_each_length_and_size(capsys, monkeypatch):
    monkeypatch.setattr(scaling, "LOOPS", {"plain": ("plain", "auto")})
    monkeypatch.setattr(scaling, "fit", lambda *_: LINEAR)
    main(["memory", "--memory", "2", "--batch", "20", "--rank", "8", "--sizes", "128", "--lengths", "100"])
    steps, size = longest(LINEAR, recurrent_parameters(128, 8), 128, 20, 2**31), largest(LINEAR, 8, 100, 20, 2**31)
    assert rows_of(capsys, "2 GiB") == [["2 GiB", f"{steps:,}", f"{size:,}"]]


def test_devices_are_compared_by_the_time_of_one_update(capsys, monkeypatch):
    """Several updates in a call take 8 s on one device, and 2 s on two."""
    monkeypatch.setattr(scaling, "jax_contender", lambda *_, shards, updates: SimpleNamespace(train=lambda: None, updates=updates))
    monkeypatch.setattr(scaling, "in_turns", lambda trained, rounds: {n: [8.0 / n**2] * rounds for n in trained})
    main(["devices", "--devices", "1", "2", "--rounds", "3"])
    said = capsys.readouterr().out
    assert re.findall(r"^(\d) +([\d.]+) +\S+ +\S+ +(\S+)x$", said, re.MULTILINE) == [("1", "2000.0", "1.00"), ("2", "500.0", "4.00")]


def test_an_update_is_timed_between_the_first_and_the_last_evaluation(tmp_path, monkeypatch):
    """Evaluations after 10 and 30 updates, which 4 s of wall time and 2 s of processor time lie between."""

    def spend(commands, watch, note):
        (tmp_path / "metrics.jsonl").write_text('{"split": "train"}\n')
        note(Spent(1.0, 1.0))
        for evaluations, spent in ((1, Spent(5.0, 4.0)), (3, Spent(9.0, 6.0))):
            (tmp_path / "metrics.jsonl").write_text('{"split": "valid"}\n' * evaluations)
            note(spent)

    monkeypatch.setattr(measured, "spend", spend)
    assert measured._shared(1, [], 30, tmp_path, None) == pytest.approx((0.2, 0.1))


def test_commands_one_after_another_spend_the_sum_of_their_times(tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "spend", lambda commands, watch: Spent(3.0, 2.0))
    monkeypatch.setattr(measured, "RunDirectory", lambda path: SimpleNamespace(result=dict))
    assert measured._runs(measured.ALONE, 2, [], tmp_path, "", None) == (6.0, 4.0)


def test_operations_of_the_timed_model_are_those_of_one_of_its_updates():
    config = ADDING.presets["paper"].config
    expected = 6 * count(config.model, 2, 1).true * config.train.batch_size * 750
    assert measured._model() == {"operations": expected, "updates": 14_500}


MEASURED = {
    "runs": 2,
    "updates": 1000,
    "operations": 5e9,
    "engines": {
        "a command for each run": [[10.0, 8.0], [14.0, 10.0], [11.0, 9.0]],
        "local, 1 process": [[13.0, 11.0]],
        "local, 2 processes": [[7.0, 11.0]],
        "ray, 1 node": [[17.0, 15.0]],
    },
    "processes": {"small, 1": [[0.4, 0.1]]},
}
"""Medians of single commands: 11 s of wall time, and 9 of processor time."""


def test_an_engine_costs_what_it_adds_to_single_commands():
    """Two places that are busy for 7 s are 14 s."""
    assert engine_seconds(MEASURED, "local, 1 process") == (1.0, 1.0)
    assert engine_seconds(MEASURED, "local, 2 processes") == (1.5, 1.0)
    assert engine_seconds(MEASURED, "ray, 1 node") == (3.0, 3.0)


def test_two_processes_that_share_a_model_are_compared_by_wall_time_and_by_the_time_of_each(capsys):
    """Two processes spend 0.5 s together, 0.25 s each, of what one spends 0.4 s on."""
    about = {"processor": "P", "cores": 2, "versions": {"jax": "1"}, "date": "2026-01-01", "load_before": 0.0, "load_after": 0.0}
    engines = {"ray, 2 nodes": [[9.0, 15.0]], **MEASURED["engines"]}
    processes = {"small, 1": [[0.4, 0.1]], "wide, 1": [[0.5, 0.4]], "wide, 2": [[0.2, 0.5]]}
    measured.show({**MEASURED, **about, "engines": engines, "processes": processes}, Console())
    wide = ["wide, 1", "500.0", "400.0", "1.00x", "1.00x"], ["wide, 2", "200.0", "500.0", "2.50x", "1.60x"]
    assert rows_of(capsys, "wide") == list(wide)


def test_the_sheet_is_computed_from_what_was_measured(tmp_path, capsys):
    """A run takes 1,000 updates of 0.1 s, and the engine 1 or 3 s."""
    (tmp_path / "measured.json").write_text(json.dumps(MEASURED))
    main(["sheet", "--measured", str(tmp_path / "measured.json"), "--many", "1001", "--nodes", "100", "--cores", "1", "--gigabits", "100"])
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines() if line}
    assert rows["local"] == ["100", "1.0", f"{86400 / 101:,.0f}", f"{11 * 101 / 3600:.1f}", "h"]
    assert rows["ray"] == ["100", "3.0", f"{86400 / 103:,.0f}", f"{11 * 103 / 3600:.1f}", "h"]
    assert sheet.teraflops(MEASURED) == 0.05


def test_the_kept_measurement_makes_the_sheet_of_the_page(capsys):
    main(["sheet"])
    page = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text()
    for line in capsys.readouterr().out.splitlines():
        if line.startswith(("local", "ray")):
            assert f"| {' | '.join(re.split(r'  +', line.strip()))} |" in page


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
def test_processor_time_of_descendants_is_counted():
    """A command that computes for 0.6 s in a process that it starts."""
    busy = "import time\nwhile time.process_time() < 0.6: pass"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}], check=True)"
    spent = spend([[sys.executable, "-S", "-c", code]], Descendants())
    assert 0.3 < spent.cpu < 1.5
    with pytest.raises(UsageError, match="a measured command has failed: end"):
        spend([[sys.executable, "-S", "-c", "raise SystemExit('end')"]], Descendants())


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
def test_commands_may_write_more_errors_than_a_pipe_holds():
    """Two commands write a megabyte each; the last line of the one that fails is shown. A command that waits for a reader is ended."""
    code = "import signal, sys; signal.alarm(20); sys.stderr.write('line\\n' * 200_000 + 'the end'); sys.exit({})"
    with pytest.raises(UsageError, match=r"a measured command has failed: the end$"):
        spend([[sys.executable, "-S", "-c", code.format(status)] for status in (0, 1)], Descendants())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sheet", "--measured", "missing.json"], "measured is missing.json: expected a file"),
        (["measure", "--turns", "0"], "turns is 0"),
        ([], "python -m experiments.scaling needs a subcommand: choose from traffic"),
        (["speed"], "'speed' is no subcommand of python -m experiments.scaling: choose from traffic"),
        (["hosts", "--hosts", "3"], "hosts is 3, which does not divide"),
        (["devices", "--devices", "3"], "devices is 3"),
        (["devices", "--workload", "nothing"], "workload is 'nothing'"),
        (["memory", "--memory", "0"], "memory is (0.0,)"),
    ],
)
def test_wrong_flags(words, says, assert_refused):
    assert_refused(main, words, says)
