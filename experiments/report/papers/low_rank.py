"""Claims of Miceli Barone on low-rank passthrough networks: DeepLo 2018 and arXiv 1603.03116, which share most of their experiments.

Sections and tables are numbered as in DeepLo 2018; appendices are those of arXiv 1603.03116. Points of learning curves are those of the
logs in github.com/Avmb/lowrank-gru.
"""

from dataclasses import replace

from experiments import adding, char_lm, highway_mnist, permuted_mnist
from experiments.report.claims.contests import Alike, Final, Last
from experiments.report.claims.criteria import fails
from experiments.report.claims.paper import Paper, Plot, Study
from experiments.report.claims.quantities import accuracy, error_after, exceeds, from_test, logged_accuracy, no_more_than, recoveries
from experiments.report.claims.relations import Relation, Versus
from experiments.report.claims.rows import QUOTED, Network, Quantity, Row
from experiments.report.papers import low_rank_copying as copying
from experiments.report.papers.low_rank_copying import COPYING, FIXED, LAG, LENGTH
from experiments.report.papers.low_rank_takeaways import REPEATED, remarks, takeaways

ADD, IMAGES, TEXT, HIGHWAY = (module.EXPERIMENT for module in (adding, permuted_mnist, char_lm, highway_mnist))


# Section 3.2: adding

ADDING = "Section 3.2, adding"
ADD_LR = Network("LR-GRU 128/24", ADD, "--preset paper --model.parametrization low_rank")
ADD_LRD = Network("LRD-GRU 128/24", ADD, "--preset paper")
ADD_RECOVERY = Network("LRD-GRU 128/24, recovery", ADD, "--preset paper-recovery")
_ADD_ERROR = error_after(14_500, 0.003, 3)
IN_HALVES, ANYWHERE = "adding, test marks as in the text", "adding, test marks as in the code"
ADD_ANYWHERE = {
    name: Network(f"{name}, test marks anywhere", ADD, f"{network.flags} --data.test-markers anywhere")
    for name, network in ((ADD_LR.name, ADD_LR), (ADD_LRD.name, ADD_LRD))
}
"""Networks that are trained on one mark in each half and tested on marks anywhere. The published logs are of such sequences."""
_ADD_ROWS = (
    *(Row(ADDING, network.name, (_ADD_ERROR,), network, setting=IN_HALVES) for network in (ADD_LR, ADD_LRD)),
    *(Row(ADDING, name, (_ADD_ERROR,), network, setting=ANYWHERE) for name, network in ADD_ANYWHERE.items()),
    Row(ADDING, ADD_RECOVERY.name, (recoveries(),), ADD_RECOVERY),  # the paper has no recovery on this task
)
ADD_AS_PRINTED = Last("test MSE", "loss", "{:.3f}", decimals=3)
"""At the printed decimals, where the paper has equal errors."""
_ADD_RELATIONS = (
    Relation(ADDING, "LRD >= LR (adding)", ADD_AS_PRINTED, (Versus(ADD_LRD, ADD_LR),), strict=False),
    Relation(ADDING, "better than the uRNN article's result in time and accuracy", None, note="the paper does not print that result"),
)

# Section 3.3: permuted MNIST

TABLE_1 = "Table 1, permuted sequential MNIST"
TABLE_1_CODE = "Table 1 as in the author's code"
DENSE, LOW = "--model.parametrization dense", "--model.parametrization low_rank"


def _image(name: str, flags: str = "") -> Network:
    return Network(name, IMAGES, f"--preset paper {flags}".strip())


