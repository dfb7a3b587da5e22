"""Named optax chains, one for each paper and task: gradient clipping, gradient scaling, and a constraint after the update.

The 2016 scripts differ from task to task, so there is no single "optimizer of the paper". RMSProp here is `rmsprop_2016`, whose accumulator
starts at 0.001.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from lrpt.errors import LARGEST_COUNT, UsageError, check_at_least, check_at_most, check_numbers, check_shares
from lrpt.optim.transforms import (
    clip_all_but_first_seven,
    clip_by_norm_or_shrink,
    clip_or_shrink,
    clip_parts_or_shrink,
    project_rows,
    shrink_after,
)
from lrpt.settings import OneOf, check_choices
from lrpt.tables import Table

Rate = float | Float[Array, ""]
LearningRate = Rate | optax.Schedule
WeightDecayForm = Literal["in_loss", "decoupled"]


def rmsprop_2016(learning_rate: LearningRate, eps: float) -> optax.GradientTransformation:
    r"""Build the RMSProp of lowrank-gru (optimizations.py, inherited from complex_RNN).

    .. math::
        v \leftarrow 0.9\, v + 0.1\, g^2, \qquad \Delta\theta = -\eta\, g / \sqrt{v + \epsilon}, \qquad v_0 = 10^{-3}

    The accumulator does not start at zero, and epsilon is inside the root. There is no momentum and no bias correction.

    Args:
      learning_rate: eta.
      eps: epsilon. The original's RNN_memory.py has 1e-8; its other scripts have none; their recipes use `NO_EPS`.
    """
    return optax.rmsprop(learning_rate, decay=0.9, eps=eps, initial_scale=1e-3, eps_in_sqrt=True)


EPSILON_HAT = 1e-8


def adam_with_epsilon_hat(learning_rate: LearningRate) -> optax.GradientTransformation:
    r"""Build Adam in the form at the end of section 2 of Kingma and Ba (2015), as in dl4mt-lm: epsilon is added to the uncorrected root.

    .. math::
        \Delta\theta = -\eta\, \frac{\sqrt{1 - \beta_2^t}}{1 - \beta_1^t}\, \frac{m_t}{\sqrt{v_t} + \hat\epsilon},
        \qquad \hat\epsilon = 10^{-8}

    `optax.adam` adds epsilon to the corrected root :math:`\sqrt{v_t / (1 - \beta_2^t)}`. There it has less effect in early updates, by a
    factor of 32 for t = 1.
    """
    fixed = ("b1", "b2", "eps_root", "nesterov")
    scale_by_adam = optax.inject_hyperparams(optax.scale_by_adam, static_args=fixed)
    return optax.chain(
        scale_by_adam(b2=0.999, eps=lambda count: EPSILON_HAT / jnp.sqrt(1 - 0.999 ** (count + 1.0))),
        optax.scale_by_learning_rate(learning_rate),
    )


# Most scripts use eps = 0. If a gradient stays exactly zero, v then underflows and the next update is 0 / 0. This value avoids that. It
# disappears in rounding for accumulators above 2e-23, that is for gradients with a root mean square above 5e-12.
NO_EPS = 1e-30


@dataclass(frozen=True)
class Recipe:
    """A named chain of gradient transformations.

    Attributes:
      description: what the chain does, and its source.
      learning_rate: the learning rate of the source.
      build: `learning_rate -> optax.GradientTransformation`; its `update` needs the parameters. The learning rate may be an optax
        schedule.
      evaluated: `(state of the chain, parameters) -> parameters`; the parameters that are evaluated and kept, such as an average of the
        trained ones. None: the trained ones. Not together with decoupled weight decay or `return_to_best`, which change the
        parameters after the chain, so that its average would not follow.
    """

    description: str
    learning_rate: float
    build: Callable[[LearningRate], optax.GradientTransformation]
    evaluated: Callable[[optax.OptState, optax.Params], optax.Params] | None = None


ENTERING = "lrpt.optim.RECIPES['{}'] = lrpt.optim.Recipe(description, learning_rate, lambda rate: chain)"
"""How an optax chain gets a name, in messages."""

RECIPES: Table[Recipe] = Table(
    {
        "copy_memory": Recipe(
            "norm clipping at 1 with NaN recovery, RMSProp (lowrank-gru, RNN_memory.py: low-rank GRUs)",
            1e-3,
            lambda learning_rate: optax.chain(clip_by_norm_or_shrink(1.0, 0.1), rmsprop_2016(learning_rate, eps=1e-8)),
        ),
        "copy_memory_dense": Recipe(
            "component clipping at 1, RMSProp (lowrank-gru, RNN_memory.py: dense GRU and LSTM)",
            1e-3,
            lambda learning_rate: optax.chain(optax.clip(1.0), rmsprop_2016(learning_rate, eps=1e-8)),
        ),
        "copy_memory_unitary": Recipe(
            "RMSProp without clipping (lowrank-gru, RNN_memory.py: unitary networks; complex_RNN has no epsilon)",
            1e-3,
            lambda learning_rate: rmsprop_2016(learning_rate, eps=1e-8),
        ),
        "adding": Recipe(
            "component clipping at 1, RMSProp without epsilon (lowrank-gru, RNN_adding.py)",
            1e-3,
            lambda learning_rate: optax.chain(optax.clip(1.0), rmsprop_2016(learning_rate, NO_EPS)),
        ),
        "adding_recovery": Recipe(
            "adding with the NaN recovery of copy_memory (not in the original; an LRD-GRU diverged without it)",
            1e-3,
            lambda learning_rate: optax.chain(clip_or_shrink(1.0, 0.1), rmsprop_2016(learning_rate, NO_EPS)),
        ),
        "permuted_mnist": Recipe(
            "component clipping at 1, RMSProp without epsilon (Miceli Barone 2018, text)",
            5e-4,
            lambda learning_rate: optax.chain(optax.clip(1.0), rmsprop_2016(learning_rate, NO_EPS)),
        ),
        "permuted_mnist_original": Recipe(
            "component clipping at 1 except for the first seven tensors, RMSProp without epsilon (lowrank-gru, RNN_mnist.py)",
            5e-4,
            lambda learning_rate: optax.chain(clip_all_but_first_seven(1.0), rmsprop_2016(learning_rate, NO_EPS)),
        ),
        "weight_norm": Recipe(
            "norm clipping at 1 without NaN recovery, RMSProp, rows limited to norm 10 (Miceli Barone 2018, section 3.5.1, which does not"
            " say whether clipping stays: a guess)",
            1e-3,
            lambda learning_rate: optax.chain(optax.clip_by_global_norm(1.0), rmsprop_2016(learning_rate, eps=1e-8), project_rows(10.0)),
        ),
        "weight_norm_recovery": Recipe(
            "weight_norm with the NaN recovery of copy_memory (not in the paper: recoveries count gradients that are not finite)",
            1e-3,
            lambda learning_rate: optax.chain(clip_by_norm_or_shrink(1.0, 0.1), rmsprop_2016(learning_rate, eps=1e-8), project_rows(10.0)),
        ),
        "char_lm": Recipe(
            "norm clipping at 1 with NaN recovery, Adam (dl4mt-lm, small_lm.py, with the paper's learning rate)",
            1e-3,
            lambda learning_rate: optax.chain(clip_by_norm_or_shrink(1.0, 0.01), optax.adam(learning_rate)),
        ),
        "char_lm_apart": Recipe(
            "char_lm with separate clipping of the norms of schedulers and of all other parameters (not published: for variable"
            " computation)",
            1e-3,
            lambda learning_rate: optax.chain(clip_parts_or_shrink(1.0, 0.01), optax.adam(learning_rate)),
        ),
        "char_lm_original": Recipe(
            "char_lm with epsilon added to the uncorrected root, as in dl4mt-lm: smaller first updates",
            1e-3,
            lambda learning_rate: optax.chain(clip_by_norm_or_shrink(1.0, 0.01), adam_with_epsilon_hat(learning_rate)),
        ),
        "char_lstm": Recipe(
            "Adam, weight decay of 1e-7 within the gradient (lowrank-lstm; made for a loss summed over the window, see optim.summed_steps)",
            2e-4,
            lambda learning_rate: optax.chain(optax.add_decayed_weights(1e-7), optax.adam(learning_rate)),
        ),
        "rhn": Recipe(
            "norm clipping at 10, SGD (Zilly et al. 2017: rhn_train.py; made for a loss summed over the window, see optim.summed_steps)",
            0.2,
            lambda learning_rate: optax.chain(optax.clip_by_global_norm(10.0), optax.sgd(learning_rate)),
        ),
        "momentum": Recipe(
            "norm clipping at 10, SGD with momentum 0.9 (for searches: updates stay finite, of norm at most 100 times the learning rate)",
            1e-2,
            lambda learning_rate: optax.chain(optax.clip_by_global_norm(10.0), optax.sgd(learning_rate, momentum=0.9)),
        ),
        "adam": Recipe("Adam with its published constants (Kingma and Ba 2015)", 1e-3, optax.adam),
    }
)


@dataclass(frozen=True)
class OptimConfig:
    """The optimizer: a recipe, its learning rate, weight decay and annealing."""

    recipe: Annotated[str, OneOf("named optimizer", RECIPES)]
    learning_rate: float | None = None
    """initial learning rate (None: that of the recipe)"""
    summed_steps: int = 1
    """factor of the gradient before the recipe: the window length if the original code sums the loss over the window"""
    weight_decay: float = 0.0
    """weight decay w of all parameters"""
    weight_decay_form: Annotated[
        str,
        OneOf(
            "form of weight decay",
            get_args(WeightDecayForm),
            notes="in_loss adds w times half the squared norm to the loss, decoupled multiplies by 1 - w after each update, at any "
            "learning rate (AdamW: 1 - learning rate times w)",
        ),
    ] = "in_loss"
    decay: float = 1.0
    """factor of the learning rate from one epoch to the next"""
    decay_after: int = 0
    """number of epochs after the first that keep the initial learning rate (0: the learning rate falls from epoch 2 on)"""
    halve_after: int | None = None
    """halve the learning rate after this many evaluations without a new best one (None: never)"""
    halvings: int = 14
    """largest number of halvings; the next one ends training instead"""
    return_to_best: bool = False
    """restore the best parameters at each halving, as lowrank-highwaynetwork does"""

    def __post_init__(self) -> None:
        if hasattr(self.recipe, "update"):
            raise UsageError(f"optim.recipe is an optax chain: give a name, after {ENTERING.format('mine')}")
        check_choices(self, "optim")
        check_numbers(self, "optim.decay")
        check_shares(self, "optim.weight_decay")
        if not 0 < self.decay <= 1:
            raise UsageError(f"optim.decay is {self.decay}: expected a factor above 0, at most 1")
        check_at_least(1, self, "optim.summed_steps", "optim.halve_after")
        check_at_least(0, self, "optim.decay_after", "optim.halvings")
        check_at_most(LARGEST_COUNT, self, "optim.summed_steps", "optim.halve_after", "optim.decay_after", "optim.halvings")
        changed = "return_to_best" if self.return_to_best else "weight_decay_form decoupled" if self._after_recipe else None
        if changed is not None and RECIPES[self.recipe].evaluated is not None:
            raise UsageError(
                f"optim.{changed} changes parameters after the recipe, and '{self.recipe}' evaluates an average that would not "
                f"follow: leave one of both out"
            )
        if self.learning_rate is not None and not _is_positive(self.learning_rate):
            own = "; a schedule belongs into a recipe of your own, see docs/problems.md" if callable(self.learning_rate) else ""
            raise UsageError(f"optim.learning_rate is {self.learning_rate!r}: choose a finite number above 0, or leave it out{own}")

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why."""
        return {
            **({} if self.weight_decay else {"weight_decay_form": "optim.weight_decay is 0"}),
            **({"decay_after": "optim.decay is 1"} if self.decay == 1 else {}),
            **(dict.fromkeys(("halvings", "return_to_best"), "optim.halve_after is None") if self.halve_after is None else {}),
        }

    @property
    def initial_learning_rate(self) -> float:
        """Return the learning rate before annealing: the configured one, or that of the recipe."""
        return RECIPES[self.recipe].learning_rate if self.learning_rate is None else self.learning_rate

    def decayed(self, learning_rate: Rate, update: Int[Array, ""], epoch: int) -> Rate:
        r"""Return the learning rate after `update` updates, with epochs of `epoch` updates.

        .. math::
            \eta \, \delta^{\max(\lfloor t / E \rfloor - a, 0)}

        Here :math:`\eta` is the learning rate, :math:`\delta` is `decay`, :math:`t` is `update`, :math:`E` is `epoch`, and :math:`a` is
        `decay_after`. The first :math:`a + 1` epochs have the initial learning rate.
        """
        if self.decay == 1:
            return learning_rate
        return learning_rate * self.decay ** jnp.maximum(update // epoch - self.decay_after, 0).astype(jnp.float32)

    def build(self, learning_rate: LearningRate | None = None) -> optax.GradientTransformation:
        r"""Build the recipe's chain, with its configured learning rate or the given one.

        A given learning rate may be traced, so that one compiled program serves several learning rates. It may also be an optax schedule.

        With T = `summed_steps`, w = `weight_decay` and g the gradient of the mean loss, the recipe receives:

        - 'in_loss': :math:`T g + w \theta`, as in `rhn_train.py` of Zilly et al. 2017. Norm clipping sees both terms, and the update
          shrinks parameters by the learning rate times w.
        - 'decoupled': T g. After the update, :math:`\theta \leftarrow (1 - w)(\theta + \Delta\theta)`, as in their Torch code.

        With T = 1 and w = 0 the chain is the recipe alone.
        """
        recipe = self._entry.build(self.initial_learning_rate if learning_rate is None else learning_rate)
        if not (hasattr(recipe, "init") and hasattr(recipe, "update")):
            raise UsageError(f"recipe '{self.recipe}' builds {recipe!r}: expected an optax chain, which has `init` and `update`")
        before, after = self._before_recipe, self._after_recipe
        return optax.chain(*before, recipe, *after) if before or after else recipe

    def check_rate(self, opt_state: optax.OptState) -> None:
        """Raise a UsageError if the learning rate is to change, and the state of the chain would keep the first one."""
        changes = "decay" if self.decay < 1 else "halve_after" if self.halve_after is not None else None
        if changes is not None and optax.tree.get_all_with_path(opt_state, "learning_rate"):
            raise UsageError(
                f"optim.{changes} would have no effect: recipe '{self.recipe}' keeps its learning rate in the state of the optimizer, as "
                f"optax.inject_hyperparams does; build its chain with the learning rate that it is given"
            )

    def evaluated(self, opt_state: optax.OptState, params: optax.Params) -> optax.Params:
        """Return the parameters that are evaluated and kept: those of `Recipe.evaluated`.

        Args:
          opt_state: state of the chain that `build` returns.
          params: the trained parameters.

        Raises:
          UsageError: the recipe returns something else than parameters of the same names and shapes.
        """
        evaluated = self._entry.evaluated
        if evaluated is None:
            return params
        before = len(self._before_recipe)
        found = evaluated(opt_state[before] if before else opt_state, params)  # type: ignore[index]
        if jax.tree.structure(found) != jax.tree.structure(params) or jax.tree.map(jnp.shape, found) != jax.tree.map(jnp.shape, params):
            raise UsageError(
                f"`evaluated` of recipe '{self.recipe}' does not return parameters of the names and shapes of the trained ones"
            )
        return found

    @property
    def _entry(self) -> Recipe:
        """Return the recipe of the table. Raise a UsageError if the user has entered something else."""
        entry = RECIPES[self.recipe]
        if not isinstance(entry, Recipe):
            raise UsageError(f"RECIPES['{self.recipe}'] is a {type(entry).__name__}: enter {ENTERING.format(self.recipe)}")
        return entry

    @property
    def _before_recipe(self) -> list[optax.GradientTransformation]:
        scale = [optax.scale(self.summed_steps)] if self.summed_steps > 1 else []
        decays = self.weight_decay and self.weight_decay_form == "in_loss"
        return [*scale, optax.add_decayed_weights(self.weight_decay)] if decays else scale

    @property
    def _after_recipe(self) -> list[optax.GradientTransformation]:
        decays = self.weight_decay and self.weight_decay_form == "decoupled"
        return [shrink_after(self.weight_decay)] if decays else []


def _is_positive(value: Any) -> bool:
    """Return whether a value is a finite number above 0."""
    try:
        return math.isfinite(value) and bool(value > 0)
    except TypeError:
        return False
