"""Groups of settings that configurations of networks share: storage of matrices, embeddings, initialization, loop over time.

Constructors raise a UsageError if a setting has a value that is not allowed, such as an unknown name or a rank that is no integer.
"""

from dataclasses import dataclass, fields
from typing import Annotated, ClassVar, TypedDict, get_args

from lrpt.errors import check_at_least, check_finite, check_integers, check_numbers, check_positive
from lrpt.parametrizations import PARAMETRIZATIONS, MatrixConfig, form_of, settings_of
from lrpt.parametrizations.initialization import INITIALIZATIONS
from lrpt.recurrence import KERNEL, LOOPS, Pack, Store, Tuning
from lrpt.recurrence.materialize import Materialize
from lrpt.settings import OneOf, check_choices


@dataclass(frozen=True)
class _Storage:
    """Storage of matrices. A group of settings adds its flag, and whether it ties matrices or normalizes weights."""

    FLAG: ClassVar[str]
    kind: Annotated[str, OneOf("parametrization", PARAMETRIZATIONS)] = "dense"
    rank: int = MatrixConfig.rank
    """d: maximum rank of each low-rank matrix, displacement rank, number of reflections, rank of a tensor train"""
    blocks: int = MatrixConfig.blocks
    """k: blocks of block-diagonal and Monarch matrices, rows of the outer factor of Kronecker products"""
    density: float = MatrixConfig.density
    """share of the entries that sparse matrices have"""

    def __post_init__(self) -> None:
        check_choices(self, self.FLAG)
        check_integers(self, f"{self.FLAG}.rank", f"{self.FLAG}.blocks", optional=False)
        check_numbers(self, f"{self.FLAG}.density")

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why. Nothing is known of parametrizations that do not name their settings."""
        form, settings = form_of(self.kind), settings_of(self.kind)
        if settings is None:
            return {}
        used = {"kind", "weight_norm", *settings, *(["tied"] if form is None or form.shared else [])}
        return {setting.name: f"{self.FLAG}.kind is {self.kind}" for setting in fields(self) if setting.name not in used}


@dataclass(frozen=True)
class StorageConfig(_Storage):
    """Storage of recurrent matrices."""

    FLAG: ClassVar[str] = "model.matrices"
    weight_norm: bool = False
    """weight normalization of all matrices of the cell (not of its diagonals, the embeddings and the readout)"""

    def started(self, initial: "DrawConfig", tied: bool = False) -> MatrixConfig:
        """Return the configuration of matrices with this storage and initialization.

        Args:
          initial: the initialization.
          tied: whether matrices share a factor. Ignored for kinds without a factor to share, such as dense matrices: a comparison may
            change the kind alone, and labels must not call dense matrices tied.
        """
        form = form_of(self.kind)
        tied = tied and (form is None or bool(form.shared))
        return MatrixConfig(
            self.kind, self.rank, tied, self.weight_norm, initial.kind, initial.scale, blocks=self.blocks, density=self.density
        )


@dataclass(frozen=True)
class TiedStorageConfig(StorageConfig):
    """Storage of recurrent matrices, which may share a low-rank factor."""

    tied: bool = False
    """all recurrent matrices share one low-rank factor R, if they have one"""


@dataclass(frozen=True)
class InputStorageConfig(_Storage):
    """Storage of input matrices."""

    FLAG: ClassVar[str] = "model.inputs"
    rank: int = 1
    """maximum rank of each low-rank input matrix, or as for recurrent matrices"""
    tied: bool = False
    """all input matrices share one low-rank factor R"""


@dataclass(frozen=True)
class EmbeddingConfig:
    """A trainable vector for each symbol."""

    width: int | None = None
    """width of the vectors, or of a linear map of vector inputs (None: the cell reads inputs directly, or at the width it needs)"""
    rank: int | None = None
    """rank of the embedding matrix, stored as a product of two (None: dense)"""
    tied: bool = False
    """the readout uses the embedding matrix; the width must equal the width of the outputs"""

    def __post_init__(self) -> None:
        check_at_least(1, self, "model.embeddings.width", "model.embeddings.rank")


@dataclass(frozen=True)
class DrawConfig:
    """Initialization of parameters."""

    kind: Annotated[str, OneOf("initial matrices", INITIALIZATIONS)] = "glorot"
    scale: float = 0.04
    """range of uniform, standard deviation of normal; other kinds ignore it"""

    def __post_init__(self) -> None:
        check_choices(self, "model.initial")
        check_positive(self, "model.initial.scale")

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why."""
        return {} if INITIALIZATIONS[self.kind].has_scale else {"scale": f"model.initial.kind is {self.kind}"}


