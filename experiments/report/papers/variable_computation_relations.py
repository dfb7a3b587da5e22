"""Orderings of models, and of what one model does, in Jernite et al. (ICLR 2017)."""

from dataclasses import replace
from functools import partial

from experiments import europarl
from experiments.report.claims.contests import Final
from experiments.report.claims.quantities import autocorrelation
from experiments.report.claims.relations import Measure, OnCurve, Relation, Versus, Within
from experiments.report.claims.rows import Network
from experiments.report.kept.records import Record
from experiments.report.papers.variable_computation_networks import (
    ANNEALED_BITS,
    ANNEALED_BITS_SCALE,
    ANNEALED_GRUS,
    ANNEALED_GUIDE,
    ANNEALED_RNNS,
    ANNEALED_RNNS_BITS,
    ANNEALED_SCALE,
    ANNEALED_TARGETS,
    ANNEALED_VC,
    ANNEALED_VCGRU,
    BIT_NETWORKS,
    BOTH,
    BOTH_FULL,
    CHAR_NETWORKS,
    CONSTANT_RNNS,
    CONSTANT_SCALE,
    CONSTANT_VC,
    CRNN_100,
    CRNN_500,
    CURVE_TARGETS,
    FIGURE_2,
    FIGURE_3,
    FIGURE_4,
    FIGURE_5,
    GRU_CURVE,
    LARGE_RNNS,
    LEARNT_GERMAN,
    NAIVE,
    NAIVE_FULL,
    OF_BUFFERS,
    OF_LANGUAGE,
    OTHER_TUNES,
    OTHER_VC,
    RNN_BITS_CURVE,
    RNN_CURVE,
    RNNS_OF_LANGUAGE,
    SECTION_42,
    SMALL_BITS,
    SMALL_BITS_SCALE,
    SMALL_CHARS_SCALE,
    SMALL_GUIDE,
    SMALL_UNITS,
    SMALL_VC,
    SMALL_VCGRU,
    TABLE_1,
    TABLE_2,
    TABLE_3_BITS,
    TABLE_3_CHARS,
    TABLE_3_TEXT8,
    TEXT8_NETWORKS,
    TUNES,
    UNPRINTED,
    VCRNN_460,
    ablation_scale,
)
from experiments.report.papers.variable_computation_rows import updated
from lrpt.cli.finished.schedule_numbers import REACH
from lrpt.tasks.bits import WIDTH

BPC = Final("test bits per character", "bits_per_character", "{:.3f}")
PERPLEXITY = Final("test perplexity", "perplexity", "{:.2f}")


def _beats(
    where: str, better: Network, worse: Network, small: tuple[Versus | OnCurve, ...] = (), strict: bool = True, of: str = ""
) -> Relation:
    sign = ">" if strict else ">="
    contest = BPC if strict else replace(BPC, decimals=2)  # the paper prints equal figures
    return Relation(where, f"{better.name} {sign} {worse.name}{of}", contest, (Versus(better, worse, UNPRINTED), *small), strict)


def _same_operations(where: str, better: Network, others: tuple[Network, ...], scale: str, of: str, first: tuple[OnCurve, ...]) -> Relation:
    """Return the claim about a network and usual ones of as many operations, judged by the versions in `first` if they were run."""
    return Relation(where, f"{better.name} > an RNN of as many operations ({of})", BPC, (*first, OnCurve(better, others, scale)))


def _in_english(better: Network, annealed: Network, of: str) -> Relation:
    """Return a point of the stand-in for Figure 4."""
    first = (OnCurve(annealed, ANNEALED_RNNS, f"English instead of Czech and German; {ANNEALED_SCALE}"),)
    return _same_operations(IN_ENGLISH, better, RNN_CURVE, IN_ENGLISH_SCALE, f"{of}, English instead of Czech and German", first)


AS_MANY_IN_TABLE = " of as many operations (characters; table only)"
TWICE = " with more than twice the operations (characters)"


def _chars_beat(better: str, worse: str, of: str, small: tuple[Versus | OnCurve, ...] = (), strict: bool = True) -> Relation:
    return _beats(TABLE_3_CHARS, CHAR_NETWORKS[better], CHAR_NETWORKS[worse], small, strict, of)


