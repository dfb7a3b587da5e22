"""The loss in one stream: that of a plain loop over all symbols, whatever the window, and refusals in one line."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import char_lm, wiki, word_lm
from experiments.jsb import command as jsb
from lrpt.cli.command import main
from lrpt.trained.loading import load
from lrpt.trained.one_stream import score

pytestmark = pytest.mark.slow

FEW = "--no-compare --devices 1 --train.updates 3 --train.batch-size 4 --train.evaluation-batch 4 --model.size 5 --data.steps 11"
KINDS = {
    "words": (word_lm.EXPERIMENT, "--model.embedding 5 --model.depth 2"),
    "bytes": (wiki.EXPERIMENT, "--model.embedding 3 --model.depth 1"),
    "characters": (char_lm.EXPERIMENT, "--data.reading stream --train.order stream --model.rank 2 --train.evaluate-every 3"),
}


@pytest.fixture(scope="module", params=KINDS)
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "text").write_bytes(b"the cat sat on a mat, and the mat was flat.\n" * 13 + b"cats sat on flat mats.\n" * 7)
    experiment, flags = KINDS[request.param]
    words = [*FEW.split(), *flags.split(), "--optim.learning-rate", "0.5", "--data.file", str(folder / "text")]
    main(experiment, [*words, "--workdir", str(folder / "run")])
    return folder / "run"


def by_a_loop(trained, split):
    """Return nats per symbol, one symbol after the other, from the initial state; symbol 0 comes before the first."""
    arrays = trained.task.splits[split].arrays
    symbols = np.asarray(arrays["text"])[1 : len(arrays["text"]) - int(max(arrays["lengths"]))]
    state, before, losses = trained.start(1), 0, []
    for symbol in symbols:
        state, logits = trained.step(state, jnp.asarray([before]))
        losses.append(float(jax.nn.logsumexp(logits[0]) - logits[0, symbol]))
        before = int(symbol)
    return np.mean(losses), len(losses)


@pytest.mark.parametrize("split", ["train", "test"])
def test_one_stream_is_a_plain_loop_whatever_the_window(split, run):
    trained = load(run)
    expected, count = by_a_loop(trained, split)
    assert count % 11  # not a whole number of windows of training
    found = [score(trained, split, window) for window in (1, 7, 10_000)]
    for metrics in found:
        assert metrics["loss"] == pytest.approx(expected, rel=1e-5)
        assert metrics["perplexity"] == pytest.approx(np.exp(expected), rel=1e-5)


def test_the_command_prints_both_ways_of_reading(run, capsys):
    main(wiki.EXPERIMENT, ["score", str(run), "--split", "test"])
    said = capsys.readouterr().out.splitlines()
    (one,) = (line.split() for line in said if line.startswith("one stream"))
    assert float(one[2]) == pytest.approx(score(load(run), "test")["loss"], rel=1e-5)
    (several,) = (line for line in said if " streams, as recorded" in line)
    assert f"{load(run).evaluate()['test']['loss']:.4g}" in several


def test_bad_input_is_one_line(run, tmp_path, assert_refused):
    score_of = lambda words: main(word_lm.EXPERIMENT, ["score", *words])  # noqa: E731
    assert_refused(score_of, [run, "--split", "all"], "split is 'all': choose from train, valid, test")
    assert_refused(score_of, [run, "--window", "0"], "window is 0: expected 1 or more")
    few = "--no-compare --devices 1 --train.updates 1 --train.batch-size 4 --model.size 4 --model.depth 1 --data.length 4"
    main(jsb.EXPERIMENT, [*few.split(), "--workdir", str(tmp_path / "music")])
    assert_refused(score_of, [tmp_path / "music"], "reads no stream of symbols")
