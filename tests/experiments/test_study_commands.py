"""Commands of kept studies: those that the pages print, and those that `reproduce` plans, make the studies that are kept."""

import pytest

from experiments.fair_crossing.options import Options as CrossingOptions
from experiments.jsb.swarm import Options as SwarmOptions
from experiments.jsb.swarm import identify
from experiments.lattice.models import TEXTS
from experiments.report.command import ROOT
from experiments.report.kept.commands import command_line_of
from experiments.report.kept.summaries import MAY_CHANGE, kept_rows
from experiments.report.papers.lattice import COMMANDS
from experiments.report.wording.markdown import RESULTS
from experiments.report.writing import evidence_of
from experiments.sweep import experiment_named
from lrpt.cli.flags import parse_dataclass
from lrpt.cli.subcommands import options_of
from lrpt.runs.configuration import flatten, to_json

STUDIES = evidence_of(ROOT).studies
LATTICE = {name: flags for name, flags in COMMANDS.items() if name in STUDIES}


def options_that_decide(options):
    content = options if isinstance(options, dict) else to_json(options)
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in flatten(content).items()}
    return {name: value for name, value in plain.items() if name not in MAY_CHANGE}


def parsed(command):
    program, _, flags = command.partition(" --")
    module, _, word = program.removeprefix("python -m experiments.").partition(" ")
    words = f"--{flags}".split()
    if not word:
        return parse_dataclass(CrossingOptions, words, program, "", CrossingOptions())
    return options_of(experiment_named(module).subcommands[word], words, program)


@pytest.mark.parametrize("name", STUDIES)
def test_a_printed_command_has_the_options_of_the_kept_study(name):
    found, kept = options_that_decide(parsed(command_line_of(STUDIES[name]))), options_that_decide(STUDIES[name]["options"])
    assert {option: value for option, value in found.items() if option in kept} == kept


@pytest.mark.parametrize("subcommand", ["efficiency", "convergence"])
def test_the_parts_of_a_study_do_not_decide_its_command(subcommand):
    """A run with all data belongs to the studies of efficiency and of convergence, and only one of the two has made it."""
    study = STUDIES["lattice_efficiency_ptb"]
    command = f"python -m experiments.lattice {subcommand} --models lru --seeds 1"
    part = {**study, "environment": {**study["environment"], "command": command}}
    assert command_line_of(part) == command_line_of(study)
    assert command_line_of(part).startswith("python -m experiments.lattice efficiency --")


@pytest.mark.parametrize("name", LATTICE)
def test_a_planned_study_of_lattices_is_the_kept_one(name):
    """Models, starts and seeds may be parts of those that are planned, and all kept runs count as done."""
    subcommand, _, flags = LATTICE[name].partition(" ")
    study = experiment_named("lattice").subcommands[subcommand].study
    words = flags.replace("BOOK.txt", str(TEXTS["warpeace"].file)).split()
    options = options_of(experiment_named("lattice").subcommands[subcommand], words, "lattice")
    assert len(kept_rows(study.summary, study.described(options), ROOT / RESULTS)) == len(STUDIES[name]["runs"])


def test_dots_of_the_kept_swarm_and_networks_that_diverged_count_as_done():
    swarm = experiment_named("jsb").subcommands["swarm"]
    options = options_of(swarm, ["--preset", "paper", "--data.dir", "DIR"], "jsb swarm")
    rows = kept_rows(swarm.study.summary, swarm.study.described(options), ROOT / RESULTS)
    done = [job for job in options.jobs(experiment_named("jsb").presets["paper"].config) if swarm.study.is_among(options, job, rows)]
    assert len(done) == sum(len(STUDIES["jsb_swarm"][rows]) for rows in ("dots", "diverged")) == 120


def test_runs_of_a_swarm_are_told_apart():
    jobs = SwarmOptions(settings=3).jobs(experiment_named("jsb").presets["quick"].config)
    known = [tuple(identify(SwarmOptions(settings=3), job).values()) for job in jobs]
    assert len(set(known)) == len(known) > 30
