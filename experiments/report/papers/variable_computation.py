"""Claims of Jernite et al. (ICLR 2017) on variable computation: Tables 1 to 3, Figures 2 to 5, section 4.2."""

from functools import partial

from experiments import bit_lm, conditional, europarl, music
from experiments import variable_computation as characters
from experiments.report.claims import QUOTED, Network, Quantity, Row
from experiments.report.contests import Final
from experiments.report.paper import Paper, Plot, Study
from experiments.report.papers.variable_computation_takeaways import remarks, takeaways
from experiments.report.quantities import analysed, autocorrelation, equivalent_size, from_test, mean_of_m, mean_share
from experiments.report.records import Record
from experiments.report.relations import Figure, OnCurve, Relation, Versus, Within
from lrpt.cli.schedule_numbers import REACH
from lrpt.cli.schedule_tables import PUBLISHED as NOTES
from lrpt.tasks.bits import WIDTH

CHARS, BITS, MUSIC, CRNN, LANGUAGES = (module.EXPERIMENT for module in (characters, bit_lm, music, conditional, europarl))

TABLE_1, TABLE_2 = "Table 1, melodies", "Table 2 and section 5.1, melodies"
TABLE_3_BITS, TABLE_3_CHARS, TABLE_3_TEXT8 = "Table 3, bits", "Table 3, characters", "Table 3, text8"
FIGURE_2, FIGURE_4, SECTION_42 = "Figure 2, schedules of bits", "Figure 4, Czech and German", "Section 4.2, learning the schedule"
OTHER_TUNES = "tunes of O'Neill's collection, a tenth as many as the paper's"


def _chars(name: str, preset: str) -> Network:
    return Network(name, CHARS, f"--preset {preset}")


def _bits(name: str, preset: str) -> Network:
    return Network(name, BITS, f"--preset {preset}")


# Tables 1 and 2

TUNES = {
    "RNN-200": Network("RNN-200", MUSIC, "--preset rnn-200"),
    "RNN-250": Network("RNN-250", MUSIC, "--preset rnn-250"),
    "VCRNN-500": Network("VCRNN-500", MUSIC, "--preset paper"),
}
TUNE_FIGURES = {"RNN-200": (9.13, 200), "RNN-250": (8.70, 250), "VCRNN-500": (8.51, 233)}


def _learnt(name: str, size: int) -> int | None:
    """Return the published equivalent size of a unit that learns how much it computes; None for others, whose own follows from theirs."""
    return size if name.startswith("VC") else None


def _tune_row(name: str) -> Row:
    perplexity, size = TUNE_FIGURES[name]
    computed = (mean_share(),) if name.startswith("VC") else ()
    quantities = (from_test("test perplexity", "perplexity", perplexity, 2), equivalent_size(_learnt(name, size)), *computed)
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


# Table 3

CHAR_TABLE = {
    "GRU-1024": ("gru-1024", 1450, 1.42),
    "LSTM-1024": ("lstm-1024", 2048, 1.42),
    "RNN-1024": ("rnn-1024", 1024, 1.47),
    "VCRNN-1024": ("paper", 760, 1.46),
    "RNN-760": ("rnn-760", 760, 1.47),
    "LSTM-380": ("lstm-380", 760, 1.44),
    "GRU-538": ("gru-538", 760, 1.43),
    "VCGRU-1024": ("vcgru-1024", 648, 1.42),
    "LSTM-324": ("lstm-324", 648, 1.46),
    "GRU-458": ("gru-458", 648, 1.47),
}
TEXT8_TABLE = {
    "RNN-512": ("text8-rnn-512", 512, 1.80),
    "GRU-512": ("text8-gru-512", 725, 1.69),
    "GRU-1024": ("text8-gru-1024", 1450, 1.58),
    "VCGRU-1024, target 0.3": ("text8-vcgru-0.3", 464, 1.69),
    "VCGRU-1024, target 0.4": ("text8-vcgru-0.4", 648, 1.64),
    "VCGRU-1024, target 0.5": ("text8-vcgru-0.5", 820, 1.63),
}
VCRNN_340, VCRNN_460 = "VCRNN-1000 (RNN-340)", "VCRNN-1000 (RNN-460)"
"""The two rows of one unit. The paper tells them apart by their operations, and prints no targets; ours are guesses."""
BIT_TABLE = {
    "RNN-100": ("rnn-100", 100, 0.287),
    "RNN-500": ("rnn-500", 500, 0.227),
    "RNN-1000": ("rnn-1000", 1000, 0.223),
    VCRNN_340: ("vcrnn-1000-0.3", 340, 0.231),
    VCRNN_460: ("paper", 460, 0.215),
}
ZHANG = {"RNN-512 (Zhang et al.)": 1.80, "RNN-1024 (Zhang et al.)": 1.69, "LSTM-512 (Zhang et al.)": 1.65, "LSTM-1024 (Zhang et al.)": 1.52}

