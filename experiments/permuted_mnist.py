"""Permuted sequential images: Miceli Barone 2018, section 3.3 and Table 1.

    python -m experiments.permuted_mnist                         three models on 8x8 digits, nothing to download
    python -m experiments.permuted_mnist --preset paper --data.dir DIR

Published (single runs, best validation and test accuracy in percent): GRU 128: 93.0 / 92.8; LR-GRU 128/24: 93.4 / 91.8;
LR-GRU 512/4: 92.5 / 91.3; LRD-GRU 64/24: 93.1 / 91.9; LRD-GRU 128/24: 94.1 / 93.5; LRD-GRU 256/24: 95.1 / 94.7,
after 300,000 updates and more.
"""

from lrpt.cli.command import main
from lrpt.cli.experiment import GRU_VARIANTS, Experiment, Preset
from lrpt.networks.configuration import InitialConfig, TiedStorageConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.optim import OptimConfig
from lrpt.tasks import PermutedImages
from lrpt.training.config import RunConfig, TrainConfig

QUICK = RunConfig(
    ModelConfig(size=128, matrices=TiedStorageConfig("low_rank_plus_diagonal", 8), initial=InitialConfig(carry_bias=1.0)),
    OptimConfig("permuted_mnist", 2e-3),
    TrainConfig(updates=6_000, batch_size=20, evaluate_every=250, evaluation_batch=300),
    PermutedImages("digits"),
)

PAPER = RunConfig(
    ModelConfig(size=128, matrices=TiedStorageConfig("low_rank_plus_diagonal", 24), initial=InitialConfig(carry_bias=5.0)),
    OptimConfig("permuted_mnist"),
    TrainConfig(updates=325_000, batch_size=20, order="cyclic", evaluate_every=300),
    PermutedImages("mnist"),
)

EXPERIMENT = Experiment(
    name="permuted_mnist",
    about="Say which digit an image shows that is read one pixel a step, in a fixed random order.",
    reproduces="Miceli Barone 2018, Table 1",
    presets={
        "quick": Preset(QUICK, "GRU, LR-GRU and LRD-GRU side by side on 8x8 digits", "3 minutes on two cores, no download", compare=True),
        "paper": Preset(PAPER, "LRD-GRU 128/24 on MNIST as in Table 1", "five hours on a core"),
    },
    variants=GRU_VARIANTS,
    score="accuracy",
    closing="""
What you saw: three GRUs with a state of 128 that differ only in how their three recurrent matrices are stored: in full,
as a product of two thin factors (low rank), or as such a product plus a diagonal. The structured ones have a sixth of
the parameters. The diagonal costs next to nothing, and lets every component of the state decide for itself what it
takes in. 300 test images are few: differences of two or three percent may be chance, so ask several seeds before you
believe one.

Next:
  python -m experiments.permuted_mnist --seeds 3                        mean and standard deviation
  python -m experiments.permuted_mnist --model.rank 2                   how little is enough?
  python -m experiments.permuted_mnist --preset paper --data.dir DIR    MNIST, as in Table 1 (DIR: where its four files are, or are to go)
  python -m experiments                                                 everything else""",
)

if __name__ == "__main__":
    main(EXPERIMENT)
