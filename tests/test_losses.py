"""Losses and metrics against their definitions in float64."""

import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from lrpt.errors import UsageError
from lrpt.losses import binary_cross_entropy, cross_entropy, squared_error, squared_hinge
from lrpt.metrics import (
    HIGHER_IS_BETTER,
    LOWER_IS_BETTER,
    NEITHER_BETTER,
    accuracy,
    bits,
    corpus_metrics,
    is_lower_better,
    perplexity,
    piece_metrics,
    sentence_metrics,
    sums_over_steps,
    word_metrics,
)
from lrpt.tasks.chorales import frame_metrics
from lrpt.tasks.task import Example
from lrpt.tasks.text import text_metrics


@pytest.mark.parametrize("shape", [(4,), (3, 5), (2, 3, 4)])
def test_cross_entropy_is_the_negative_log_of_the_softmax(shape):
    rng = np.random.default_rng(0)
    logits, targets = rng.normal(0, 3, (*shape, 7)), rng.integers(0, 7, shape)
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = -np.log(np.take_along_axis(probabilities, targets[..., None], -1)[..., 0])
    np.testing.assert_allclose(cross_entropy(jnp.asarray(logits, jnp.float32), jnp.asarray(targets)), expected, rtol=2e-5, atol=1e-6)


def test_cross_entropy_of_extreme_logits_is_finite():
    logits = jnp.array([[1e4, -1e4], [-1e4, 1e4]])
    np.testing.assert_array_equal(cross_entropy(logits, jnp.array([0, 0])), [0.0, 2e4])


def test_squared_error_has_no_factor():
    np.testing.assert_array_equal(squared_error(jnp.array([1.0, -2.0]), jnp.array([3.0, -2.0])), [4.0, 0.0])


def test_binary_cross_entropy_is_the_sum_of_the_negative_logs():
    rng = np.random.default_rng(0)
    logits, targets = rng.normal(0, 3, (2, 3, 5)), rng.integers(0, 2, (2, 3, 5))
    p = 1 / (1 + np.exp(-logits))
    expected = -np.log(np.where(targets == 1, p, 1 - p)).sum(-1)
    found = binary_cross_entropy(jnp.asarray(logits, jnp.float32), jnp.asarray(targets, jnp.float32))
    np.testing.assert_allclose(found, expected, rtol=2e-5)
    np.testing.assert_array_equal(binary_cross_entropy(jnp.array([1e4, -1e4]), jnp.array([1.0, 1.0])), 1e4)


def test_binary_cross_entropy_takes_targets_between_zero_and_one():
    z, t = np.array([-1.5, 0.0, 2.0]), np.array([0.25, 0.5, 0.9])
    expected = -(t * np.log(1 / (1 + np.exp(-z))) + (1 - t) * np.log(1 / (1 + np.exp(z)))).sum()
    np.testing.assert_allclose(binary_cross_entropy(jnp.asarray(z, jnp.float32), jnp.asarray(t, jnp.float32)), expected, rtol=1e-6)


