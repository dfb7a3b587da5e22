"""Experiments of the user's own, started as a script or a module: their names in messages and in the files of their runs."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from lrpt.cli.experiment import Experiment
from lrpt.runs.classes import class_of, qualified_name

OWN = Experiment("parity", "Say whether the bits are odd.", "nothing", {}, {})


@pytest.fixture(params=["script", "module"])
def started(request, tmp_path, monkeypatch):
    """The way a program was started that is the file parity.py, with a class of its own; it can be imported, too."""
    path = tmp_path / "parity.py"
    path.write_text("class Parity:\n    pass\n")
    program = ModuleType("__main__")
    program.__file__, program.__spec__ = str(path), None if request.param == "script" else ModuleSpec("parity", None)
    exec(path.read_text(), program.__dict__)
    monkeypatch.setitem(sys.modules, "__main__", program)
    monkeypatch.delitem(sys.modules, "parity", raising=False)
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.syspath_prepend(tmp_path)
    return request.param


def test_a_program_is_named_as_it_was_started(started):
    assert OWN.program == {"script": "python parity.py", "module": "python -m parity"}[started]
    assert Experiment("adding", "", "", {}, {}).program == "python -m experiments.adding"


def test_a_class_of_the_program_is_found_by_the_name_of_its_file(started, monkeypatch):
    """The program itself is not executed again; another one imports it."""
    own = sys.modules["__main__"].Parity
    assert qualified_name(own) == "parity:Parity"
    assert class_of("parity:Parity") is own
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    assert class_of("parity:Parity").__module__ == "parity"
