"""Tests of invalid options of tasks."""

import pytest

from lrpt.errors import UsageError
from lrpt.tasks import Adding, Chorales, CopyMemory, NextByte, NextSymbol, NextWord, PermutedImages

WRONG = [
    (lambda: CopyMemory("fixd"), "data.variant is 'fixd'"),
    (lambda: CopyMemory(lag=0), "data.lag is 0"),
    (lambda: CopyMemory(train_size=0), "data.train_size is 0"),
    (lambda: CopyMemory(test_size=-1), "data.test_size is -1"),
    (lambda: Adding(length=1), "data.length is 1"),
    (lambda: Adding(train_size=-5), "data.train_size is -5"),
    (lambda: Adding(test_markers="nowhere"), "data.test_markers is 'nowhere'"),
    (lambda: PermutedImages("cifar"), "data.source is 'cifar'"),
    (lambda: PermutedImages(order="random"), "data.order is 'random'"),
    (lambda: NextSymbol("text9"), "data.source is 'text9'"),
    (lambda: NextSymbol(tokens="rnn"), "data.tokens is 'rnn'"),
    (lambda: NextSymbol(reading="lines"), "data.reading is 'lines'"),
    (lambda: NextSymbol(steps=0), "data.steps is 0"),
    (lambda: NextSymbol(max_length=-1), "data.max_length is -1"),
    (lambda: Chorales("bach"), "data.source is 'bach'"),
    (lambda: Chorales(format="midi"), "data.format is 'midi'"),
    (lambda: Chorales(length=3), "data.length is 3"),
    (lambda: NextByte("ptb"), "data.source is 'ptb'"),
    (lambda: NextByte(steps=0), "data.steps is 0"),
    (lambda: NextWord("enwik8"), "data.source is 'enwik8'"),
    (lambda: NextWord(min_count=0), "data.min_count is 0"),
    (lambda: NextWord(steps=-3), "data.steps is -3"),
]


@pytest.mark.parametrize(("build", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_wrong_flag_is_named_with_what_was_expected(build, message):
    with pytest.raises(UsageError) as raised:
        build()
    text = str(raised.value)
    assert text.startswith(message)
    assert "choose from" in text or "expected" in text
    assert "\n" not in text
