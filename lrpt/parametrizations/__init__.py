"""Parametrizations: Flax modules that own the parameters of a cell's matrices.

A parametrization is built from the specifications of the matrices (`specs`). Calling it returns one structured matrix for each name.
If matrices are tied (Sak et al. 2014), the low-rank matrices of one group share one projection R. `WeightNorm` wraps any parametrization.

To add one, write a class with `apply` and `to_dense` as in `lrpt.matrices`. Then write a subclass of `Parametrization` and add it to
`PARAMETRIZATIONS`, or write a form of its arrays as in `lrpt.parametrizations.forms`. A form of this library is an entry of `FORMS`, which
is read once; a form of yours is `PARAMETRIZATIONS[name] = partial(Structured, form=form)`. The class of matrices needs to take vectors
only: `Parameters` turns symbols into one-hot vectors.
"""

from lrpt.parametrizations.configuration import MatrixConfig
from lrpt.parametrizations.forms import (
    ADAPTERS,
    ALL_FORMS,
    FORMS,
    Form,
    Stored,
    SumForm,
    has_projection,
    nearest_divisors,
    plus_diagonal,
)
from lrpt.parametrizations.modules import FROZEN, PARAMETRIZATIONS, Parametrization, Structured, form_of, label_of, settings_of
from lrpt.parametrizations.parameters import Parameters, create_matrices, init_parameters
from lrpt.parametrizations.weight_norm import WeightNorm, row_norms

__all__ = [
    "ADAPTERS",
    "ALL_FORMS",
    "FORMS",
    "FROZEN",
    "PARAMETRIZATIONS",
    "Form",
    "MatrixConfig",
    "Parameters",
    "Parametrization",
    "Stored",
    "Structured",
    "SumForm",
    "WeightNorm",
    "create_matrices",
    "form_of",
    "has_projection",
    "init_parameters",
    "label_of",
    "nearest_divisors",
    "plus_diagonal",
    "row_norms",
    "settings_of",
]