VCGRU_03, VCGRU_04 = "VCGRU-1024, target 0.3", "VCGRU-1024, target 0.4"
MORE = " with more operations (text8)"
IN_ENGLISH = "A stand-in for Figure 4: characters of the Penn Treebank"
IN_ENGLISH_SCALE = "English instead of Czech and German; 256 units, 12 epochs"
SHARE = Measure("mean m", "{:.3f}")


def _of_notes(sentence: str, larger: tuple[str, str], other: tuple[str, str]) -> Relation:
    one, two = (partial(_mean_m, group) for group in (larger, other))
    return Relation(TABLE_2, sentence, SHARE, (Within(TUNES["VCRNN-500"], one, two, OTHER_TUNES),))


def _mean_m(group: tuple[str, str], run: Record) -> float | None:
    return run.analysed("notes", *group, "0")


def _half_of_others(run: Record) -> float | None:
    """Return half of the mean of m on symbols that are no bars."""
    found = _mean_m(("bars", "no bar"), run)
    return None if found is None else found / 2


OF_SCHEDULES = (
    _of_notes("less computation on bars than on other symbols", ("bars", "no bar"), ("bars", "bar")),
    Relation(
        TABLE_2,
        "bars are mostly ignored: m is less than half of that on other symbols",
        SHARE,
        (Within(TUNES["VCRNN-500"], _half_of_others, partial(_mean_m, ("bars", "bar")), OTHER_TUNES),),
    ),
    _of_notes("less computation on rests than on notes", ("kind", "note"), ("kind", "rest")),
    _of_notes("less computation on the second note of a repetition than on the first", ("repetition", "first"), ("repetition", "second")),
    *(
        _of_notes(f"more computation on fast passages: {fast} rather than {slow} notes", ("length", one), ("length", other))
        for one, fast in (("1/4", "sixteenth notes"), ("1/3", "triplets"))
        for other, slow in (("1", "quarter"), ("1/2", "eighth"))
    ),
)


AT_BOUNDARIES = "computation is largest at word boundaries, on last letters, white spaces or first letters"
"""How we read that units 'make use of word boundaries' and 'learn to use more dimensions' there."""

BOUNDARY = (-1, 0, 1)
"""last letter of a word, the white space that ends it, and the first letter of the next, by steps from the white space"""


def _about_word_ends(run: Record, boundary: bool) -> float | None:
    """Return the largest mean of m over the steps about the ends of words that are, or are not, at the boundary."""
    steps = [step for step in range(-REACH, REACH + 1) if (step in BOUNDARY) is boundary]
    means = [run.analysed("words", "means", str(REACH + step)) for step in steps]
    return max((mean for mean in means if mean is not None), default=None)


_at_boundaries, _elsewhere = partial(_about_word_ends, boundary=True), partial(_about_word_ends, boundary=False)


ALIKE = 0.02
"""nats per character between training and validation loss that count as none"""


def _last_loss(split: str, run: Record, more: float = 0.0) -> float | None:
    """Return the last loss of the training or the validation split."""
    losses = [line["loss"] for line in run.metrics if line["split"] == split and "loss" in line]
    return losses[-1] + more if losses else None


def _melodies(worse: str, operations: str, source: str = "") -> Relation:
    sentence = f"VCRNN-500 > {worse} with {operations} operations (melodies{source})"
    return Relation(TABLE_1, sentence, PERPLEXITY, (Versus(TUNES["VCRNN-500"], TUNES[worse], OTHER_TUNES),))


def _on_characters(run: Record) -> float | None:
    """Return the share of the operations on characters; the others are on buffer bits."""
    return run.analysed("schedule", "on_characters")


def _mean_of_bits(run: Record, buffer: bool) -> float | None:
    """Return the mean of m over the bits of characters, or over the buffer bits behind them."""
    places = [] if run.analysis is None else run.analysis.get("schedule", {}).get("by_place", [])
    own = places[WIDTH:] if buffer else places[:WIDTH]
    return sum(own) / len(own) if own else None


def _half_of_characters(run: Record) -> float | None:
    """Return half of the mean of m on the bits of characters."""
    found = _mean_of_bits(run, buffer=False)
    return None if found is None else found / 2


