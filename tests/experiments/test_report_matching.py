"""Which kept runs are of a configuration, which one of a seed counts, and that altered ones are refused."""

import shutil
from dataclasses import replace

import pytest
from kept_runs import LENGTH, identity, kept_run, melodies

from experiments import char_lm, copy_memory, highway_mnist
from experiments.report.claims.matching import Wanted, differences, has_only_begun
from experiments.report.claims.rows import Evidence, Network
from experiments.report.command import ROOT
from experiments.report.kept.records import load
from experiments.report.papers import variable_computation_networks as computing
from lrpt.cli.flags import parse
from lrpt.errors import UsageError
from lrpt.optim import RECIPES
from lrpt.runs.configuration import to_json

COPY = copy_memory.EXPERIMENT
TEXT = char_lm.EXPERIMENT
HIGHWAY = highway_mnist.EXPERIMENT


def test_the_rate_of_a_recipe_is_that_rate():
    config = parse(COPY, LENGTH.split()).config
    own = RECIPES[config.optim.recipe].learning_rate
    for rate, same in ((own, True), (own / 2, False)):
        record = {"optim": {"recipe": config.optim.recipe, "learning_rate": rate}}
        implicit = replace(config, optim=replace(config.optim, learning_rate=None))
        assert Wanted(implicit).trained(to_json(implicit) | record) == same


def test_settings_that_decide_nothing_may_differ_and_others_may_not():
    config = parse(COPY, LENGTH.split()).config
    recorded = identity(COPY, f"{LENGTH} --train.updates 7 --train.evaluate-every 50 --model.recurrence plain", 3)
    assert Wanted(config).trained(recorded)
    assert not Wanted(config, best=True).trained(recorded)
    assert not Wanted(config).trained(identity(COPY, f"{LENGTH} --train.batch-size 10", 3))
    assert not Wanted(config).trained(recorded | {"model": recorded["model"] | {"dropout": 0.5}})
    older = recorded | {"model": {k: v for k, v in recorded["model"].items() if k != "weight_norm"}}
    assert Wanted(config).trained(older)
    assert not Wanted(replace(config, model=replace(config.model, weight_norm=True))).trained(older)


@pytest.mark.parametrize(("experiment", "preset"), [(HIGHWAY, "paper"), (TEXT, "paper")], ids=["halving", "patience"])
def test_the_evaluation_interval_counts_where_it_decides_halving_or_patience(experiment, preset):
    config = parse(experiment, ["--preset", preset]).config
    assert Wanted(config).trained(identity(experiment, f"--preset {preset}", 0))
    assert not Wanted(config).trained(identity(experiment, f"--preset {preset} --train.evaluate-every 1000", 0))


def test_what_is_smaller_is_said():
    small, paper = computing.SMALL_RNN.config, computing.CHAR_NETWORKS["RNN-760"].config
    assert differences(small, paper) == "128 units instead of 760, 37,620 updates instead of 62,700, 2 other settings"


def chosen(root, flags, lengths):
    """Return which of several runs of a seed, of so many updates each, stands for the network of the flags."""
    for updates in lengths:
        kept_run(root, COPY, f"{flags} --train.updates {updates}", curve={updates: 0.01}, name=str(updates))
    (run,) = Network("", COPY, flags).runs(Evidence(load(root))).values()
    return run.updates


@pytest.mark.parametrize("lengths", [(10_000, 12_000, 11_000), (12_000, 10_000, 11_000)])
def test_of_unfinished_runs_of_a_seed_the_one_that_went_furthest_counts(lengths, tmp_path):
    assert chosen(tmp_path, f"{LENGTH} --train.updates 30000", lengths) == 12_000


@pytest.mark.parametrize("lengths", [(10_000, 30_000, 87_000), (87_000, 30_000, 10_000)])
def test_of_finished_runs_of_a_seed_the_one_of_the_claimed_length_counts(lengths, tmp_path):
    assert chosen(tmp_path, f"{LENGTH} --train.updates 30000", lengths) == 30_000


@pytest.mark.parametrize("lengths", [(60_000, 87_000), (87_000, 60_000)])
def test_of_runs_of_a_seed_that_are_all_longer_than_claimed_the_shortest_counts(lengths, tmp_path):
    assert chosen(tmp_path, f"{LENGTH} --train.updates 30000", lengths) == 60_000


@pytest.mark.parametrize("length", [87_000, 20_000])
def test_which_run_of_a_seed_counts_does_not_depend_on_how_it_ended(length, tmp_path):
    """Of two runs that met the criterion, the one that was told to train as long as the claim says counts, though it took longer."""
    kept_run(tmp_path, COPY, LENGTH, curve={25_000: 9e-4}, test={}, stopped="criterion", name="as claimed")
    kept_run(tmp_path, COPY, f"{LENGTH} --train.updates {length}", curve={9_000: 9e-4}, test={}, stopped="criterion", name="other")
    assert [run.updates for run in Network("", COPY, LENGTH).runs(Evidence(load(tmp_path))).values()] == [25_000]


def test_a_run_has_only_begun_before_a_tenth_of_its_claim():
    assert has_only_begun(99, 1_000)
    assert not has_only_begun(100, 1_000)


def test_an_altered_analysis_is_refused(tmp_path):
    melodies(tmp_path, 0, 0.1, 0.4)
    (path,) = tmp_path.rglob("analysis.json")
    path.write_text(path.read_text().replace("0.4", "0.5"))
    with pytest.raises(UsageError, match=r"analysis.json was changed"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "old", "new"), [("result.json", '"seconds": ', '"seconds": 1'), ("metrics.jsonl", '"loss": 0.', '"loss": 1.')]
)
def test_an_altered_result_or_metric_is_refused(tmp_path, name, old, new):
    kept = ROOT / "experiments" / "results" / "adding" / "adding-lr-seed1"
    path = shutil.copytree(kept, tmp_path / "adding" / kept.name) / name
    assert load(tmp_path)
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(UsageError, match=rf"{name} was changed"):
        load(tmp_path)


def test_a_run_on_a_file_is_not_one_on_the_source():
    config, record = parse(TEXT, ["--preset", "quick"]).config, identity(TEXT, "--preset quick", 0)
    assert Wanted(config).trained(record)
    assert not Wanted(config).trained(record | {"data": record["data"] | {"file": "PATH"}})
