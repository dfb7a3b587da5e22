"""What Jernite et al. (2017) say of melodies, of two languages, and of conditional networks, as data: Tables 1 and 3, Figure 4.

Melodies are of another collection than theirs, so that no perplexity of theirs is a criterion.
"""

from collections.abc import Sequence

from experiments import conditional, europarl, music
from experiments.report.published import Claim, Quantity, Study
from experiments.report.variable_computation import TABLE, bits, computed, equivalent_size

TABLE_1 = "Jernite et al. 2017, Table 1"
FIGURE_4 = "Jernite et al. 2017, Figure 4"
PERPLEXITY = Quantity("test perplexity", lambda run: run.tested("perplexity"), "{:.2f}", None)

MELODIES = Study(
    name="music",
    title="Variable computation, melodies",
    experiment=music.EXPERIMENT,
    score="perplexity",
    score_name="validation perplexity",
    form="{:.2f}",
    claims=(
        Claim(TABLE_1, "--preset paper", "test perplexity 8.51, RNN-d 233, on other tunes", (PERPLEXITY, *computed())),
        *(
            Claim(TABLE_1, f"--preset rnn-{size}", f"test perplexity {published}, on other tunes", (PERPLEXITY, equivalent_size(size)))
            for size, published in ((200, "9.13"), (250, "8.70"))
        ),
    ),
    updates=tuple(epoch * music.EPOCH for epoch in (1, 2, 4, 6, 8, 10, 12, 16, 20)),
)


def _language(preset: str, what: str) -> Claim:
    return Claim(FIGURE_4, f"--preset {preset}", what, (bits("bits_per_character"), *computed()))


LANGUAGES = Study(
    name="europarl",
    title="Variable computation, Czech and German of Europarl",
    experiment=europarl.EXPERIMENT,
    score="bits_per_character",
    score_name="validation bits per character",
    form="{:.3f}",
    claims=tuple(
        _language(preset, "more efficient than the RNN; no figure in the text") for preset in ("paper", "cs-guide", "de-learn", "de-guide")
    ),
    updates=tuple(epoch * europarl.EPOCH for epoch in (1, 2, 4, 6, 8, 10, 12)),
)

CONDITIONAL = Study(
    name="conditional",
    title="Conditional networks, Penn Treebank",
    experiment=conditional.EXPERIMENT,
    score="bits_per_character",
    score_name="validation bits per character",
    form="{:.3f}",
    claims=(
        Claim(TABLE, "--preset paper", "test 1.46 bits per character, RNN-d 700", (bits("bits_per_character", 1.46), equivalent_size())),
        Claim(TABLE, "--preset bits", "test 0.222 bits per bit, RNN-d 140", (bits("bits_per_bit", 0.222, 3), equivalent_size())),
    ),
    updates=tuple(epoch * conditional.EPOCH for epoch in (1, 2, 4, 6, 8, 10, 12, 16, 20)),
)

STUDIES: Sequence[Study] = (MELODIES, LANGUAGES, CONDITIONAL)