def _bits_repeat(run: Record) -> float | None:
    """Return the autocorrelation of the bits at the distance of a character, which a schedule that knows the bit only would have."""
    return run.analysed("schedule", "of_symbols", str(WIDTH))


EVERYTHING = 0.95
"""share of the dimensions in the mean over the test split that counts as all of them"""

RELATIONS = (
    Relation(
        TABLE_3_CHARS,
        f"VCRNN-1024 > RNN-760{AS_MANY_IN_TABLE}",
        BPC,
        (OnCurve(CHAR_NETWORKS["VCRNN-1024"], LARGE_RNNS, UNPRINTED),),
    ),
    _same_operations(
        TABLE_3_CHARS,
        SMALL_VC,
        RNN_CURVE,
        SMALL_CHARS_SCALE,
        "characters",
        (OnCurve(ANNEALED_VC, ANNEALED_RNNS, ANNEALED_SCALE), OnCurve(CONSTANT_VC, CONSTANT_RNNS, CONSTANT_SCALE)),
    ),
    _chars_beat("VCRNN-1024", "RNN-1024", " with more operations (characters)"),
    _beats(TABLE_3_CHARS, CHAR_NETWORKS["VCRNN-1024"], CRNN_500, strict=False, of=", which is given the words (characters; table only)"),
    *(
        _beats(TABLE_3_BITS, BIT_NETWORKS[VCRNN_460], BIT_NETWORKS[name], of=f" with {operations} (bits{table})")
        for name, operations, table in (
            ("RNN-1000", "more operations", ""),
            ("RNN-500", "more operations", ""),
            ("RNN-100", "fewer operations", "; table only"),
        )
    ),
    _same_operations(
        TABLE_3_BITS,
        SMALL_BITS,
        RNN_BITS_CURVE,
        SMALL_BITS_SCALE,
        "bits",
        (OnCurve(ANNEALED_BITS, ANNEALED_RNNS_BITS, ANNEALED_BITS_SCALE),),
    ),
    _beats(
        TABLE_3_BITS, BIT_NETWORKS[VCRNN_460], CRNN_100, of=", which is given the characters and has fewer operations (bits; table only)"
    ),
    _chars_beat(
        "VCGRU-1024",
        "GRU-458",
        AS_MANY_IN_TABLE,
        (OnCurve(ANNEALED_VCGRU, ANNEALED_GRUS, ANNEALED_SCALE), OnCurve(SMALL_VCGRU, GRU_CURVE, SMALL_CHARS_SCALE)),
    ),
    _chars_beat("VCGRU-1024", "LSTM-324", AS_MANY_IN_TABLE),
    *(_chars_beat("VCGRU-1024", other, " with more operations (characters; table only)") for other in ("GRU-538", "LSTM-380")),
    _chars_beat("VCGRU-1024", "GRU-1024", TWICE, strict=False),
    _chars_beat("VCGRU-1024", "LSTM-1024", TWICE, strict=False),
    _beats(TABLE_3_TEXT8, TEXT8_NETWORKS[VCGRU_03], TEXT8_NETWORKS["RNN-512"], of=MORE),
    _beats(TABLE_3_TEXT8, TEXT8_NETWORKS[VCGRU_03], TEXT8_NETWORKS["GRU-512"], strict=False, of=MORE),
    _beats(TABLE_3_TEXT8, TEXT8_NETWORKS[VCGRU_04], TEXT8_NETWORKS["GRU-512"], of=MORE),
    *(
        Relation(
            TABLE_3_TEXT8,
            f"{name} does not overfit: its validation loss is at most {ALIKE} above its training loss (text8)",
            Measure("nats per character", "{:.3f}"),
            (Within(network, partial(_last_loss, "train", more=ALIKE), partial(_last_loss, "valid"), UNPRINTED),),
            strict=False,
        )
        for name, network in TEXT8_NETWORKS.items()
    ),
    _melodies("RNN-250", "more"),
    _melodies("RNN-200", "fewer", "; table only"),
    *OF_SCHEDULES,
    *(
        Relation(
            FIGURE_4,
            f"{setting} is better than an RNN of as many operations ({europarl.LANGUAGES[language]})",
            BPC,
            (OnCurve(network, RNNS_OF_LANGUAGE[language], UNPRINTED),),
        )
        for (language, setting), network in OF_LANGUAGE.items()
    ),
    Relation(
        FIGURE_4,
        "guide is slightly more efficient than learn (German)",
        BPC,
        (OnCurve(OF_LANGUAGE["de", "guide"], LEARNT_GERMAN, UNPRINTED),),
    ),
    *(
        Relation(FIGURE_4, sentence, None, note="the paper neither says how near that is nor prints the numbers")
        for sentence in ("guide and learn perform similarly (Czech)", "guide and learn perform the same with more dimensions (German)")
    ),
    _in_english(SMALL_GUIDE, ANNEALED_GUIDE, "guide"),
    *(_in_english(OTHER_VC[target], ANNEALED_TARGETS[target], "learn") for target in CURVE_TARGETS),
    Relation(
        FIGURE_2,
        "m has the period of a character: its autocorrelation at 8 bits is above that of the bits (in the paper, higher dimensions are "
        "modified roughly every 8 bits)",
        Measure("autocorrelation at lag 8", "{:.2f}"),
        tuple(
            Within(network, autocorrelation(WIDTH).read, _bits_repeat, scale)
            for network, scale in ((BIT_NETWORKS[VCRNN_460], UNPRINTED), (SMALL_BITS, SMALL_UNITS))
        ),
    ),
    *(
        Relation(
            FIGURE_2,
            f"{bits} buffer bits are mostly ignored: m is less than half of that on the bits of characters",
            SHARE,
            tuple(Within(network, _half_of_characters, partial(_mean_of_bits, buffer=True), scale) for network, scale in of_size),
        )
        for bits, of_size in OF_BUFFERS.items()
    ),
    *(
        Relation(
            FIGURE_2,
            f"with {bits} buffer bits, most of the computation is on characters: more than half of the operations (at a constant m: {of})",
            Measure("share of the operations on characters", "{:.2f}"),
            tuple(Within(network, _on_characters, lambda run: 0.5, scale) for network, scale in OF_BUFFERS[bits]),
        )
        for bits, of in ((8, "half"), (24, "a quarter"))
    ),
    *(
        Relation(
            SECTION_42,
            f"with {NAIVE} (full gradient, sharpness {sharpness:g}), everything is updated: {EVERYTHING:.0%} of the dimensions and more",
            Measure("share of updated dimensions", "{:.3f}"),
            (Within(network, updated, lambda run: EVERYTHING, ablation_scale(sharpness)),),
        )
        for sharpness, network in NAIVE_FULL.items()
    ),
    *(
        Relation(
            SECTION_42,
            f"with {BOTH} (full gradient, {data}), a partial update is learnt: less than {EVERYTHING:.0%} of the dimensions",
            Measure("share of updated dimensions, 0.95 minus it", "{:.3f}"),
            (Within(network, lambda run: EVERYTHING, updated, scale),),
        )
        for data, (network, scale) in BOTH_FULL.items()
    ),
    *(
        Relation(
            FIGURE_3,
            f"{AT_BOUNDARIES}{of} (our reading; English)",
            SHARE,
            (Within(network, _at_boundaries, _elsewhere, scale),),
        )
        for network, of, scale in (
            (SMALL_VC, "", SMALL_CHARS_SCALE),
            (CHAR_NETWORKS["VCRNN-1024"], ", by 1,024 units", UNPRINTED),
            (SMALL_VCGRU, ", by a VCGRU too", SMALL_CHARS_SCALE),
        )
    ),
    *(
        Relation(
            FIGURE_3,
            f"{AT_BOUNDARIES} (our reading; {name}, {setting})",
            SHARE,
            (Within(OF_LANGUAGE[language, setting], _at_boundaries, _elsewhere, UNPRINTED),),
        )
        for language, name in europarl.LANGUAGES.items()
        for setting in europarl.SETTINGS
    ),
    Relation(
        FIGURE_3,
        "higher dimensions are used about once per word",
        None,
        note="kept analyses have means of m, and do not count how often a dimension is updated",
    ),
    Relation(FIGURE_5, "m has a spike at the ends of morphemes 'in some cases'", None, note="needs a text whose morphemes are marked"),
    Relation(
        FIGURE_5,
        "the network 'appears' to attend to case markers at the ends of German articles",
        None,
        note="needs a text with marked case endings",
    ),
)
