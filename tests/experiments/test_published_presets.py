"""Every preset that a published row or a verdict rests on has its hyperparameters, by value.

`PINNED` has published values, `CHOICES` those that this project chose, `STAND_INS` the presets that are smaller than
published, `STUDIES` the options of studies, and `CHANGES` what commands of claims change in either. `OFF` has what no preset does unless
one of these says so.
"""

import pinned_commands
import pinned_lattice
import pinned_papers
import pinned_stand_ins
import pinned_variable_computation
import pytest
from pinned_papers import NO_DROPOUT
from pinned_stand_ins import STAND_INS, STUDIES

from experiments import (
    adding,
    bit_lm,
    char_lm,
    conditional,
    copy_memory,
    europarl,
    highway_mnist,
    music,
    permuted_mnist,
    variable_computation,
    wiki,
    word_lm,
)
from experiments.jsb import command as jsb
from experiments.lattice import command as lattice
from experiments.lattice import options as lattice_options
from experiments.report.claims.matching import configuration, setting, settings
from experiments.report.claims.planning import needs
from experiments.report.writing import PAPERS
from lrpt.cli.subcommands import options_of
from lrpt.optim import RECIPES
from lrpt.runs.configuration import flatten, full_name, to_json
from lrpt.settings import unused_settings

MODULES = (
    *(adding, bit_lm, char_lm, conditional, copy_memory, europarl, highway_mnist, jsb, lattice, music, permuted_mnist),
    *(variable_computation, wiki, word_lm),
)
EXPERIMENTS = {module.EXPERIMENT.name: module.EXPERIMENT for module in MODULES}

PINNED = pinned_papers.PINNED | pinned_variable_computation.PINNED | pinned_lattice.PINNED
CHOICES = pinned_papers.CHOICES | pinned_variable_computation.CHOICES | pinned_lattice.CHOICES

OFF = {
    **NO_DROPOUT,
    "model.word_masks": "positions",
    "model.drop_biases": False,
    "model.gate_masks": "each",
    "model.dropout.shared_masks": False,
    "model.depth": 1,
    "model.layers": 1,
    "model.shared_layers": False,
    "model.weight_norm": False,
    "model.tied": False,
    "model.embedding": None,
    "model.embeddings.rank": None,
    "model.tie_embedding": False,
    "model.inputs.kind": "dense",
    "model.guided_symbols": [],
    "optim.summed_steps": 1,
    "optim.weight_decay": 0.0,
    "optim.weight_decay_form": "in_loss",
    "optim.decay": 1.0,
    "optim.decay_after": 0,
    "optim.halve_after": None,
    "optim.return_to_best": False,
    "train.fresh_every": None,
    "train.stop_below": None,
    "train.patience": None,
    "train.test_each": False,
    "train.select": "loss",
    "train.start": None,
    "data.file": None,
    "data.text_share": None,
    "data.train_share": None,
    "data.valid_size": None,
    "data.blanks": "stripped",
    "data.line_ends": "folded",
    "data.cuts": "lines",
    "data.encoding": "utf-8",
    "data.tokens": "gru",
    "data.words": None,
    "data.buffer": 0,
    "data.characters": False,
    "data.first_frame": False,
    "data.format": "json",
    "data.longest": None,
}
"""What no preset does unless another table says so. Networks that lack a setting are not concerned."""


def value(config, name):
    """A setting of a configuration; 'rate' is the learning rate, which a recipe may hold."""
    return config.optim.initial_learning_rate if name == "rate" else setting(config, name)


def by_full_name(values):
    """The same values, by the full names of settings."""
    return {full_name(name): v for name, v in values.items()}


def config_of(experiment, preset):
    """The configuration of a preset."""
    return EXPERIMENTS[experiment].presets[preset].config


