"""How many parameters the papers' models have: as printed, by the papers' convention, and in truth.

    python -m experiments.parameter_table            a table
    python -m experiments.parameter_table --json     the same as a JSON list

Miceli Barone 2016 (arXiv 1603.03116) and 2018 (DeepLo). Their convention counts the input matrix of one gate only and leaves the initial state
out: see `lrpt.counting`. Nothing here but the printed figures is written down; the rest is counted from the models.
"""

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from lrpt.counting import count, count_parts
from lrpt.models import ModelConfig
from lrpt.training.console import Console

ONE_MATRIX = "6,144 = 2nd is one of the three recurrent matrices, without a diagonal"
TIED_1000 = "the convention gives 0.36 M; the true count is 0.46 M if truncated"
COPIED = "the figure of the low-rank plus diagonal row; the convention gives 2.52 M"


@dataclass(frozen=True)
class Row:
    """A printed figure, and the model that it is about.

    Attributes:
      where: the place in the papers.
      config: the recurrent network; its label names the row.
      sizes: widths of input and output.
      published: the figure as printed.
      layer_only: it is about the recurrent layer (recurrent matrices and biases), not the whole model.
      remark: why the figure differs from the count by the convention, where it does.
    """

    where: str
    config: ModelConfig
    sizes: tuple[int, int]
    published: str
    layer_only: bool = False
    remark: str = ""

    def figures(self) -> dict[str, Any]:
        """What the table shows of this row, by column."""
        convention, true = self.counts()
        agrees = rounds_to(convention, self.published)
        return {
            "where": self.where,
            "model": self.config.label + ", recurrent layer" * self.layer_only,
            "published": self.published,
            "convention": convention,
            "true": true,
            "agrees": agrees,
            "remark": "" if agrees else self.remark,
        }

    def counts(self) -> tuple[int, int]:
        """By the convention, and true; the same for a recurrent layer, which holds neither inputs nor initial state."""
        if self.layer_only:
            parts = count_parts(self.config, *self.sizes)
            return (parts["recurrent"] + parts["bias"],) * 2
        counts = count(self.config, *self.sizes)
        return counts.paper, counts.true


def rounds_to(number: int, printed: str) -> bool:
    """Whether `printed` ('41,738', '51.0 k', 'approx. 6,140') is `number`, rounded to the last digit printed that is not a trailing zero of an integer."""
    digits, decimals, unit = re.fullmatch(r"\D*?([\d,]+)(?:\.(\d+))? ?([kM]?)", printed).groups(default="")
    if unit:
        step = {"k": 1_000, "M": 1_000_000}[unit] // 10 ** len(decimals)
        return round(number / step) == int(digits.replace(",", "") + decimals)
    whole = digits.replace(",", "")
    step = 10 ** (len(whole) - len(whole.rstrip("0")))
    return round(number / step) * step == int(whole)


def _image_model(size: int, parametrization: str, rank: int = 1) -> ModelConfig:
    return ModelConfig(size=size, parametrization=parametrization, rank=rank)


def _language_model(size: int, parametrization: str, rank: int = 1, tied: bool = False) -> ModelConfig:
    return ModelConfig("gru_reset_after", size=size, parametrization=parametrization, rank=rank, tied=tied, trainable_initial_state=False)


DENSE, LR, LRD = "dense", "low_rank", "low_rank_plus_diagonal"
COPY, ADDING, IMAGES, CHARACTERS = (10, 10), (2, 1), (1, 10), (51, 51)

ROWS = [
    Row("copy, text", _image_model(128, DENSE), COPY, "nearly 50,000", layer_only=True),
    Row("copy, text", _image_model(128, LRD, 50), COPY, "39,168", layer_only=True),
    Row("copy, text", _image_model(128, LRD, 50), COPY, "41,738"),
    Row("adding, text", _image_model(128, LR, 24), ADDING, "approx. 6,140", layer_only=True, remark=ONE_MATRIX),
    Row("adding, text", _image_model(128, LRD, 24), ADDING, "approx. 6,140", layer_only=True, remark=ONE_MATRIX),
    Row("Table 1", _image_model(128, DENSE), IMAGES, "51.0 k"),
    Row("Table 1", _image_model(128, LR, 24), IMAGES, "20.2 k"),
    Row("Table 1", _image_model(512, LR, 4), IMAGES, "19.5 k"),
    Row("Table 1", _image_model(64, LRD, 24), IMAGES, "10.3 k"),
    Row("Table 1", _image_model(128, LRD, 24), IMAGES, "20.6 k"),
    Row("Table 1", _image_model(256, LRD, 24), IMAGES, "41.2 k"),
    Row("Table 2", _language_model(1000, DENSE), CHARACTERS, "3.11 M"),
    Row("Table 2", _language_model(3298, DENSE), CHARACTERS, "33.0 M"),
    Row("Table 2", _language_model(1000, LRD, 64), CHARACTERS, "0.49 M"),
    Row("Table 2", _language_model(3298, LRD, 128), CHARACTERS, "2.89 M"),
    Row("Table 2", _language_model(5459, LRD, 64), CHARACTERS, "2.69 M"),
    Row("Table 2", _language_model(5459, LRD, 64, tied=True), CHARACTERS, "1.99 M"),
    Row("Table 2", _language_model(1000, LRD, 64, tied=True), CHARACTERS, "0.46 M", remark=TIED_1000),
    Row("Table 2", _language_model(4480, LRD, 128, tied=True), CHARACTERS, "2.78 M"),
    Row("Table 2", _language_model(6985, LRD, 64, tied=True), CHARACTERS, "2.54 M"),
    Row("Table 2", _language_model(6985, LR, 64, tied=True), CHARACTERS, "2.54 M", remark=COPIED),
]
