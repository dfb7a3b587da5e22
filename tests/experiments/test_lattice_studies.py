"""The studies of the lattice paper: what they train, that nothing is trained twice, and what their files say."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats
from tiny import interrupted_after, tree

from experiments.lattice.command import EXPERIMENT
from experiments.lattice.gradients_figure import layer_norms_by_epoch, mean_norms, top_to_bottom
from experiments.lattice.losses_figure import draw_mean
from experiments.lattice.models import PUBLISHED
from experiments.lattice.options import Convergence, Efficiency, Gradients
from experiments.lattice.ranking import gaps, in_words
from experiments.lattice.studies import STUDIES, keep
from experiments.lattice.tables import _bounded, at_cap
from lrpt.analysis.plots import line_style
from lrpt.cli.command import main
from lrpt.cli.flags import parse_dataclass
from lrpt.runs.console import Console
from lrpt.tasks import NextSymbol

TEXT = "".join(f"the cat sat on mat {i * i % 7}\n" for i in range(60))
TINY = "--models gru lru --parameters 700 --epochs 3 --patience 3 --batch-size 4 --data.steps 4 --seeds 2"


def summary(root, name):
    return json.loads((root / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies")
    (folder / "text").write_text(TEXT)
    return [*TINY.split(), "--data.file", str(folder / "text"), "--workdir", str(folder / "runs")]


@pytest.fixture(scope="module")
def finished(flags):
    """A workdir in which `convergence` was interrupted, and then came to its end."""
    options = parse_dataclass(Convergence, flags, "", "", Convergence())
    with interrupted_after(4):
        STUDIES["convergence"].run(options, Console(quiet=True))
    main(EXPERIMENT, ["convergence", *flags])
    return options.workdir


def metrics(path):
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_convergence_keeps_losses_and_the_epoch_of_the_best(finished):
    found = summary(finished, "convergence")
    assert [(run["model"], run["seed"]) for run in found["runs"]] == [(name, seed) for name in ("gru", "lru") for seed in (0, 1)]
    assert {"epochs.png", "losses_lru.png"} <= {path.name for path in (finished / "figures").iterdir()}
    assert len(found["rankings"]) == 1
    assert {run["initialization"] for run in found["runs"]} == {"lru"}
    for run in found["runs"]:
        assert abs(run["parameters"] - 700) < 150
        assert run["bits_per_character"] == pytest.approx(run["loss"] / np.log(2))
        lines = metrics(finished / f"{run['model']}-all-lru-seed{run['seed']}")
        curves = {split: [line["loss"] for line in lines if line["split"] == split] for split in ("train", "valid", "test")}
        assert run["losses"] == curves
        assert run["loss_after_one_epoch"] == curves["test"][0]
        valid = curves["valid"]
        assert len(valid) == len(curves["test"]) == run["epochs"] == 3
        assert run["loss"] == pytest.approx(curves["test"][run["epochs_to_best"] - 1], rel=1e-6)
        assert run["epochs_to_best"] == np.argmin(valid) + 1
        assert run["valid_loss"] == min(valid)


@pytest.mark.slow
def test_nothing_is_trained_twice(finished, flags):
    before = tree(finished)
    main(EXPERIMENT, ["convergence", *flags])
    assert {name: content for name, content in tree(finished).items() if "seed" in name} == {n: c for n, c in before.items() if "seed" in n}


@pytest.mark.slow
def test_efficiency_reads_what_convergence_has_trained(finished, flags):
    trained = (finished / "gru-all-lru-seed0" / "result.json").stat().st_mtime_ns
    main(EXPERIMENT, ["efficiency", *(word for word in flags if word != "lru"), "--shares", "100", "50"])
    found = summary(finished, "efficiency")
    assert [(run["share"], run["seed"]) for run in found["runs"]] == [(50, 0), (50, 1), (100, 0), (100, 1)]
    assert found["runs"][2:] == summary(finished, "convergence")["runs"][:2]
    assert (finished / "gru-all-lru-seed0" / "result.json").stat().st_mtime_ns == trained
    assert (finished / "figures" / "efficiency_fixed.png").exists()
    notes = [json.loads((finished / f"gru-{part}-lru-seed0" / "result.json").read_text())["data"]["symbols"] for part in ("train50", "all")]
    assert [notes[0][part] for part in ("valid", "test")] == [notes[1][part] for part in ("valid", "test")]
    assert notes[0]["train"] == round(notes[1]["train"] / 2)


@pytest.mark.slow
def test_gradients_are_means_over_an_epoch_by_layer(finished, flags):
    main(EXPERIMENT, ["gradients", *flags, "--layers", "2", "--initialization", "lru"])  # of the networks of two layers that are there
    rows = [run for run in summary(finished, "gradients")["runs"] if run["model"] == "lru"]
    seeds = [metrics(finished / f"lru-all-lru-seed{seed}") for seed in (0, 1)]
    lines = [[line for line in of_seed if line["split"] == "train"] for of_seed in seeds]
    expected = [[np.mean([of_seed[e][f"gradient_norm_layer_{k}"] for of_seed in lines]) for e in range(3)] for k in (1, 2)]
    np.testing.assert_allclose(mean_norms([run["gradient_norms"] for run in rows]), expected)
    assert (finished / "figures" / "gradients.png").exists()


def test_ratios_are_of_the_last_layer_over_the_first():
    assert top_to_bottom(np.array([[1.0, 4.0], [7.0, 7.0], [3.0, 1.0]])).tolist() == [3.0, 0.25]


def test_each_start_is_trained_and_glorot_keeps_the_directories_of_earlier_versions():
    options = Convergence(models=("gru",), initialization=("lru", "glorot"), seeds=1, parameters=5_000)
    assert [(job.path.name, job.config.model.initial.kind) for job in options.jobs()] == [
        ("gru-all-lru-seed0", "lru"),
        ("gru-all-seed0", "glorot"),
    ]
    assert Convergence().initialization == ("lru",)
    assert Gradients().initialization == ("lru", "glorot")


def test_studies_train_the_seven_models_on_text_as_written():
    for kind in (Convergence, Efficiency):
        options = kind(seeds=1, parameters=5_000)
        assert options.models == tuple(PUBLISHED)
        job = options.jobs()[0]
        assert (job.config.data.blanks, job.config.data.line_ends, job.config.data.cuts) == ("kept", "kept", "exact")
        assert job.config.train.test_each
    rhn = {job.config.model.layers for job in Convergence(models=("rhn", "rhn-2-layers"), layers=4, seeds=1, parameters=5_000).jobs()}
    assert rhn == {1, 2}


def test_studies_read_bytes(data_dir):
    (file,) = (data_dir / "enwik8_prefix").iterdir()
    data = NextSymbol("enwik8", file=file, reading="stream", text_share=10.0)
    (job,) = Convergence(models=("lru",), seeds=1, parameters=50_000, data=data).jobs()
    assert job.config.train.evaluate_every == (415_440 - 2 * 20_772) // 35 // 50


def test_differences_are_ranked_by_paired_seeds():
    """Seeds differ by 0.5, models by 0.1 on every one of them: unpaired tests would see nothing."""
    scores = {"lru": {0: 1.00, 1: 1.50, 2: 2.00}, "gru": {0: 1.10, 1: 1.60, 2: 2.101}, "lstm": {0: 0.90, 1: 1.70, 2: 1.95, 3: 0.1}}
    gru, lstm = gaps(scores)
    p = [stats.ttest_rel(own, [1.00, 1.50, 2.00]).pvalue for own in ([1.10, 1.60, 2.101], [0.90, 1.70, 1.95])]
    assert (gru.p, gru.mean, gru.significant) == (pytest.approx(p[0]), pytest.approx(0.301 / 3), True)
    assert (lstm.p, lstm.mean, lstm.significant) == (pytest.approx(p[1]), pytest.approx(0.05 / 3), False)
    assert in_words([gru, lstm]) == (
        "the LRU is better than GRU; not significantly different from LSTM (paired seeds, p < 0.05 after Holm's correction)."
    )
    assert "worse than GRU" in in_words([gru._replace(mean=-gru.mean)])
    assert in_words([lstm._replace(p=None)]) == "the LRU is not tested with one seed against LSTM."


def test_one_seed_ranks_nothing():
    (gap,) = gaps({"lru": {0: 1.0}, "gru": {0: 9.0}})
    assert (gap.p, gap.significant) == (None, False)


def test_layers_come_in_the_order_of_their_numbers():
    line = {"split": "train", "gradient_norm": 9.0} | {f"gradient_norm_layer_{k}": float(k) for k in (10, 2, 1)}
    assert layer_norms_by_epoch([line, {"split": "valid", "loss": 1.0}]).tolist() == [[1.0], [2.0], [10.0]]


def test_the_moving_test_part_is_that_of_the_original():
    data = NextSymbol(reading="stream", source="ptb_joined", text_share=10.0)
    moving = list(Efficiency(data=data, test="moving", shares=(20, 100)).texts())
    assert [(name, share, part.text_share, part.train_share) for name, share, part in moving] == [
        ("text20", 20, 2.0, None),
        ("all", 100, 10.0, None),
    ]
    (fixed,) = Efficiency(data=data, shares=(20,)).texts()
    assert (fixed[2].text_share, fixed[2].train_share) == (10.0, 20.0)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("convergence --models gru gnu", "models is 'gnu': choose from "),
        ("convergence --models gru gru", "models is gru gru: give at least one, and none twice"),
        ("convergence --epochs 0", "epochs is 0: expected 1 or more"),
        ("convergence --data.reading sentences", "data.reading is sentences: epochs are those of a stream"),
        ("efficiency --shares 20 120", "shares is 20.0 120.0: expected numbers above 0, at most 100, and none twice"),
        ("convergence --initialization lru xavier", "initialization is 'xavier': choose from "),
        ("gradients --layers 1", "layers is 1: expected 2 or more"),
        ("gradients --models lru rhn", "models is 'rhn', which has one layer or ties its layers, and"),
        ("gradients --models grid-lstm-tied", "choose from lru, rg-lru, ps-lru, gru, lstm, grid-lstm, rhn-2-layers"),
        ("gradients --batch-size 1000000", "batch_size is 1000000, and the training split has "),
    ],
)
def test_bad_options_are_one_line(words, says, assert_refused):
    assert_refused(partial(main, EXPERIMENT), words.split(), says)


@pytest.mark.slow
def test_another_study_in_the_same_directory_says_so_and_leaves_the_summary(finished, flags, assert_refused):
    before = summary(finished, "convergence")
    words = ["convergence", *flags, "--learning-rate", "0.1"]
    assert_refused(partial(main, EXPERIMENT), words, "holds a run with optim.learning_rate = 0.001, not 0.1")
    assert summary(finished, "convergence") == before


def test_the_curve_is_dotted_from_where_a_seed_has_ended_and_holds_its_last_value():
    axes = Figure().subplots()
    draw_mean(axes, [[3.0, 2.0, 1.0], [4.0, 2.0]], "LRU", line_style(0))
    solid, dotted = (line.get_xydata().tolist() for line in axes.lines)
    assert (solid, dotted) == ([[1, 3.5], [2, 2]], [[2, 2], [3, 1.5]])


def test_the_cap_ended_a_run_whose_patience_was_not_at_its_end():
    """With a patience of three epochs and a cap of 20, a run that is best at epoch 17 has ended by itself."""
    assert [at_cap({"epochs": 20, "epochs_to_best": best}, 20, 3) for best in (17, 18)] == [False, True]


def test_epochs_are_a_lower_bound_if_the_cap_ended_any_seed():
    options, runs = Convergence(epochs=20, patience=3), [{"epochs": 20, "epochs_to_best": 18}, {"epochs": 9, "epochs_to_best": 6}]
    assert _bounded(options, runs)[0] == ">= 12.0"
    assert _bounded(options, runs[1:] * 2)[0] == "6.0"


def test_norms_are_averaged_over_the_epochs_that_all_seeds_have():
    assert mean_norms([[[1.0, 2.0, 9.0]], [[3.0, 4.0]]]).tolist() == [[2.0, 3.0]]


def test_epochs_until_the_best_evaluation_are_not_those_of_the_run(tmp_path):
    (tmp_path / "text").write_text("abcdefgh\n" * 60)
    data = replace(Convergence().data, file=tmp_path / "text", steps=4)
    options = Convergence(data=data, models=("gru",), parameters=700, batch_size=4, workdir=tmp_path, seeds=1)
    (job,) = options.jobs()
    epoch, scores = job.config.train.evaluate_every, {"loss": 1.0, "bits_per_character": 1.0}
    counts = {"best_update": 2 * epoch, "updates": 5 * epoch, "seconds": 1.0}
    row = keep(options, job, {"parameters": {"true": 700}, "metrics": {"test": scores, "valid": scores}, **counts})
    assert (row["epochs_to_best"], row["epochs"]) == (2, 5)
