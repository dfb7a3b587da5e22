"""Claims of Zilly et al. (ICML 2017) on recurrent highway networks: Tables 1 to 3, Figures 4 and 5, lesions.

Numbers of Figure 5a and Table 1, and that of the best ensemble, are those of the authors' README and of transcriptions: the paper's tables
and figures were not all readable. Headings of these rows say so. Figure 5a shows test perplexities only.
"""

from collections.abc import Callable, Mapping
from statistics import median

from experiments import wiki, word_lm
from experiments.report.claims.contests import Final
from experiments.report.claims.paper import Paper, Plot, Study
from experiments.report.claims.quantities import better_than, from_test, lowest
from experiments.report.claims.relations import Measure, Relation, Versus, Within
from experiments.report.claims.rows import QUOTED, Network, Quantity, Row
from experiments.report.claims.studies import NATS, OfSwarm
from experiments.report.kept.records import Record
from experiments.report.papers.highway_layers import CHORALES, SUBSTANTIAL
from experiments.report.papers.highway_takeaways import remarks, takeaways

WORDS, BYTES = word_lm.EXPERIMENT, wiki.EXPERIMENT

TABLE_1, FIGURE_5A = "Table 1, words of the Penn Treebank", "Figure 5a, words of the Penn Treebank"
FIGURE_5A_ROWS = f"{FIGURE_5A} (values of the authors' README)"
TABLE_1_ROWS = f"{TABLE_1} (values of the authors' README and of transcriptions)"
TABLE_2, TABLE_3 = "Table 2, enwik8", "Table 3, text8"

VALID = "lowest validation perplexity"

FIGURE_5A_POINTS = {
    "untied": (
        (92.4, 89.2), (79.0, 76.3), (75.0, 72.6), (73.3, 70.9), (72.0, 69.8),
        (71.9, 69.3), (71.7, 68.7), (71.2, 68.5), (71.3, 68.5), (71.3, 68.3),
    ),
    "tied": (
        (93.2, 90.6), (76.9, 75.1), (72.7, 70.6), (70.8, 68.6), (69.7, 67.7),
        (69.1, 66.6), (68.7, 66.4), (68.2, 66.1), (68.1, 66.0), (68.3, 66.0),
    ),
}  # fmt: skip
"""Validation and test perplexities at depths 1 to 10, from the authors' README."""

