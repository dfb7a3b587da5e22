"""Rows of the tables, points of the figures and sentences about one model in Jernite et al. (ICLR 2017)."""

from experiments.report.claims.quantities import analysed, autocorrelation, better_than, equivalent_size, from_test, mean_of_m, mean_share
from experiments.report.claims.rows import QUOTED, Network, Quantity, Row
from experiments.report.kept.records import Record
from experiments.report.papers.variable_computation_networks import (
    ABLATION,
    BIT_NETWORKS,
    BIT_TABLE,
    BOTH,
    BOTH_FULL,
    BUFFERED,
    CHAR_NETWORKS,
    CHAR_TABLE,
    CRNN_100,
    CRNN_500,
    FIGURE_2,
    FIGURE_4,
    OF_LANGUAGE,
    OTHER_TUNES,
    PUBLISHED_TUNES,
    RECIPES_OF_BITS,
    SECTION_42,
    SMALL_BITS,
    SMALL_RNN_BITS,
    SMALL_UNITS,
    TABLE_1,
    TABLE_2,
    TABLE_3_BITS,
    TABLE_3_CHARS,
    TABLE_3_TEXT8,
    TEXT8_NETWORKS,
    TEXT8_TABLE,
    TUNES,
    UNPRINTED,
    VCRNN_340,
    ZHANG,
    ablation_scale,
)
from lrpt.cli.finished.schedule_tables import PUBLISHED as NOTES
from lrpt.tasks.bits import WIDTH


def _tune_row(name: str) -> Row:
    perplexity, printed = PUBLISHED_TUNES[name]
    computed = (mean_share(),) if name.startswith("VC") else ()
    size = equivalent_size(printed)  # no claim: the target is chosen for it
    quantities = (from_test("test perplexity", "perplexity", perplexity, 2), size, *computed)
    return Row(TABLE_1, name, quantities, TUNES[name], scale=OTHER_TUNES)


MEANS = {
    ("bars", "bar"): "bar symbols",
    ("bars", "no bar"): "all other symbols",
    ("kind", "rest"): "rests",
    ("repetition", "first"): "first note of a repetition",
    ("repetition", "second"): "second note of a repetition",
    **{("length", length): f"notes of length {length}" for length in NOTES["length"]},
}


def _mean_row(group: tuple[str, str], what: str) -> Row:
    quantity = mean_of_m(NOTES[group[0]][group[1]], "notes", *group)
    return Row(TABLE_2, f"VCRNN-500, {what}", (quantity,), TUNES["VCRNN-500"], scale=OTHER_TUNES)


BELOW_QUOTED = {
    "VCGRU-1024, target 0.3": ("RNN-512 (Zhang et al.)",),
    **{f"VCGRU-1024, target {target}": ("RNN-1024 (Zhang et al.)", "LSTM-512 (Zhang et al.)") for target in (0.4, 0.5)},
}
"""Unit -> quoted models of more operations than which it is said to be better on text8, and is in the table."""


def _char_row(where: str, name: str, figures: tuple[str, int, float], network: Network) -> Row:
    _, size, published = figures
    score = "bits_per_character"
    computed = (mean_share(),) if name.startswith("VC") else ()
    others = BELOW_QUOTED.get(name, ())
    against = (
        (better_than(f"bits per character, below {' and '.join(others)}", score, min(ZHANG[one] for one in others), 2),) if others else ()
    )
    return Row(
        where,
        name,
        (
            from_test("bits per character", score, published, 2),
            *against,
            equivalent_size(size, claimed=_has_printed_target(name)),
            *computed,
        ),
        network,
        scale=_guessed(name),
        unprinted=_recipe(name),
    )


def _bit_row(name: str) -> Row:
    _, size, published = BIT_TABLE[name]
    stand_ins = {VCRNN_340: (SMALL_BITS,), "RNN-100": (SMALL_RNN_BITS,)}.get(name, ())
    quantities = (from_test("bits per bit", "bits_per_bit", published, 3), equivalent_size(size))
    return Row(TABLE_3_BITS, name, quantities, BIT_NETWORKS[name], stand_ins=stand_ins, scale=_guessed(name), unprinted=_recipe(name))


