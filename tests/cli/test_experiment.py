"""Experiments that are looked up by their names."""

import pytest

import experiments
from lrpt.cli.experiment import experiment_of


@pytest.mark.parametrize(("code", "error"), [("import no_such", ModuleNotFoundError), ("sum.no_such", AttributeError)])
def test_errors_inside_an_experiment_come_through(code, error, tmp_path, monkeypatch):
    (tmp_path / "broken_experiment.py").write_text(code)
    monkeypatch.setattr(experiments, "__path__", [*experiments.__path__, str(tmp_path)])
    with pytest.raises(error, match="no_such"):
        experiment_of("broken_experiment")
    assert experiment_of("no_such") is None