IMAGE_NETWORKS = {
    "GRU 128": _image("GRU 128", DENSE),
    "LR-GRU 128/24": _image("LR-GRU 128/24", LOW),
    "LR-GRU 512/4": _image("LR-GRU 512/4", f"{LOW} --model.size 512 --model.rank 4"),
    "LRD-GRU 64/24": _image("LRD-GRU 64/24", "--model.size 64"),
    "LRD-GRU 128/24": _image("LRD-GRU 128/24"),
    "LRD-GRU 256/24": _image("LRD-GRU 256/24", "--model.size 256"),
}
START = "permuted_mnist_2016.npz"
ORIGINAL = "--preset original"
AS_IN_CODE = (
    ("LR-GRU 128/24", _image("LR-GRU 128/24, clipping as in the code", f"{LOW} --optim.recipe permuted_mnist_original")),
    ("LR-GRU 128/24", Network("LR-GRU 128/24, clipping and orders as in the code", IMAGES, ORIGINAL)),
    (
        "LRD-GRU 128/24",
        Network("LRD-GRU 128/24, clipping and orders as in the code", IMAGES, f"{ORIGINAL} --model.parametrization low_rank_plus_diagonal"),
    ),
    (
        "LR-GRU 128/24",
        Network(
            REPEATED,
            IMAGES,
            f"{ORIGINAL} --train.start {START}",
            ("experiments.replay", "permuted_mnist", "--start", START),
        ),
    ),
)
"""Published name, and network. The text clips every component of the gradient, the author's code all but those of seven tensors. The code
has one order of images and one of pixels. The table is from that code. The last run starts from the parameters of the published one."""
PUBLISHED_IMAGES = {
    "GRU 128": (93.0, 92.8),
    "LR-GRU 128/24": (93.4, 91.8),
    "LR-GRU 512/4": (92.5, 91.3),
    "LRD-GRU 64/24": (93.1, 91.9),
    "LRD-GRU 128/24": (94.1, 93.5),
    "LRD-GRU 256/24": (95.1, 94.7),
}
URNN_TEST, SKIP_TEST, STATE_OF_THE_ART = 91.4, 94.0, 95.2
NEAR = 0.5
"""points below the state of the art up to which an accuracy counts as near it; the paper names none"""


NOT_ABOVE = "test accuracy, not above the uRNN's"


def _as_an_ordering(quantity: Quantity) -> Quantity:
    """Return a quantity that is compared with the figure of other authors."""
    return replace(quantity, ordering=True, published=f"at least {quantity.published}")


def _near(best: float, decimals: int = 1, word: str = "near") -> Quantity:
    """Expect a test accuracy at most half a point below the state of the art, which the texts call near or relatively close."""
    name = f"test accuracy, {word} the state of the art: at most half a point below {best}%"
    return _as_an_ordering(accuracy(name, best - NEAR, decimals))


def _accuracies(name: str) -> list[Quantity]:
    """Return the two accuracies that the table prints."""
    valid, test = PUBLISHED_IMAGES[name]
    return [accuracy("highest validation accuracy", valid, split="valid"), accuracy("test accuracy", test)]


def _image_row(name: str) -> Row:
    test = PUBLISHED_IMAGES[name][1]
    quantities = _accuracies(name)
    against = exceeds("test accuracy, above the uRNN's", URNN_TEST) if test > URNN_TEST else no_more_than(NOT_ABOVE, URNN_TEST)
    quantities.append(against)
    if test > SKIP_TEST:
        on_par = accuracy("test accuracy, on par with time-skip connections: no lower at the printed decimals", SKIP_TEST)
        quantities += [_as_an_ordering(on_par), _near(STATE_OF_THE_ART)]
    return Row(TABLE_1, name, tuple(quantities), IMAGE_NETWORKS[name])


CLASSIFIES = Final("test accuracy", "accuracy", "{:.1%}", higher=True)

FINISHED = replace(CLASSIFIES, cut_short=False)
"""The same, but only for finished networks: the published validation accuracies of this pair have the opposite order."""


def _ordered(sentence: str, better: str, worse: str, strict: bool = True, contest: Final = CLASSIFIES) -> Relation:
    return Relation(TABLE_1, sentence, contest, (Versus(IMAGE_NETWORKS[better], IMAGE_NETWORKS[worse]),), strict)