CHAR_NETWORKS = {name: _chars(name, preset) for name, (preset, _, _) in CHAR_TABLE.items()}
TEXT8_NETWORKS = {name: _chars(name, preset) for name, (preset, _, _) in TEXT8_TABLE.items()}
BIT_NETWORKS = {name: _bits(name, preset) for name, (preset, _, _) in BIT_TABLE.items()}
SMALL_VC, SMALL_RNN = _chars("VCRNN-256", "small"), _chars("RNN-128", "small-rnn")
SMALL_GUIDE = _chars("VCRNN-256, guide", "small-guide")
SMALL_VCGRU, SMALL_GRU = _chars("VCGRU-256", "small-vcgru"), _chars("GRU-104", "small-gru")
SMALL_BITS, SMALL_RNN_BITS = _bits("VCRNN-128", "small"), _bits("RNN-77", "small-rnn")
OTHER_RNN_BITS = {size: _bits(f"RNN-{size}", f"small-rnn --model.size {size} --model.embedding {size}") for size in (64, 96)}
CURVE_TARGETS, CURVE_SIZES = (0.2, 0.4, 0.5), (96, 160, 192)
OTHER_VC = {target: _chars(f"VCRNN-256, target {target}", f"small --model.schedule.target {target}") for target in CURVE_TARGETS}
OTHER_RNN = {size: _chars(f"RNN-{size}", f"small-rnn --model.size {size} --model.embedding {size}") for size in CURVE_SIZES}
OTHER_GRU = _chars("GRU-112", "small-gru --model.size 112 --model.embedding 112")
BUFFERED = {8: _bits("VCRNN-128, 8 buffer bits", "small-buffer-8"), 24: _bits("VCRNN-128, 24 buffer bits", "small-buffer-24")}
CRNN_500, CRNN_100 = Network("CRNN-500", CRNN, "--preset paper"), Network("CRNN-100-100", CRNN, "--preset bits")


def _char_row(where: str, name: str, figures: tuple[str, int, float], network: Network, smaller: tuple[Network, ...] = ()) -> Row:
    _, size, published = figures
    computed = (mean_share(),) if name.startswith("VC") else ()
    return Row(
        where,
        name,
        (from_test("bits per character", "bits_per_character", published, 2), equivalent_size(_learnt(name, size)), *computed),
        network,
        smaller=smaller,
    )


def _bit_row(name: str) -> Row:
    _, size, published = BIT_TABLE[name]
    smaller = {VCRNN_340: (SMALL_BITS,), "RNN-100": (SMALL_RNN_BITS,)}.get(name, ())
    quantities = (from_test("bits per bit", "bits_per_bit", published, 3), equivalent_size(_learnt(name, size)))
    return Row(TABLE_3_BITS, name, quantities, BIT_NETWORKS[name], smaller=smaller)


def _crnn_row(where: str, network: Network, score: str, published: float, decimals: int) -> Row:
    quantities = (from_test(score.replace("_", " "), score, published, decimals), equivalent_size(None))
    return Row(where, network.name, quantities, network)


def _zhang_row(name: str, published: float) -> Row:
    quantity = Quantity("bits per character", lambda run: None, "{:.2f}", f"{published:.2f}")
    return Row(TABLE_3_TEXT8, name, (quantity,), note=QUOTED)


def _on_characters(run: Record) -> float | None:
    """Return the share of the operations on characters; the others are on buffer bits."""
    return run.analysed("schedule", "on_characters")


