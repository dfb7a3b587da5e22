"""Costs of growth: the formulas against the bytes really exchanged, and against each other."""

import json
import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import EVEN

from experiments.scaling import command as scaling
from experiments.scaling import sheet
from experiments.scaling.command import main, need
from experiments.scaling.measured import engine_seconds
from experiments.scaling.memory import Fit, fit, largest, longest, recurrent_parameters
from experiments.scaling.processor_time import Descendants, spend
from lrpt.devices import parallel
from lrpt.errors import UsageError
from lrpt.networks.counting import averaged_bytes, count
from lrpt.networks.sequence_model import ModelConfig, SequenceModel
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
