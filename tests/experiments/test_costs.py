"""`python -m experiments.costs` with two small experiments and an engine that knows the seconds of every update."""

import json
import math
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny import CONFIG, changed

import experiments
from experiments import costs
from experiments.__main__ import listing
from experiments.costs import main
from experiments.reproduce import costs as measurement
from experiments.reproduce.costs import LOW_RANK, Costs, Measured, PresetCosts, comparable, estimate, preset_costs, ratio
from lrpt.cli import limits
from lrpt.cli.experiment import Experiment, Preset
from lrpt.devices import hardware
from lrpt.engines.jobs import NamedJob
from lrpt.training.loop import Job

UPDATES = 8
KINDS = ("dense", "low_rank", "low_rank_plus_diagonal")
SMALL = changed(CONFIG, train={"updates": UPDATES}, optim={"learning_rate": 0.01})
WIDE, MIDDLE, WIDER, WIDEST = (changed(SMALL, model={"size": size}) for size in (40, 60, 400, 4000))
LOST = changed(SMALL, data={"lag": 7})
PRESETS = {
    "first": {
        "quick": Preset(SMALL, "a comparison", compare=True, learning_rates=(0.01, 0.02)),
        "wide": Preset(WIDE, "wide"),
        "middle": Preset(MIDDLE, "hardly wider"),
        "wider": Preset(WIDER, "wider"),
        "widest": Preset(WIDEST, "widest"),
    },
    "second": {"quick": Preset(LOST, "data that are not there")},
}
SECONDS = {4: 1.0, 3: 3.0, 40: 1.5, 400: 5.0}
"""seconds of an update by the number of units"""
UP_TO_WIDE = ["--limit", str(estimate(WIDE, accelerated=False) * 1.01)]


class Engine:
    """An engine that trains nothing. It is interrupted when it is called more than `most` times."""

    accelerators, called, most = 0, 0, 99

    def __init__(self, processes):
        assert processes == 1

    def call(self, function, one):
        assert function is measurement.measured
        Engine.called += 1
        if Engine.called > Engine.most:
            raise KeyboardInterrupt
        return "missing data: nobody has them" if one.job.config.data.lag == 7 else SECONDS[one.job.config.model.size]

    def close(self):
        pass


@pytest.fixture
def tool(monkeypatch, tmp_path):
    """Return a function that runs the command, and gives the entries of its file by preset."""
    variants = {"small": {"size": 4}, "smaller": {"size": 3}}
    modules = {name: SimpleNamespace(EXPERIMENT=Experiment(name, "", "", presets, variants)) for name, presets in PRESETS.items()}
    monkeypatch.setattr(experiments, "names", lambda: [*modules, "tool"])
    monkeypatch.setattr(experiments, "module", lambda name: modules.get(name))
    monkeypatch.setattr(costs, "LocalEngine", Engine)
    monkeypatch.setattr(costs, "bind_to_one_core", lambda: None)
    monkeypatch.setattr(costs, "LONGEST", estimate(WIDER, accelerated=False) * 1.01)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Engine, "called", 0)
    monkeypatch.setattr(Engine, "most", 99)
    path = tmp_path / "costs.json"
    monkeypatch.setattr(experiments, "COSTS", path)

    def run(*words):
        main([*UP_TO_WIDE, "--output", str(path), *words])
        experiments.read_costs.cache_clear()
        return json.loads(path.read_text())["presets"]

    yield run
    experiments.read_costs.cache_clear()


def hours(seconds):
    return pytest.approx(seconds * UPDATES / 3600, rel=0.005)


def test_the_runs_of_a_preset_are_summed_and_long_ones_follow_the_closest(tool, capsys):
    """Learning rates share a program: the comparison needs two measurements for four runs. Of the long ones, the ladder has `wider`."""
    found = tool()
    first = found["first"]
    assert (first["quick"]["hours"], first["quick"]["measured"]) == (hours(2 * (1 + 3)), True)
    assert (first["wide"]["hours"], first["wide"]["measured"]) == (hours(1.5), True)
    ratio = 5.0 / estimate(WIDER, accelerated=False)
    assert (first["wider"]["hours"], first["wider"]["measured"]) == (hours(5.0), True)
    assert first["wider"]["ratio"] == pytest.approx(ratio, rel=0.005)
    of_wide = 1.5 / estimate(WIDE, accelerated=False)
    wide, middle, wider = (math.log(estimate(one, accelerated=False)) for one in (WIDE, MIDDLE, WIDER))
    between = of_wide * (ratio / of_wide) ** ((middle - wide) / (wider - wide))
    assert (first["middle"]["hours"], first["middle"]["measured"]) == (hours(between * estimate(MIDDLE, accelerated=False)), False)
    assert (first["widest"]["hours"], first["widest"]["measured"]) == (hours(ratio * estimate(WIDEST, accelerated=False)), False)
    of_all = sorted(one["ratio"] for one in first.values() if one["measured"])[1]
    assert (found["second"]["quick"]["ratio"], found["second"]["quick"]["measured"]) == (pytest.approx(of_all, rel=0.005), False)
    assert Engine.called == 5
    printed = capsys.readouterr().out
    assert printed.count("measured\n") == 3
    assert "estimated: long updates" in printed
    assert "estimated: missing data" in printed


