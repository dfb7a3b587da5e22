"""Claims of Ahuja and Morency (AAAI 2018) on lattice recurrent units: Table 1 and Figures 3 to 7."""

from experiments.lattice import command as lattice
from experiments.lattice.models import MODELS, NAMES, sized
from experiments.report.claims import EPOCHS, Network, Paper, Plot, Quantity, Relation, Row, StudyModel, Versus
from experiments.report.matching import recorded
from experiments.report.papers.lattice_takeaways import remarks, takeaways
from experiments.report.quantities import from_test
from experiments.report.records import Record
from experiments.report.studies import CONCENTRATION, LOSS, TIME, Gradients, OfStudy
from experiments.report.verdicts import at_most

TABLE_1 = {
    "10M": {
        "LSTM": (53, 0.972, 15, 1.158, 52, 1.075, 12, 1.013),
        "GRU": (9, 0.972, 11, 1.163, 37, 1.101, 17, 1.047),
        "Grid-LSTM": (10, 0.970, 43, 1.148, 59, 1.077, 15, 1.009),
        "RHN": (19, 0.986, 19, 1.225, 6, 1.206, 26, 1.121),
        "PS-LRU": (8, 0.971, 8, 1.148, 19, 1.090, 17, 1.019),
        "RG-LRU": (6, 0.971, 11, 1.143, 17, 1.074, 17, 1.014),
        "LRU": (8, 0.965, 8, 1.141, 14, 1.057, 17, 1.010),
    },
    "24M": {
        "LSTM": (8, 0.968, 7, 1.159, 11, 1.035, 12, 0.994),
        "GRU": (9, 0.980, 8, 1.164, 57, 1.121, 59, 1.089),
        "Grid-LSTM": (7, 0.971, 8, 1.171, 13, 1.034, 13, 0.986),
        "RHN": (18, 0.979, 21, 1.199, 34, 1.092, 18, 1.108),
        "PS-LRU": (5, 0.969, 5, 1.152, 25, 1.070, 32, 1.058),
        "RG-LRU": (4, 0.969, 5, 1.155, 23, 1.065, 19, 1.018),
        "LRU": (5, 0.967, 6, 1.150, 17, 1.041, 16, 1.010),
    },
}
"""Parameters -> model -> epochs and test loss (nats per character) on each text."""

TEXTS = ("PTB", "WP", "enwik8", "text8")
SYMBOLS = {"PTB": 51, "WP": 88, "enwik8": 205, "text8": 27}
EPOCH = {"PTB": 421, "WP": 230, "enwik8": 7_200, "text8": 7_200}
"""updates in which 250 streams are read once, 50 symbols at a time"""
BUDGETS = {"10M": 10_000_000, "24M": 24_000_000}
STUDIES = {"PTB": "lattice_convergence_ptb", "WP": "lattice_convergence_warpeace"}

PTB_DATA = "--data.source ptb_joined --data.text-share 10 --data.dir DIR"
BOOK_DATA = "--data.file BOOK.txt --data.text-share 18"
COMMANDS = {
    "lattice_convergence_ptb": f"convergence {PTB_DATA}",
    "lattice_convergence_warpeace": f"convergence {BOOK_DATA}",
    "lattice_efficiency_ptb": f"efficiency {PTB_DATA}",
    "lattice_gradients_ptb": f"gradients {PTB_DATA}",
}
"""File of a study, without `.json` -> the arguments of `experiments.lattice` that make it, as `<name of the study>.json`."""

_KEYS = {name: key for key, name in NAMES.items()}


def _network(name: str, text: str, budget: str) -> Network:
    model = sized(_KEYS[name], BUDGETS[budget], SYMBOLS[text])
    shape = f"--model.size {model.size} --model.embedding {model.size}"
    length = f"--train.updates {100 * EPOCH[text]} --train.evaluate-every {EPOCH[text]}"
    if text in ("enwik8", "text8"):
        cell = f"--model.cell {MODELS[_KEYS[name]]} --model.depth {model.depth} --model.layers {model.layers}"
        return Network(f"{name} {budget}", lattice.EXPERIMENT, f"--preset {text} {cell} {shape}")
    preset = "paper" if (name, budget) == ("LRU", "10M") else f"{_KEYS[name]}-{budget.lower()}"
    data = "--data.source ptb_joined" if text == "PTB" else "--data.file BOOK.txt"
    return Network(f"{name} {budget}", lattice.EXPERIMENT, f"--preset {preset} {data} {shape} {length}")