_IMAGE_RELATIONS = (
    _ordered("LRD-GRU > full GRU of the same state size", "LRD-GRU 128/24", "GRU 128"),
    _ordered("full GRU > LR-GRU of the same state size", "GRU 128", "LR-GRU 128/24", contest=FINISHED),
    _ordered("LRD >= LR (128/24)", "LRD-GRU 128/24", "LR-GRU 128/24", strict=False),
    _ordered("a larger state is better at one rank: LRD-GRU 256/24 > 128/24 (table only)", "LRD-GRU 256/24", "LRD-GRU 128/24"),
    _ordered("a larger state is better at one rank: LRD-GRU 128/24 > 64/24 (table only)", "LRD-GRU 128/24", "LRD-GRU 64/24"),
    _ordered("the extreme bottleneck is worse: LR-GRU 128/24 > 512/4", "LR-GRU 128/24", "LR-GRU 512/4"),
    Relation(
        TABLE_1, "converges more slowly than the uRNN (hundred thousands of updates)", None, note="there is no uRNN preset for this task"
    ),
)
_IMAGE_ROWS = (
    *(_image_row(name) for name in PUBLISHED_IMAGES),
    *(Row(TABLE_1_CODE, network.name, tuple(_accuracies(name)), network) for name, network in AS_IN_CODE),
    *(
        Row(TABLE_1, name, (Quantity("test accuracy", lambda run: None, "{}", f"{figure:.1f}%"),), note=QUOTED)
        for name, figure in (
            ("uRNN (Arjovsky et al.)", URNN_TEST),
            ("time-skip connections (Zhang et al.)", SKIP_TEST),
            ("batch-normalized LSTM (Cooijmans)", STATE_OF_THE_ART),
        )
    ),
)

# Section 3.4: characters of the Penn Treebank

TABLE_2 = "Table 2, characters of the Penn Treebank"
SECTION_34 = "Section 3.4, characters of the Penn Treebank"
PUBLISHED_TEXTS = {
    "gru-1000": ("GRU 1000", 2.96),
    "gru-1000-dropout": ("GRU 1000, dropout", 2.92),
    "gru-3298-dropout": ("GRU 3298, dropout", 2.77),
    "lstm-1000-dropout": ("LSTM 1000, dropout", 2.92),
    "paper": ("LRD-GRU 1000/64", 2.92),
    "lrd-3298-128": ("LRD-GRU 3298/128", 2.95),
    "lrd-3298-128-dropout": ("LRD-GRU 3298/128, dropout", 2.86),
    "lrd-5459-64-dropout": ("LRD-GRU 5459/64, dropout", 2.82),
    "lrd-5459-64-tied-dropout": ("LRD-GRU 5459/64, tied, dropout", 2.81),
    "lrd-1000-64-tied": ("LRD-GRU 1000/64, tied", 2.90),
    "lrd-4480-128-tied-dropout": ("LRD-GRU 4480/128, tied, dropout", 2.86),
    "lrd-6985-64-tied-dropout": ("LRD-GRU 6985/64, tied, dropout", 2.76),
    "lr-6985-64-tied-dropout": ("LR-GRU 6985/64, tied, dropout", 9.88),
    "lrd-lstm-1740-300-dropout": ("LRD-LSTM 1740/300, dropout", 2.86),
}
TEXT_NETWORKS = {preset: Network(name, TEXT, f"--preset {preset}") for preset, (name, _) in PUBLISHED_TEXTS.items()}
FAILS = fails(2.96, 0.5)
"""The LR-GRU fails to approach the baselines, of which the worst one has 2.96: it is above that by more than half."""


def _text_row(preset: str) -> Row:
    name, published = PUBLISHED_TEXTS[preset]
    of_stream = "lstm" in preset
    score = "perplexity" if of_stream else "sentence_perplexity"
    title = "test perplexity" if of_stream else "test perplexity (mean over sentences)"
    criterion = FAILS if preset.startswith("lr-") else None
    return Row(TABLE_2, name, (from_test(title, score, published, 2, criterion),), TEXT_NETWORKS[preset])


