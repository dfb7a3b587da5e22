"""Low-rank Highway classifiers of images as vectors.

Miceli Barone 2016, appendix A.1; lowrank-highwaynetwork (highwaylrdropoutbn_layer.py, highwaylrdiagdropoutbn_layer.py,
l2hinge_classifier.py). That code differs in these points:

- It divides by (standard deviation + 1e-4) and keeps running standard deviations. Here the divisor is the square root of (variance + 1e-5),
  with running variances, as in Ioffe and Szegedy 2015. The running standard deviations of its first batch normalization start at 0, so that
  the cost before training is about 1e4 and more; those inside the layers start at 1, as running variances do here. The weight of a new
  value in the running averages, 0.1, is the same.
- Its dropout masks are 0 or 1 in training, and states are multiplied by the kept share in evaluation. Here masks are 0 or 1 / kept share in
  training, and evaluation has none. At the input and within a layer the two differ by a constant factor. Batch normalization removes it;
  without normalization the matrices absorb it. No batch normalization follows the dropout of outputs. So scores in training are twice as
  large here, at the default share of 0.5 and equal weights of the readout.
- Both gates of a layer use the same pair of masks: `dropout.shared_masks`. By default each gate has its own pair here.
- It draws R and L from normal distributions, with the variance of Glorot's uniform distributions, which are used here. In the low-rank
  plus diagonal network it initializes them to singular vectors of a random orthogonal matrix. Each diagonal is the componentwise ratio of
  two vectors, which is heavy-tailed: the part of a random vector that these factors miss, and the vector itself. Here diagonals start
  within +-0.01. The paper names no initialization.
- The diagonal called D_h there belongs to the transform gate, and D_t to the candidate. So each is initialized for the factors of the other
  gate.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, get_args

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lrpt.cells.cell import StateGate
from lrpt.cells.highway import ACTIVATIONS, HighwayParams, highway, highway_template
from lrpt.errors import check_at_least, check_choice, check_finite, check_not_negative, check_shares
from lrpt.matrices import Composite, Operator
from lrpt.networks.configuration import DrawConfig, TiedStorageConfig
from lrpt.networks.protocol import NetworkDefaults, Reads, shapes_of
from lrpt.parametrizations import MatrixConfig, Parameters, form_of, has_projection, label_of
from lrpt.parametrizations.initialization import glorot_uniform
from lrpt.precision import promoted
from lrpt.settings import OneOf, accepts_short_names, check_choices, check_groups

ReadoutPenaltyForm = Literal["squared", "original"]


class Masks(NamedTuple):
    """Dropout masks of the state, (batch, n), and of its projection, (batch, d)."""

    state: Float[Array, "b n"]
    projection: Float[Array, "b d"]


@dataclass(frozen=True)
class Computed:
    """An operator that computes a given function."""

    function: Callable[[Array], Array]

    def apply(self, v: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
        return self.function(v)


@dataclass(frozen=True)
class HighwayInputConfig:
    """Storage of the input matrix."""

    rank: int | None = None
    """rank of the input matrix, stored as a product of two (None: dense)"""

    def __post_init__(self) -> None:
        check_at_least(1, self, "model.inputs.rank")


@dataclass(frozen=True)
class HighwayDropoutConfig:
    """Dropout in training."""

    inputs: float = 0.2
    """share of the input components dropped"""
    states: float = 0.3
    """share of the state components of each layer dropped before its matrices; the passthrough is not dropped"""
    projections: float = 0.3
    """share of the components of the projections x R dropped"""
    outputs: float = 0.5
    """share of the components of the last state dropped"""
    shared_masks: bool = False
    """both gates of a layer share one pair of masks, as in the original code"""

    def __post_init__(self) -> None:
        check_shares(self, "model.dropout.inputs", "model.dropout.states", "model.dropout.projections", "model.dropout.outputs")


@accepts_short_names
@dataclass(frozen=True)
class HighwayConfig(NetworkDefaults):
    """Configuration of a Highway network: depth, width and regularization. Further settings are in groups."""

    depth: int = 5
    """T: number of Highway layers"""
    size: int = 1024
    """n: width of the state"""
    activation: Annotated[str, OneOf("g", ACTIVATIONS)] = "relu"
    transform_bias: float = -1.0
    """initial bias of the transform gates"""
    batch_norm: bool = True
    """batch normalization after the input matrix and after each factor of the matrices of the layers"""
    readout_penalty: float = 1e-3
    """weight of the norm of the readout matrix in the loss"""
    penalty_form: Annotated[
        str,
        OneOf(
            "norm of the readout matrix in the loss",
            get_args(ReadoutPenaltyForm),
            notes="original divides the norm by the number of entries",
        ),
    ] = "squared"
    matrices: TiedStorageConfig = field(default_factory=lambda: TiedStorageConfig("low_rank", 256))
    inputs: HighwayInputConfig = field(default_factory=HighwayInputConfig)
    dropout: HighwayDropoutConfig = field(default_factory=HighwayDropoutConfig)

    def __post_init__(self) -> None:
        check_choices(self, "model")
        check_groups(self)
        check_at_least(1, self, "model.depth", "model.size")
        check_not_negative(self, "model.readout_penalty")
        check_finite(self, "model.transform_bias")

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why. Groups know their own (`lrpt.settings.unused_settings`)."""
        form, drop = form_of(self.matrices.kind), self.dropout
        masks = drop.states or drop.projections
        has_projections = form is None or has_projection(form)
        return {
            **({} if self.readout_penalty else {"penalty_form": "model.readout_penalty is 0"}),
            **({} if masks else {"dropout.shared_masks": "model.dropout.states and model.dropout.projections are 0"}),
            **({} if has_projections else {"dropout.projections": f"model.matrices.kind is {self.matrices.kind}"}),
        }

    @property
    def layer_matrices(self) -> MatrixConfig:
        """Return how the matrices of a layer are stored and initialized."""
        return self.matrices.started(DrawConfig(), self.matrices.tied)

    @property
    def without_initialization(self) -> "HighwayConfig":
        """Return the configuration with defaults for the initialization, on which compiled programs do not depend."""
        return replace(self, transform_bias=0.0)

    def build(self, input_size: int, output_size: int, reads: Reads, axis_name: str | None = None) -> "HighwayClassifier":
        """Return the network for a task with vectors of any width and one prediction. There is no loop over time."""
        return HighwayClassifier(self, output_size, axis_name)

    def parameter_shapes(self, input_size: int, output_size: int) -> Any:
        """Return the shapes of the parameters, without running averages.

        Raises:
          UsageError: the settings contradict each other, for example a rank above the size.
        """
        example = jax.ShapeDtypeStruct((1, input_size), jnp.float32)
        return shapes_of(self.build(input_size, output_size, "last"), example)

    @property
    def label(self) -> str:
        """Return a short name for tables and plots: 'LR-Highway 5x1024/256'."""
        stored = self.layer_matrices
        label = label_of(stored)
        marks = (" tied" if stored.tied else "") + (" weight norm" if stored.weight_norm else "")
        return f"{label.prefix}Highway {self.depth}x{self.size}{label.suffix}{marks}"


