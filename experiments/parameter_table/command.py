"""Numbers of parameters of the papers' networks: as printed, by the papers' convention, and in full.

    python -m experiments.parameter_table            a table
    python -m experiments.parameter_table --json     the same as a JSON list

The networks are the GRUs and LSTMs of Miceli Barone 2016 (arXiv 1603.03116) and 2018 (DeepLo), the Highway networks of the earlier of these
texts, the recurrent highway networks and their rivals of Zilly et al. 2017, the units and conditional networks of Jernite et al. 2017, and
the models of Ahuja and Morency 2018. The convention of the first two for GRUs counts the input matrix of one gate only, and no initial
state (see `lrpt.networks.counting`). All other networks are counted in full. The texts print no numbers of parameters for Highway networks.
Jernite et al. print amounts of computation instead (`experiments.operation_table`). Ahuja and Morency print budgets; the widths are those
of this project. Only the printed numbers are written down; all counts are computed from the models.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from experiments import highway_mnist, word_lm
from experiments.lattice.models import PUBLISHED as PUBLISHED_LATTICES
from experiments.lattice.models import TEXTS, sized
from experiments.operation_table import PRINTED, note_on_tunes
from experiments.parameter_table.rows import ROWS
from lrpt.cli.printed_table import print_table
from lrpt.networks.conditional import ConditionalConfig
from lrpt.networks.configuration import InitialConfig, TiedStorageConfig
from lrpt.networks.counting import count, count_parts
from lrpt.networks.highway_classifier import HighwayConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.runs.console import Console

PROGRAM = "python -m experiments.parameter_table"
LEGEND = "convention: one gate's input matrix, no initial state. recurrent layer: recurrent matrices and biases of all gates."
AGREES = {True: "yes", False: "no", None: ""}


MICELI_BARONE, ZILLY, JERNITE, AHUJA = "Miceli Barone", "Zilly et al.", "Jernite et al.", "Ahuja, Morency"
"""Authors of the papers, as the table names them."""


@dataclass(frozen=True)
class Published:
    """A printed number of parameters, and its model.

    Attributes:
      where: its place in the paper.
      config: the network.
      sizes: widths of input and output.
      printed: the number as printed; empty if none is.
      of: what the number counts: the recurrent layer, the whole model by the convention, or the whole model in full.
      remark: why the number differs from the count, if it does.
      paper: authors.
    """

    where: str
    config: ModelConfig | ConditionalConfig | HighwayConfig
    sizes: tuple[int, int]
    printed: str
    of: Literal["recurrent layer", "model", "model, in full"] = "model"
    remark: str = ""
    paper: str = MICELI_BARONE


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
      recurrent_layer: None if the network is not recurrent.
      agrees: whether the count rounds to the printed number; None if none is printed.
    """

    paper: str
    where: str
    model: str
    published: str
    of: str
    recurrent_layer: int | None
    convention: int
    true: int
    agrees: bool | None
    remark: str


DENSE, LR, LRD = "dense", "low_rank", "low_rank_plus_diagonal"
COPY, ADDING, IMAGES, CHARACTERS, FEWER_CHARACTERS = (10, 10), (2, 1), (1, 10), (51, 51), (49, 49)
ALL_PIXELS = (784, 10)

FEWER = "'approximately the same number of parameters' as the LRD-GRU; by the script's model it would take 818"
ONE_MATRIX = "6,144 = 2nd is one of the three recurrent matrices, without diagonal and biases"
TRUNCATED = "0.46 M is the true count, truncated; the convention gives 0.36 M"
AS_THE_DENSE = "printed as for the full LSTM; 1740/300, as in the script, has 4.62 M, and 4.25 M would need a rank of about 274"
COPIED = "printed as for the LRD-GRU above; the convention gives 2.52 M"


def gru(size: int, parametrization: str, rank: int = 1) -> ModelConfig:
    """Return a network of the copy, adding and image tasks (lowrank-gru, models.py)."""
    return ModelConfig(size=size, matrices=TiedStorageConfig(parametrization, rank))


