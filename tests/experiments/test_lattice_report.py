"""The sections of REPRODUCTION.md about the lattice paper's studies and the crossing."""

import json

import pytest

from experiments.report import crossing, lattice
from experiments.report.markdown import RESULTS
from lrpt.errors import UsageError

ENVIRONMENT = {"cpus": 2, "command": "python -m experiments.lattice convergence --data.dir /somebody/data"}
OPTIONS = {"parameters": 300_000, "layers": 2, "batch_size": 50, "learning_rate": 1e-3, "test": "fixed", "data": {"text_share": 10.0}}


def trained(model, seed, loss, epochs=8, share=100):
    return {
        "model": model,
        "seed": seed,
        "share": share,
        "parameters": 299_999,
        "loss": loss,
        "epochs_to_best": epochs,
        "epochs": 10,
        "seconds": 60.0,
    }


def keep(root, name, **content):
    path = root / RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def study(name, runs, **more):
    return {"study": name, "options": OPTIONS, "environment": ENVIRONMENT, "runs": runs, **more}


def test_without_results_it_says_what_would_make_them(tmp_path):
    text = lattice.section(tmp_path)
    assert text.count("Not yet run: `python -m experiments.lattice ") == len(lattice.COMMANDS)
    assert "| LRU | 0.965 | 8 | – | – | not yet run | not yet run |" in text
    assert "| LRU | published (figure) | 1.111 | 0.993 | 0.991 | 0.970 | 0.965 |" in text
    assert crossing.section(tmp_path).endswith(crossing.NOT_YET)


def test_losses_and_epochs_stand_beside_the_published_ones(tmp_path):
    runs = [trained("gru", 0, 1.5), trained("gru", 1, 1.7, 10), trained("lru", 0, 1.8)]
    keep(tmp_path, "lattice_convergence_ptb", **study("convergence", runs))
    text = lattice.section(tmp_path)
    assert "| GRU | 0.972 | 9 | 299,999 | 2 | 1.600 ± 0.141 | 9.0 ± 1.4 |" in text
    assert "Published, best first: LRU, Grid-LSTM, PS-LRU, RG-LRU, LSTM, GRU, RHN. Ours: GRU, LRU." in text
    assert "about 300,000 parameters, 2 layers, 10 % of the text, batches of 50, learning rate 0.001, 10 epochs at most, 2 seeds" in text
    assert "3 core-minutes on a machine with 2 cores" in text
    assert "`python -m experiments.lattice convergence --data.dir PATH`" in text
    lattice.draw(tmp_path)
    assert (tmp_path / lattice.figure("lattice_convergence_ptb")).exists()


def test_efficiency_and_gradients(tmp_path):
    keep(tmp_path, "lattice_efficiency_ptb", **study("efficiency", [trained("lru", 0, 2.0, share=20), trained("lru", 0, 1.8)]))
    keep(tmp_path, "lattice_gradients_ptb", **study("gradients", [trained("gru", 0, 2.9)], norms={"GRU": [[0.1, 0.3], [0.4, 0.4]]}))
    text = lattice.section(tmp_path)
    assert "| LRU | ours | 2.000 | not yet run | not yet run | not yet run | 1.800 |" in text
    assert "Ours have the fixed test part." in text
    assert "| GRU | 0.2 | 0.4 | 2.0 | 2.900 |" in text
    lattice.draw(tmp_path)
    assert all((tmp_path / lattice.figure(f"lattice_{name}_ptb")).exists() for name in ("efficiency", "gradients"))


def crossed(kind, seed, bits):
    size = {"size": 62, "rank": None if kind == "dense" else 14, "parameters": 29_625, "updates": 600, "seconds": 90.0}
    return {"cell": "gru", "parametrization": kind, "seed": seed, "bits_per_character": bits, **size}


def test_the_crossing_says_which_differences_are_larger_than_their_errors(tmp_path):
    dense = [crossed("dense", seed, bits) for seed, bits in enumerate((2.00, 2.02, 2.04))]
    low = [crossed("low_rank", seed, bits) for seed, bits in enumerate((1.90, 1.92, 1.94))]
    diagonal = [crossed("low_rank_plus_diagonal", seed, bits) for seed, bits in enumerate((2.00, 2.03, 2.04))]
    options = {"data": {"file": None, "source": "ptb"}}
    keep(tmp_path, "crossing", options=options, environment=ENVIRONMENT, runs=[*dense, *low, *diagonal])
    text = crossing.section(tmp_path)
    assert "| gru | low rank | 62 | 14 | 29,625 | 3 | 1.920 | 0.020 |" in text
    assert r"gru: low rank -0.100\*, low rank plus diagonal +0.003." in text
    assert "29,625 to 29,625 parameters, 600 updates, 3 seeds, on ptb" in text
    crossing.draw(tmp_path)
    assert (tmp_path / crossing.FIGURE).exists()


def test_damaged_files_are_named(tmp_path):
    for name, section in (("lattice_gradients_ptb", lattice.section), ("crossing", crossing.section)):
        path = tmp_path / RESULTS / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{")
        with pytest.raises(UsageError, match="is damaged"):
            section(tmp_path)
        path.unlink()