@dataclass(frozen=True)
class InitialConfig(DrawConfig):
    """Initialization of parameters and of the state."""

    carry_bias: float = 1.0
    """initial bias of the carry (update) gate (0: as the initialization draws biases)"""
    trainable_state: bool = True
    """train the state before the first step (else it is zero)"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_finite(self, "model.initial.carry_bias")


LOOPS_IN_WORDS = "fast forms weight gradients once per chunk of steps, checkpoint recomputes chunks, plain is lax.scan"


@dataclass(frozen=True)
class LoopConfig:
    """Loop of the cell over time."""

    kind: Annotated[
        str,
        OneOf("loop", LOOPS, notes=LOOPS_IN_WORDS),
    ] = "fast"
    chunk: int | None = None
    """steps that the backward pass takes at once (None: 1 to 64, about 30,000 values; 90,000 on accelerators or with many weights)"""
    store: Annotated[
        str, OneOf("states that the fast loop keeps", get_args(Store), notes="auto keeps all up to 256 MiB, then those between chunks")
    ] = "auto"
    pack: Annotated[
        str,
        OneOf(
            "sort the rows of a padded batch by length, and compute steps for rows that have not ended",
            get_args(Pack),
            notes="auto does so on CPUs for 8 rows and 64 steps or more",
        ),
    ] = "auto"
    unroll: int | None = None
    """steps in an iteration of the compiled loop (None: 8 on GPUs, 1 elsewhere)"""

    def __post_init__(self) -> None:
        check_choices(self, "model.loop")
        check_at_least(1, self, "model.loop.chunk", "model.loop.unroll")

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why."""
        tuned = "chunk", "store", "pack", "unroll"
        used = {"fast": {*tuned}, "checkpoint": {"chunk", "pack", "unroll"}, "plain": {"pack", "unroll"}, KERNEL: set()}.get(self.kind)
        return {name: f"model.loop.kind is {self.kind}" for name in tuned if used is not None and name not in used}

    def tuning(self) -> Tuning:
        """Return the tuning of the loop."""
        return Tuning(self.chunk, self.store, self.pack, self.unroll)  # type: ignore[arg-type]


@dataclass(frozen=True)
class SequenceLoopConfig(LoopConfig):
    """Loop of a sequence model's cell over time."""

    kind: Annotated[
        str,
        OneOf(
            "loop",
            LOOPS,
            [KERNEL],
            notes=f"{LOOPS_IN_WORDS}, kernel is for low-rank GRUs on NVIDIA Hopper GPUs",
        ),
    ] = "fast"
    materialize: Annotated[
        str,
        OneOf(
            "multiply structured matrices out, and merge operators, before the loop",
            get_args(Materialize),
            notes="auto does if it takes less work",
        ),
    ] = "auto"

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect, and why."""
        return super().unused | ({"materialize": f"model.loop.kind is {KERNEL}"} if self.kind == KERNEL else {})


class ShortNames(TypedDict, total=False):
    """Settings that `ModelConfig` takes by short name, for type checkers. `lrpt.settings.SHORT_NAMES` says where each belongs."""

    parametrization: str
    rank: int
    blocks: int
    density: float
    tied: bool
    weight_norm: bool
    input_parametrization: str
    input_rank: int
    input_blocks: int
    input_density: float
    input_tied: bool
    embedding: int | None
    embedding_rank: int | None
    tie_embedding: bool
    initialization: str
    initial_scale: float
    carry_bias: float
    trainable_initial_state: bool
    recurrence: str
    chunk: int | None
    store: str
    pack: str
    unroll: int | None
    materialize: str
    word_dropout: float
    word_masks: str
    drop_biases: bool
    input_dropout: float
    state_dropout: float
    output_dropout: float
    gate_masks: str
