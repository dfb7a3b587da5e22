"""What the report says of recurrent highway networks."""

import pytest
from kept_runs import judged, kept_run

from experiments.jsb import command as chorales
from experiments.report.claims.rows import Evidence
from experiments.report.figures.analyses import analysis_figures
from experiments.report.kept.records import load
from experiments.report.papers import highway


def test_depth_at_equal_parameters_is_told_from_step_to_step_and_drawn(tmp_path):
    for depth, perplexity in enumerate((137.0, 128.0, 125.0, 124.0, 125.5, 126.0), start=1):
        curve = {7_962: perplexity}
        kept_run(tmp_path, highway.WORDS, f"--preset equal-{depth}", 0, curve, "perplexity", {"perplexity": perplexity})
    found = judged(tmp_path, highway.PAPER)
    said = found.paper.takeaways(found)[0].whole
    assert "with one seed, depth 6 is better than depth 1 at 1.5 million parameters" in said
    assert "137.0, 128.0, 125.0, 124.0, 125.5, 126.0" in said
    assert "does not help at 5 and 6" in said
    (study,) = (study for study in highway.STUDIES if study.over)
    ((_, draw),) = analysis_figures(study, found.evidence).values()
    assert draw(tmp_path / "depth.png").exists()


@pytest.mark.parametrize(
    ("perplexities", "words"),
    [
        ({1: 137.0, 2: 128.0, 4: 124.0, 6: 126.0}, "depths 1, 2, 4 and 6 have test perplexities of 137.0, 128.0, 124.0, 126.0"),
        ({1: 137.0, 2: 128.0, 4: 124.0, 6: 126.0}, "Perplexity is lowest at depth 4."),
        ({1: 120.0, 6: 126.0}, "depth 6 is worse than depth 1 at 1.5 million parameters"),
    ],
)
def test_depths_are_named_by_their_networks_even_if_some_were_not_run(perplexities, words, tmp_path):
    for depth, value in perplexities.items():
        kept_run(tmp_path, highway.WORDS, f"--preset equal-{depth}", 0, {7_962: value}, "perplexity", {"perplexity": value})
    assert words in judged(tmp_path, highway.PAPER).takeaways[0].whole


@pytest.mark.parametrize(
    ("losses", "head", "words"),
    [
        ((0.9, 0.7, 0.8), "As claimed: the first layer contributes most; closing", "contributes most"),
        ((0.7, 0.9, 0.8), "Claimed, but not found: the first layer contributes most; ", "does not contribute most"),
    ],
)
def test_words_about_the_first_layer_follow_from_the_losses(losses, head, words, tmp_path):
    gates = [{"network": name, "mean": 0.5, "deviation": 0.1} for name in ("untrained", "trained") for _ in losses]
    analysis = {"highway": {"lesions": {"intact": 0.6, "shut": losses}, "gates": gates}}
    kept_run(tmp_path, chorales.EXPERIMENT, highway.CHORALES.flags, curve={700: 8.0}, score="loss", test={}, analysis=analysis)
    (said,) = (one for one in highway.PAPER.takeaways(judged(tmp_path, highway.PAPER)) if "**Layers**" in one.text)
    assert head in said.text
    assert f"The first one {words}." in said.details[0]


def analysed_layers(runs, seed, scale=1.0, **more):
    """A run on chorales with three layers; what its layers cost, and its gates after training, grow with `scale`."""
    means = {"untrained": (0.1, 0.1, 0.1), "trained": (0.3 * scale, 0.2, 0.1)}
    gates = [
        {"network": name, "layer": i, "mean": mean, "deviation": 0.001 * i * scale}
        for name, of in means.items()
        for i, mean in enumerate(of, start=1)
    ]
    shut, opened = ([8 + scale * cost for cost in costs] for costs in ((4, 0.1, 0.4), (1, 2, 5)))
    lesions = {"intact": 8.0, "shut": shut, "opened": opened}
    analysis = {"highway": {"lesions": lesions, "gates": gates, **more}}
    return kept_run(runs, chorales.EXPERIMENT, highway.CHORALES.flags, seed, {700 + seed: 8.0}, "loss", {}, analysis=analysis)