NETWORKS = {(name, text, budget): _network(name, text, budget) for budget in TABLE_1 for name in TABLE_1[budget] for text in TEXTS}


def _epochs(run: Record) -> float | None:
    return run.best_update / recorded(run)["train.evaluate_every"]


def _row(name: str, text: str, budget: str) -> Row:
    epochs, loss = TABLE_1[budget][name][2 * TEXTS.index(text) :][:2]
    losses = from_test("test loss", "loss", loss, 3)
    quantities = (
        Quantity(losses.name, losses.read, losses.form, losses.published, losses.criterion, best=True, field="loss"),
        Quantity("epochs until the best", _epochs, "{:.1f}", str(epochs), at_most(epochs, 0), best=True, field=EPOCHS),
    )
    smaller = (StudyModel(STUDIES[text], _KEYS[name]),) if text in STUDIES and budget == "10M" else ()
    return Row(f"Table 1, {text}, {budget} parameters", name, quantities, NETWORKS[name, text, budget], smaller=smaller)


# Figure 5, 10 M parameters, percent of the data -> test loss: read off the figure, +-0.003.
SHARES = (20, 40, 60, 80, 100)
FIGURE_5 = {
    "PTB": {
        "LSTM": (1.182, 1.035, 1.011, 0.995, 0.972),
        "GRU": (1.120, 1.003, 0.997, 0.981, 0.973),
        "Grid-LSTM": (1.162, 1.016, 1.002, 0.985, 0.970),
        "RHN": (1.154, 1.019, 1.013, 0.991, 0.986),
        "PS-LRU": (1.117, 1.005, 1.009, 0.984, 0.971),
        "RG-LRU": (1.119, 1.006, 1.002, 0.980, 0.972),
        "LRU": (1.111, 0.993, 0.991, 0.970, 0.965),
    },
    "text8": {
        "LSTM": (1.156, 1.096, 1.069, 0.996, 1.013),
        "GRU": (1.159, 1.095, 1.067, 1.003, 1.028),
        "Grid-LSTM": (1.159, 1.099, 1.066, 0.996, 1.009),
        "RHN": (1.182, 1.113, 1.094, 1.030, 1.098),
        "PS-LRU": (1.163, 1.099, 1.069, 1.001, 1.019),
        "RG-LRU": (1.163, 1.097, 1.062, 0.997, 1.015),
        "LRU": (1.157, 1.093, 1.062, 0.992, 1.010),
    },
}


def _share_row(text: str, name: str, share: int, published: float) -> Row:
    quantity = Quantity("test loss", lambda run: None, "{:.3f}", f"{published:.3f}", at_most(published, 3), field="loss")
    smaller = (StudyModel("lattice_efficiency_ptb", _KEYS[name], share),) if text == "PTB" else ()
    where = f"Figure 5, {text} (read off the figure)"
    return Row(where, name, (quantity,), smaller=smaller, setting=f"{share} %", note="a study of experiments.lattice")


# Figure 6: median epochs until the best validation loss, over all runs of the paper; read off the box plot.
FIGURE_6 = {"LSTM": 15, "GRU": 14, "Grid-LSTM": 13, "RHN": 21, "PS-LRU": 10, "RG-LRU": 10, "LRU": 8}


def _box_row(name: str, median: float) -> Row:
    quantity = Quantity("median epochs", lambda run: None, "{:.1f}", f"{median:g}", at_most(median, 0))
    return Row("Figure 6 (read off the figure)", name, (quantity,), note="needs every run of Table 1 and Figure 5")


ORDERINGS = (
    ("LRU", "GRU"),
    ("LRU", "LSTM"),
    ("LRU", "Grid-LSTM"),
    ("LRU", "RHN"),
    ("LRU", "RG-LRU"),
    ("RG-LRU", "PS-LRU"),
    ("PS-LRU", "GRU"),
)
FASTER = (("LRU", "LSTM"), ("LRU", "GRU"), ("LRU", "Grid-LSTM"), ("LRU", "RHN"))