SMALL_UNITS = "128 units instead of 1,000"


def _schedule_row(network: Network, lag: int, published: str = "") -> Row:
    quantity = autocorrelation(lag)
    seen = Quantity(quantity.name, quantity.read, quantity.form, published, best=True)
    control = analysed(f"autocorrelation of the bits at lag {lag}", "{:+.2f}", "schedule", "of_symbols", str(lag))
    place, symbol = (
        analysed(f"share of the variance of m that {what} explains", "{:.2f}", "schedule", "explained", name)
        for what, name in (("the place in a character", "place"), ("the bit read", "symbol"))
    )
    on_characters = analysed("share of the operations on characters", "{:.0%}", "schedule", "on_characters")
    quantities = (seen, control, place, symbol, *([on_characters] if lag > WIDTH else []), mean_share(), equivalent_size(None))
    return Row(FIGURE_2, network.name, quantities, network, scale=SMALL_UNITS)


OF_LANGUAGE = {
    (language, setting): Network(f"{name}, {setting}", LANGUAGES, f"--preset {preset}")
    for language, name, setting, preset in (
        ("cs", "Czech", "learn", "paper"),
        ("cs", "Czech", "guide", "cs-guide"),
        ("de", "German", "learn", "de-learn"),
        ("de", "German", "guide", "de-guide"),
    )
}
RNNS_OF_LANGUAGE = {
    language: tuple(Network(f"RNN-{size}", LANGUAGES, f"--preset {language}-rnn-{size}") for size in europarl.SIZES)
    for language in europarl.LANGUAGES
}
LEARNT_GERMAN = (
    OF_LANGUAGE["de", "learn"],
    *(Network(f"German, learn, target {target}", LANGUAGES, f"--preset de-learn-{target}") for target in europarl.TARGETS),
)


def _language_row(network: Network) -> Row:
    quantities = (
        Quantity("bits per character", lambda run: run.tested("bits_per_character"), "{:.2f}", "no number in the text", best=True),
        equivalent_size(None),
    )
    return Row(FIGURE_4, network.name, quantities, network)


NAIVE = "neither a penalty nor a growing sharpness"
"""The training of which section 4.2 says that it ends where everything is updated. It says nothing of leaving out one of the two only."""
ABLATION = {
    NAIVE: _chars("VCRNN-256, neither", "small-neither"),
    "a penalty, fixed sharpness": _chars("VCRNN-256, fixed sharpness", "small-fixed-sharpness"),
    "no penalty, growing sharpness": _chars("VCRNN-256, no penalty", "small-no-penalty"),
}
EVERYTHING = 0.95
"""share of the dimensions in the mean over the test part that counts as all of them"""


def _updated(run: Record) -> float | None:
    return run.tested("active")


def _ablation_row(what: str, network: Network) -> Row:
    quantity = Quantity("share of updated dimensions", _updated, "{:.3f}", best=True)
    return Row(SECTION_42, f"VCRNN, {what}", (quantity,), network, scale=ABLATION_SCALE)


ABLATION_SCALE = "256 units on characters; the paper prints no size"


ROWS = (
    *(_tune_row(name) for name in TUNES),
    *(_mean_row(group, what) for group, what in MEANS.items()),
    *(_bit_row(name) for name in BIT_TABLE),
    _crnn_row(TABLE_3_BITS, CRNN_100, "bits_per_bit", 0.222, 3),
    *(
        _char_row(TABLE_3_CHARS, name, figures, CHAR_NETWORKS[name], {"VCRNN-1024": (SMALL_VC,), "RNN-760": (SMALL_RNN,)}.get(name, ()))
        for name, figures in CHAR_TABLE.items()
    ),
    _crnn_row(TABLE_3_CHARS, CRNN_500, "bits_per_character", 1.46, 2),
    *(_zhang_row(name, published) for name, published in ZHANG.items()),
    *(_char_row(TABLE_3_TEXT8, name, figures, TEXT8_NETWORKS[name]) for name, figures in TEXT8_TABLE.items()),
    _schedule_row(SMALL_BITS, 8, "modified roughly every 8 bits"),
    _schedule_row(BUFFERED[8], 16),
    _schedule_row(BUFFERED[24], 32),
    *(_language_row(network) for network in OF_LANGUAGE.values()),
    *(_ablation_row(what, network) for what, network in ABLATION.items()),
)  # fmt: skip

