"""Amounts of computation of the units of Jernite et al. 2017: the "RNN-d" of its tables, as printed, by its convention, and as counted.

    python -m experiments.operation_table            a table
    python -m experiments.operation_table --json     the same as a JSON list

The rows are those of Tables 1 and 3. RNN-d ("equivalent RNN" in Table 1, which has a dash for the two RNNs) is the size of the Elman
network with as many multiplications; the paper gives no formula for it (see `lrpt.networks.operations`). For units with a scheduler, 'm' is
the root mean square of m_t that the printed RNN-d implies, and multiplications are counted at this m. Rows with a star are quoted in the
paper from Zhang et al. 2016. The multiplications of the conditional networks (CRNN) are not counted, because their slow level steps only
where a word or a character ends. Their parameters include a vector for every word, or for every byte. The paper does not print the number
of words: see `WORDS`. Melodies have 730 symbols, as in the paper. The networks that are trained here on O'Neill's tunes have fewer; a line
below the table gives their numbers of parameters.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from experiments import COSTS, conditional
from experiments.variable_computation import network
from lrpt.cli.printed_table import print_table
from lrpt.networks.conditional import ConditionalConfig
from lrpt.networks.counting import count
from lrpt.networks.operations import PAPER_FACTORS
from lrpt.networks.variable_computation import VariableConfig
from lrpt.runs.console import Console
from lrpt.symbols import codes_of

PROGRAM = "python -m experiments.operation_table"


@dataclass(frozen=True)
class Printed:
    """A row of the paper's tables.

    Attributes:
      where: its place in the paper.
      config: the network.
      symbols: number of symbols.
      size: RNN-d as printed.
      quoted: whether the paper quotes the row from Zhang et al. 2016.
      units: number of words or bytes that a conditional network reads.
    """

    where: str
    config: VariableConfig | ConditionalConfig
    symbols: int
    size: int
    quoted: bool = False
    units: int = 0

    @property
    def sizes(self) -> tuple[int, int]:
        """Return the widths of input and output."""
        return codes_of(self.symbols, self.units), self.symbols


@dataclass(frozen=True)
class Row:
    """A line of the table.

    `m` is None for units with constant computation. `counted` and `multiplications` are None for conditional networks.
    """

    where: str
    model: str
    parameters: int
    m: float | None
    printed: int
    convention: float
    counted: float | None
    multiplications: float | None


MUSIC, BITS, CHARACTERS, TEXT8 = 730, 2, 51, 27
WORDS = 9_970
"""Words of the Penn Treebank: 9,969 occur at least twice in its training split, and one vector stands for all others."""
BYTES = 256

PRINTED = [
    *(Printed("Table 1, music", network("elman", size), MUSIC, size) for size in (200, 250)),
    Printed("Table 1, music", network("vcrnn", 500), MUSIC, 233),
    *(Printed("Table 3, bits", network("elman", size), BITS, size) for size in (100, 500, 1000)),
    *(Printed("Table 3, bits", network("vcrnn", 1000), BITS, size) for size in (340, 460)),
    Printed("Table 3, bits", conditional.BITS_MODEL, BITS, 140, units=BYTES),
    Printed("Table 3, characters", network("gru", 1024), CHARACTERS, 1450),
    Printed("Table 3, characters", network("lstm", 1024), CHARACTERS, 2048),
    Printed("Table 3, characters", network("elman", 1024), CHARACTERS, 1024),
    Printed("Table 3, characters", conditional.CHARACTERS_MODEL, CHARACTERS, 700, units=WORDS),
    Printed("Table 3, characters", network("vcrnn", 1024), CHARACTERS, 760),
    Printed("Table 3, characters", network("elman", 760), CHARACTERS, 760),
    Printed("Table 3, characters", network("lstm", 380), CHARACTERS, 760),
    Printed("Table 3, characters", network("gru", 538), CHARACTERS, 760),
    Printed("Table 3, characters", network("vcgru", 1024), CHARACTERS, 648),
    Printed("Table 3, characters", network("lstm", 324), CHARACTERS, 648),
    Printed("Table 3, characters", network("gru", 458), CHARACTERS, 648),
    *(Printed("Table 3, text8", network("elman", size), TEXT8, size, quoted=True) for size in (512, 1024)),
    *(Printed("Table 3, text8", network("lstm", size), TEXT8, 2 * size, quoted=True) for size in (512, 1024)),
    Printed("Table 3, text8", network("elman", 512), TEXT8, 512),
    Printed("Table 3, text8", network("gru", 512), TEXT8, 725),
    Printed("Table 3, text8", network("gru", 1024), TEXT8, 1450),
    *(Printed("Table 3, text8", network("vcgru", 1024), TEXT8, size) for size in (464, 648, 820)),
]


@cache
def row(printed: Printed) -> Row:
    """Count the operations of a network."""
    config, name = printed.config, printed.config.label + ("*" if printed.quoted else "")
    parameters = count(config, *printed.sizes).true
    if isinstance(config, ConditionalConfig):
        return Row(printed.where, name, parameters, None, printed.size, config.summarize({})["paper_equivalent_size"], None, None)
    m = printed.size / (PAPER_FACTORS[config.cell] * config.size) if config.has_scheduler else 1.0
    metrics = config.summarize({"active": m, "active_squared": m**2})
    return Row(
        where=printed.where,
        model=name,
        parameters=parameters,
        m=m if config.has_scheduler else None,
        printed=printed.size,
        convention=metrics["paper_equivalent_size"],
        counted=metrics["equivalent_size"],
        multiplications=metrics["multiplications"],
    )


def note_on_tunes(results: Path = COSTS.parent) -> str:
    """Return a sentence on the parameters of the kept networks on O'Neill's tunes, or an empty string if none is kept.

    Args:
      results: where results are kept. They contain the number of symbols of the tunes.
    """
    kept = next(iter(sorted(results.glob("music/*/result.json"))), None)
    if kept is None:
        return ""
    symbols = json.loads(kept.read_text())["data"]["types"]
    networks = [one.config for one in PRINTED if one.symbols == MUSIC]
    counts = ", ".join(f"{config.label} has {count(config, symbols, symbols).true:,}" for config in networks)
    others = f"Networks trained here on O'Neill's tunes have {symbols} symbols and fewer parameters"
    return f"Music: {MUSIC} symbols, as printed. {others}: {counts}."


def cells(r: Row) -> list[str]:
    """Format a line as text."""
    m = "" if r.m is None else f"{r.m:.3f}"
    counts = ("" if number is None else f"{number:,.0f}" for number in (r.parameters, r.counted, r.multiplications))
    parameters, counted, products = counts
    return [r.where, r.model, parameters, m, f"{r.printed:,}", f"{r.convention:,.0f}", counted, products]


def show(rows: Sequence[Row], console: Console) -> None:
    """Print the table, and below it the sizes of the networks trained on tunes."""
    columns = ["", "model", "parameters", "m", "RNN-d printed", "by the convention", "counted", "multiplications a step"]
    console.table(columns, [cells(r) for r in rows], left=2)
    if note := note_on_tunes():
        console.say(f"\n{note}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table. Map errors to one line and an exit status."""
    about = "Count the multiplications of the units of Jernite et al. 2017."
    print_table(lambda: [row(printed) for printed in PRINTED], show, arguments, PROGRAM, about)


if __name__ == "__main__":
    main()