SENTENCES = Final("perplexity", "sentence_perplexity", "{:.3f}")
AS_PRINTED = replace(SENTENCES, form="{:.2f}", decimals=2)
"""The same at the printed decimals, where the paper has equal ones."""
STREAM = Final("perplexity", "perplexity", "{:.3f}")
EQUAL = Alike("test perplexity, 0.025 minus the difference", "sentence_perplexity", "{:.3f}", tolerance=0.025)
"""What the text calls equal differs by 0.02 at most in the table."""


def _text(sentence: str, better: str, worse: str, strict: bool = True, contest: Final = SENTENCES) -> Relation:
    return Relation(TABLE_2, sentence, contest, (Versus(TEXT_NETWORKS[better], TEXT_NETWORKS[worse]),), strict)


WITH_FEWER_PARAMETERS = {
    "lrd-1000-64-tied": ("gru-1000", "1000/64 tied"),
    "lrd-3298-128": ("gru-1000", "3298/128"),
    "lrd-3298-128-dropout": ("gru-1000-dropout", "3298/128, dropout"),
    "lrd-5459-64-dropout": ("gru-1000-dropout", "5459/64, dropout"),
    "lrd-5459-64-tied-dropout": ("gru-1000-dropout", "5459/64 tied, dropout"),
    "lrd-4480-128-tied-dropout": ("gru-1000-dropout", "4480/128 tied, dropout"),
    "lrd-6985-64-tied-dropout": ("gru-1000-dropout", "6985/64 tied, dropout"),
}
"""LRD-GRUs of Table 2 with fewer parameters than the full GRU 1000: the full GRU that is trained like them, and their sizes in words.

The text says that LRD-GRUs reduce the perplexity, and the conclusion that they improve on the baselines.
"""

_TEXT_RELATIONS = (
    _text("the LRD-GRU is better than the full GRU of its state size (1000)", "paper", "gru-1000"),
    *(
        _text(f"the LRD-GRU is better than the full GRU 1000, which has more parameters ({sizes})", preset, baseline)
        for preset, (baseline, sizes) in WITH_FEWER_PARAMETERS.items()
    ),
    _text(
        "with dropout the full GRU is better than the LRD-GRU of its state size (3298; table only)",
        "gru-3298-dropout",
        "lrd-3298-128-dropout",
    ),
    _text("tied and untied are equally good at the same state size (1000/64)", "lrd-1000-64-tied", "paper", contest=EQUAL),
    _text(
        "tied and untied are equally good at the same state size (5459/64)",
        "lrd-5459-64-tied-dropout",
        "lrd-5459-64-dropout",
        contest=EQUAL,
    ),
    _text("tied is better at the same number of parameters (6985/64 tied, 5459/64)", "lrd-6985-64-tied-dropout", "lrd-5459-64-dropout"),
    _text(
        "tied is no worse at the same number of parameters (4480/128 tied, 3298/128; 'better' in the text, equal in the table)",
        "lrd-4480-128-tied-dropout",
        "lrd-3298-128-dropout",
        False,
        AS_PRINTED,
    ),
    _text(
        "LRD >= LR (6985/64): without the diagonal it fails to approach the baselines",
        "lrd-6985-64-tied-dropout",
        "lr-6985-64-tied-dropout",
        False,
    ),
    _text("the baseline is better than the LR-GRU with an extreme bottleneck", "gru-1000", "lr-6985-64-tied-dropout"),
    _text(
        "the best LRD-GRU is better than the full GRU 3298 with 13 times its parameters (table only)",
        "lrd-6985-64-tied-dropout",
        "gru-3298-dropout",
    ),
    *(
        _text(f"the best LRD-GRU is 6985/64 tied with dropout: better than {sizes} with dropout", "lrd-6985-64-tied-dropout", preset)
        for preset, sizes in (("lrd-5459-64-tied-dropout", "5459/64 tied"), ("lrd-4480-128-tied-dropout", "4480/128 tied"))
    ),
    _text(
        "a lower rank is better at about the same number of parameters (5459/64, 3298/128; table only)",
        "lrd-5459-64-dropout",
        "lrd-3298-128-dropout",
    ),
    _text("without dropout a narrower state of half the rank is better (1000/64, 3298/128; table only)", "paper", "lrd-3298-128"),
    _text("dropout helps the full GRU (table only)", "gru-1000-dropout", "gru-1000"),
    _text("dropout helps the LRD-GRU 3298/128 (table only)", "lrd-3298-128-dropout", "lrd-3298-128"),
    Relation(
        SECTION_34, "published models of other authors, which 'may not be directly comparable', have lower perplexities", None, note=QUOTED
    ),
    _text("the LRD-LSTM is better than the LSTM", "lrd-lstm-1740-300-dropout", "lstm-1000-dropout", contest=STREAM),
    Relation(
        SECTION_34,
        "the LSTM is about as good as the GRU of its state size",
        None,
        note="the two read other symbols, so that no pair is comparable",
    ),
    Relation("Appendix A.3", "peephole connections make no difference to the LSTM", None, note="no preset: the paper prints no number"),
    Relation(SECTION_34, "SGD with momentum is worse than Adam for the LSTM", None, note="no preset: the paper prints no settings"),
)