BPC = Final("test bits per character", "bits_per_character", "{:.3f}")
PERPLEXITY = Final("test perplexity", "perplexity", "{:.2f}")
SMALL_CHARS_SCALE = "256 units instead of 1,024; 12 epochs"
SMALL_BITS_SCALE = "128 units instead of 1,000; 4 epochs"


def _beats(
    where: str, better: Network, worse: Network, small: tuple[Versus | OnCurve, ...] = (), strict: bool = True, of: str = ""
) -> Relation:
    sign = ">" if strict else ">="
    return Relation(where, f"{better.name} {sign} {worse.name}{of}", BPC, (Versus(better, worse), *small), strict)


def _same_operations(where: str, better: Network, others: tuple[Network, ...], scale: str, of: str) -> Relation:
    return Relation(where, f"{better.name} > an RNN of as many operations ({of})", BPC, (OnCurve(better, others, scale),))


RNN_CURVE = (SMALL_RNN, *OTHER_RNN.values())
RNN_BITS_CURVE = (SMALL_RNN_BITS, *OTHER_RNN_BITS.values())
GRU_CURVE = (SMALL_GRU, OTHER_GRU)
AS_MANY, TWICE = " of as many operations (characters)", " with more than twice the operations (characters)"


def _chars_beat(better: str, worse: str, of: str, small: tuple[Versus | OnCurve, ...] = (), strict: bool = True) -> Relation:
    return _beats(TABLE_3_CHARS, CHAR_NETWORKS[better], CHAR_NETWORKS[worse], small, strict, of)


VCGRUS = ("VCGRU-1024, target 0.3", "VCGRU-1024, target 0.4", "VCGRU-1024, target 0.5")
FIGURE_3, FIGURE_5 = "Figure 3, schedules of characters", "Figure 5, schedules of characters"
IN_ENGLISH = "A stand-in for Figure 4: characters of the Penn Treebank"
IN_ENGLISH_SCALE = "English instead of Czech and German; 256 units, 12 epochs"
SHARE = Figure("mean m", "{:.3f}")


def _of_notes(sentence: str, larger: tuple[str, str], other: tuple[str, str]) -> Relation:
    one, two = (partial(_mean_m, group) for group in (larger, other))
    return Relation(TABLE_2, sentence, SHARE, (Within(TUNES["VCRNN-500"], one, two, OTHER_TUNES),))


def _mean_m(group: tuple[str, str], run: Record) -> float | None:
    return run.analysed("notes", *group, "0")


OF_SCHEDULES = (
    _of_notes("bars are mostly ignored: less computation than on other symbols", ("bars", "no bar"), ("bars", "bar")),
    _of_notes("less computation on rests than on notes", ("kind", "note"), ("kind", "rest")),
    _of_notes("less computation on the second note of a repetition than on the first", ("repetition", "first"), ("repetition", "second")),
    *(
        _of_notes(f"more computation on fast passages: {fast} rather than {slow} notes", ("length", one), ("length", other))
        for one, fast in (("1/4", "sixteenth notes"), ("1/3", "triplets"))
        for other, slow in (("1", "quarter"), ("1/2", "eighth"))
    ),
)


def _about_word_ends(run: Record, steps: int) -> float | None:
    """Return the mean of m some steps after the white space that ends a word."""
    return run.analysed("words", "means", str(REACH + steps))


def _on_average(run: Record) -> float | None:
    """Return the mean of m over all symbols."""
    return run.analysed("schedule", "mean")


ALIKE = 0.02
"""nats per character between training and validation loss that count as none"""


def _last_loss(split: str, run: Record, more: float = 0.0) -> float | None:
    """Return the last loss of the training or the validation part."""
    losses = [line["loss"] for line in run.metrics if line["split"] == split and "loss" in line]
    return losses[-1] + more if losses else None