def test_words_about_layers_cover_all_seeds(tmp_path):
    for seed, scale in enumerate((1.0, 2.0, 0.5)):
        analysed_layers(tmp_path, seed, scale)
    (said,) = (one.whole for one in highway.PAPER.takeaways(judged(tmp_path, highway.PAPER)) if "**Layers**" in one.text)
    assert "(3 seeds, " in said
    assert "Ranges are over all seeds and layers." in said
    assert "raises the training loss by 2.0 to 8.0 nats per frame, and closing those of any other layer by 0.05 to 0.80." in said
    assert "the others costs 0.6% to 10.0% of the loss, and 5% or more in 2 of 6 cases" in said
    assert "they have 0.15 to 0.60 in the first layer and 0.10 to 0.20 in the others, whose standard deviations are at most 0.0060" in said


def test_remarks_on_layers_are_tables_over_all_seeds(tmp_path):
    for seed, scale in enumerate((1.0, 2.0)):
        grown = (("untrained", 0.5), ("trained", scale))
        analysed_layers(
            tmp_path,
            seed,
            scale,
            discs=[
                {"network": name, "step": 8, "centre": 0.4, "radius": of, "spectral_radius": of + 1, "logarithm": 0.0} for name, of in grown
            ],
            flow=[
                {"network": name, "steps": 4, "norm": of**4, "by_step": of, "spectral_radius": of / 2, "bound": 1e6 * of}
                for name, of in grown
            ],
            bounds={
                name: [
                    {"layer": layer, "name": kind, "largest": 2 * of / layer, "gamma": gamma}
                    for layer in (1, 2)
                    for kind, gamma in (("candidate", 1.0), ("transform", 0.25))
                ]
                for name, of in grown
            },
        )
    text = "\n\n".join(highway.PAPER.remarks(Evidence(load(tmp_path))))
    assert "lowest validation loss: seed 0 at update 700, seed 1 at update 701, with a training loss of 8.00 nats" in text
    assert "the product of the carry gates of all layers, 0.73. Training multiplies the mean radius by 2.0 to 4.0." in text
    assert (
        "the first layer's gates raise the training loss by 1.00 to 2.00 nats per frame, and those of any other layer by 2.00 to 10.00"
        in text
    )
    for row in (
        "| before training | 8 | 0.40 | 0.50 | 1.50 |",
        "| after training | 8 | 0.40 | 1.00 to 2.00 | 2.00 to 3.00 |",
        "| before training | 4 | 0.0625 | 0.5 | 0.25 | 5e+05 |",
        "| after training | 4 | 1 to 16 | 1 to 2 | 0.5 to 1 | 1e+06 to 2e+06 |",
        "| before training | candidate | 1.00 | 0.50 | 2 of 4 |",
        "| after training | transform | 0.50 to 1.00 | 0.25 to 0.50 | 3 of 4 |",
    ):
        assert row in text


def test_the_heat_map_is_that_of_the_seed_whose_gates_are_kept_at_each_step(tmp_path):
    analysed_layers(tmp_path, 0)
    (said,) = (text for text in highway.PAPER.remarks(Evidence(load(tmp_path))) if "**Figure 5b**" in text)
    assert "draws it if the weights are kept" in said
    analysed_layers(tmp_path, 1, activity=[[[0.1, 0.2, 0.3]] * 3, [[0.4]] * 3])
    evidence = Evidence(load(tmp_path))
    (said,) = (text for text in highway.PAPER.remarks(evidence) if "**Figure 5b.**" in text)
    assert "for seed 1 and the first 2 chorales" in said
    assert "inspect_rhn gates experiments/results/jsb/paper-seed1 --data.dir DIR" in said
    (study,) = (study for study in highway.STUDIES if study.name == "jsb")
    shows, draw = analysis_figures(study, evidence)["gates_by_step_jsb"]
    assert "seed 1: mean transform gate by layer and step" in shows
    assert draw(tmp_path / "heat_map.png").exists()