# Appendix A.1: Highway networks

APPENDIX = "Appendix A.1, Highway networks on MNIST"
HIGHWAY_LR = Network("LR-Highway 5x1024/256", HIGHWAY, "--preset paper")
HIGHWAY_LRD = Network("LRD-Highway 5x1024/256", HIGHWAY, "--preset lrd")


TANG = 99.13
"""test accuracy of the state of the art, in percent"""


def _highway(network: Network, test: float, valid_error: float, *others: Quantity) -> Row:
    quantities = accuracy("test accuracy", test, 2), logged_accuracy(100 - valid_error, 2), *others
    return Row(APPENDIX, network.name, quantities, network)


_HIGHWAY_ROWS = (
    _highway(HIGHWAY_LR, 98.83, 1.26, _near(TANG, 2, "relatively close to")),
    _highway(HIGHWAY_LRD, 98.64, 1.27),
    Row(
        APPENDIX,
        "Tang (2013), unsupervised dimensionality reduction",
        (Quantity("test accuracy", lambda run: None, "{}", f"{TANG}%"),),
        note=QUOTED,
    ),
)
_HIGHWAY_RELATIONS = (
    Relation(
        APPENDIX,
        "the diagonal does not seem to help on MNIST: LR-Highway >= LRD-Highway",
        Final("test accuracy", "accuracy", "{:.2%}", higher=True),
        (Versus(HIGHWAY_LR, HIGHWAY_LRD),),
        strict=False,
    ),
    Relation(APPENDIX, "the LR-Highway network has perfect training accuracy", None, note="runs log it with dropout only"),
)

PROVED = "a theorem, see [what is proved](../differences.md#unitary-networks-universality-weight-normalization)"
_GENERAL = (
    Relation("Section 2.2", "low-rank passthrough architectures are universal", None, note=PROVED),
    Relation(
        "Abstract of the later text",
        "compact parametrizations are less susceptible to overfitting",
        None,
        note="no experiment of the paper measures it",
    ),
    Relation(
        "Abstracts of both texts",
        "compact parametrizations reduce 'data complexity and memory requirements' and preserve the memory capacity",
        None,
        note="no experiment of the paper measures the data that are needed",
    ),
    Relation(
        "Section 3.0.4 of arXiv 1603.03116",
        "no significant gain on words and in machine translation",
        None,
        note="exploratory, without settings or numbers",
    ),
)