QUOTED_1 = {
    "RNN-LDA + KN-5 + cache": 92.0,
    "Conv+Highway+LSTM+dropout": 78.9,
    "LSTM+dropout": 78.4,
    "Pointer Sentinel-LSTM": 70.9,
    "Variational LSTM + WT + augmented loss": 68.5,
    "NAS base 8": 67.9,
    "NAS base 8 + WT": 64.0,
    "NAS base 8 + WT, 54 M": 62.4,
}
QUOTED_VALID = {"LSTM+dropout": 82.2, "Pointer Sentinel-LSTM": 72.4, "Variational LSTM + WT + augmented loss": 71.1}
"""Validation perplexities of those models that have one in Table 1, as far as it was read."""
BEST_BUT_SEARCHED = min(figure for name, figure in QUOTED_1.items() if not name.startswith("NAS"))
"""Test perplexity of the best other single model, 'solely' excepting the architectures of Zoph and Le (2016)."""
SINGLE = sorted([*QUOTED_1.values(), 75.0, 73.2])
"""Test perplexities of all models of Table 1 that are no RHNs, with the two variational LSTMs. All of them are single models."""
MOST = SINGLE[(len(SINGLE) - 1) // 2]
"""Test perplexity below which a model is better than more than half of them."""
ENSEMBLE = 68.7
"""Test perplexity of the best earlier ensemble, from the table in the authors' README (https://github.com/julian121266/RecurrentHighwayNetworks)."""
QUOTED_2 = {"Grid-LSTM": 1.47, "MI-LSTM": 1.44, "mLSTM": 1.42, "LN HyperNetworks": 1.34, "LN HM-LSTM": 1.32}
QUOTED_3 = {"MI-LSTM": 1.44, "mLSTM": 1.40, "BN LSTM": 1.36, "HM-LSTM": 1.32, "LN HM-LSTM": 1.29}


def _quoted(where: str, models: Mapping[str, Mapping[str, float]], decimals: int) -> tuple[Row, ...]:
    """Return rows of models of other authors, each with the names and values of its metrics."""
    form = f"{{:.{decimals}f}}"
    quantities = {
        model: tuple(Quantity(name, lambda run: None, form, form.format(value)) for name, value in of.items())
        for model, of in models.items()
    }
    return tuple(Row(where, model, own, note=QUOTED) for model, own in quantities.items())


def _quoted_words() -> dict[str, dict[str, float]]:
    """Return names and values of the metrics of quoted models in Table 1."""
    valid = {model: {VALID: perplexity} for model, perplexity in QUOTED_VALID.items()}
    return {model: valid.get(model, {}) | {"test perplexity": perplexity} for model, perplexity in QUOTED_1.items()}


def _quoted_bits(models: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return names and values of the metrics of quoted models in Tables 2 and 3."""
    return {model: {"test bits per character": bits} for model, bits in models.items()}


def _words(name: str, flags: str) -> Network:
    return Network(name, WORDS, flags)


def _name(form: str, depth: int) -> str:
    return f"RHN{' + WT' if form == 'tied' else ''}, depth {depth}"


OF_DEPTH = {
    (form, depth): _words(_name(form, depth), "--preset paper" if (form, depth) == ("tied", 10) else f"--preset {form}-{depth}")
    for form in FIGURE_5A_POINTS
    for depth in word_lm.PTB_WIDTHS
}
LOW_DECAY = _words("RHN + WT, depth 10", "--preset paper --optim.weight-decay 1e-9")
LSTM = {
    form: _words(f"Variational LSTM{wt}", f"--preset variational-lstm{end}")
    for form, wt, end in (("untied", "", ""), ("tied", " + WT", "-tied"))
}
SMALL = {depth: _words(f"RHN + WT, depth {depth}, 200 units", f"--preset small-{depth}") for depth in (1, 3)}
EQUAL = {depth: _words(f"RHN + WT, depth {depth}, 1.5 M", f"--preset equal-{depth}") for depth in word_lm.EQUAL_DEPTHS}
DEEPEST = max(EQUAL)
EQUAL_SCALE = "1.5 million parameters at every depth, 6 epochs, an earlier and faster decay of the learning rate, less dropout"


def _perplexities(valid: float, test: float, of_valid: str = VALID) -> tuple[Quantity, ...]:
    return lowest(of_valid, "perplexity", valid, 1), from_test("test perplexity", "perplexity", test, 1)


def _point(form: str, depth: int) -> Row:
    stand_ins = (SMALL[depth],) if form == "tied" and depth in SMALL else ()
    quantities = _perplexities(*FIGURE_5A_POINTS[form][depth - 1], f"{VALID} (not in the figure)")
    return Row(FIGURE_5A_ROWS, _name(form, depth), quantities, OF_DEPTH[form, depth], stand_ins=stand_ins)


def _above_most() -> Quantity:
    """Expect a lower test perplexity than most single models have."""
    return better_than("test perplexity, below most single models", "perplexity", MOST, 1)


def _bytes(
    where: str,
    name: str,
    preset: str,
    test: float,
    valid: float | None = None,
    earlier: float | None = None,
) -> Row:
    """Return a row.

    Args:
      where: its table.
      name: the network.
      preset: of `experiments.wiki`.
      test, valid: published bits per character.
      earlier: those of the best earlier model, if this network is said to be better than all of them, and the table has it so.
    """
    score = "bits_per_character"
    first = () if valid is None else (lowest("lowest validation bits per character", score, valid, 2),)
    last = () if earlier is None else (better_than("test bits per character, below all earlier models", score, earlier, 2),)
    quantities = (*first, from_test("test bits per character", score, test, 2), *last)
    return Row(where, name, quantities, Network(name, BYTES, f"--preset {preset}"))


ABOVE_ENSEMBLES = better_than("test perplexity, below all earlier ensembles", "perplexity", ENSEMBLE, 1)

ROWS = (
    *_quoted(TABLE_1_ROWS, _quoted_words(), 1),
    Row(TABLE_1_ROWS, "Variational LSTM, 66 M", _perplexities(77.3, 75.0), LSTM["untied"]),
    Row(TABLE_1_ROWS, "Variational LSTM + WT, 51 M", _perplexities(75.8, 73.2), LSTM["tied"]),
    Row(
        TABLE_1_ROWS,
        "Variational RHN, depth 8",
        (*_perplexities(71.2, 68.5), _above_most(), ABOVE_ENSEMBLES),
        OF_DEPTH["untied", 8],
    ),
    Row(
        TABLE_1_ROWS,
        "Variational RHN + WT, depth 10",
        (
            *_perplexities(67.9, 65.4),
            _above_most(),
            ABOVE_ENSEMBLES,
            better_than("test perplexity, below all single models but those of Zoph and Le", "perplexity", BEST_BUT_SEARCHED, 1),
        ),
        LOW_DECAY,
    ),
    *(_point(form, depth) for form in FIGURE_5A_POINTS for depth in word_lm.PTB_WIDTHS),
    *_quoted(TABLE_2, _quoted_bits(QUOTED_2), 2),
    _bytes(TABLE_2, "RHN, depth 5, 23 M", "enwik8-5x1500", 1.31, earlier=min(QUOTED_2.values())),
    _bytes(TABLE_2, "RHN, depth 10, 21 M", "enwik8-10x1000", 1.30, earlier=min(QUOTED_2.values())),
    _bytes(TABLE_2, "Large RHN, depth 10, 46 M", "paper", 1.27, 1.26, min(QUOTED_2.values())),
    *_quoted(TABLE_3, _quoted_bits(QUOTED_3), 2),
    _bytes(TABLE_3, "RHN, depth 10, 20 M", "text8-10x1000", 1.29),
    _bytes(TABLE_3, "Large RHN, depth 10, 45 M", "text8-10x1500", 1.27, 1.19, min(QUOTED_3.values())),
)

PERPLEXITY = Final("test perplexity", "perplexity", "{:.1f}", decimals=1)
"""As printed: from one depth to the next, published perplexities are sometimes equal."""
BITS = Final("test bits per character", "bits_per_character", "{:.3f}")


def _deeper(form: str, shallow: int, deep: int, *smaller: Versus) -> Relation:
    """Return the claim about two points of Figure 5a. Untied networks have equal numbers of parameters, tied ones do not.

    The paper's text speaks of all depths together, its figure also of one depth to the next, where equal perplexities count.
    """
    strict = deep - shallow > 1
    sentence = f"depth helps: {deep} {'better' if strict else 'no worse'} than {shallow}, {form}"
    return Relation(FIGURE_5A, sentence, PERPLEXITY, (Versus(OF_DEPTH[form, deep], OF_DEPTH[form, shallow]), *smaller), strict)


def _equal(shallow: int, deep: int, instead: str = "") -> Versus:
    """Return tied networks of 1.5 million parameters, which stand in for the published ones."""
    return Versus(EQUAL[deep], EQUAL[shallow], f"{instead}{EQUAL_SCALE}")


SWARM_COMMAND = "swarm --preset paper --data.dir DIR"
FIGURE_4 = "Figure 4, optimization on JSB Chorales"
DEEP = 6


def _swarm(sentence: str, better: tuple[str, int], worse: tuple[str, int], margin: float = 0.0) -> Relation:
    return Relation(FIGURE_4, sentence, NATS, (OfSwarm(better, worse, SWARM_COMMAND, margin),), margin == 0)


MARGIN = 0.02
"""share of a loss below which two count as similar, and above which one is considerably higher; the paper names none"""


LESIONS, FIGURE_5B = "Section 6, lesions", "Figure 5b, gates on JSB Chorales"
LOSS, GATE = Measure("nats per frame of training loss", "{:.3f}"), Measure("mean transform gate", "{:.3f}")
UNPRINTED = "settings of the supplement, which was not read"


Read = Callable[[Record], float | None]


def _within(where: str, sentence: str, contest: Measure, larger: Read, other: Read) -> Relation:
    return Relation(where, sentence, contest, (Within(CHORALES, larger, other, UNPRINTED),))


def _lesion(read: Callable[[list[float]], float]) -> Read:
    """Return the function from a run to a figure of its training losses: without lesions, then with each layer's gates closed."""

    def of_run(run: Record) -> float | None:
        found = None if run.analysis is None else run.analysis.get("highway", {}).get("lesions")
        return None if found is None else read([found["intact"], *found["shut"]])

    return of_run


def _gates(network: str, field: str, read: Callable[[list[float]], float]) -> Read:
    """Return the function from a run to a figure of its gates' means or deviations, first layer to last."""

    def of_run(run: Record) -> float | None:
        found = [] if run.analysis is None else run.analysis.get("highway", {}).get("gates", [])
        own = [one[field] for one in found if one["network"] == network]
        return read(own) if own else None

    return of_run


OPEN = 0.5
"""mean from which on a gate counts as open; the paper says 'high'"""
SWITCHING = 0.05
"""standard deviation over steps and sequences from which on a gate counts as switching; the paper names none"""

OF_LAYERS = (
    _within(
        LESIONS, "the first layer contributes more than any other", LOSS, _lesion(lambda loss: loss[1]), _lesion(lambda loss: max(loss[2:]))
    ),
    _within(
        LESIONS,
        f"closing a layer's gates in general raises the training loss substantially: for most layers by {SUBSTANTIAL:.0%} or more",
        LOSS,
        _lesion(lambda loss: median(loss[1:])),
        _lesion(lambda loss: (1 + SUBSTANTIAL) * loss[0]),
    ),
    _within(
        FIGURE_5B,
        "the first layer's gates are more open than those of any other (our reading of 'high on average')",
        GATE,
        _gates("trained", "mean", lambda of: of[0]),
        _gates("trained", "mean", lambda of: max(of[1:])),
    ),
    _within(
        FIGURE_5B,
        f"the first layer's gates are open on average, by {OPEN} or more",
        GATE,
        _gates("trained", "mean", lambda of: of[0]),
        lambda run: OPEN,
    ),
    _within(
        FIGURE_5B,
        "the gates of each layer are more open after training than before (our reading of 'all layers are utilized'; another one is that "
        "closing any layer costs something)",
        GATE,
        _gates("trained", "mean", min),
        _gates("untrained", "mean", max),
    ),
    _within(
        FIGURE_5B,
        f"gates of the other layers switch over time: their deviation is {SWITCHING} or more in most of them",
        Measure("standard deviation of the transform gate", "{:.3f}"),
        _gates("trained", "deviation", lambda of: median(of[1:])),
        lambda run: SWITCHING,
    ),
)


def _wiki(where: str, sentence: str, better: str, worse: str) -> Relation:
    arms = (Network(better, BYTES, f"--preset {better}"), Network(worse, BYTES, f"--preset {worse}"))
    return Relation(where, sentence, BITS, (Versus(*arms),))


RELATIONS = (
    _deeper("tied", 1, 10, _equal(1, DEEPEST, f"depth {DEEPEST} instead of 10, ")),
    *(_deeper("tied", depth, depth + 1, *([_equal(depth, depth + 1)] if depth < DEEPEST else [])) for depth in range(1, 10)),
    *(_deeper("untied", depth, depth + 1) for depth in range(1, 10)),
    _deeper("untied", 1, 10),
    Relation(
        TABLE_1,
        "better than a variational LSTM: depth 8, untied (table only)",
        PERPLEXITY,
        (Versus(OF_DEPTH["untied", 8], LSTM["untied"]),),
    ),
    Relation(TABLE_1, "better than a variational LSTM: depth 10, tied", PERPLEXITY, (Versus(LOW_DECAY, LSTM["tied"]),)),
    Relation(
        TABLE_1,
        "depth 10 with the smaller weight decay is better than depth 1, tied",
        PERPLEXITY,
        (Versus(LOW_DECAY, OF_DEPTH["tied", 1]),),
    ),
    Relation(TABLE_1, "the smaller weight decay is better at depth 10, tied", PERPLEXITY, (Versus(LOW_DECAY, OF_DEPTH["tied", 10]),)),
    *(
        Relation(
            FIGURE_5A,
            f"tied embeddings are better than untied ones at depth {depth}",
            PERPLEXITY,
            (Versus(OF_DEPTH["tied", depth], OF_DEPTH["untied", depth]),),
        )
        for depth in range(2, 11)
    ),
    Relation(TABLE_1, "tied embeddings are better than untied ones: LSTM", PERPLEXITY, (Versus(LSTM["tied"], LSTM["untied"]),)),
    _swarm(
        f"depth does not harm the optimization of RHNs: depth 6 at most {MARGIN:.0%} worse than depth 1", ("rhn", DEEP), ("rhn", 1), MARGIN
    ),
    *(
        _swarm(
            f"{name}s become considerably harder to optimize with depth: depth 6 at least {MARGIN:.0%} worse than depth 1",
            (cell, 1),
            (cell, DEEP),
            -MARGIN,
        )
        for cell, name in (("dt_rnn", "DT-RNN"), ("dts_rnn", "DT(S)-RNN"))
    ),
    *(
        _swarm(f"an RHN of depth {depth} is optimized better than a {name} (our reading; figure not read)", ("rhn", depth), (cell, depth))
        for cell, name in (("dt_rnn", "DT-RNN"), ("dts_rnn", "DT(S)-RNN"))
        for depth in (2, 4, DEEP)
    ),
    _wiki(TABLE_2, "depth 10 with 1000 units is better than depth 5 with 1500 (enwik8; table only)", "enwik8-10x1000", "enwik8-5x1500"),
    _wiki(TABLE_2, "1500 units are better than 1000 (enwik8; table only)", "paper", "enwik8-10x1000"),
    _wiki(TABLE_3, "1500 units are better than 1000 (text8; table only)", "text8-10x1500", "text8-10x1000"),
    *OF_LAYERS,
    Relation(
        FIGURE_5B,
        "gates switch in a different way for each sequence",
        None,
        note="gates of different sequences are not compared",
    ),
    Relation(
        "Section 5",
        "coupled gates make training more stable",
        None,
        note="the paper compares no network without coupling",
    ),
)

STUDIES = (
    Study(
        "word_lm",
        "Words of the Penn Treebank",
        "perplexity",
        "validation perplexity",
        "{:.1f}",
        (*OF_DEPTH.values(), LOW_DECAY, *LSTM.values(), *SMALL.values()),
        tuple(epoch * word_lm.EPOCH for epoch in (1, 2, 3, 4, 6, 8, 10)),
        levels={
            f"published validation, {word_lm.PTB_WIDTHS[depth]:,} units, depth {depth}": FIGURE_5A_POINTS["tied"][depth - 1][0]
            for depth in (1, 3)
        },
    ),
    Study(
        "word_lm_equal",
        "Words of the Penn Treebank, RHNs with tied embeddings",
        "perplexity",
        "validation perplexity",
        "{:.1f}",
        tuple(EQUAL.values()),
        tuple(epoch * word_lm.EPOCH for epoch in (1, 2, 3, 4, 5, 6)),
        over="model.depth",
        published_over={depth: test for depth, (_, test) in enumerate(FIGURE_5A_POINTS["tied"], 1)},
        scale="1.5 million parameters",
        published_scale="19 to 24 million parameters",
    ),
    Study(
        "jsb",
        "JSB Chorales, RHN of depth 6",
        "loss",
        "validation loss (nats per frame)",
        "{:.3f}",
        (CHORALES,),
        (70, 140, 280, 420, 560, 700, 1_400),
    ),
)

PLOTS = (
    Plot("Figure 1", "a drawing of stacked and of deep transition networks", "no measurement"),
    Plot("Figure 2", "a sketch of Gershgorin discs", "no measurement; `inspect_rhn discs` draws those of a trained network"),
    Plot("Figure 3", "a drawing of a recurrent highway layer", "no measurement"),
    Plot("Figure 4", "loss of a hyperparameter search (a swarm plot, not read), by architecture and depth", FIGURE_4),
    Plot("Figure 5a", "test perplexity by depth", FIGURE_5A),
    Plot("Figure 5b", "gates by layer and step on JSB Chorales", FIGURE_5B),
    Plot("supplement", "lesions: training loss with one layer's gates closed", LESIONS),
)

PAPER = Paper(
    name="recurrent_highway",
    title="Recurrent highway networks",
    citation="Zilly, Srivastava, Koutník and Schmidhuber, *Recurrent Highway Networks*, ICML 2017",
    rows=ROWS,
    relations=RELATIONS,
    studies=STUDIES,
    plots=PLOTS,
    telling="depth_word_lm_equal.png",
    caption="Test perplexity on words of the Penn Treebank by depth, of RHNs with tied embeddings: ours (1.5 million "
    "parameters) and published ones (19 to 24 million)",
    takeaways=takeaways,
    remarks=remarks,
    central={
        "depth helps: 10 better than 1, tied": "RHNs of depth 10 are better than those of depth 1 on words",
        "depth does not harm the optimization of RHNs": "Depth does not harm the optimization of RHNs",
    },
)
