"""Claims of the lattice paper on studies that are made up here, the swarm, and the page about the crossing."""

import json

import pytest

from experiments.report import crossing
from experiments.report.claims import Evidence
from experiments.report.judged import Judged
from experiments.report.markdown import RESULTS
from experiments.report.papers import highway, lattice
from experiments.report.studies import concentration
from experiments.report.study_figures import draw_studies
from lrpt.errors import UsageError

ENVIRONMENT = {"cpus": 2, "command": "python -m experiments.lattice convergence --data.dir /somebody/data"}
OPTIONS = {
    "parameters": 300_000,
    "layers": 2,
    "epochs": 20,
    "batch_size": 50,
    "learning_rate": 1e-3,
    "test": "fixed",
    "seed": 0,
    "data": {"text_share": 10.0},
}
SCALE = "300,000 parameters, 2 layers, 10 % of the text, 20 epochs at most"


def trained(model, seed, loss, best=8, share=100, epochs=None):
    sizes = {"parameters": 299_999, "seconds": 60.0, "epochs": epochs or min(20, best + 3)}
    return {"model": model, "seed": seed, "share": share, "loss": loss, "epochs_to_best": best, **sizes}


def study(runs, **more):
    return {"study": "convergence", "options": OPTIONS, "environment": ENVIRONMENT, "runs": runs, **more}


def judged(paper=lattice.PAPER, **studies):
    return Judged(paper, Evidence((), studies))


@pytest.mark.slow
def test_losses_and_epochs_of_a_study_are_at_smaller_scale():
    found = judged(lattice_convergence_ptb=study([trained("gru", 0, 1.5), trained("gru", 1, 1.7, 10), trained("lru", 0, 1.8)]))
    loss, epochs = (found.quantity("GRU", name, "Table 1, PTB, 10M") for name in ("test loss", "epochs"))
    assert (loss.ours, epochs.ours, loss.seeds) == ("1.600 ± 0.141", "9.0 ± 1.4", "0, 1")
    assert str(loss.verdict) == f"run at smaller scale ({SCALE})"
    assert str(found.quantity("GRU", "test loss", "Table 1, PTB, 24M").verdict) == "not yet run"


def test_epochs_at_the_cap_are_at_least_as_many():
    runs = [trained("lstm", 0, 1.5, 20), trained("lru", 0, 1.4, 9), trained("grid-lstm", 0, 1.4, 20), trained("rhn", 0, 1.4, 17)]
    found = judged(lattice_convergence_ptb=study(runs))
    ours = [found.quantity(name, "epochs", "Table 1, PTB, 10M").ours for name in ("LSTM", "LRU", "RHN")]
    assert ours == ["at least 20.0", "9.0", "17.0"]
    faster = found.relation("LRU < LSTM: fewer epochs (PTB)")
    assert (faster.advantage, str(faster.verdict)) == ("beyond +11.0", f"run at smaller scale ({SCALE}; one seed): agrees")


def test_orderings_are_judged_on_paired_seeds():
    runs = [trained("lru", seed, loss) for seed, loss in enumerate((1.50, 1.52, 1.54))]
    runs += [trained("gru", seed, loss) for seed, loss in enumerate((1.40, 1.44, 1.41))]
    found = judged(lattice_convergence_ptb=study(runs)).relation("LRU < GRU: lower test loss (PTB)")
    assert (found.seeds, found.advantage) == ("0 of 3", "-0.103 ± 0.015")
    assert str(found.verdict) == f"run at smaller scale ({SCALE}; 0 of 3 seeds agree): disagrees"


def test_shares_of_the_data():
    runs = [
        trained("lru", 0, 2.0, share=20),
        trained("gru", 0, 2.1, share=20),
        trained("lru", 0, 1.9, share=40),
        trained("gru", 0, 1.7, share=60),
    ]
    found = judged(lattice_efficiency_ptb=study(runs))
    assert found.relation("LRU < GRU: lower test loss with 20 %").advantage == "+0.100"
    assert found.relation("an LRU on 40 % of the data is better than a GRU").advantage == "-0.200"
    assert found.quantity("LRU", "test loss", "Figure 5, PTB", "20 %").ours == "2.000"
    assert str(found.quantity("LRU", "test loss", "Figure 5, PTB", "60 %").verdict) == "not yet run"


def test_an_epoch_of_vanishing_gradients_is_not_averaged_away():
    """A mean over epochs would give 10.1 and 10.2 as if nothing had vanished."""
    steady = [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    vanishing = [[1e-3, 10.0], [1e-3, 10.0], [1e-3, 10.0], [1.0, 10.0]]
    assert concentration(steady) == pytest.approx(0.0)
    assert concentration(vanishing) == pytest.approx((3 + 0) / 2)
    summary = study([], norms={"GRU": vanishing, "LRU": steady})
    found = judged(lattice_gradients_ptb=summary).relation("gradients reach")
    assert (found.advantage, found.verdict.finding.value) == ("+1.50", "agrees")


def dot(cell, depth, loss):
    return {"cell": cell, "depth": depth, "size": 30, "lowest_train_loss": loss, "updates": 84, "seconds": 9.0, "parameters": 9_868}


def swarm(dots):
    options = {"parameters": [10_000, 40_000], "settings": 10, "updates": 84, "seed": 0}
    return {"options": options, "environment": ENVIRONMENT, "dots": dots}


@pytest.mark.slow
def test_the_best_settings_of_a_swarm_are_compared():
    dots = [dot("rhn", 1, 9.7), dot("rhn", 1, 12.0), dot("rhn", 6, 9.5), dot("dt_rnn", 1, 10.0), dot("dt_rnn", 6, 11.2)]
    found = judged(highway.PAPER, jsb_swarm=swarm(dots))
    verdicts = [found.relation(text).verdict.finding.value for text in ("depth does not harm", "DT-RNNs become harder")]
    assert verdicts == ["agrees", "agrees"]
    assert found.relation("an RHN of depth 6 is optimized better than a DT-RNN").advantage == "+1.70"
    assert "1 of 3 RHNs" not in " ".join(found.paper.takeaways(found))
    assert "2 of 3 RHNs, 1 of 2 DT-RNNs, 0 of 0 DT(S)-RNNs" in " ".join(found.paper.takeaways(found))


@pytest.mark.slow
def test_figures_of_studies_are_drawn(tmp_path):
    runs = [trained("lru", 0, 2.0, share=share) for share in (20, 100)]
    studies = {
        "lattice_convergence_ptb": study([trained("lru", 0, 1.8)]),
        "lattice_efficiency_ptb": study(runs),
        "lattice_gradients_ptb": study([], norms={"GRU": [[0.1, 0.3], [0.4, 0.4]]}),
        "jsb_swarm": swarm([dot("rhn", 1, 9.7), dot("dts_rnn", 1, 10.7)]),
    }
    draw_studies(Evidence((), studies), tmp_path)
    assert {path.stem for path in tmp_path.glob("*.png")} == studies.keys()


# The crossing


def keep(root, name, **content):
    path = root / RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


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


def test_without_results_the_crossing_says_what_would_make_them(tmp_path):
    assert crossing.section(tmp_path).endswith(crossing.NOT_YET)


def test_damaged_files_are_named(tmp_path):
    path = tmp_path / RESULTS / "crossing.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{")
    with pytest.raises(UsageError, match="is damaged"):
        crossing.section(tmp_path)
