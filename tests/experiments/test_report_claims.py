"""What is listed of each paper, which runs are needed, and that texts follow from them."""

import numpy as np
import pytest
from kept_runs import LENGTH, judged, kept_run

from experiments import copy_memory
from experiments.parameter_table import command as parameter_table
from experiments.report.claims.judged import Judged
from experiments.report.claims.planning import distinct_runs, needs
from experiments.report.claims.relations import OnCurve, Relation, Versus
from experiments.report.claims.rows import QUOTED, Evidence, Planned
from experiments.report.claims.verdicts import NOT_HERE, Status
from experiments.report.command import ROOT
from experiments.report.papers import highway, lattice, low_rank, variable_computation
from experiments.report.papers import variable_computation_networks as computing
from experiments.report.papers.highway_takeaways import constant_of
from experiments.report.wording.texts import by_finding
from experiments.report.writing import PAPERS, evidence_of
from experiments.sweep import experiment_named
from lrpt.cli.flags import parse
from lrpt.datasets import jsb

COPY = copy_memory.EXPERIMENT
UNRUN = {Status.NOT_RUN, Status.NOT_HERE}


# What is listed


def test_rows_of_table_1_are_those_of_the_parameter_table():
    models = [row.model for row in low_rank.PAPER.rows if row.where == low_rank.TABLE_1 and row.network]
    entries = [entry for entry in parameter_table.PUBLISHED if entry.paper == parameter_table.MICELI_BARONE]
    assert models == [entry.config.label for entry in entries if entry.where == "Table 1"]


def count(paper, place):
    return len({row.title for row in paper.rows if row.where == place})


@pytest.mark.parametrize(
    ("paper", "place", "rows"),
    [
        (low_rank.PAPER, low_rank.TABLE_1, 9),
        (low_rank.PAPER, low_rank.TABLE_2, 14),
        (low_rank.PAPER, low_rank.APPENDIX, 3),
        (variable_computation.PAPER, computing.TABLE_1, 3),
        (variable_computation.PAPER, computing.TABLE_2, 12),
        (variable_computation.PAPER, computing.TABLE_3_BITS, 6),
        (variable_computation.PAPER, computing.TABLE_3_CHARS, 11),
        (variable_computation.PAPER, computing.TABLE_3_TEXT8, 10),
        (highway.PAPER, highway.TABLE_1_ROWS, 12),
        (highway.PAPER, highway.FIGURE_5A_ROWS, 20),
        (highway.PAPER, highway.TABLE_2, 8),
        (highway.PAPER, highway.TABLE_3, 7),
    ],
)
def test_every_row_of_a_table_is_listed(paper, place, rows):
    assert count(paper, place) == rows


def test_the_lattice_table_has_56_rows():
    rows = [row for row in lattice.PAPER.rows if row.where.startswith("Table 1")]
    assert (len(rows), len({(row.where, row.model) for row in rows})) == (56, 56)
    assert {plot.where.split()[1].strip("()") for plot in lattice.PAPER.plots} == set("1234567")


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_without_runs_every_claim_is_not_yet_run(paper):
    found = Judged(paper, Evidence())
    assert {verdict.status for verdict in found.verdicts} == UNRUN
    assert all(network.config for row in paper.rows if (network := row.network))
    assert {found.state_of(plot) for plot in paper.plots} <= {"not yet run", "not runnable here"}


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_what_cannot_be_run_here_says_why(paper):
    found = Judged(paper, Evidence())
    assert all(q.row.note for q in found.quantities if q.verdict is NOT_HERE)
    assert all(r.relation.note for r in found.relations if r.verdict is NOT_HERE)
    assert all(q.verdict is NOT_HERE for q in found.quantities if q.row.note == QUOTED)


def test_a_figure_of_the_paper_has_runs_if_a_claim_about_it_has(tmp_path):
    kept_run(tmp_path, COPY, LENGTH, curve={29_000: 9e-4}, score="loss", test={})
    found = judged(tmp_path)
    assert [plot.where for plot in found.paper.plots if found.state_of(plot) == "some runs"] == ["Figure 2, top row and middle left"]


def test_a_figure_of_which_no_claim_can_be_run_here_says_so():
    found = Judged(variable_computation.PAPER, Evidence())
    states = {plot.where: found.state_of(plot) for plot in found.paper.plots}
    assert (states["Figure 5"], states["Figure 3, Czech"]) == ("not runnable here", "not yet run")


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_models_have_the_names_of_the_paper(paper):
    names = [row.model for row in paper.rows]
    assert not any("_" in name or "WITHOUT" in name or "RESET" in name for name in names)


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_points_of_logs_fall_on_evaluations(paper):
    for study in paper.studies:
        assert all(update % study.networks[0].config.train.evaluate_every == 0 for update in (*study.log, *study.updates))


# Which runs are needed


def test_every_run_is_needed_once():
    needed = needs(PAPERS)
    runs = distinct_runs(needed)
    commands = [(planned.experiment, planned.flags) for planned in runs]
    assert len(commands) == len(set(commands))
    assert {planned.flags for need in needed for planned in need.runs} == {flags for _, flags in commands}
    shared = next(planned for planned in runs if (planned.experiment, planned.flags) == ("adding", "--preset paper"))
    assert shared == Planned("adding", "--preset paper", (0, 1, 2))
    assert len(runs[shared]) == 2  # its row, and LRD >= LR


def test_a_relation_needs_both_networks_or_all_of_a_curve_at_published_size():
    one, curve, seeds = computing.SMALL_VC, computing.RNN_CURVE, (0, 1)
    versus, on_curve = Versus(one, curve[0]), OnCurve(one, curve)
    assert Relation("Table 1", "better", None, (versus, on_curve)).planned(seeds) == [one.planned(seeds), curve[0].planned(seeds)]
    assert Relation("Table 1", "better", None, (on_curve, versus)).planned(seeds) == [network.planned(seeds) for network in (one, *curve)]


def test_a_claim_that_nothing_can_run_needs_nothing():
    assert {need.runs for need in needs([low_rank.PAPER]) if "uRNN (Arjovsky et al.)" in need.claim} == {()}


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_commands_are_understood(paper):
    for planned in distinct_runs(needs([paper])):
        if planned.flags.startswith("--preset"):
            assert parse(experiment_named(planned.experiment), planned.flags.split()).config


# Numbers in texts


def test_the_constant_predictor_of_the_swarm(data_dir):
    frames = np.concatenate([np.asarray(piece, np.float64)[1:] for piece in jsb.load_jsb("json", data_dir)["train"]])
    often = np.clip(frames.mean(axis=0), 1e-12, 1 - 1e-12)
    entropy = -(often * np.log(often) + (1 - often) * np.log1p(-often)).sum()
    assert entropy == pytest.approx(constant_of(evidence_of(ROOT).studies["jsb_swarm"]), rel=1e-6)


def test_claims_are_listed_by_what_was_found():
    found = {"a": "as in the paper", "b": "against the paper", "c": "as in the paper", "d": "undecided"}
    assert by_finding(found) == "As claimed: a; c. Claimed, but not found: b. Claimed, undecided: d."


def test_texts_are_made_with_and_without_runs():
    for evidence in (Evidence(), evidence_of(ROOT)):
        for paper in PAPERS:
            found = Judged(paper, evidence)
            assert 3 <= len(paper.takeaways(found)) <= 5
            assert all("None" not in text for text in (*(one.whole for one in paper.takeaways(found)), *paper.remarks(evidence)))
