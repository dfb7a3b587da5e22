"""Data options of studies, with the same short help as those of experiments."""

from typing import Annotated

import tyro

from lrpt.cli.flags import about_data
from lrpt.tasks import Chorales, NextSymbol

TextOptions = Annotated[NextSymbol, tyro.conf.arg(help=about_data(NextSymbol))]
ChoralesOptions = Annotated[Chorales, tyro.conf.arg(help=about_data(Chorales))]
