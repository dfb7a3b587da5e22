"""What the papers say, as data: each published figure, the command that runs its model, and how the figure is read from a run.

Miceli Barone, "Low-rank passthrough neural networks", DeepLo 2018 (sections and tables are numbered as there) and arXiv 1603.03116, which
has the same figures but for LRD-GRU on the adding task. Points of learning curves are those of the logs in github.com/Avmb/lowrank-gru.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments import adding, char_lm, copy_memory, highway_mnist, permuted_mnist
from experiments.report.records import Record
from lrpt.cli.experiment import Experiment


@dataclass(frozen=True)
class Quantity:
    """A figure of one run.

    Attributes:
      name: what it is, with its unit.
      read: the figure of a run, or None where it has none (yet).
      form: format string.
      agrees: whether it is as good as the published one; None where nothing was published to hold it against.
    """

    name: str
    read: Callable[[Record], float | None]
    form: str
    agrees: Callable[[float], bool] | None = None


@dataclass(frozen=True)
class Claim:
    """A row of a table, or a sentence.

    Attributes:
      where: its place in the paper.
      flags: of the command line, which say the model and how many updates are full scale.
      published: as printed.
      quantities: what is compared; all must agree.
      setting: what tells it from other claims about the same model.
    """

    where: str
    flags: str
    published: str
    quantities: tuple[Quantity, ...]
    setting: str = ""


@dataclass(frozen=True, eq=False)
class Study:
    """Claims about one task, and a learning curve.

    Attributes:
      name: of the figure's file.
      title: the task.
      experiment: what runs it.
      score: the figure of the learning curve, as `metrics.jsonl` names it.
      score_name: the same in words, with its unit.
      form: format string of the score.
      claims: what was published.
      updates: at which the learning curve is tabulated.
      log_of: the model whose training log was published.
      log: update -> score in that log.
      remark: what was found out about our runs beyond their figures, and how.
    """

    name: str
    title: str
    experiment: Experiment[Any]
    score: str
    score_name: str
    form: str
    claims: tuple[Claim, ...]
    updates: tuple[int, ...]
    log_of: str = ""
    log: Mapping[int, float] = field(default_factory=dict)
    remark: str = ""

    def command(self, claim: Claim) -> str:
        """The command line that trains the model of a claim."""
        return f"python -m experiments.{self.experiment.name} {claim.flags}"


def solved(within: float | None = None) -> Quantity:
    """The first evaluation with test cross-entropy below 1e-3, which the paper has in less than `within` updates."""
    agrees = None if within is None else lambda update: update < within
    return Quantity(
        "first update with test cross-entropy < 1e-3", lambda run: run.first("loss", lambda loss: loss < 1e-3), "{:,.0f}", agrees
    )


def perfect(by: int) -> Quantity:
    """The first evaluation without a single wrong symbol, which is at most `by`."""
    exact = 1 - 4e-7  # half a symbol in 10,000 sequences of 120
    read = lambda run: run.first("accuracy", lambda accuracy: accuracy > exact)  # noqa: E731
    return Quantity("first update with perfect accuracy", read, "{:,.0f}", lambda update: update <= by)


def learned_by_heart(within: int) -> Quantity:
    """The first evaluation before which training batches had not a single wrong symbol, which is below `within`."""
    read = lambda run: next((line["update"] for line in run.training() if line["accuracy"] > 1 - 1e-7), None)  # noqa: E731
    return Quantity("first update with perfect training accuracy", read, "{:,.0f}", lambda update: update < within)


def mean_squared_error(update: int, below: float) -> Quantity:
    """Test error after so many updates, which rounds to the published figure or less."""
    return Quantity(
        f"test MSE after {update:,} updates",
        lambda run: run.up_to("loss", update) if run.updates >= update else None,
        "{:.4f}",
        lambda error: error < below,
    )


MARGIN = 0.005


def accuracies(valid: float, test: float) -> tuple[Quantity, Quantity]:
    """Highest validation accuracy at any evaluation, and test accuracy of the model of lowest validation loss, as Table 1 has them."""
    return (
        Quantity(
            "highest valid accuracy",
            lambda run: max(run.curve("accuracy").values(), default=None),
            "{:.1%}",
            lambda value: value >= valid - MARGIN,
        ),
        Quantity("test accuracy", lambda run: run.tested("accuracy"), "{:.1%}", lambda value: value >= test - MARGIN),
    )


def correct(published: float) -> Quantity:
    """Test accuracy of the model of lowest validation loss, at most 0.1 percentage points below the published one."""
    return Quantity("test accuracy", lambda run: run.tested("accuracy"), "{:.2%}", lambda value: value >= published - 0.001)


FASTER = "more stable and faster than without weight normalization; no figure"

SLOWER = """By these runs, one with weight normalization, that is not faster at the published learning rate. How much more stable it is at
higher ones: see the sections on stability."""

VARIABLE_LENGTH = Study(
    name="copy_variable_length",
    title="Copy, variable length, N = 100",
    experiment=copy_memory.EXPERIMENT,
    score="loss",
    score_name="test cross-entropy (nats)",
    form="{:.4f}",
    claims=(
        Claim("section 3.1", "--preset paper-variable-length", "< 1e-3 in < 30,000 updates (its log: first at 25,500)", (solved(30_000),)),
        Claim("section 3.1", "--preset weight-norm-variable-length", "on par with the uRNN, " + FASTER, (solved(),)),
        Claim("section 3.1", "--preset unitary-variable-length", "learns faster than LRD-GRU; no figure", (solved(),)),
    ),
    updates=(1_000, 2_000, 4_000, 6_000, 8_000, 10_000, 11_000, 12_000, 16_000, 19_000, 20_000, 24_000, 29_500),
    log_of="LRD-GRU 128/50",
    log={
        1_000: 0.1101,
        2_000: 0.0856,
        4_000: 0.0536,
        6_000: 0.0320,
        8_000: 0.0205,
        10_000: 0.0144,
        11_000: 0.0416,
        12_000: 0.0090,
        16_000: 0.0050,
        19_000: 0.0130,
        20_000: 0.0024,
        24_000: 0.0019,
        29_500: 0.00061,
    },
    remark=SLOWER,
)

VARIABLE_LAG = Study(
    name="copy_variable_lag",
    title="Copy, variable lag, N = 100",
    experiment=copy_memory.EXPERIMENT,
    score="loss",
    score_name="test cross-entropy (nats)",
    form="{:.4f}",
    claims=(
        Claim("section 3.1", "--preset paper-variable-lag", "< 1e-3 in < 38,000 updates", (solved(38_000),)),
        Claim(
            "section 3.1",
            "--preset paper-variable-lag --train.updates 87000 --train.stop-below None",
            "perfect test accuracy in 87,000 updates",
            (perfect(87_000),),
        ),
        Claim("section 3.1", "--preset weight-norm-variable-lag", FASTER, (solved(),)),
        Claim("section 3.1", "--preset unitary-variable-lag", "no convergence in the time that there was; no figure", (solved(),)),
    ),
    updates=(1_000, 2_000, 4_000, 8_000, 12_000, 16_000, 20_000, 24_000, 28_000, 32_000, 36_000, 38_000),
    remark=SLOWER,
)

FIXED_LAG = Study(
    name="copy_fixed_lag",
    title="Copy, fixed lag, N = 500",
    experiment=copy_memory.EXPERIMENT,
    score="loss",
    score_name="test cross-entropy (nats)",
    form="{:.4f}",
    claims=(
        Claim("section 3.1", "--preset paper --model.parametrization dense", "solved; no figure", (solved(),)),
        Claim(
            "section 3.1",
            "--preset paper --model.parametrization low_rank",
            "no convergence unless larger than the full GRU; no rank given",
            (solved(),),
        ),
        Claim("section 3.1", "--preset paper", "< 1e-3 in < 35,000 updates", (solved(35_000),)),
        Claim("section 3.1", "--preset weight-norm", FASTER, (solved(),)),
        Claim(
            "section 3.1",
            "--preset unitary",
            "perfect training accuracy in < 2,000 updates, but overfits",
            (learned_by_heart(2_000), solved()),
        ),
    ),
    updates=(1_000, 2_000, 4_000, 8_000, 12_000, 16_000, 20_000, 24_000, 28_000, 32_000, 35_000),
)

ADDING = Study(
    name="adding",
    title="Adding, T = 750",
    experiment=adding.EXPERIMENT,
    score="loss",
    score_name="test MSE",
    form="{:.4f}",
    claims=(
        Claim(
            "section 3.2",
            "--preset paper --model.parametrization low_rank",
            "MSE 0.003 after 14,500 updates (its log: 0.0027)",
            (mean_squared_error(14_500, 0.0035),),
        ),
        Claim("section 3.2", "--preset paper", "MSE 0.003 after 14,500 updates", (mean_squared_error(14_500, 0.0035),)),
    ),
    updates=(2_500, 3_000, 4_500, 6_000, 7_500, 10_000, 12_500, 14_500),
    log_of="LR-GRU 128/24",
    remark="""The LRD-GRU of seed 0 stopped at update 8,786, when its loss was no longer finite, after an MSE of 0.0003 at 7,500. Taken
