"""Claims of Ahuja and Morency (AAAI 2018) on lattice recurrent units: Table 1 and Figures 3 to 7."""

from experiments.lattice import command as lattice
from experiments.lattice.models import NAMES
from experiments.report.claims import EPOCHS, Network, Quantity, Row, StudyModel
from experiments.report.lattice_studies import STARTS
from experiments.report.matching import recorded
from experiments.report.paper import Paper, Plot
from experiments.report.papers.lattice_table import (
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
    STUDIES,
    TABLE_1,
    TEXTS,
    Ordering,
    claimed,
    holds,
    holds_on,
)
from experiments.report.papers.lattice_takeaways import remarks, takeaways
from experiments.report.quantities import from_test
from experiments.report.records import Record
from experiments.report.relations import Relation, Versus
from experiments.report.studies import CONCENTRATION, LOSS, ONE_EPOCH, TIME, Gradients, OfStudy
from experiments.report.verdicts import Criterion, at_most, near

PTB_DATA = "--data.source ptb_joined --data.text-share 10 --data.dir DIR"
BOOK_DATA = "--data.file BOOK.txt --data.text-share 18"
BOTH = "--initialization lru glorot"
COMMANDS = {
    STUDIES["PTB"]: f"convergence {PTB_DATA} {BOTH}",
    STUDIES["WP"]: f"convergence {BOOK_DATA} {BOTH}",
    EFFICIENCY["PTB"]: f"efficiency {PTB_DATA} --test moving",
    **{EFFICIENCY[text]: f"efficiency --data.source {text} --data.dir DIR --test moving" for text in ("text8", "enwik8")},
    GRADIENTS: f"gradients {PTB_DATA} --seeds 3",
}
"""File of a study, without `.json` -> the arguments of `experiments.lattice` that make it, as `<name of the study>.json`."""

_KEYS = {title: name for name, title in NAMES.items()}


def _network(name: str, text: str, budget: str) -> Network:
    preset = lattice.row_name(_KEYS[name], BUDGETS[budget], PRESET_TEXTS[text])
    book = " --data.file BOOK.txt" if text == "WP" else ""
    return Network(f"{name} {budget}", lattice.EXPERIMENT, f"--preset {preset}{book}")


NETWORKS = {(name, text, budget): _network(name, text, budget) for budget in TABLE_1 for name in TABLE_1[budget] for text in TEXTS}


def _models(study: str, name: str, share: float = 100) -> tuple[StudyModel, ...]:
    """Return a model of a study from each start, the one of the published runs first."""
    return tuple(StudyModel(study, _KEYS[name], share, start) for start in STARTS)


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
    smaller = _models(STUDIES[text], name) if text in STUDIES and budget == "10M" else ()
    return Row(f"Table 1, {text}, {budget} parameters", name, quantities, NETWORKS[name, text, budget], smaller=smaller)


def _share_row(text: str, name: str, share: int, published: float) -> Row:
    quantity = Quantity("test loss", lambda run: None, "{:.3f}", f"{published:.3f}", at_most(published + READING, 3), field="loss")
    smaller = _models(EFFICIENCY[text], name, share)
    place = "the figure in the authors' repository" if text == "enwik8" else "the figure"
    where = f"Figure 5, {text} (read off {place})"
    return Row(where, name, (quantity,), smaller=smaller, setting=f"{share} %")


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
    published = Versus(NETWORKS[better, text, budget], NETWORKS[worse, text, budget])
    studied = _contests(STUDIES[text], better, worse) if text in STUDIES and budget == "10M" else ()
    of = text if budget == "10M" else f"{text}, {budget}"
    return Relation(f"Table 1, {of}", f"{better} < {worse}: {what} ({of})", contest, (published, *studied))


def _efficient(text: str, share: int, worse: str) -> Relation:
    versions = _contests(EFFICIENCY[text], "LRU", worse, (share, share))
    return Relation(f"Figure 5, {text}", f"LRU < {worse}: lower test loss with {share} % of the data ({text})", LOSS, versions)


def _ahead(model: str) -> Relation:
    versions = _contests(EFFICIENCY["PTB"], "LRU", model, (40, 60))
    return Relation("Figure 5, PTB", f"an LRU on 40 % of the data is better than a {model} on 60 % (PTB)", LOSS, versions)


def _early(text: str, model: str) -> Relation:
    where, sentence = f"Figure 3, {text}", f"LRU < {model}: lower test loss after one epoch ({text})"
    published = Versus(NETWORKS["LRU", text, "10M"], NETWORKS[model, text, "10M"])
    studied = _contests(STUDIES[text], "LRU", model) if text in STUDIES else ()
    return Relation(where, sentence, ONE_EPOCH, (published, *studied))


def _spread(start: str) -> Relation:
    sentence = f"gradients of ten layers are more even in an LRU than in a GRU ({STARTS[start]})"
    return Relation("Figure 7", sentence, CONCENTRATION, (Gradients(GRADIENTS, "LRU", "GRU", COMMANDS[GRADIENTS], start),))


RELATIONS = (
    *(_relation(claim) for claim in claimed() if holds(claim)),
    *(_early(text, name) for text in TEXTS for name in ("LSTM", "GRU", "RHN", "Grid-LSTM")),
    *(
        _efficient(text, share, worse)
        for text in BEST_OF_SHARES
        for worse in BEST_OF_SHARES[text]
        for share in PARTS
        if holds_on(text, share, worse)
    ),
    *(_ahead(name) for name in ("GRU", "LSTM", "Grid-LSTM", "RHN")),
    Relation("Figure 6", "epochs of LRUs vary less than those of LSTMs", None, note="needs every run of Table 1"),
    *(_spread(start) for start in STARTS),
)

PLOTS = (
    *(Plot(f"Figure 3 ({text})", "test loss by epoch: LSTM, GRU, RHN, Grid-LSTM, LRU", f"Figure 3, {text}") for text in TEXTS),
    *(Plot(f"Figure 4 ({text})", "test loss by epoch: GRU, PS-LRU, RG-LRU, LRU", f"Table 1, {text}") for text in TEXTS),
    Plot("Figure 5 (PTB)", "test loss by share of the data", "Figure 5, PTB"),
    Plot("Figure 5 (text8)", "test loss by share of the data", "Figure 5, text8"),
    Plot("Figure 5 (enwik8, in the authors' repository)", "test loss by share of the data", "Figure 5, enwik8"),
    Plot("Figure 6", "box plot of epochs until the best", "Table 1", "fewer epochs"),
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
    telling="lattice_convergence_ptb.png",
    caption="Epochs until the lowest validation loss on the Penn Treebank, at a small scale; a point at the cap is a lower bound",
    takeaways=takeaways,
    remarks=remarks,
)
