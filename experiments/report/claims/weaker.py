"""Values of models that an ordering calls the weaker ones, if ours are better than published: they narrow the published lead.

Such a value is reproduced, as it is as good as published. It counts against the ordering, so the report says by how much it is better.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from experiments.report.claims.contests import Alike
from experiments.report.claims.criteria import Printed
from experiments.report.claims.judged import Judged, JudgedQuantity, in_points
from experiments.report.claims.relations import Relation
from experiments.report.claims.rows import Network, Quantity, Row


class Surplus(NamedTuple):
    """The distance by which a value of a weaker model is better than published.

    Attributes:
      gain: the mean over seeds, in the unit of the metric.
      lead: the smallest published lead of a stronger model; None if the paper prints none.
      stronger: the name of that model.
      form: format string of the metric.
    """

    gain: float
    lead: float | None
    stronger: str
    form: str

    def __str__(self) -> str:
        said = f"better than published by {self._in_unit(self.gain)}"
        return said if self.lead is None else f"{said}; {self.stronger} leads by {self._in_unit(self.lead)} in the paper"

    def _in_unit(self, difference: float) -> str:
        return in_points(self.form, self.form.format(difference))


def is_of_weaker(of: JudgedQuantity, judged: Judged) -> bool:
    """Return whether a printed score of a model that an ordering calls weaker was run with the published network and data."""
    return _printed(of.quantity) is not None and bool(of.observed) and not of.smaller and bool(_orderings(of, judged))


def surplus(of: JudgedQuantity, judged: Judged) -> Surplus | None:
    """Return by how much a value is better than published; None unless `is_of_weaker` and the mean is better at the decimals."""
    printed, values = _printed(of.quantity), [one.value for one in of.observed if one.value is not None]
    if printed is None or not is_of_weaker(of, judged) or len(values) < len(of.observed):
        return None
    mean = float(np.mean(values))
    if not printed.is_better(mean):
        return None
    leads = [lead for relation in _orderings(of, judged) for lead in _leads(of, printed, relation, judged.paper.rows)]
    lead, stronger = min(leads, default=(None, ""))
    return Surplus(printed.gain(mean), lead, stronger, of.quantity.form)


def _printed(quantity: Quantity) -> Printed | None:
    return None if quantity.criterion is None else quantity.criterion.printed


def _orderings(of: JudgedQuantity, judged: Judged) -> list[Relation]:
    """Return the orderings that call the model of a value the weaker one."""
    network = of.row.network
    return [] if network is None else [relation for relation in judged.paper.relations if _is_weaker(network, relation)]


def _is_weaker(network: Network, relation: Relation) -> bool:
    """Return whether a relation at the published size calls a network the weaker one. Models that are equally good have no weaker one."""
    named = any(network is one for version in relation.versions[:1] for one in version.weaker)
    return named and not isinstance(relation.contest, Alike)


def _leads(of: JudgedQuantity, printed: Printed, relation: Relation, rows: Sequence[Row]) -> Iterator[tuple[float, str]]:
    """Yield the published lead, and the name, of each stronger model that has a better value of the same metric."""
    stronger = [network for version in relation.versions[:1] for network in version.stronger]
    for row in rows:
        if row.where == of.row.where and any(row.network is network for network in stronger):
            for quantity in row.quantities:
                other = _printed(quantity)
                if quantity.name == of.quantity.name and other is not None and (lead := printed.gain(other.value)) > 0:
                    yield lead, row.title