up again from its checkpoint of update 8,500, the norm of its gradient stays below 0.4 up to update 8,700, reaches 105 in the 25 updates
after it, 2e10 at 8,784, and is not finite at 8,785. The plain loop gives the same. The recipe, that of the original LR-GRU script,
clips components at 1, which bounds a step but not the walk into such a place, and has no recovery; no LRD-GRU script for this task was
published.""",
    log={3_000: 0.0381, 4_500: 0.0215, 6_000: 0.0130, 7_500: 0.0085, 10_000: 0.0056, 12_500: 0.0036, 14_500: 0.0027},
)

PERMUTED_MNIST = Study(
    name="permuted_mnist",
    title="Permuted sequential MNIST",
    experiment=permuted_mnist.EXPERIMENT,
    score="accuracy",
    score_name="validation accuracy",
    form="{:.1%}",
    claims=(
        Claim("Table 1", "--preset paper --model.parametrization dense", "valid 93.0%, test 92.8%", accuracies(0.930, 0.928)),
        Claim("Table 1", "--preset paper --model.parametrization low_rank", "valid 93.4%, test 91.8%", accuracies(0.934, 0.918)),
        Claim(
            "Table 1",
            "--preset paper --model.parametrization low_rank --model.size 512 --model.rank 4",
            "valid 92.5%, test 91.3%",
            accuracies(0.925, 0.913),
        ),
        Claim("Table 1", "--preset paper --model.size 64", "valid 93.1%, test 91.9%", accuracies(0.931, 0.919)),
        Claim("Table 1", "--preset paper", "valid 94.1%, test 93.5%", accuracies(0.941, 0.935)),
        Claim("Table 1", "--preset paper --model.size 256", "valid 95.1%, test 94.7%", accuracies(0.951, 0.947)),
    ),
    updates=(12_900, 25_800, 38_700, 51_600, 77_400, 103_200, 154_800, 180_600, 283_800, 320_400),
    log_of="LR-GRU 128/24",
    log={
        12_900: 0.551,
        25_800: 0.723,
        38_700: 0.822,
        51_600: 0.855,
        77_400: 0.894,
        103_200: 0.908,
        154_800: 0.911,
        180_600: 0.922,
        283_800: 0.930,
        320_400: 0.9344,
    },
)


def perplexity(name: str, published: float) -> Quantity:
    """Test perplexity of the model of lowest validation loss, which is at most the published one, as far as that was printed."""
    return Quantity(f"test {name.replace('_', ' ')}", lambda run: run.tested(name), "{:.2f}", lambda value: value < published + 0.005)


def _characters(where: str, preset: str, published: float, name: str = "sentence_perplexity") -> Claim:
    return Claim(where, f"--preset {preset}", f"test perplexity {published}", (perplexity(name, published),))


CHARACTERS = Study(
    name="char_lm",
    title="Characters of the Penn Treebank",
    experiment=char_lm.EXPERIMENT,
    score="sentence_perplexity",
    score_name="validation perplexity, mean over sentences",
    form="{:.3f}",
    claims=(
        _characters("Table 2", "gru-1000", 2.96),
        _characters("Table 2", "gru-1000-dropout", 2.92),
        _characters("Table 2", "gru-3298-dropout", 2.77),
        _characters("Table 2", "paper", 2.92),
        _characters("Table 2", "lrd-3298-128", 2.95),
        _characters("Table 2", "lrd-3298-128-dropout", 2.86),
        _characters("Table 2", "lrd-5459-64-dropout", 2.82),
        _characters("Table 2", "lrd-5459-64-tied-dropout", 2.81),
        _characters("Table 2", "lrd-1000-64-tied", 2.90),
        _characters("Table 2", "lrd-4480-128-tied-dropout", 2.86),
        _characters("Table 2", "lrd-6985-64-tied-dropout", 2.76),
        _characters("Table 2", "lr-6985-64-tied-dropout", 9.88),
        _characters("Table 2", "lstm-1000-dropout", 2.92, "perplexity"),
        _characters("Table 2", "lrd-lstm-1740-300-dropout", 2.86, "perplexity"),
    ),
    updates=(5_000, 10_000, 20_000, 50_000, 100_000, 150_000, 200_000),
)

HIGHWAY = Study(
    name="highway_mnist",
    title="Permutation-invariant MNIST",
    experiment=highway_mnist.EXPERIMENT,
    score="accuracy",
    score_name="validation accuracy",
    form="{:.2%}",
    claims=(
        Claim("appendix A.1", "--preset paper", "test 98.83% (its log: 68 epochs, best valid error 1.26%)", (correct(0.9883),)),
        Claim("appendix A.1", "--preset lrd", "test 98.64% (its log: 55 epochs, best valid error 1.27%)", (correct(0.9864),)),
    ),
    updates=(500, 1_000, 2_500, 5_000, 10_000, 15_000, 20_000, 25_000, 30_000, 35_000),
)

STUDIES = (VARIABLE_LENGTH, VARIABLE_LAG, FIXED_LAG, ADDING, PERMUTED_MNIST, CHARACTERS, HIGHWAY)