class HighwayClassifier(nn.Module):
    """A Highway network that scores classes: dense layer, Highway layers, dense readout (Miceli Barone 2016, appendix A.1).

    Dropout -> Dense -> batch norm -> activation -> T Highway layers -> Dropout -> Dense. A low-rank input matrix is two dense layers, of
    which the first has no bias. The layer before batch normalization has none either, but has one if normalization is off. In training,
    `apply` needs the random numbers `dropout` and the mutable collection `batch_stats`.

    Attributes:
      config: the network.
      output_size: number of classes.
      axis_name: the mapped axis over which a batch is sharded, if there is one. Shards are normalized together.
    """

    config: HighwayConfig
    output_size: int = 10
    axis_name: str | None = None

    def __call__(self, inputs: Float[Array, "b m"], mask: None = None, *, train: bool = False) -> Float[Array, "b k"]:
        """Return scores, one for each class; the highest is the prediction."""
        return self.advance(inputs, train=train)[0]

    @nn.compact
    def advance(
        self, inputs: Float[Array, "b m"], mask: None = None, start: None = None, *, train: bool = False
    ) -> tuple[Float[Array, "b k"], None]:
        """Return (scores, None): a classifier has no state. This is the interface for training."""
        config = self.config
        x = nn.Dropout(config.dropout.inputs, deterministic=not train, name="input_dropout")(inputs)
        if config.inputs.rank is not None:
            x = nn.Dense(config.inputs.rank, use_bias=False, kernel_init=glorot_uniform, name="input_projection")(x)
        x = nn.Dense(config.size, use_bias=not config.batch_norm, kernel_init=glorot_uniform, name="input")(x)
        x = batch_norm(config, self.axis_name, train, name="input_norm")(x)
        x = ACTIVATIONS[config.activation](x)
        for i in range(config.depth):
            x = HighwayLayer(config, self.axis_name, name=f"layer_{i}")(x, train=train)
        x = nn.Dropout(config.dropout.outputs, deterministic=not train, name="output_dropout")(x)
        scores = nn.Dense(self.output_size, kernel_init=glorot_uniform, name="readout")(x)
        if train:
            kernel = self.variables["params"]["readout"]["kernel"]
            self.sow("penalties", "readout_penalty", readout_penalty(kernel, config.readout_penalty, config.penalty_form))  # type: ignore[arg-type]
        return scores, None