STUDIES = (
    *copying.STUDIES,
    Study(
        "adding",
        "Adding, T = 750",
        "loss",
        "test MSE",
        "{:.4f}",
        (ADD_LR, ADD_LRD, *ADD_ANYWHERE.values()),
        (2_500, 3_000, 4_500, 6_000, 7_500, 10_000, 12_500, 14_500),
        ADD_ANYWHERE[ADD_LR.name].name,
        {3_000: 0.0381, 4_500: 0.0215, 6_000: 0.0130, 7_500: 0.0085, 10_000: 0.0056, 12_500: 0.0036, 14_500: 0.0027},
        {"published": 0.003},
        ("constant", 1 / 6),
    ),
    Study(
        "permuted_mnist",
        "Permuted sequential MNIST",
        "accuracy",
        "validation accuracy",
        "{:.1%}",
        tuple(IMAGE_NETWORKS.values()),
        (12_900, 25_800, 38_700, 51_600, 77_400, 103_200, 154_800, 180_600, 283_800, 320_400),
        "LR-GRU 128/24",
        {
            12_900: 0.551,
            25_800: 0.723,
            38_700: 0.822,
            51_600: 0.855,
            77_400: 0.894,
            103_200: 0.908,
            154_800: 0.911,
            180_600: 0.922,
            283_800: 0.930,
            320_400: 0.9344,
        },
        {f"{name}, published validation": valid / 100 for name, (valid, _) in PUBLISHED_IMAGES.items()},
        ("constant", 0.1),
    ),
    Study(
        "char_lm",
        "Characters of the Penn Treebank",
        "sentence_perplexity",
        "validation perplexity",
        "{:.2f}",
        tuple(TEXT_NETWORKS.values()),
        (5_000, 10_000, 20_000, 30_000, 40_000, 45_000, 50_000, 100_000, 150_000, 200_000),
        levels={f"published test, {PUBLISHED_TEXTS[preset][0]}": PUBLISHED_TEXTS[preset][1] for preset in ("paper", "lrd-1000-64-tied")},
        tested=True,
    ),
    Study(
        "highway_mnist",
        "Permutation-invariant MNIST",
        "accuracy",
        "validation accuracy",
        "{:.2%}",
        (HIGHWAY_LR, HIGHWAY_LRD),
        (500, 1_000, 2_500, 5_000, 10_000, 15_000, 20_000, 25_000, 30_000, 35_000),
        levels={"published log, validation, LR-Highway": 1 - 0.0126, "published log, validation, LRD-Highway": 1 - 0.0127},
    ),
)

PLOTS = (
    Plot("Figure 1", "a drawing of a passthrough layer and of three parametrizations", "no measurement"),
    Plot("Figure 2, top row and middle left", "LRD-GRU and uRNN, fixed lag N = 500: cross-entropy by update", COPYING, FIXED),
    Plot("Figure 2, top row and middle left", "LRD-GRU and uRNN, variable length: cross-entropy by update", COPYING, LENGTH),
    Plot("Figure 2, top row and middle left", "LRD-GRU and uRNN, variable lag: cross-entropy by update", COPYING, LAG),
    Plot("Figure 2, middle right", "LR-GRU and LRD-GRU on adding: MSE by update", ADDING),
    Plot("Figure 2, bottom", "LR-GRU and LRD-GRU on permuted MNIST: accuracy by update", TABLE_1),
)

PAPER = Paper(
    name="low_rank",
    title="Low-rank passthrough networks",
    citation=(
        "Miceli Barone, *Low-rank passthrough neural networks*: two texts, arXiv 1603.03116 and DeepLo 2018. Only the later one has "
        "adding with a diagonal and the LR-GRU on characters, and only the earlier one has Highway networks"
    ),
    rows=(*copying.ROWS, *_ADD_ROWS, *_IMAGE_ROWS, *(_text_row(preset) for preset in PUBLISHED_TEXTS), *_HIGHWAY_ROWS),
    relations=(*copying.RELATIONS, *_ADD_RELATIONS, *_IMAGE_RELATIONS, *_TEXT_RELATIONS, *_HIGHWAY_RELATIONS, *_GENERAL),
    studies=STUDIES,
    plots=PLOTS,
    telling="copy_variable_length.png",
    caption="Copying of variable length: every run, the medians up to the end of the shortest run (thick), the log of a published run, "
    "the criterion (0.001) and the predictor without memory",
    takeaways=takeaways,
    remarks=remarks,
    central={
        "LRD-GRU > full GRU of the same state size": "LRD-GRUs are better than full GRUs on permuted MNIST",
        "LRD >= LR (fixed lag": "LRD-GRUs solve copying over 500 steps no later than LR-GRUs",
    },
)