def test_presets_that_read_the_same_data_come_first(tool, monkeypatch):
    """The updates of `wider` are closer in length to those of `widest`, but it reads other data."""
    other = changed(WIDER, data={"lag": 5})
    monkeypatch.setattr(costs, "LONGEST", estimate(other, accelerated=False))
    monkeypatch.setitem(PRESETS["first"], "wider", Preset(other, "wider, on other data"))
    found = tool()["first"]
    assert found["wider"]["measured"]
    assert found["widest"]["ratio"] == found["wide"]["ratio"] != found["wider"]["ratio"]


def test_the_words_of_lists(tool):
    tool()
    assert experiments.costs_of("first")["quick"] == "1.1 minutes on a core"
    assert experiments.costs_of("first")["wide"] == "12 seconds on a core"
    assert experiments.costs_of("first")["widest"].startswith("about ")
    assert experiments.costs_of("third") == {}
    experiment = Experiment("first", "about", "a table", PRESETS["first"], {})
    text = " ".join("\n".join(listing([SimpleNamespace(EXPERIMENT=experiment, __name__="experiments.first")])).split())
    assert "wide wide [12 seconds on a core]" in text
    content = json.loads(experiments.COSTS.read_text())
    assert f"measured on a core ({content['processor']}) until {content['date']}" in text


@pytest.mark.parametrize(
    ("hours", "measured", "words"),
    [
        (1e-9, True, "1 second on a core"),
        (0.2, False, "about 12 minutes on a core"),
        (1.0, True, "1 hour on a core"),
        (1.44, True, "1.4 hours on a core"),
        (5.3, True, "5 hours on a core"),
        (71.0, True, "3 days on a core"),
        (9e6, False, "about 1,000 years on a core"),
    ],
)
@pytest.mark.usefixtures("tool")
def test_hours_in_words(hours, measured, words):
    experiments.COSTS.write_text(a_file(json.dumps({"hours": hours, "measured": measured, "ratio": 1, "update": 1})))
    assert experiments.costs_of("first") == {"quick": words}


def test_nothing_is_measured_twice_and_an_interruption_loses_nothing(tool, capsys):
    Engine.most = 3
    with pytest.raises(SystemExit) as leaving:
        tool()
    assert leaving.value.code == 130
    assert "the measurements until then are stored" in capsys.readouterr().err
    Engine.most = 99
    assert tool()["first"]["wider"]["measured"]
    assert Engine.called == 4 + 3  # the missing data, the interrupted one, and the one behind it
    tool()
    assert Engine.called == 4 + 3 + 1


def test_presets_of_one_network_have_one_ratio_so_that_a_longer_training_costs_more():
    short, long, other = (
        costs.Runs("e", name, [NamedJob(Job(config, 0, Path(name)), {})])
        for name, config in (("short", SMALL), ("long", changed(SMALL, train={"updates": 3 * UPDATES})), ("other", WIDE))
    )
    found = costs.pooled({short: 6 * short.estimate, long: 2 * long.estimate, other: 5 * other.estimate})
    assert found == {short: pytest.approx(4 * short.estimate), long: pytest.approx(4 * long.estimate), other: 5 * other.estimate}


def test_other_presets_stay_as_they_are(tool, tmp_path, monkeypatch):
    tool()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    monkeypatch.setitem(SECONDS, 40, 2.0)
    monkeypatch.setitem(SECONDS, 4, 7.0)
    found = tool("--presets", "first/wide")["first"]
    assert (found["wide"]["hours"], found["wide"]["measured"]) == (hours(2.0), True)
    assert (found["quick"]["hours"], found["quick"]["measured"]) == (hours(8.0), True)


def test_a_measurement_that_fails_leaves_the_earlier_one_with_its_date_and_says_so(tool, tmp_path, monkeypatch, capsys):
    tool()
    content = json.loads(experiments.COSTS.read_text())
    experiments.COSTS.write_text(json.dumps({**content, "date": "2001-01-01"}))
    experiments.read_costs.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    monkeypatch.setitem(SECONDS, 40, "missing data: nobody has them")
    capsys.readouterr()
    wide = tool("--presets", "first/wide")["first"]["wide"]
    assert (wide["hours"], wide["measured"]) == (hours(1.5), True)
    assert json.loads(experiments.COSTS.read_text())["date"] == "2001-01-01"
    assert "measured earlier, not now: missing data" in capsys.readouterr().out