def expected(experiment, preset):
    """All pinned settings of a preset by full name, the learning rate as 'rate'."""
    if (experiment, preset) in STAND_INS:
        start, changes = STAND_INS[experiment, preset]
        return expected(experiment, start) | by_full_name(changes)
    present = settings(config_of(experiment, preset)).keys()
    off = {name: v for name, v in by_full_name(OFF).items() if name in present}
    return off | by_full_name(CHOICES.get((experiment, preset), {})) | by_full_name(PINNED[experiment, preset])


def nearly(values):
    """The same values, of which numbers may differ by rounding."""
    return {name: pytest.approx(v) if isinstance(v, float) else v for name, v in values.items()}


every_preset = pytest.mark.parametrize(("experiment", "preset"), [*PINNED, *STAND_INS], ids=str)


@every_preset
def test_a_preset_has_the_published_hyperparameters_and_the_choices_of_this_project(experiment, preset):
    config, pinned = config_of(experiment, preset), expected(experiment, preset)
    assert {name: value(config, name) for name in pinned} == nearly(pinned)


PLACES = {"data.dir", "train.checkpoint_minutes", "train.updates_per_call"}
"""Settings that decide where and how fast a run trains, and not what it finds; those of `model.loop` also do not."""


def deciding(experiment, preset):
    """The settings of a preset that decide its result. Batches of evaluation do so in streams only, whose number they are."""
    config = config_of(experiment, preset)
    unused = {f"{group}.{name}" for group in ("model", "optim", "train", "data") for name in unused_settings(getattr(config, group))}
    batches = {"train.evaluation_batch"} if config.train.order != "stream" else set()
    names = {name for name in settings(config) if not name.startswith("model.loop.")} - {"optim.learning_rate"} | {"rate"}
    return names - unused - batches - PLACES


@every_preset
def test_whatever_decides_a_result_is_pinned(experiment, preset):
    """Nobody can change a learning rate, dropout, bias, schedule, batch or window of these presets without a test that fails."""
    assert deciding(experiment, preset) - expected(experiment, preset).keys() == set()


def commands(paper):
    """Every command that a claim or a learning curve of a paper rests on: experiment and flags.

    Claims are rows and relations, of which all versions count. Texts of results are made from claims, and train nothing more.
    """
    found = {(run.experiment, run.flags) for need in needs([paper], scale="all") for run in need.runs}
    return found | {(network.experiment.name, network.flags) for study in paper.studies for network in study.networks}


def start_of(experiment, flags):
    """The preset from which a command starts, with the subcommand if it is a study."""
    words = flags.split()
    preset = words[words.index("--preset") + 1] if "--preset" in words else ""
    return (experiment, preset) if words[0].startswith("--") else (experiment, words[0], preset)


def changes_of(experiment, flags):
    """What a command changes in the preset from which it starts, or in the options of its study, without the places of files."""
    start, words = start_of(experiment, flags), flags.split()
    if words[0] == "--preset" and len(words) == 2:
        return {}
    if start in STUDIES:
        found, usual = (flatten(to_json(options)) for options in (study_of(*start[:2], "", *words[1:])[1], study_of(*start)[1]))
    else:
        found, usual = settings(configuration(EXPERIMENTS[experiment], flags)), settings(config_of(*start))
    return {name: v for name, v in found.items() if v != usual[name] and name not in pinned_stand_ins.UNDECIDING}


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_commands_of_claims_change_what_is_pinned_and_nothing_else(paper):
    found = [(start_of(*command), changes) for command in commands(paper) if (changes := changes_of(*command))]
    pinned = [(start, by_full_name(one)) for start, changes in pinned_commands.CHANGES[paper.name].items() for one in changes]
    in_order = lambda of_starts: sorted(of_starts, key=lambda one: (one[0], str(sorted(one[1].items()))))  # noqa: E731
    assert in_order(found) == in_order(pinned)


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_every_preset_that_a_claim_or_a_learning_curve_rests_on_is_pinned(paper):
    starts = {start_of(*command) for command in commands(paper)}
    assert starts
    assert starts - PINNED.keys() - STAND_INS.keys() - STUDIES.keys() == set()


