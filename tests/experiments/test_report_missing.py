"""What is not yet run stands below the table of its place, with what was published, and nothing is left out."""

import pytest
from kept_runs import judged, kept_run

from experiments.report.claims.verdicts import NOT_RUN
from experiments.report.pages.paper_page import not_run, page
from experiments.report.papers import low_rank
from experiments.report.writing import PAPERS


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_every_claim_is_on_the_page_before_anything_was_run(paper, tmp_path):
    found = judged(tmp_path, paper)
    lines = page(found).splitlines()
    for one in found.quantities:
        start = f"- {one.title}: " if one.verdict == NOT_RUN else f"| {one.title} | {one.quantity.name} |"
        section = [line for line in _section(lines, f"### {one.row.where}") if line.startswith(start)]
        assert sum(one.quantity.name in line for line in section), start
    for relation in found.relations:
        section = _section(lines, f"### {relation.relation.where}: orderings")
        assert sum(relation.relation.sentence in line for line in section), relation.relation.sentence


def _section(lines, head):
    start = lines.index(head) + 1
    end = next((i for i in range(start, len(lines)) if lines[i].startswith("#")), len(lines))
    return lines[start:end]


def test_a_row_that_was_run_is_in_the_table_and_the_others_are_below(tmp_path):
    kept_run(tmp_path, low_rank.IMAGES, "--preset paper", 0, {325_000: 0.9}, "accuracy", {"accuracy": 0.92})
    section = _section(page(judged(tmp_path)).splitlines(), f"### {low_rank.TABLE_1}")
    rows = [line for line in section if line.startswith("| LRD-GRU 128/24 | test accuracy |")]
    assert len(rows) == 1
    assert not any(str(NOT_RUN) in line for line in section if line.startswith("|"))
    assert any(line.startswith("- LR-GRU 512/4: ") for line in section)


def test_rows_of_one_title_are_one_item():
    assert not_run([]) == ""
    found = [("GRU 4", "loss 1.5 [1]"), ("an ordering", ""), ("GRU 4", "epochs 7")]
    assert not_run(found, "as published") == "Not yet run, as published:\n\n- GRU 4: loss 1.5 [1]; epochs 7\n- an ordering"
