"""Claims of Ahuja and Morency (AAAI 2018) on lattice recurrent units: Table 1 and Figures 3 to 7."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from experiments.lattice import command as lattice
from experiments.lattice.models import NAMES
from experiments.report.claims.criteria import Criterion, at_most, near
from experiments.report.claims.matching import recorded
from experiments.report.claims.paper import Paper, Plot
from experiments.report.claims.quantities import from_test
from experiments.report.claims.relations import Measure, Relation, Versus, Within
from experiments.report.claims.rows import EPOCHS, Network, Quantity, Row, StudyModel
from experiments.report.claims.studies import (
    CONCENTRATION,
    FALL,
    LOSS,
    MAGNITUDE,
    ONE_EPOCH,
    SPREAD,
    TIME,
    AmongModels,
    Gradients,
    OfStudy,
    Score,
    evenness,
    magnitude,
)
from experiments.report.kept.lattice_studies import STARTS
from experiments.report.kept.records import Record
from experiments.report.papers.lattice_remarks import remarks
from experiments.report.papers.lattice_table import (
    ALIKE,
    BEST_OF_SHARES,
    BUDGETS,
    DEVIATIONS,
    EFFICIENCY,
    FIGURE_5,
    FIGURE_6,
    GRADIENTS,
    MEAN_EPOCHS,
    PARTS,
    PRESET_TEXTS,
    READING,
    RISING,
    SHARES,
    STUDIES,
    TABLE_1,
    TEXTS,
    Ordering,
    above_others,
    claimed,
    decrease,
    early,
    falls,
    holds,
    holds_early,
    holds_on,
    of_lstm,
    of_spreads,
    rises,
    rises_in_figure,
    spread,
)
from experiments.report.papers.lattice_takeaways import takeaways

PTB = "--data.source ptb_joined --data.dir DIR"
SHORT = "--data.text-share 2 --batch-size 20 --learning-rate 0.003"
BOTH = "--initialization lru glorot"
COMMANDS = {
    STUDIES["PTB"][0]: f"convergence {PTB} --data.text-share 10 --parameters 1000000",
    STUDIES["PTB"][1]: f"convergence {PTB} {SHORT} {BOTH}",
    STUDIES["WP"][0]: f"convergence --data.file BOOK.txt {SHORT.replace('share 2', 'share 4')} {BOTH}",
    EFFICIENCY["PTB"]: f"efficiency {PTB} {SHORT}",
    **{EFFICIENCY[text]: f"efficiency --data.source {text} --data.dir DIR --test moving" for text in ("text8", "enwik8")},
    GRADIENTS: f"gradients {PTB} --data.text-share 2 --batch-size 20 --epochs 10 --seeds 3",
}
"""File of a study, without `.json` -> the arguments of `experiments.lattice` that make it, as `<name of the study>.json`."""

GUESSED = "numbers of layers and widths of this project, as the paper prints none"
"""What separates a network of the published number of parameters from that of the paper."""

_KEYS = {title: name for name, title in NAMES.items()}


def _network(name: str, text: str, budget: str) -> Network:
    preset = lattice.row_name(_KEYS[name], BUDGETS[budget], PRESET_TEXTS[text])
    book = " --data.file BOOK.txt" if text == "WP" else ""
    return Network(f"{name} {budget}", lattice.EXPERIMENT, f"--preset {preset}{book}")


NETWORKS = {(name, text, budget): _network(name, text, budget) for budget in TABLE_1 for name in TABLE_1[budget] for text in TEXTS}


def _models(study: str, name: str, share: float = 100) -> tuple[StudyModel, ...]:
    """Return a model of a study from each start, the one of the published runs first."""
    return tuple(StudyModel(study, _KEYS[name], share, start, COMMANDS.get(study, "")) for start in STARTS)


def _in_studies(text: str, name: str) -> tuple[StudyModel, ...]:
    """Return a model of every study that stands in for a column of Table 1."""
    return tuple(model for study in STUDIES.get(text, ()) for model in _models(study, name))


def _contests_in_studies(text: str, better: str, worse: str) -> tuple[OfStudy, ...]:
    """Return the comparison of two models in every such study."""
    return tuple(contest for study in STUDIES.get(text, ()) for contest in _contests(study, better, worse))


def _contests(study: str, better: str, worse: str, shares: tuple[float, float] = (100, 100)) -> tuple[OfStudy, ...]:
    """Return the comparison of two models from each start."""
    pairs = zip(_models(study, better, shares[0]), _models(study, worse, shares[1]), strict=True)
    return tuple(OfStudy(one, other, COMMANDS[study]) for one, other in pairs)


def _epochs(run: Record) -> float | None:
    return run.best_update / recorded(run)["train.evaluate_every"]


def _pace(model: str, epochs: float) -> Criterion:
    """Return which numbers of epochs agree: for the LRU family, as few as published; for the others, said to be slow, within a quarter."""
    return at_most(epochs, 0) if "LRU" in model else near(epochs, epochs / 4)


def _row(name: str, text: str, budget: str) -> Row:
    epochs, loss = TABLE_1[budget][name][2 * TEXTS.index(text) :][:2]
    losses = from_test("test loss", "loss", loss, 3)
    quantities = (
        Quantity(losses.name, losses.read, losses.form, losses.published, losses.criterion, best=True, field="loss"),
        Quantity("epochs until the best", _epochs, "{:.1f}", str(epochs), _pace(name, epochs), best=True, field=EPOCHS),
    )
    stand_ins = _in_studies(text, name) if budget == "10M" else ()
    return Row(
        f"Table 1, {text}, {budget} parameters", name, quantities, NETWORKS[name, text, budget], stand_ins=stand_ins, unprinted=GUESSED
    )


def _share_row(text: str, name: str, share: int, published: float) -> Row:
    quantity = Quantity("test loss", lambda run: None, "{:.3f}", f"{published:.3f}", at_most(published + READING, 3), field="loss")
    stand_ins = _models(EFFICIENCY[text], name, share)
    place = "the figure in the authors' repository" if text == "enwik8" else "the figure"
    where = f"Figure 5, {text} (read off {place})"
    return Row(where, name, (quantity,), stand_ins=stand_ins, setting=f"{share} %")


def _box_row(name: str, median: float) -> Row:
    quantity = Quantity("median epochs", lambda run: None, "{:.1f}", f"{median:g}", _pace(name, median))
    return Row("Figure 6 (read off the figure)", name, (quantity,), note="needs every run of Table 1 and Figure 5")


def _said_row(model: str, name: str, epochs: int) -> Row:
    quantity = Quantity(name, lambda run: None, "{:.1f}", f"about {epochs}", _pace(model, epochs))
    return Row("Section 5, convergence (all runs)", model, (quantity,), note="needs every run of Table 1 and Figure 5")


def _relation(claim: Ordering) -> Relation:
    text, budget, better, worse, score = claim
    contest = LOSS if score == "loss" else TIME
    what = "lower test loss" if score == "loss" else "fewer epochs"
    published = Versus(NETWORKS[better, text, budget], NETWORKS[worse, text, budget], GUESSED)
    studied = _contests_in_studies(text, better, worse) if budget == "10M" else ()
    of = text if budget == "10M" else f"{text}, {budget}"
    return Relation(f"Table 1, {of}", f"{better} < {worse}: {what} ({of})", contest, (published, *studied))


def _efficient(text: str, share: int, worse: str) -> Relation:
    versions = _contests(EFFICIENCY[text], "LRU", worse, (share, share))
    return Relation(f"Figure 5, {text}", f"LRU < {worse}: lower test loss with {share} % of the data ({text})", LOSS, versions)


def _ahead(model: str) -> Relation:
    versions = _contests(EFFICIENCY["PTB"], "LRU", model, (40, 60))
    return Relation("Figure 5, PTB", f"an LRU on 40 % of the data is better than a {model} on 60 % (PTB)", LOSS, versions)


def _early(figure: str, text: str, better: str, worse: str) -> Relation:
    almost = f" ('{'almost always' if figure == 'Figure 3' else 'it seems'}' in the text)"
    where, sentence = f"{figure}, {text}", f"{better} < {worse}: lower test loss after one epoch ({text}){almost}"
    published = Versus(NETWORKS[better, text, "10M"], NETWORKS[worse, text, "10M"], GUESSED)
    return Relation(where, sentence, ONE_EPOCH, (published, *_contests_in_studies(text, better, worse)))


def _test_losses(run: Record) -> list[float]:
    return [line["loss"] for line in run.metrics if line["split"] == "test"]


def _first(losses: Sequence[float]) -> float | None:
    return losses[0] if losses else None


def _rising(text: str) -> Relation:
    published = Within(NETWORKS["RHN", text, "10M"], lambda run: rises(_test_losses(run)), lambda run: _first(_test_losses(run)))
    sentence = f"test losses of RHNs rise at first: above that of the first epoch in one of the next {RISING} ({text})"
    return Relation(f"Figure 3, {text}", sentence, Measure("test loss (nats per character)", "{:.3f}"), (published,))


def _among(text: str, sentence: str, contest: Score, models: Sequence[tuple[str, float]], measure: Callable[..., float]) -> Relation:
    """Return a claim about the losses of several models, each with its share of the data."""
    study = EFFICIENCY[text]
    of_starts = zip(*(_models(study, name, share) for name, share in models), strict=True)
    versions = tuple(AmongModels(of_start, measure, COMMANDS[study]) for of_start in of_starts)
    return Relation(f"Figure 5, {text}", sentence, contest, versions)


def _falling(text: str, model: str) -> Relation:
    shares = PARTS if text == "text8" else SHARES
    sentence = f"test losses of {model}s fall with more data, from {shares[0]} to {shares[-1]} % ({text})"
    return _among(text, sentence, FALL, [(model, share) for share in shares], decrease)


def _harder(model: str) -> Relation:
    sentence = f"test losses of {model}s are higher on all of text8 than on {PARTS[-1]} %, which has another test split"
    return _among("text8", sentence, SPREAD, [(model, 100), (model, PARTS[-1])], above_others)


def _worst(share: int) -> Relation:
    models = [("LSTM", share), *((name, share) for name in FIGURE_5["PTB"] if name != "LSTM")]
    return _among("PTB", f"the LSTM is the worst of all models with {share} % of the data (PTB)", SPREAD, models, above_others)


def _closer(losses: Sequence[float]) -> float:
    """Return by how much the models of the first half differ more than those of the second."""
    middle = len(losses) // 2
    return spread(losses[:middle]) - spread(losses[middle:])


def _wider(less: int, more: int) -> Relation:
    sentence = f"losses of all models differ more with {less} % of the data than with {more} % (PTB)"
    return _among("PTB", sentence, SPREAD, [(name, share) for share in (less, more) for name in FIGURE_5["PTB"]], _closer)


def _alike(share: int) -> Relation:
    sentence = f"all models are equally good with {share} % of the data: within {ALIKE} nats per character (text8)"
    return _among("text8", sentence, SPREAD, [(name, share) for name in FIGURE_5["text8"]], lambda losses: ALIKE - spread(losses))


OF_SHARES = (
    *(_falling(text, model) for text in ("PTB", "text8") for model in FIGURE_5[text] if falls(text, model)),
    *(_harder(model) for model in FIGURE_5["text8"]),
    _wider(SHARES[0], SHARES[-1]),
    *(_wider(*step) for step in pairwise(SHARES) if of_spreads(*step) > 0),
    *(_worst(share) for share in PARTS if of_lstm(share) > 0),
    *(_alike(share) for share in PARTS),
)
"""What section 5 says of growing shares of the data, beside the orderings of two models."""


def _gradients(start: str) -> tuple[Relation, ...]:
    """Return the two claims about gradients: that they are more even over layers, and that they are larger."""

    def claim(sentence: str, contest: Score, measure: Callable[..., float]) -> Relation:
        source = Gradients(GRADIENTS, "LRU", "GRU", COMMANDS[GRADIENTS], measure, start)
        return Relation("Figure 7", f"gradients of ten layers are {sentence} in an LRU than in a GRU ({STARTS[start]})", contest, (source,))

    return claim("more even", CONCENTRATION, evenness), claim("larger", MAGNITUDE, magnitude)


OF_EPOCHS = (
    "outliers of GRUs and Grid-LSTMs need up to 5 times the epochs of an LRU",
    "Grid-LSTMs, RHNs and GRUs need almost twice the mean epochs of the LRU family",
)
"""What section 5 and the caption of Figure 6 say of several models together."""

RELATIONS = (
    *(_relation(claim) for claim in claimed() if holds(claim)),
    *(_early("Figure 3", text, "LRU", name) for text in TEXTS for name in ("LSTM", "GRU", "RHN", "Grid-LSTM")),
    *(_rising(text) for text in TEXTS if rises_in_figure(text)),
    *(_early("Figure 4", *ordering) for ordering in early() if holds_early(*ordering)),
    *(
        _efficient(text, share, worse)
        for text in BEST_OF_SHARES
        for worse in BEST_OF_SHARES[text]
        for share in PARTS
        if holds_on(text, share, worse)
    ),
    *(_ahead(name) for name in FIGURE_5["PTB"] if name != "LRU"),
    *OF_SHARES,
    *(
        Relation("Figure 6", f"epochs of LRUs vary less than those of {name}s", None, note="needs every run of Table 1 and Figure 5")
        for name in ("LSTM", "GRU", "Grid-LSTM", "RHN")
    ),
    *(Relation("Figure 6", sentence, None, note="needs every run of Table 1 and Figure 5") for sentence in OF_EPOCHS),
    *(relation for start in STARTS for relation in _gradients(start)),
)

PLOTS = (
    Plot("Figure 1", "a drawing of the flows through a lattice network", "no measurement"),
    Plot("Figure 2", "a drawing of the LRU, the GRU and the Grid-LSTM", "no measurement"),
    *(Plot(f"Figure 3 ({text})", "test loss by epoch: LSTM, GRU, RHN, Grid-LSTM, LRU", f"Figure 3, {text}") for text in TEXTS),
    *(Plot(f"Figure 4 ({text})", "test loss by epoch: GRU, PS-LRU, RG-LRU, LRU", f"Figure 4, {text}") for text in TEXTS),
    Plot("Figure 5 (PTB)", "test loss by share of the data", "Figure 5, PTB"),
    Plot("Figure 5 (text8)", "test loss by share of the data", "Figure 5, text8"),
    Plot("Figure 5 (enwik8, in the authors' repository)", "test loss by share of the data", "Figure 5, enwik8"),
    Plot("Figure 6", "box plot of epochs until the best", "Figure 6"),
    Plot("Figure 7", "gradient norms by layer and epoch", "Figure 7"),
)

PAPER = Paper(
    name="lattice",
    title="Lattice recurrent units",
    citation=(
        "Ahuja and Morency, *Lattice Recurrent Unit: Improving Convergence and Statistical Efficiency for Sequence Modeling*, AAAI 2018. "
        "Its LRU is not the linear recurrent unit"
    ),
    rows=(
        *(_row(name, text, budget) for text in TEXTS for budget in TABLE_1 for name in TABLE_1[budget]),
        *(
            _share_row(text, name, share, losses[k])
            for text, of_text in FIGURE_5.items()
            for name, losses in of_text.items()
            for k, share in enumerate(PARTS)
        ),
        *(_box_row(name, median) for name, median in FIGURE_6.items()),
        *(_said_row(name, "mean epochs", mean) for name, mean in MEAN_EPOCHS.items()),
        *(_said_row(name, "standard deviation of epochs", deviation) for name, deviation in DEVIATIONS.items()),
    ),
    relations=RELATIONS,
    studies=(),
    plots=PLOTS,
    telling="lattice_convergence_ptb_1m.png",
    caption="Epochs until the lowest validation loss, 1 million parameters, a tenth of the Penn Treebank; at the cap: a lower bound",
    takeaways=takeaways,
    remarks=remarks,
    central={
        "LRU < GRU: lower test loss (PTB)": "LRUs are better than GRUs on characters (PTB)",
        "LRU < GRU: fewer epochs (PTB)": "LRUs need fewer epochs than GRUs (PTB)",
    },
)