def study_of(experiment, subcommand, preset, *flags):
    """A study and its options."""
    found = EXPERIMENTS[experiment].subcommands[subcommand]
    words = [*(["--preset", preset] if preset else []), *flags]
    return found.study, options_of(found, words, f"{experiment} {subcommand}")


@pytest.mark.parametrize(("experiment", "subcommand", "preset"), STUDIES, ids=str)
def test_a_study_has_the_pinned_options(experiment, subcommand, preset):
    options = flatten(to_json(study_of(experiment, subcommand, preset)[1]))
    found = {name: v for name, v in options.items() if name not in pinned_stand_ins.UNDECIDING}
    assert found == nearly(STUDIES[experiment, subcommand, preset])


def changes_of_a_run(experiment, subcommand, preset, *flags):
    """In which settings the first run of a study differs from the preset 'paper'."""
    study, options = study_of(experiment, subcommand, preset, *flags)
    config, published = study.jobs(options)[0].config, config_of(experiment, "paper")
    names = settings(config).keys() - {"optim.learning_rate"} | {"rate"}
    return {name: value(config, name) for name in names if value(config, name) != value(published, name)}


@pytest.mark.parametrize("subcommand", ["convergence", "efficiency"])
def test_runs_of_a_study_of_lattices_are_else_as_published(subcommand, monkeypatch):
    monkeypatch.setattr(lattice_options, "_measure", lambda data, batch_size: (50, 200))
    found = changes_of_a_run("lattice", subcommand, "")
    found.pop("data.text_share", None)  # of which a study has several
    found.pop("data.train_share", None)
    assert found == by_full_name(pinned_stand_ins.OF_LATTICE)


def test_runs_of_the_swarm_are_else_as_the_preset_for_chorales():
    found = changes_of_a_run("jsb", "swarm", "paper", "--cells", "rhn", "--depths", "6", "--parameters", "900000", "--settings", "1")
    drawn = by_full_name(dict.fromkeys(pinned_stand_ins.DRAWN)).keys()
    assert {name: v for name, v in found.items() if name not in drawn} == pinned_stand_ins.OF_SWARM


DESCRIPTIONS = {
    "copy_memory": "norm clipping at 1 with NaN recovery, RMSProp",
    "copy_memory_dense": "component clipping at 1, RMSProp (",
    "copy_memory_unitary": "RMSProp without clipping",
    "weight_norm": "norm clipping at 1 without NaN recovery, RMSProp, rows limited to norm 10",
    "weight_norm_recovery": "weight_norm with the NaN recovery of copy_memory",
    "adding": "component clipping at 1, RMSProp without epsilon",
    "adding_recovery": "adding with the NaN recovery of copy_memory",
    "permuted_mnist": "component clipping at 1, RMSProp without epsilon",
    "permuted_mnist_original": "component clipping at 1 except for the first seven tensors, RMSProp without epsilon",
    "char_lm": "norm clipping at 1 with NaN recovery, Adam",
    "char_lstm": "Adam, weight decay of 1e-7 within the gradient",
    "rhn": "norm clipping at 10, SGD",
    "momentum": "norm clipping at 10, SGD with momentum 0.9",
    "adam": "Adam with its published constants",
}


@pytest.mark.parametrize("recipe", DESCRIPTIONS)
def test_pinned_recipes_clip_as_their_names_say(recipe):
    """What they do is checked in tests of the recipes; that the name still means it, here."""
    assert RECIPES[recipe].description.startswith(DESCRIPTIONS[recipe])


def test_every_recipe_of_a_preset_or_a_command_is_pinned():
    recipes = {config_of(*preset).optim.recipe for preset in [*PINNED, *STAND_INS]}
    changes = [one for starts in pinned_commands.CHANGES.values() for changed in starts.values() for one in changed]
    recipes |= {one["optim.recipe"] for one in changes if "optim.recipe" in one}
    assert recipes == DESCRIPTIONS.keys()