def _relation(text: str, better: str, worse: str, score: str) -> Relation:
    contest = LOSS if score == "loss" else TIME
    what = "lower test loss" if score == "loss" else "fewer epochs"
    published = Versus(NETWORKS[better, text, "10M"], NETWORKS[worse, text, "10M"])
    versions: tuple[Versus | OfStudy, ...] = (published,)
    if text in STUDIES:
        study = STUDIES[text]
        versions = (published, OfStudy(StudyModel(study, _KEYS[better]), StudyModel(study, _KEYS[worse]), COMMANDS[study]))
    return Relation(f"Table 1, {text}", f"{better} < {worse}: {what} ({text})", contest, versions)


def _efficient(share: int) -> Relation:
    study = "lattice_efficiency_ptb"
    versions = (OfStudy(StudyModel(study, "lru", share), StudyModel(study, "gru", share), COMMANDS[study]),)
    return Relation("Figure 5, PTB", f"LRU < GRU: lower test loss with {share} % of the data (PTB)", LOSS, versions)


def _ahead(model: str) -> Relation:
    study = "lattice_efficiency_ptb"
    versions = (OfStudy(StudyModel(study, "lru", 40), StudyModel(study, _KEYS[model], 60), COMMANDS[study]),)
    return Relation("Figure 5, PTB", f"an LRU on 40 % of the data is better than a {model} on 60 % (PTB)", LOSS, versions)


RELATIONS = (
    *(_relation(text, better, worse, "loss") for text in TEXTS for better, worse in ORDERINGS),
    *(_relation(text, better, worse, "epochs") for text in TEXTS for better, worse in FASTER),
    *(_efficient(share) for share in SHARES),
    *(_ahead(name) for name in ("GRU", "LSTM", "Grid-LSTM", "RHN")),
    *(
        Relation(
            "Figure 5, text8", f"LRU <= {name}: no higher test loss at any share (text8)", LOSS, strict=False, note="text8 was not read"
        )
        for name in ("GRU", "LSTM", "Grid-LSTM")
    ),
    Relation("Figure 6", "epochs of LRUs vary less than those of LSTMs", None, note="needs every run of Table 1"),
    Relation(
        "Figure 7",
        "gradients reach the first of ten layers more evenly in an LRU than in a GRU",
        CONCENTRATION,
        (Gradients("lattice_gradients_ptb", "LRU", "GRU", COMMANDS["lattice_gradients_ptb"]),),
    ),
)

PLOTS = (
    *(
        Plot(f"Figure 3 ({text})", "test loss by epoch: LSTM, GRU, RHN, Grid-LSTM, LRU", "nothing yet: test losses by epoch are not stored")
        for text in TEXTS
    ),
    *(
        Plot(f"Figure 4 ({text})", "test loss by epoch: GRU, PS-LRU, RG-LRU, LRU", "nothing yet: test losses by epoch are not stored")
        for text in TEXTS
    ),
    Plot("Figure 5 (PTB)", "test loss by share of the data", "Figure 5, PTB", True),
    Plot("Figure 5 (text8)", "test loss by share of the data", "Figure 5, text8"),
    Plot("Figure 6", "box plot of epochs until the best", "Table 1, epochs; drawn for both small texts", True),
    Plot("Figure 7", "gradient norms by layer and epoch", "the last relation", True),
)

PAPER = Paper(
    name="lattice",
    title="Lattice recurrent units",
    citation=(
        "Ahuja and Morency, *Lattice Recurrent Unit: Improving Convergence and Statistical Efficiency for Sequence Modeling*, AAAI 2018. "
        "Its LRU is not the linear recurrent unit."
    ),
    rows=(
        *(_row(name, text, budget) for text in TEXTS for budget in TABLE_1 for name in TABLE_1[budget]),
        *(
            _share_row(text, name, share, losses[k])
            for text, of_text in FIGURE_5.items()
            for name, losses in of_text.items()
            for k, share in enumerate(SHARES)
        ),
        *(_box_row(name, median) for name, median in FIGURE_6.items()),
    ),
    relations=RELATIONS,
    studies=(),
    plots=PLOTS,
    telling="lattice_convergence_ptb.png",
    caption="Epochs until the lowest validation loss on the Penn Treebank, at a small scale; a bar at the cap is a lower bound",
    takeaways=takeaways,
    remarks=remarks,
)
