"""What Zilly et al. (2017) say of language models, as data: Tables 1 to 3 and Figure 5a. Figures of Figure 5a are those of their README.

Networks that two cores can train have rows of their own, with what was published of larger ones.
"""

from collections.abc import Sequence

from experiments import wiki, word_lm
from experiments.report.published import Claim, Quantity, Study, perplexity
from experiments.report.variable_computation import bits

FIGURE_5A = "Zilly et al. 2017, Figure 5a"
DEEPER_IS_BETTER = "depth 3 is better than depth 1 (72.7 to 93.2 at 1110 and 1275 units); no figure at this size"

OF_DEPTH = {
    "untied": (89.2, 76.3, 72.6, 70.9, 69.8, 69.3, 68.7, 68.5, 68.5, 68.3),
    "tied": (90.6, 75.1, 70.6, 68.6, 67.7, 66.6, 66.4, 66.1, 66.0, 66.0),
}
"""Published test perplexities at depths 1 to 10."""

LOWEST = Quantity("lowest valid perplexity", lambda run: min(run.curve("perplexity").values(), default=None), "{:.1f}")
TEST = Quantity("test perplexity", lambda run: run.tested("perplexity"), "{:.1f}")


def _words(preset: str, published: float, where: str = FIGURE_5A) -> Claim:
    return Claim(where, f"--preset {preset}", f"test perplexity {published}", (perplexity("perplexity", published),))


def _of_depth(depth: int, form: str) -> Claim:
    return _words("paper" if (depth, form) == (10, "tied") else f"{form}-{depth}", OF_DEPTH[form][depth - 1])


WORDS = Study(
    name="word_lm",
    title="Recurrent highway networks, words of the Penn Treebank",
    experiment=word_lm.EXPERIMENT,
    score="perplexity",
    score_name="validation perplexity",
    form="{:.1f}",
    claims=(
        Claim(
            "Zilly et al. 2017, Table 1",
            "--preset paper --optim.weight-decay 1e-9",
            "test perplexity 65.4",
            (perplexity("perplexity", 65.4),),
        ),
        *(_of_depth(depth, form) for form in OF_DEPTH for depth in range(1, 11)),
        *(Claim(FIGURE_5A, f"--preset small-{depth}", DEEPER_IS_BETTER, (LOWEST, TEST)) for depth in (1, 3)),
    ),
    updates=tuple(epoch * word_lm.EPOCH for epoch in (1, 2, 3, 4, 6, 8, 10)),
)


def _bytes(table: int, preset: str, published: float) -> Claim:
    quantities = (bits("bits_per_character", published),)
    return Claim(f"Zilly et al. 2017, Table {table}", f"--preset {preset}", f"test {published} bits per character", quantities)


BYTES = Study(
    name="wiki",
    title="Recurrent highway networks, bytes of Wikipedia",
    experiment=wiki.EXPERIMENT,
    score="bits_per_character",
    score_name="validation bits per character",
    form="{:.3f}",
    claims=(
        _bytes(2, "enwik8-5x1500", 1.31),
        _bytes(2, "enwik8-10x1000", 1.30),
        _bytes(2, "paper", 1.27),
        _bytes(3, "text8-10x1000", 1.29),
        _bytes(3, "text8-10x1500", 1.27),
    ),
    updates=tuple(epoch * wiki.EPOCH for epoch in (1, 2, 4, 8, 16, 32)),
)


STUDIES: Sequence[Study] = (WORDS, BYTES)