@pytest.fixture
def without_type_checks(monkeypatch):
    """As for users, whom no type check stops before."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize("dtype", [jnp.uint8, jnp.int8])
def test_labels_of_eight_bits_are_those_of_32_with_any_number_of_classes(dtype):
    """In 8 bits, class 5 and class 261 have the same number."""
    scores = jax.random.normal(jax.random.key(0), (2, 300))
    labels = jnp.array([5, 7])
    np.testing.assert_array_equal(squared_hinge(scores, labels.astype(dtype)), squared_hinge(scores, labels))


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize("loss", [cross_entropy, squared_hinge])
@pytest.mark.parametrize(
    ("targets", "says"),
    [
        (jnp.zeros((4, 3), int), r"int32 of shape \(4, 3\), .*: expected integers of shape \(4,\), one class for each .*reads='all'"),
        (jnp.zeros((4, 2)), r"float32 of shape \(4, 2\), .*; take targets\.argmax\(axis=-1\)"),
        (jnp.zeros(4), r"float32 of shape \(4,\), .*: expected integers of shape \(4,\), one class for each prediction(\n|$)"),
    ],
    ids=["steps", "one-hot", "floats"],
)
def test_targets_that_are_no_classes_are_one_line(loss, targets, says):
    with pytest.raises(UsageError, match=f"targets are {says}"):
        jax.jit(loss)(jnp.zeros((4, 2)), targets)


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize("loss", [squared_error, binary_cross_entropy])
@pytest.mark.parametrize(("width", "says"), [(1, r"take predictions\[\.\.\., 0\]"), (3, "a task has reads='all'")])
def test_targets_of_another_shape_are_one_line(loss, width, says):
    with pytest.raises(UsageError, match=rf"targets have shape \(4,\), and predictions have shape \(4, {width}\): expected .*; {says}"):
        loss(jnp.zeros((4, width)), jnp.zeros(4))


def test_figures_of_pieces_and_of_words():
    means = {"loss": 3.0, "nats": 40.0, "frames": 10.0, "more": 1.0}
    assert piece_metrics(means) == {"loss": 4.0, "piece_loss": 3.0, "more": 1.0}
    words = {"loss": 9.0, "nats": 20.0, "symbols": 10.0, "more": 1.0}
    assert word_metrics(words) == {"loss": 2.0, "perplexity": pytest.approx(math.exp(2)), "more": 1.0}


def test_accuracy_takes_the_most_probable_class_and_the_lowest_of_equals():
    logits = jnp.array([[0.0, 1.0, 0.5], [2.0, 2.0, 1.0], [0.0, 0.0, 1.0]])
    np.testing.assert_array_equal(accuracy(logits, jnp.array([1, 1, 2])), [1.0, 0.0, 1.0])


def test_perplexity_and_bits_of_a_fair_coin():
    assert perplexity(math.log(2)) == pytest.approx(2, rel=1e-15)
    assert bits(math.log(2)) == 1.0
    assert perplexity(0.0) == 1.0
    assert (perplexity(1e3), perplexity(math.inf)) == (math.inf, math.inf)
    assert math.isnan(perplexity(math.nan))


def test_figures_of_a_text_are_those_of_its_definition_in_float64():
    """Two excerpts: three symbols that cost 1, 2 and 3 nats, and one that costs 0.5."""
    means = {"loss": (2.0 + 0.5) / 2, "nats": 6.5 / 2, "symbols": 4 / 2, "gradient_norm": 7.0}
    corpus = {"loss": 6.5 / 4, "perplexity": math.exp(6.5 / 4), "bits_per_character": 6.5 / 4 / math.log(2), "gradient_norm": 7.0}
    assert corpus_metrics(means) == corpus
    assert sentence_metrics(means) == corpus | {"loss": 1.25, "sentence_perplexity": math.exp(1.25)}


def test_a_sequence_without_steps_that_count_has_a_loss_of_zero():
    """As `mean_over_steps` has it, and a gradient of zero: 0 / 0 would spoil those of all sequences."""
    mask = jnp.array([[True, True, False], [False, False, False]])

    def loss(losses):
        return jnp.mean(sums_over_steps(losses, mask, "steps")["loss"])

    value, gradient = jax.value_and_grad(loss)(jnp.ones((2, 3)))
    assert value == 0.5
    np.testing.assert_array_equal(gradient, [[0.25, 0.25, 0], [0, 0, 0]])


def test_only_steps_that_count_decide_the_loss_and_its_gradient():
    """One of one step, one with a hole. Losses of the padding may be anything, also NaN."""
    losses, mask = np.array([[3.0, np.nan, np.inf], [1.0, np.nan, 4.0]]), np.array([[True, False, False], [True, False, True]])
    found = sums_over_steps(jnp.asarray(losses, jnp.float32), jnp.asarray(mask), "steps")
    np.testing.assert_array_equal([found[name] for name in ("loss", "nats", "steps")], [[3.0, 2.5], [3.0, 5.0], [1.0, 2.0]])
    gradient = jax.grad(lambda losses: sums_over_steps(losses, jnp.asarray(mask), "steps")["loss"].sum())(jnp.asarray(losses, jnp.float32))
    np.testing.assert_array_equal(gradient, [[1.0, 0.0, 0.0], [0.5, 0.0, 0.5]])


def test_a_summary_begins_with_the_loss():
    means = {"loss": 1.0, "nats": 2.0, "symbols": 2.0}
    assert list(corpus_metrics(means)) == ["loss", "perplexity", "bits_per_character"]
    assert list(sentence_metrics(means)) == ["loss", "sentence_perplexity", "perplexity", "bits_per_character"]


def test_the_direction_of_every_metric_of_kept_results_is_known():
    results = (Path(__file__).parents[1] / "experiments" / "results").rglob("result.json")
    names = {name for path in results for name in json.loads(path.read_text())["metrics"]["test"]}
    assert len(names) > 10
    assert names <= LOWER_IS_BETTER | HIGHER_IS_BETTER | NEITHER_BETTER


def test_a_metric_has_one_direction_and_an_unknown_one_has_none():
    assert not LOWER_IS_BETTER & HIGHER_IS_BETTER
    assert (is_lower_better("rmse"), is_lower_better("accuracy")) == (True, False)
    with pytest.raises(UsageError, match="the metric 'pinball' are better: add its name to lrpt"):
        is_lower_better("pinball")


@pytest.mark.parametrize(("metrics", "targets"), [(text_metrics, np.ones((2, 3), int)), (frame_metrics, np.ones((2, 3, 88)))])
@pytest.mark.parametrize(("given", "computed"), [("bfloat16", "float32"), ("float32", "float32"), ("float64", "float64")])
def test_metrics_have_the_precision_of_the_predictions_from_single_precision_on(metrics, targets, given, computed):
    with jax.enable_x64(True):
        logits = jnp.asarray(np.random.default_rng(0).standard_normal((2, 3, 88)), given)
        found = metrics(logits, Example(logits, jnp.asarray(targets), None))
        exact = metrics(logits.astype(float), Example(logits, jnp.asarray(targets), None))
    assert found["loss"].dtype == computed
    np.testing.assert_allclose(found["loss"], exact["loss"], rtol=1e-6 if computed == "float32" else 1e-15)


@pytest.mark.parametrize("targets", [jnp.zeros((4, 1), int), jnp.zeros(4), jnp.zeros(3, int)], ids=["column", "floats", "fewer"])
def test_accuracy_takes_one_class_for_each_prediction(targets, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as for users, whom no type check stops before
    with pytest.raises(UsageError, match=r"expected integers of shape \(4,\), one class for each prediction"):
        accuracy(jnp.zeros((4, 3)), targets)


@pytest.mark.parametrize("wrong", [-1, 3, 100])
def test_a_target_that_is_no_class_is_not_a_number(wrong):
    """A label of -1, which often marks steps to leave out, would otherwise be that of the last class."""
    for loss in (cross_entropy, squared_hinge):
        losses = loss(jnp.zeros((2, 3)), jnp.array([2, wrong]))
        assert np.isfinite(losses[0])
        assert np.isnan(losses[1])


@pytest.mark.parametrize("classes", [128, 200, 256, 300])
@pytest.mark.parametrize("dtype", [jnp.int8, jnp.uint8])
def test_targets_of_eight_bits_are_compared_with_many_classes(dtype, classes, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as for users, whom no type check stops before
    targets = jnp.array([0, 100, 127], dtype)
    for loss in (cross_entropy, squared_hinge):
        assert np.isfinite(loss(jnp.zeros((3, classes)), targets)).all()
        if dtype == jnp.int8:
            assert np.isnan(loss(jnp.zeros((1, classes)), jnp.array([-1], dtype))).all()


@pytest.mark.parametrize("name", sorted(NEITHER_BETTER))
def test_a_metric_without_a_better_direction_says_so(name):
    with pytest.raises(UsageError, match=f"the metric '{name}' says how much was computed, and neither direction is better"):
        is_lower_better(name)