OF_BUFFERS = {bits: ((_bits(f"VCRNN-1000, {bits} buffer bits", f"buffer-{bits}"), ""), (BUFFERED[bits], SMALL_UNITS)) for bits in BUFFERED}


def _melodies(worse: str, operations: str) -> Relation:
    sentence = f"VCRNN-500 > {worse} with {operations} operations (melodies)"
    return Relation(TABLE_1, sentence, PERPLEXITY, (Versus(TUNES["VCRNN-500"], TUNES[worse], OTHER_TUNES),))


RELATIONS = (
    _chars_beat("VCRNN-1024", "RNN-760", AS_MANY, (OnCurve(SMALL_VC, RNN_CURVE, SMALL_CHARS_SCALE),)),
    _chars_beat("VCRNN-1024", "RNN-1024", " with more operations (characters)"),
    _beats(TABLE_3_CHARS, CHAR_NETWORKS["VCRNN-1024"], CRNN_500, strict=False, of=", which is told words (characters)"),
    *(
        _beats(TABLE_3_BITS, BIT_NETWORKS[VCRNN_460], BIT_NETWORKS[name], of=" with more operations (bits)")
        for name in ("RNN-1000", "RNN-500")
    ),
    _same_operations(TABLE_3_BITS, SMALL_BITS, RNN_BITS_CURVE, SMALL_BITS_SCALE, "bits"),
    Relation(
        TABLE_3_BITS,
        f"{SMALL_BITS.name} > RNN-64 with fewer operations (bits)",
        BPC,
        (Versus(SMALL_BITS, OTHER_RNN_BITS[64], SMALL_BITS_SCALE),),
    ),
    _beats(TABLE_3_BITS, BIT_NETWORKS[VCRNN_460], CRNN_100, of=", which is told characters (bits)"),
    _chars_beat("VCGRU-1024", "GRU-458", AS_MANY, (OnCurve(SMALL_VCGRU, GRU_CURVE, SMALL_CHARS_SCALE),)),
    _chars_beat("VCGRU-1024", "LSTM-324", AS_MANY),
    _chars_beat("VCGRU-1024", "GRU-1024", TWICE, strict=False),
    _chars_beat("VCGRU-1024", "LSTM-1024", TWICE, strict=False),
    *(_beats(TABLE_3_TEXT8, TEXT8_NETWORKS[name], TEXT8_NETWORKS["RNN-512"], of=" (text8)") for name in VCGRUS),
    _beats(TABLE_3_TEXT8, TEXT8_NETWORKS[VCGRUS[0]], TEXT8_NETWORKS["GRU-512"], strict=False, of=" (text8)"),
    *(_beats(TABLE_3_TEXT8, TEXT8_NETWORKS[name], TEXT8_NETWORKS["GRU-512"], of=" (text8)") for name in VCGRUS[1:]),
    *(
        Relation(
            TABLE_3_TEXT8,
            f"{name} does not overfit: its validation loss is at most {ALIKE} above its training loss (text8)",
            Figure("nats per character", "{:.3f}"),
            (Within(network, partial(_last_loss, "train", more=ALIKE), partial(_last_loss, "valid")),),
            strict=False,
        )
        for name, network in TEXT8_NETWORKS.items()
    ),
    _melodies("RNN-250", "more"),
    _melodies("RNN-200", "fewer"),
    *OF_SCHEDULES,
    *(
        Relation(
            FIGURE_4,
            f"{setting} is better than an RNN of as many operations ({europarl.LANGUAGES[language]})",
            BPC,
            (OnCurve(network, RNNS_OF_LANGUAGE[language]),),
        )
        for (language, setting), network in OF_LANGUAGE.items()
    ),
    Relation(FIGURE_4, "guide is slightly more efficient than learn (German)", BPC, (OnCurve(OF_LANGUAGE["de", "guide"], LEARNT_GERMAN),)),
    _same_operations(IN_ENGLISH, SMALL_GUIDE, RNN_CURVE, IN_ENGLISH_SCALE, "guide, English in place of Czech and German"),
    *(
        _same_operations(IN_ENGLISH, OTHER_VC[target], RNN_CURVE, IN_ENGLISH_SCALE, "learn, English in place of Czech and German")
        for target in CURVE_TARGETS
    ),
    *(
        Relation(
            FIGURE_2,
            f"{bits} buffer bits are mostly ignored: more than half of the operations are on characters",
            Figure("share of the operations on characters", "{:.2f}"),
            tuple(Within(network, _on_characters, lambda run: 0.5, scale) for network, scale in of_size),
        )
        for bits, of_size in OF_BUFFERS.items()
    ),
    Relation(
        SECTION_42,
        f"with {NAIVE}, everything is updated: {EVERYTHING:.0%} of the dimensions and more",
        Figure("share of updated dimensions", "{:.3f}"),
        (Within(ABLATION[NAIVE], _updated, lambda run: EVERYTHING, ABLATION_SCALE),),
    ),
    *(
        Relation(
            FIGURE_3,
            f"more computation at word boundaries{of}: {what} against the average (English)",
            SHARE,
            (Within(network, partial(_about_word_ends, steps=steps), _on_average, SMALL_CHARS_SCALE),),
        )
        for network, of in ((SMALL_VC, ""), (SMALL_VCGRU, ", by a VCGRU too"))
        for steps, what in enumerate(("on the white space", "on the first letter of a word"))
    ),
    Relation(FIGURE_5, "morphemes are found", None, note="needs a text whose morphemes are marked"),
)