class HighwayLayer(nn.Module):
    """A layer of `lrpt.cells.highway` with dropout and batch normalization inside its matrices."""

    config: HighwayConfig
    axis_name: str | None = None

    @nn.compact
    def __call__(self, x: Float[Array, "b n"], *, train: bool) -> Float[Array, "b n"]:
        config = self.config
        params = Parameters(highway_template(config.size, config.transform_bias), config.layer_matrices, MatrixConfig(), name="gates")()
        candidate, transform = self.masks(x, train)
        params = HighwayParams(
            self.regularized("candidate", params.candidate, candidate, train),
            self.regularized("transform", params.transform, transform, train),
        )
        return highway(params, x, ACTIVATIONS[config.activation])[0]

    def masks(self, x: Float[Array, "b n"], train: bool) -> tuple[Masks, Masks]:
        """Draw the masks of the two gates."""
        dropout = self.config.dropout

        def drop(rate: float, width: int) -> Float[Array, "b w"]:
            return nn.Dropout(rate, deterministic=not train)(jnp.ones((x.shape[0], width), x.dtype))

        def draw() -> Masks:
            return Masks(drop(dropout.states, self.config.size), drop(dropout.projections, self.config.matrices.rank))

        first = draw()
        return first, first if dropout.shared_masks else draw()

    def regularized(self, name: str, gate: StateGate, masks: Masks, train: bool) -> StateGate:
        """Return a gate whose matrix has dropout and batch normalization."""
        module = RegularizedMatrix(self.config, self.axis_name, name=name)
        return gate._replace(recurrent=Computed(lambda v: module(gate.recurrent, v, masks, train=train)))


class RegularizedMatrix(nn.Module):
    r"""A product x W of one gate, with dropout before and batch normalization after each factor.

    .. math::
        \tilde x = x \odot m_0, \quad p = N(\tilde x R), \quad q = s \odot N((p \odot m_1) L + \tilde x \odot D)

    N subtracts the mean over the batch and divides by the standard deviation. s is trainable and initialized to 1. The shift is the bias of
    the gate, which the layer adds to q. A matrix without such factors has :math:`q = s \odot N(\tilde x W)`.
    """

    config: HighwayConfig
    axis_name: str | None = None

    @nn.compact
    def __call__(self, matrix: Operator, x: Float[Array, "b n"], masks: Masks, *, train: bool) -> Float[Array, "b n"]:
        norm = partial(batch_norm, self.config, self.axis_name, train, use_bias=False)
        x = x * masks.state

        def between(projected: Float[Array, "b d"]) -> Float[Array, "b d"]:
            return norm(use_scale=False, name="projection_norm")(projected) * masks.projection

        q = matrix.apply_between(between, x) if isinstance(matrix, Composite) else matrix.apply(x)
        return norm(name="norm")(q)


def batch_norm(config: HighwayConfig, axis_name: str | None, train: bool, **options: Any) -> Callable[[Array], Array]:
    """Return batch normalization: by the batch in training, by running averages in evaluation. Return the identity if it is off."""
    if not config.batch_norm:
        return lambda x: x
    options |= {"use_running_average": not train, "momentum": 0.9, "epsilon": 1e-5, "axis_name": axis_name}

    def normalized(x: Array) -> Array:
        kind = promoted(x.dtype, jnp.float32)  # Flax's averages would start in float32 and become float64 in the first update
        return nn.BatchNorm(param_dtype=kind, force_float32_reductions=kind == jnp.float32, **options)(x)

    return normalized


def readout_penalty(kernel: Float[Array, "n k"], weight: float, form: ReadoutPenaltyForm = "squared") -> Float[Array, ""]:
    r"""Compute the penalty of the readout matrix W, which training adds to the mean loss.

    Args:
      kernel: W, without the bias.
      weight: :math:`\lambda`; 1e-3 in the paper, 1e-5 in the script, 3e-3 in the names of its logs.
      form: 'squared' is :math:`\lambda \|W\|_F^2` (Miceli Barone 2016, appendix A.1), 'original' is :math:`\lambda \|W\|_F` divided by the
        number of entries of W (l2hinge_classifier.py).

    Raises:
      UsageError: `form` is neither.
    """
    check_choice("form", form, get_args(ReadoutPenaltyForm))
    square = jnp.sum(jnp.square(kernel))
    return weight * (square if form == "squared" else jnp.sqrt(square) / kernel.size)