def test_costs_of_two_processors_are_not_mixed(tool, assert_refused):
    tool()
    content = json.loads(experiments.COSTS.read_text())
    experiments.COSTS.write_text(json.dumps({**content, "processor": "abacus"}))
    assert_refused(main, ["--presets", "first/wide", "--output", experiments.COSTS], "was measured on abacus", "leave --presets out")


def a_file(cost):
    return '{"processor": "a", "date": "b", "presets": {"first": {"quick": ' + cost + "}}}"


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"presets": []}', a_file("{}"), "ä"])
def test_a_damaged_file_gives_no_costs_and_is_replaced(tool, damage):
    experiments.COSTS.write_bytes(damage.encode("latin-1"))
    assert (experiments.costs_of("first"), experiments.source_of_costs()) == ({}, "")
    assert tool("--presets", "first/wide")["first"]["wide"]["measured"]


def test_ratios_are_interpolated_between_presets_that_read_the_same_data():
    """An update of 0.1 seconds is in the middle of 0.01 and 1. Ratios beyond the shortest and the longest update are theirs."""
    own = [Measured("tunes", 1.0, 8.0), Measured("tunes", 0.01, 2.0), Measured("a book", 0.2, 5.0)]
    found = [ratio("tunes", update, own, [7.0]) for update in (0.001, 0.01, 0.1, 1.0, 10.0)]
    assert found == pytest.approx([2.0, 2.0, 4.0, 8.0, 8.0])
    assert [ratio("a book", 1.0, own, [7.0]), ratio("bits", 0.2, own, [7.0])] == pytest.approx([5.0, 5.0])
    assert ratio("tunes", 0.2, [], [7.0, 1.0, 2.0]) == 2.0
    assert ratio("tunes", 0.2, [], []) == 1.0


def test_every_step_of_every_layer_takes_time_on_an_accelerator():
    """However narrow the network is: two layers of a few units take as long as the launches of their steps."""
    for name, model in (("layers", {"layers": 2}), ("depth", {"cell": "rhn", "depth": 2})):
        one, two = (estimate(changed(CONFIG, model=settings), accelerated=True) for settings in ({**model, name: 1}, model))
        assert two - one == pytest.approx(one, rel=1e-3)
        assert one > measurement.LAUNCHES * limits.steps(CONFIG.data)


def test_a_measured_update_has_its_share_of_an_evaluation(monkeypatch, tmp_path):
    """An evaluation of 20 examples after every 4 updates, each of which costs a third: as much as of 5 / 3 examples of an update."""
    config = changed(CONFIG, train={"updates_per_call": 2, "batch_size": 4, "evaluate_every": 4}, data={"valid_size": 20})
    monkeypatch.setattr(measurement, "seconds_of", lambda function: 4.0)
    assert measurement.measured(NamedJob(Job(config, 0, tmp_path), {})) == pytest.approx(4.0 / (2 * measurement.CALLS) * (1 + 5 / 3 / 4))


def test_low_rank_products_take_longer_on_a_core_alone(monkeypatch):
    """Both factors of 4 x 2 have as many weights as the full matrix."""
    monkeypatch.setattr(measurement, "LAUNCHES", 0)
    full, low_rank, diagonal = (changed(CONFIG, model={"size": 4, "rank": 2, "parametrization": kind}) for kind in KINDS)
    on_core, elsewhere = ([estimate(one, accelerated=there) for one in (full, low_rank, diagonal)] for there in (False, True))
    assert elsewhere[0] == elsewhere[1] < elsewhere[2]
    assert [on_core[place] / on_core[0] for place in (1, 2)] == pytest.approx([LOW_RANK, LOW_RANK * elsewhere[2] / elsewhere[0]])


def single_presets():
    """Yield every preset that trains one model, with its experiment and its entry in the file of costs."""
    for name, costs_of_presets in experiments.read_costs(experiments.COSTS)["presets"].items():
        presets = experiments.module(name).EXPERIMENT.presets
        for preset, cost in costs_of_presets.items():
            if not presets[preset].compare:
                yield name, preset, presets[preset].config, cost


def test_a_plan_has_the_hours_of_the_list_of_experiments(tmp_path):
    """The number of updates and the place of the data do not matter, and what was measured is not estimated."""
    planning = Costs(SimpleNamespace(accelerators=0), tmp_path / "none.json")
    for name, preset, config, cost in single_presets():
        placed = changed(config, data={"dir": tmp_path}) if hasattr(config.data, "dir") else config
        found = planning.of(changed(placed, train={"updates": 3 * config.train.updates}), name)
        assert found.hours(config.train.updates) == pytest.approx(cost["hours"], rel=0.02), f"{name}/{preset}"
        assert found.measured >= cost["measured"], f"{name}/{preset}"