STUDIES = (
    Study(
        "variable_computation",
        "Characters of the Penn Treebank",
        "bits_per_character",
        "validation bits per character",
        "{:.3f}",
        (*CHAR_NETWORKS.values(), SMALL_VC, SMALL_GUIDE, *OTHER_VC.values(), *RNN_CURVE, SMALL_VCGRU, *GRU_CURVE),
        tuple(epoch * characters.EPOCH for epoch in (1, 2, 4, 6, 8, 10, 12, 16, 20)),
        levels={"published test, VCRNN-1024": 1.46, "published test, RNN-760": 1.47},
    ),
    Study(
        "bit_lm",
        "Bits of the Penn Treebank",
        "bits_per_character",
        "validation bits per character",
        "{:.3f}",
        (*BIT_NETWORKS.values(), SMALL_BITS, *RNN_BITS_CURVE, *BUFFERED.values()),
        tuple(epoch * bit_lm.EPOCH for epoch in (1, 2, 3, 4, 8, 12, 16, 20)),
        levels={"published test, VCRNN-1000": 8 * 0.215, "published test, RNN-100": 8 * 0.287},
    ),
    Study(
        "music",
        "Melodies",
        "perplexity",
        "validation perplexity",
        "{:.2f}",
        tuple(TUNES.values()),
        tuple(epoch * music.EPOCH for epoch in (1, 2, 4, 6, 8, 10, 12, 16, 20)),
        levels={f"published test, {name} (other tunes)": perplexity for name, (perplexity, _) in TUNE_FIGURES.items()},
    ),
)

PLOTS = (
    Plot("Figure 2, top", "which dimensions are updated at which bit", FIGURE_2, SMALL_BITS.name),
    Plot("Figure 2, middle", "the same with 8 buffer bits", FIGURE_2, BUFFERED[8].name),
    Plot("Figure 2, bottom", "the same with 24 buffer bits", FIGURE_2, BUFFERED[24].name),
    *(Plot(f"Figure 3, {language}", "computation by character", FIGURE_3, language) for language in ("English", "Czech", "German")),
    *(
        Plot(f"Figure 4, {language}", "bits per character by operations: RNN, learn, guide", FIGURE_4, language)
        for language in ("Czech", "German")
    ),
    Plot("Figure 5", "computation by character, and morphemes", FIGURE_5),
)

PAPER = Paper(
    name="variable_computation",
    title="Variable computation",
    citation="Jernite, Grave, Joulin and Mikolov, *Variable Computation in Recurrent Neural Networks*, ICLR 2017",
    rows=ROWS,
    relations=RELATIONS,
    studies=STUDIES,
    plots=PLOTS,
    telling="operations_variable_computation.png",
    caption="Test bits per character by operations on the Penn Treebank: dots are seeds, lines join targets of m, or sizes",
    takeaways=takeaways,
    remarks=remarks,
)
