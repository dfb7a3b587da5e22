"""Where commands on a run write plots and numbers."""

from pathlib import Path

import pytest

from lrpt.cli.finished.run_commands import OnRun
from lrpt.runs.files import write_json
from lrpt.runs.weights import METADATA


@pytest.fixture
def result(tmp_path, monkeypatch):
    """The directory of a kept result, which is not the current one."""
    path = tmp_path / "results" / "bit_lm" / "bits-seed0"
    path.mkdir(parents=True)
    write_json(path / "config.json", {"experiment": "bit_lm", "preset": "bits", "seed": 0})
    (path / METADATA).write_text("{}")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return path


def test_of_a_kept_result_nothing_is_written_beside_it_or_into_the_current_directory(result):
    before = sorted(result.iterdir())
    options = OnRun(result)
    assert options.figures == options.numbers == Path("runs") / "bit_lm" / "bits-seed0-kept"
    assert not options.numbers.exists(), "a directory is made when a file is written"
    assert sorted(result.iterdir()) == before


def test_the_name_of_a_kept_result_that_is_the_current_directory_is_its_own(result, monkeypatch):
    monkeypatch.chdir(result)
    assert OnRun(Path()).figures.name == "bits-seed0-kept"


def test_an_output_that_is_given_is_written_to(result, tmp_path):
    options = OnRun(result, output=tmp_path / "out")
    assert options.figures == options.numbers == tmp_path / "out"


def test_a_run_holds_its_own_plots_and_numbers(result):
    (result / METADATA).unlink()
    options = OnRun(result)
    assert (options.numbers, options.figures) == (result, result / "figures")