def test_the_file_of_costs_belongs_to_the_present_estimate():
    """One preset of each experiment tells."""
    of_experiment = {name: (config, cost) for name, _, config, cost in single_presets()}
    for name, (config, cost) in of_experiment.items():
        assert estimate(config, accelerated=False) == pytest.approx(cost["update"], rel=0.01), f"{name}: run {costs.PROGRAM} --no-measure"


def test_the_rest_is_estimated_again_without_measuring(tool, monkeypatch, assert_refused):
    """A preset that was measured keeps its hours, on whichever machine; a new one is estimated."""
    before = tool()["first"]
    called = Engine.called
    content = json.loads(experiments.COSTS.read_text())
    experiments.COSTS.write_text(json.dumps({**content, "processor": "abacus"}))
    experiments.read_costs.cache_clear()
    monkeypatch.setitem(PRESETS["first"], "wide-2", Preset(changed(WIDE, train={"evaluate_every": 2}), "new"))
    found = tool("--no-measure")["first"]
    assert found["wide"] == pytest.approx(before["wide"], rel=0.005)
    assert (found["wide-2"]["hours"], found["wide-2"]["measured"]) == (hours(1.5), False)
    assert json.loads(experiments.COSTS.read_text())["processor"] == "abacus"
    assert Engine.called == called
    experiments.COSTS.unlink()
    experiments.read_costs.cache_clear()
    assert_refused(main, ["--no-measure", "--output", experiments.COSTS], "is no file of costs")


@pytest.mark.parametrize("number", ["-1", "null", "NaN", '"2"', "1e999"])
def test_hours_that_are_none_give_no_costs(tool, number):
    experiments.COSTS.write_text(a_file('{"measured": true, "ratio": 1, "update": 1, "hours": ' + number + "}"))
    assert experiments.costs_of("first") == {}
    assert preset_costs("first") == PresetCosts({}, [], [])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--presets", "first/nope"], "unknown preset 'first/nope': choose from first/quick, first/wide"),
        (["--presets", "nope/quick"], "unknown preset 'nope/quick': give EXPERIMENT/PRESET"),
        (["--presets", "first/wide", "first/wide"], "give at least one, and none twice"),
        (["--presets", "first/wide", "--no-measure"], "--no-measure measures nothing"),
        (["--limit", "nan"], "limit is nan: expected a number of seconds"),
    ],
)
@pytest.mark.usefixtures("tool")
def test_wrong_flags(words, says, assert_refused):
    assert_refused(main, words, says)
    assert not experiments.COSTS.exists()


def test_an_accelerator_is_not_calibrated_by_a_core(tool, tmp_path):
    tool()
    engine = SimpleNamespace(accelerators=1)
    assert Costs(engine, tmp_path / "none.json").of(WIDE, "first").seconds == estimate(WIDE, accelerated=True)
    engine = SimpleNamespace(accelerators=0)
    assert Costs(engine, tmp_path / "none.json").of(WIDE, "first").seconds == pytest.approx(1.5, rel=0.005)
    longer = changed(WIDER, model={"size": 500})
    of_wider = max(preset_costs("first").measured, key=lambda one: one.update)
    assert of_wider.data == comparable(WIDER, "data")
    expected = of_wider.ratio * estimate(longer, accelerated=False)
    assert Costs(engine, tmp_path / "none.json").of(longer, "first") == (pytest.approx(expected), False, False)


def test_on_one_core_waiting_costs_nothing(monkeypatch):
    monkeypatch.setattr(hardware, "on_cpu", lambda: True)
    monkeypatch.setattr(hardware, "cores", lambda: 1)
    assert measurement.seconds_of(lambda: time.sleep(0.1)) < 0.05
    monkeypatch.setattr(hardware, "cores", lambda: 2)
    assert measurement.seconds_of(lambda: time.sleep(0.1)) >= 0.1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to a core")
def test_a_process_is_bound_to_one_core():
    before = os.sched_getaffinity(0)
    try:
        hardware.bind_to_one_core()
        assert hardware.cores() == 1
        assert os.sched_getaffinity(0) < before or len(before) == 1
    finally:
        os.sched_setaffinity(0, before)


def test_every_preset_has_a_cost():
    modules = (experiments.module(name) for name in experiments.names())
    held = [module.EXPERIMENT for module in modules if hasattr(module, "EXPERIMENT")]
    without = [f"{one.name}/{preset}" for one in held for preset in one.presets if preset not in one.costs]
    assert not without, f"run: {costs.PROGRAM} --data.dir DIR --presets {' '.join(without)}"
    known = {f"{name}/{preset}" for name, presets in experiments.read_costs(experiments.COSTS)["presets"].items() for preset in presets}
    assert known == {f"{one.name}/{preset}" for one in held for preset in one.presets}, f"run: {costs.PROGRAM} --data.dir DIR"