def language_gru(size: int, parametrization: str, rank: int = 1, tied: bool = False) -> ModelConfig:
    """Return a network of the language models (dl4mt-lm, small_lm.py): reset after the product, initial state fixed at zero."""
    matrices = {"parametrization": parametrization, "rank": rank, "tied": tied}
    return ModelConfig(cell="gru_reset_after", size=size, initial=InitialConfig(trainable_state=False), **matrices)


def language_lstm(size: int, parametrization: str, rank: int = 1) -> ModelConfig:
    """Return a network of the language models with LSTMs (lowrank-lstm), with an initial state fixed at zero."""
    return ModelConfig(
        cell="lstm", size=size, matrices=TiedStorageConfig(parametrization, rank), initial=InitialConfig(trainable_state=False)
    )


LATTICE_BUDGETS = {"10 M": 10_000_000, "24 M": 24_000_000}


def _units() -> list[tuple[str, ModelConfig | ConditionalConfig, tuple[int, int]]]:
    """Return place, network, and widths of input and output of every network of Jernite et al., each once."""
    return list(dict.fromkeys((one.where, one.config, one.sizes) for one in PRINTED))


def _highway_networks() -> list[HighwayConfig]:
    """Return the Highway networks of the presets that read MNIST."""
    configs: list[Any] = [preset.config for preset in highway_mnist.EXPERIMENT.presets.values()]
    return [config.model for config in configs if config.data.source == "mnist"]


def _rival(preset: str) -> ModelConfig:
    """Return a network of Table 1 of Zilly et al. that is no recurrent highway network."""
    config: Any = word_lm.EXPERIMENT.presets[preset].config
    return config.model


PUBLISHED = [
    Published("copy, text", gru(128, DENSE), COPY, "nearly 50,000", "recurrent layer"),
    Published("copy, text", gru(128, LRD, 50), COPY, "39,168", "recurrent layer"),
    Published("copy, text", gru(128, LRD, 50), COPY, "41,738"),
    Published("copy, text", ModelConfig("unitary_without_fourier", 721), COPY, "as 41,738", "model, in full", FEWER),
    Published("adding, text", gru(128, LR, 24), ADDING, "approx. 6,140", "recurrent layer", ONE_MATRIX),
    Published("adding, text", gru(128, LRD, 24), ADDING, "approx. 6,140", "recurrent layer", ONE_MATRIX),
    Published("Table 1", gru(128, DENSE), IMAGES, "51.0 k"),
    Published("Table 1", gru(128, LR, 24), IMAGES, "20.2 k"),
    Published("Table 1", gru(512, LR, 4), IMAGES, "19.5 k"),
    Published("Table 1", gru(64, LRD, 24), IMAGES, "10.3 k"),
    Published("Table 1", gru(128, LRD, 24), IMAGES, "20.6 k"),
    Published("Table 1", gru(256, LRD, 24), IMAGES, "41.2 k"),
    Published("Table 2", language_gru(1000, DENSE), CHARACTERS, "3.11 M"),
    Published("Table 2", language_gru(3298, DENSE), CHARACTERS, "33.0 M"),
    Published("Table 2", language_gru(1000, LRD, 64), CHARACTERS, "0.49 M"),
    Published("Table 2", language_gru(3298, LRD, 128), CHARACTERS, "2.89 M"),
    Published("Table 2", language_gru(5459, LRD, 64), CHARACTERS, "2.69 M"),
    Published("Table 2", language_gru(5459, LRD, 64, tied=True), CHARACTERS, "1.99 M"),
    Published("Table 2", language_gru(1000, LRD, 64, tied=True), CHARACTERS, "0.46 M", remark=TRUNCATED),
    Published("Table 2", language_gru(4480, LRD, 128, tied=True), CHARACTERS, "2.78 M"),
    Published("Table 2", language_gru(6985, LRD, 64, tied=True), CHARACTERS, "2.54 M"),
    Published("Table 2", language_gru(6985, LR, 64, tied=True), CHARACTERS, "2.54 M", remark=COPIED),
    Published("Table 2", language_lstm(1000, DENSE), FEWER_CHARACTERS, "4.25 M", "model, in full"),
    Published("Table 2", language_lstm(1740, LRD, 300), FEWER_CHARACTERS, "4.25 M", "model, in full", AS_THE_DENSE),
    *(Published("appendix A.1", config, ALL_PIXELS, "", "model, in full") for config in _highway_networks()),
    *(Published(r.where, r.config, (r.symbols, r.symbols), r.printed, "model, in full", paper=ZILLY) for r in ROWS),
    *(
        Published("Table 1", _rival(preset), (10_000, 10_000), printed, "model, in full", paper=ZILLY)
        for preset, printed in (("variational-lstm", "66 M"), ("variational-lstm-tied", "51 M"))
    ),
    *(Published(where, config, sizes, "", "model, in full", paper=JERNITE) for where, config, sizes in _units()),
    *(
        Published(
            f"Table 1, {name}", sized(model, budget, text.symbols), (text.symbols, text.symbols), printed, "model, in full", paper=AHUJA
        )
        for printed, budget in LATTICE_BUDGETS.items()
        for name, text in TEXTS.items()
        for model in PUBLISHED_LATTICES
    ),
]


