r"""Networks with variable computation: their cells decide how much to compute, trained by a penalty.

Training lowers the loss plus a penalty on the schedule m_t (Jernite et al. 2017, eq. 10), here its mean over batch and steps:

.. math::
    \Omega = \frac{w}{T} \sum_t |m_t - \bar m| \quad \text{or} \quad \frac{w}{T} \sum_t (m_t - \bar m)^2,

one-sided with max(0, .) around the difference. The paper uses the first form, two-sided, with targets of 0.2 to 0.5 in all experiments.
It gives neither w nor whether Omega is a sum or a mean. Targets may differ by symbol, as in its section 5.2.2 ("guide"), which does not
print them. The sharpness of the mask is 0.1 in the first epoch and grows by 0.1 in each epoch, up to 1 (section 5).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from lrpt.cells import Cell, Schedule, hard_step, variable_cell
from lrpt.cells.variable_computation import EPSILON, ROUNDINGS, UNITS, check_epsilon
from lrpt.errors import UsageError, check_at_least, check_choice, check_not_negative, check_numbers
from lrpt.networks.operations import PAPER_FACTORS, are_countable, equivalent_size, mean_multiplications, paper_equivalent
from lrpt.networks.protocol import Reads, Start, check_inputs
from lrpt.networks.registered import cached_by_tables
from lrpt.networks.sequence_model import ModelConfig, SequenceModel, recurrent_of
from lrpt.precision import at_least_single
from lrpt.settings import OneOf, accepts_short_names, check_choices

SchedulePenaltyForm = Literal["l1", "l2"]
SchedulerGradient = Literal["full", "cut"]
Evaluation = Literal["soft", "hard"]


SUMS = ("schedule_steps", "schedule_pairs", "proportion_sum", "proportion_squares", "lagged_products")
"""Metrics of which `VariableConfig.summarize` computes the autocorrelation."""

MOMENTS = {"active_squared", *SUMS}
"""Metrics that a network sows and that `VariableConfig.summarize` replaces."""

CONSTANT = 1e-5
"""Relative variance of m below which it counts as constant: sums of a constant in float32 give up to 2e-6."""


@dataclass(frozen=True)
class ScheduleConfig:
    """Training of the schedule m_t by a penalty. Cells without a scheduler ignore these."""

    target: float = 0.3
    """target share of the state that each step updates"""
    penalty_weight: float = 0.3
    """w: the loss of training includes w times the mean distance of the schedule from the target"""
    penalty: Annotated[str, OneOf("distance of the schedule from the target", get_args(SchedulePenaltyForm), notes="l2 is squared")] = "l1"
    one_sided: bool = False
    """penalize the schedule only above the target"""
    guided_symbols: tuple[int, ...] = ()
    """numbers of the symbols with the guided target (in a text with line ends, 0 is the line end and 2 the blank)"""
    guided_target: float = 0.8
    """target at the guided symbols"""
    gradient: Annotated[
        str,
        OneOf(
            "gradient from the schedule to earlier steps",
            get_args(SchedulerGradient),
            notes="full follows the equations, cut treats the state that the scheduler reads as a constant",
        ),
    ] = "full"
    lag: int = 0
    """lag in steps of the schedule's autocorrelation, which is logged if windows are longer (0: none)"""

    def __post_init__(self) -> None:
        check_choices(self, "model.schedule")
        check_numbers(self, "model.schedule.target", "model.schedule.guided_target")
        for name in ("target", "guided_target"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"model.schedule.{name} is {getattr(self, name)}: expected a share from 0 to 1")
        check_not_negative(self, "model.schedule.penalty_weight")
        check_at_least(0, self, "model.schedule.lag")
        if any(symbol < 0 for symbol in self.guided_symbols):
            symbols = " ".join(map(str, self.guided_symbols))
            raise UsageError(f"model.schedule.guided_symbols is {symbols}: expected numbers of symbols, from 0 on")

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why."""
        guided = {} if self.guided_symbols else {"guided_target": "model.schedule.guided_symbols is empty"}
        of_penalty = ("target", "penalty", "one_sided", "guided_symbols", "guided_target")
        return guided if self.penalty_weight else dict.fromkeys(of_penalty, "model.schedule.penalty_weight is 0")


@dataclass(frozen=True)
class MaskConfig:
    """Masks of the updated components, in training and in evaluation. Cells without a scheduler ignore these."""

    sharpness: float = 0.1
    """sharpness (lambda) of the mask at the start"""
    growth: float = 0.1
    """growth of the sharpness in each epoch"""
    end: float = 1.0
    """largest sharpness; evaluations before it is reached are not selected as the best"""
    smooth: bool = False
    """grow the sharpness a little at each update, instead of once at the start of each epoch"""
    epsilon: float = EPSILON
    """distance from 0 and 1 within which the mask is rounded"""
    evaluation: Annotated[
        str, OneOf("mask in evaluations", get_args(Evaluation), notes="soft is the mask of training, hard has zeros and ones")
    ] = "soft"
    rounding: Annotated[str, OneOf("how the hard mask rounds the share times the size", ROUNDINGS)] = "ceil"
    agreement: bool = True
    """compare outputs of the soft and the hard mask in evaluations; this doubles the time of an evaluation"""

    def __post_init__(self) -> None:
        check_choices(self, "model.mask")
        check_numbers(self, "model.mask.sharpness", "model.mask.end", "model.mask.epsilon")
        check_not_negative(self, "model.mask.growth")
        if not 0 < self.sharpness <= self.end < math.inf:
            raise UsageError(
                f"model.mask.sharpness is {self.sharpness} and model.mask.end {self.end}: expected finite numbers above 0, the second no "
                f"less than the first"
            )
        check_epsilon("model.mask.epsilon", self.epsilon)

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why."""
        if self.growth == 0:
            return dict.fromkeys(("smooth", "end"), "model.mask.growth is 0")
        return dict.fromkeys(("growth", "smooth"), "model.mask.sharpness is model.mask.end") if self.sharpness == self.end else {}

    def sharpness_at(self, update: Int[Array, ""], epoch: int) -> Float[Array, ""]:
        """Return the sharpness of the update that follows `update` updates, with `epoch` updates in an epoch."""
        epochs = (update // epoch).astype(jnp.float32)
        if self.smooth:
            epochs = epochs + (update % epoch).astype(jnp.float32) / epoch
        return jnp.minimum(self.sharpness + self.growth * epochs, self.end)


@accepts_short_names
@dataclass(frozen=True)
class VariableConfig(ModelConfig):
    """Configuration of a recurrent network with schedulers: their training and evaluation. Other cells ignore these."""

    schedule: ScheduleConfig = ScheduleConfig()
    mask: MaskConfig = MaskConfig()

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why."""
        if not self.has_scheduler:
            names = [f"{group}.{field.name}" for group in ("schedule", "mask") for field in fields(getattr(self, group))]
            return super().unused | dict.fromkeys(names, f"model.cell is {self.cell}, which has no scheduler")
        if self.unit is None:
            names = ["schedule.gradient", "mask.epsilon", "mask.rounding", "mask.agreement"]
            return super().unused | dict.fromkeys(names, f"model.cell is {self.cell}, which makes its own mask")
        return super().unused

    @property
    def has_scheduler(self) -> bool:
        """Return whether the cells have a scheduler."""
        return super().layer_cell.schedule is not None

    @property
    def unit(self) -> str | None:
        """Return the name of the entry of the table if it is a unit of this library, else None.

        The configuration chooses masks and gradients of such units. Other cells with a schedule run as they are.
        """
        entry = super().layer_cell
        return next((name for name, unit in UNITS.items() if unit is entry), None)

    @property
    def layer_cell(self) -> Cell:
        """Return the cell of each layer, with its mask and gradient if it is a unit of the library."""
        return super().layer_cell if self.unit is None else variable_cell(self.unit, self.mask.epsilon, self.schedule.gradient == "cut")

    def scheduled(self, evaluation: str) -> Cell:
        """Return the network's cell with a soft or a hard mask. Its info is the schedule.

        Raises:
          UsageError: the mask is hard, and the cell is no unit of this library.
        """
        network = self.stack_cell(self.layer_cell if evaluation == "soft" else self._hard_cell())

        def step(params: PyTree, carry: PyTree, x: PyTree) -> tuple[PyTree, tuple[Array, Schedule]]:
            carry, (y, info) = network.step(params, carry, x)
            return carry, (y, network.schedule(info))  # type: ignore[misc]

        return replace(network, step=step)

    def _hard_cell(self) -> Cell:
        if self.unit is None:
            raise UsageError(f"{self.cell} has a mask of its own, and no hard one: choose soft for --model.mask.evaluation")
        return replace(self.layer_cell, step=hard_step(self.unit, self.mask.rounding))

    def settings(self, update: Int[Array, ""], epoch: int) -> dict[str, Array]:
        """Return the sharpness of the update that follows `update` updates, with `epoch` updates in an epoch."""
        return {"sharpness": self.mask.sharpness_at(update, epoch)} if self.has_scheduler else {}

    def settled(self, update: int, epoch: int) -> bool:
        """Return whether the sharpness does not grow any more. A growth of 0 keeps it where it starts."""
        if not self.has_scheduler or self.mask.growth == 0:
            return True
        return math.isclose(self.mask.sharpness_at(jnp.int32(update), epoch), self.mask.end, rel_tol=1e-5)

    def targets(self, symbols: Int[Array, "*b"]) -> Float[Array, "*b"]:
        """Return the target of the schedule at each symbol."""
        own = self.schedule
        guided = jnp.isin(symbols, jnp.asarray(own.guided_symbols, symbols.dtype))
        return jnp.where(guided, own.guided_target, own.target)

    def summarize(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Replace means of squares, and sums of squares and products, by counts of operations and an autocorrelation.

        multiplications        of a mean step: in the matrices of the updated components, and of the scheduler
        equivalent_size        size of the Elman network with the same number of multiplications
        paper_equivalent_size  the paper's "RNN-d", by the paper's factors, in networks of one layer with dense matrices
        autocorrelation        (E[m_t m_{t+k}] - E[m]^2) / (E[m^2] - E[m]^2) for the lag k: means over all steps, and over all
                               pairs of steps in the same window

        Counts of operations are those of the mean over examples of each example's mean step: if examples have several lengths, a step of a
        short one has more weight.
        """
        rest = {name: value for name, value in metrics.items() if name not in MOMENTS}
        if self.has_scheduler and "active_squared" not in metrics:
            return rest
        if "lagged_products" in metrics:
            rest["autocorrelation"] = _autocorrelation(**{name: metrics[name] for name in SUMS})
        mean, square = (metrics[name] if self.has_scheduler else 1.0 for name in ("active", "active_squared"))
        return rest | self._operations(mean, square)

    def _operations(self, mean: float, square: float) -> dict[str, float]:
        """Return counts of operations. Return none if symbols have no embedding or operators cannot be counted."""
        operators = None if self.embedding_width is None else _operators(self, self.embedding_width)
        if operators is None or not are_countable(operators):
            return {}
        products = mean_multiplications(operators, mean, square) * (self.layers if self.shared_layers else 1)
        found = {"multiplications": products, "equivalent_size": equivalent_size(products)}
        is_published = self.cell in PAPER_FACTORS and (self.unit == self.cell or not self.has_scheduler)
        if is_published and self.layers == 1 and {self.matrices.kind, self.inputs.kind} == {"dense"}:
            found["paper_equivalent_size"] = paper_equivalent(self.cell, self.size, math.sqrt(square))
        return found

    def build(self, input_size: int, output_size: int, reads: Reads, axis_name: str | None = None) -> "VariableModel":
        """Return the network for a task. `axis_name` is ignored, because the network computes nothing across examples.

        Raises:
          UsageError: `reads` is neither 'last' nor 'all', or a guided symbol is none of the task's.
        """
        check_choice("reads", reads, get_args(Reads))
        largest = max(self.schedule.guided_symbols, default=-1)
        if self.has_scheduler and largest >= input_size:
            raise UsageError(f"model.schedule.guided_symbols has {largest}, and the task has {input_size} symbols, from 0 on")
        return VariableModel(self, input_size, output_size, reads)


def _autocorrelation(
    *, schedule_steps: float, schedule_pairs: float, proportion_sum: float, proportion_squares: float, lagged_products: float
) -> float:
    """Return (E[m_t m_{t+k}] - E[m]^2) / (E[m^2] - E[m]^2) by sums and counts, 0 for a constant m or if there are no pairs.

    m counts as constant if its variance is below `CONSTANT` times its squared mean.
    """
    if not schedule_steps or not schedule_pairs:
        return 0.0
    square = (proportion_sum / schedule_steps) ** 2
    variance = proportion_squares / schedule_steps - square
    return (lagged_products / schedule_pairs - square) / variance if variance > CONSTANT * square else 0.0


@cached_by_tables
def _operators(config: VariableConfig, input_size: int) -> Any:
    """Return the operators of a network's cell, with shapes instead of arrays."""
    network = recurrent_of(config, input_size)
    owner = config.owner(network.cell.template(network.spec))
    return jax.eval_shape(lambda: owner.init_with_output(jax.random.key(0))[0])


class VariableModel(SequenceModel):
    """A `SequenceModel` that sows the penalty of its schedulers in training, and the following metrics for each example.

    - 'proportion' is the mean of m_t over steps that count (and over layers).
    - 'active' is the mean of the share of components that are updated, 'active_squared' the mean of the share's square.
    - With a lag k, 'proportion_sum', 'proportion_squares' and 'lagged_products' are the sums of m_t, m_t^2 and m_t m_{t+k}, and
      'schedule_steps' and 'schedule_pairs' the numbers of their terms. Sums give every pair the same weight: an example of k steps or
      fewer has no pair.
    - Evaluations compare the soft and the hard mask, both from the initial state of the example. 'agreement' is the share of predictions
      with the same most probable class. 'output_distance' is the mean over predictions of half the sum of the absolute differences of the
      classes' probabilities.

    Attributes:
      config: the network, and the training of its schedulers.
    """

    config: VariableConfig  # pyright: ignore[reportIncompatibleVariableOverride]

    def run(self, xs: PyTree, mask: Bool[Array, "t b"] | None, start: Start | None, inputs: Array, train: bool) -> tuple[PyTree, Array]:
        """Run as `SequenceModel.run` does, and sow the penalty and the metrics of the schedule."""
        config = self.config
        if not config.has_scheduler:
            return super().run(xs, mask, start, inputs, train)
        mode = "soft" if train else config.mask.evaluation
        carry, predictions, schedule = self.passes(xs, mask, start, mode, train)
        if not self.is_initializing():  # what initialization sows would be among the variables
            self._sow_metrics(schedule, mask)
        if train:
            self.sow("penalties", "schedule", self._penalty(schedule, inputs, mask))
        elif config.unit and config.mask.agreement and self.is_mutable_collection("metrics") and not self.is_initializing():
            _, other, _ = self.passes(xs, mask, start, "hard" if mode == "soft" else "soft", train)
            self._sow_agreement(predictions, other, mask)
        return carry, predictions

    def passes(
        self, xs: PyTree, mask: Bool[Array, "t b"] | None, start: Start | None, mode: str, train: bool
    ) -> tuple[PyTree, Float[Array, "*t b o"], Schedule]:
        """Return (last state, time-major predictions, schedule of every step) with a soft or a hard mask."""
        step, readout = self.config.scheduled(mode).step, self.reading(jax.tree.leaves(xs)[0].shape[1], train)
        whole = readout if self.reads == "all" else None
        carry, (ys, schedule) = self.recurrent(xs, mask, start, train=train, outputs="info", step=step, readout=whole)
        return carry, ys if whole else readout.apply(last_that_counts(ys, mask)), schedule

    def schedule(
        self, inputs: Array, mask: Bool[Array, "b t"] | None = None, start: Start | None = None
    ) -> tuple[PyTree, Float[Array, "b t k"]]:
        """Return (the state after the last step, m of every step and layer) in evaluation.

        Raises:
          UsageError: as `advance` does.
        """
        check_inputs(inputs, mask, self.input_size, self.reads)
        xs = self._inputs(jnp.swapaxes(inputs, 0, 1), train=False)
        carry, _, schedule = self.passes(xs, None if mask is None else mask.T, start, self.config.mask.evaluation, train=False)
        return carry, jnp.swapaxes(schedule.proportion, 0, 1)

    def _sow_metrics(self, schedule: Schedule, mask: Bool[Array, "t b"] | None) -> None:
        values = {"proportion": schedule.proportion, "active": schedule.active, "active_squared": jnp.square(schedule.active)}
        for name, value in values.items():
            self.sow("metrics", name, mean_over_steps(jnp.mean(value, axis=-1), mask))
        if 0 < self.config.schedule.lag < schedule.proportion.shape[0]:
            self._sow_sums(schedule, mask)

    def _sow_sums(self, schedule: Schedule, mask: Bool[Array, "t b"] | None) -> None:
        lag, m = self.config.schedule.lag, jnp.mean(schedule.proportion, axis=-1)
        m = at_least_single(m)  # sums of many steps
        counted = jnp.ones(m.shape, bool) if mask is None else mask
        pairs = counted[:-lag] & counted[lag:]
        terms = {
            "schedule_steps": (jnp.ones_like(m), counted),
            "schedule_pairs": (jnp.ones_like(m[lag:]), pairs),
            "proportion_sum": (m, counted),
            "proportion_squares": (m * m, counted),
            "lagged_products": (m[:-lag] * m[lag:], pairs),
        }
        for name, (values, where) in terms.items():
            self.sow("metrics", name, jnp.sum(values, axis=0, where=where))

    def _penalty(self, schedule: Schedule, inputs: Array, mask: Bool[Array, "t b"] | None) -> Float[Array, ""]:
        own, target = self.config.schedule, self.config.schedule.target
        if own.guided_symbols:
            if not jnp.issubdtype(inputs.dtype, jnp.integer):
                raise UsageError(
                    "model.schedule.guided_symbols are numbers of symbols, and this task has vectors as inputs: leave them out"
                )
            target = self.config.targets(inputs.T)[..., None]
        distances = schedule_penalty(schedule.proportion, target, own.penalty, own.one_sided)
        return own.penalty_weight * jnp.mean(mean_over_steps(jnp.mean(distances, axis=-1), mask))

    def _sow_agreement(self, one: Array, other: Array, mask: Bool[Array, "t b"] | None) -> None:
        same = (jnp.argmax(one, axis=-1) == jnp.argmax(other, axis=-1)).astype(one.dtype)
        distance = jnp.sum(jnp.abs(jax.nn.softmax(one) - jax.nn.softmax(other)), axis=-1) / 2
        for name, value in (("agreement", same), ("output_distance", distance)):
            self.sow("metrics", name, mean_over_steps(value, mask) if self.reads == "all" else value)


def schedule_penalty(
    m: Float[Array, "*b"], target: float | Float[Array, "*#b"], form: str = "l1", one_sided: bool = False
) -> Float[Array, "*b"]:
    """Compute the distance of a schedule from its target (Jernite et al. 2017, section 4.2).

    Args:
      m: shares from 0 to 1.
      target: target shares.
      form: 'l1' is the absolute difference, 'l2' its square.
      one_sided: only shares above the target count.

    Raises:
      UsageError: `form` is neither.
    """
    check_choice("the form of the penalty", form, get_args(SchedulePenaltyForm))
    excess = jnp.maximum(m - target, 0) if one_sided else m - target
    return jnp.abs(excess) if form == "l1" else jnp.square(excess)


def mean_over_steps(values: Float[Array, "t b"], mask: Bool[Array, "t b"] | None) -> Float[Array, " b"]:
    """Return the mean over the steps that count; 0 for an example without any."""
    if mask is None:
        return jnp.mean(values, axis=0)
    return jnp.sum(values, axis=0, where=mask) / jnp.maximum(jnp.sum(mask, axis=0), 1)


def last_that_counts(ys: Float[Array, "t b n"], mask: Bool[Array, "t b"] | None) -> Float[Array, "b n"]:
    """Return the output of each row at its last step that counts. Steps that do not count have outputs of zero."""
    if mask is None:
        return ys[-1]
    steps = jnp.arange(mask.shape[0])[:, None]
    return ys[jnp.argmax(jnp.where(mask, steps, -1), axis=0), jnp.arange(mask.shape[1])]
