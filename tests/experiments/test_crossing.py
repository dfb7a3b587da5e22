"""The crossing of cells and parametrizations: sizes that come closest to the budget, what is written, and that it resumes."""

import json
from dataclasses import replace

import pytest

from experiments.crossing.command import Options, main
from lrpt.networks.counting import count

TINY = "--cells gru lru --matrices dense low_rank_plus_diagonal --parameters 1500 --seeds 2 --updates 2 --evaluate-every 1 --batch-size 4"


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["gru", "rhn", "lru", "vcgru"])
@pytest.mark.parametrize("matrices", ["dense", "low_rank_plus_diagonal"])
def test_no_other_width_is_closer_to_the_budget(cell, matrices):
    options = Options(parameters=1_500)
    found = options.model(cell, matrices, 20)

    def off(width):
        ranks = {"rank": options.rank(width), "input_rank": options.rank(width)}
        return abs(count(replace(found, size=width, embedding=width, **ranks), 20, 20).true - options.parameters)

    assert found.matrices.rank == found.inputs.rank == options.rank(found.size)
    assert off(found.size) == min(off(found.size + by) for by in (-1, 0, 1))


@pytest.mark.slow
def test_trains_everything_once_and_keeps_what_a_table_needs(tmp_path, capsys):
    (tmp_path / "text").write_text("the cat sat on a mat\n" * 40)
    where = ["--data.file", str(tmp_path / "text"), "--data.steps", "4", "--workdir", str(tmp_path / "runs")]
    main([*TINY.split(), *where])
    summary = json.loads((tmp_path / "runs" / "crossing.json").read_text())
    fields = [(one["cell"], one["parametrization"], one["seed"]) for one in summary["runs"]]
    assert fields == [(cell, kind, seed) for cell in ("gru", "lru") for kind in ("dense", "low_rank_plus_diagonal") for seed in (0, 1)]
    assert all(abs(one["parameters"] - 1_500) < 200 and 0 < one["bits_per_character"] < 8 for one in summary["runs"])
    assert [one["rank"] is None for one in summary["runs"]] == [True, True, False, False] * 2
    assert (tmp_path / "runs" / "figures" / "crossing.png").exists()
    assert "low rank plus diagonal" in " ".join(capsys.readouterr().out.split())

    main([*TINY.split(), *where])  # all are finished
    assert json.loads((tmp_path / "runs" / "crossing.json").read_text()) == summary


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--cells gru gnu", "cells is 'gnu': choose from "),
        ("--cells gru gru", "cells is gru gru: give at least one, and none twice"),
        ("--matrices hankel", "matrices is 'hankel': choose from "),
        ("--seeds 0", "seeds is 0: expected 1 or more"),
        ("--ratio 2", "ratio is 2.0: expected a number above 0, at most 1"),
        ("--parameters 10", "a budget of 10 parameters is too small"),
    ],
)
def test_bad_options_are_one_line(flags, says, assert_refused):
    assert_refused(main, flags.split(), says)