def row(published: Published) -> Row:
    """Count the parameters of a model, and compare them with the printed number."""
    counts = count(published.config, *published.sizes)
    layer = _recurrent_layer(published)
    counted = {"recurrent layer": layer, "model": counts.paper, "model, in full": counts.true}[published.of]
    return Row(
        paper=published.paper,
        where=published.where,
        model=published.config.label,
        published=published.printed,
        of=published.of,
        recurrent_layer=layer,
        convention=counts.paper,
        true=counts.true,
        agrees=rounds_to(counted, published.printed) if published.printed and counted is not None else None,
        remark=published.remark,
    )


def _recurrent_layer(published: Published) -> int | None:
    """Count the recurrent matrices and biases. Return None if the network is not recurrent."""
    if isinstance(published.config, HighwayConfig):
        return None
    parts = count_parts(published.config, *published.sizes)
    return parts["recurrent"] + parts["bias"]


def rounds_to(number: int, printed: str) -> bool:
    """Return whether `number`, rounded to the printed digits, is `printed` ('51.0 k').

    Zeros at the end of a printed integer count as rounded digits.

    Raises:
      ValueError: `printed` does not end in a number.
    """
    found = re.search(r"([\d,]+)(?:\.(\d+))?(?: ([kM]))?$", printed)
    if found is None:
        raise ValueError(f"'{printed}' does not end in a number")
    whole, decimals, unit = found.groups(default="")
    digits = int(whole.replace(",", "") + decimals)
    step = {"": 1, "k": 1_000, "M": 1_000_000}[unit] // 10 ** len(decimals)
    while not unit and digits % 10 == 0 and digits:
        digits, step = digits // 10, step * 10
    return round(number / step) == digits


def show(rows: Sequence[Row], console: Console) -> None:
    """Print the table, and below it the reasons for differences and the sizes of the networks trained on tunes."""
    columns = ["", "", "model", "published", "for the", "recurrent layer", "convention", "true", "agrees"]
    console.table(columns, [cells(r) for r in rows], left=3)
    console.say(f"\n{LEGEND}")
    if note := note_on_tunes():
        console.say(note)
    for r in rows:
        if r.agrees is False:
            console.say(f"{r.where}, {r.model}, {r.published}: {r.remark}.")


def cells(r: Row) -> list[str]:
    """Format a line as text."""
    counts = ("" if number is None else f"{number:,}" for number in (r.recurrent_layer, r.convention, r.true))
    return [r.paper, r.where, r.model, r.published, r.of, *counts, AGREES[r.agrees]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table. Map errors to one line and an exit status."""
    about = "Compare the numbers of parameters that the papers print with those of their networks here."
    print_table(lambda: [row(published) for published in PUBLISHED], show, arguments, PROGRAM, about)