def _crnn_row(where: str, network: Network, score: str, published: float, decimals: int, size: int) -> Row:
    quantities = (from_test(score.replace("_", " "), score, published, decimals), equivalent_size(size))
    return Row(where, network.name, quantities, network, unprinted=_recipe(network.name))


def _recipe(name: str) -> str:
    """Return what stands in for the training of a network whose target of m is printed, or that has none."""
    return "" if _guessed(name) else RECIPES_OF_BITS.get(name, UNPRINTED)


def _guessed(name: str) -> str:
    """Return what is not printed of a network if that includes its target of m, on which operations and score depend; else nothing.

    The score of such a network is not judged.
    """
    return f"{UNPRINTED}, and no target of m" if name.startswith("VC") and not _has_printed_target(name) else ""


def _has_printed_target(name: str) -> bool:
    """Return whether the paper prints the target of m. Otherwise RNN-d follows from the one that was chosen here."""
    return "target" in name


def _zhang_row(name: str, published: float) -> Row:
    quantity = Quantity("bits per character", lambda run: None, "{:.2f}", f"{published:.2f}")
    return Row(TABLE_3_TEXT8, name, (quantity,), note=QUOTED)


def _schedule_row(network: Network, lag: int) -> Row:
    control = analysed(f"autocorrelation of the bits at lag {lag}", "{:+.2f}", "schedule", "of_symbols", str(lag))
    place, symbol = (
        analysed(f"share of the variance of m that {what} explains", "{:.2f}", "schedule", "explained", name)
        for what, name in (("the place in a character", "place"), ("the bit read", "symbol"))
    )
    on_characters = analysed("share of the operations on characters", "{:.0%}", "schedule", "on_characters")
    quantities = (
        autocorrelation(lag),
        control,
        place,
        symbol,
        *([on_characters] if lag > WIDTH else []),
        mean_share(),
        equivalent_size(None),
    )
    return Row(FIGURE_2, network.name, quantities, network, scale=SMALL_UNITS)


def _language_row(network: Network) -> Row:
    quantities = (
        Quantity("bits per character", lambda run: run.tested("bits_per_character"), "{:.2f}", best=True),
        equivalent_size(None),
    )
    return Row(FIGURE_4, network.name, quantities, network)


def updated(run: Record) -> float | None:
    """Return the share of the dimensions that are updated, in the mean over the test split."""
    return run.tested("active")


def _ablation_row(what: str, network: Network, sharpness: float) -> Row:
    return _share_row(what, network, ablation_scale(sharpness))


def _share_row(what: str, network: Network, scale: str) -> Row:
    quantity = Quantity("share of updated dimensions", updated, "{:.3f}", best=True)
    return Row(SECTION_42, f"VCRNN, {what}", (quantity,), network, scale=scale)


ROWS = (
    *(_tune_row(name) for name in TUNES),
    *(_mean_row(group, what) for group, what in MEANS.items()),
    *(_bit_row(name) for name in BIT_TABLE),
    _crnn_row(TABLE_3_BITS, CRNN_100, "bits_per_bit", 0.222, 3, 140),
    *(
        _char_row(TABLE_3_CHARS, name, figures, CHAR_NETWORKS[name])
        for name, figures in CHAR_TABLE.items()
    ),
    _crnn_row(TABLE_3_CHARS, CRNN_500, "bits_per_character", 1.46, 2, 700),
    *(_zhang_row(name, published) for name, published in ZHANG.items()),
    *(_char_row(TABLE_3_TEXT8, name, figures, TEXT8_NETWORKS[name]) for name, figures in TEXT8_TABLE.items()),
    _schedule_row(SMALL_BITS, 8),
    _schedule_row(BUFFERED[8], 16),
    _schedule_row(BUFFERED[24], 32),
    *(_language_row(network) for network in OF_LANGUAGE.values()),
    *(_share_row(f"{BOTH}, full gradient, on {data}", *small) for data, small in BOTH_FULL.items()),
    *(_ablation_row(what, network, sharpness) for what, (network, sharpness) in ABLATION.items()),
)  # fmt: skip
