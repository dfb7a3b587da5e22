"""Permuted sequential images: Miceli Barone 2018, section 3.3 and Table 1.

    python -m experiments.permuted_mnist                         six GRUs of three kinds on 8x8 digits, nothing to download
    python -m experiments.permuted_mnist --preset paper --data.dir DIR
    python -m experiments.permuted_mnist --preset original --data.dir DIR    as in the author's code (RNN_mnist.py of lowrank-gru)

Published (validation and test accuracy in percent): GRU 128: 93.0 / 92.8; LR-GRU 128/24: 93.4 / 91.8; LR-GRU 512/4: 92.5 /
91.3; LRD-GRU 64/24: 93.1 / 91.9; LRD-GRU 128/24: 94.1 / 93.5; LRD-GRU 256/24: 95.1 / 94.7. By the author's code and log, the validation
accuracy is the best of any evaluation, and the test accuracy is that of another checkpoint. The paper trains for hundreds of thousands of
updates; the log of the LR-GRU 128/24 has 325,801.
"""

from dataclasses import replace

from lrpt.cli.command import main
from lrpt.cli.experiment import Experiment, Preset, sized_variants
from lrpt.networks.configuration import InitialConfig, TiedStorageConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.optim import OptimConfig
from lrpt.tasks import PermutedImages
from lrpt.training.config import RunConfig, TrainConfig

QUICK = RunConfig(
    ModelConfig(size=128, matrices=TiedStorageConfig("low_rank_plus_diagonal", 8), initial=InitialConfig(carry_bias=1.0)),
    OptimConfig("permuted_mnist", 5e-3),
    TrainConfig(updates=3_000, batch_size=20, evaluate_every=250, evaluation_batch=300),
    PermutedImages("digits"),
)

PAPER = RunConfig(
    ModelConfig(size=128, matrices=TiedStorageConfig("low_rank_plus_diagonal", 24), initial=InitialConfig(carry_bias=5.0)),
    OptimConfig("permuted_mnist"),
    TrainConfig(updates=325_000, batch_size=20, order="cyclic", evaluate_every=300),
    PermutedImages("mnist"),
)

ORIGINAL = RunConfig(
    replace(PAPER.model, matrices=TiedStorageConfig("low_rank", 24)),
    OptimConfig("permuted_mnist_original"),
    replace(PAPER.train, order="file"),
    PermutedImages("mnist", order="original"),
)

SIZES = sized_variants((34, 51, 128), low_rank=(8,), diagonal=(2, 8))
"""Dense GRUs of three widths. The smaller two have about as many parameters as GRUs of width 128 and rank 2 or 8."""

EXPERIMENT = Experiment(
    name="permuted_mnist",
    about="Say which digit an image shows that is read one pixel a step, in a fixed random order.",
    reproduces="Miceli Barone 2018, Table 1",
    presets={
        "quick": Preset(
            QUICK,
            "GRUs, LR-GRUs and LRD-GRUs of several sizes on 8x8 digits, no download",
            compare=True,
            learning_rates=(2e-3, 5e-3),
        ),
        "paper": Preset(PAPER, "LRD-GRU 128/24 on MNIST as in Table 1"),
        "original": Preset(ORIGINAL, "LR-GRU 128/24, with the clipping, images and order of pixels of the author's code"),
    },
    variants=SIZES,
    score="accuracy",
    closing="""
What you saw: GRUs that differ in how their three recurrent matrices are stored: in full (GRU), as products of two thin
factors (LR-GRU), or as such products plus a diagonal (LRD-GRU). 128/8 is a state of 128 components and rank 8. Each was
trained with two learning rates, and the one with the better validation accuracy is shown. In the plot of the score over
parameters, go along a line to see what more parameters buy, and up or down at one place to see what the structure buys.
300 test images are few: differences of two or three percent may be chance, so train several seeds before you conclude
anything (--seeds 5).

Next:
  python -m experiments.copy_memory --preset wide-state                         copying with a wide state: one or two minutes
  python -m experiments.permuted_mnist --seeds 3                                mean and standard deviation
  python -m experiments.permuted_mnist --no-compare --vary model.rank=1,4,16    other ranks
  python -m experiments.permuted_mnist --preset paper --data.dir DIR            MNIST, as in Table 1 (DIR: where its four files are)
  python -m experiments                                                         everything else""",
)

if __name__ == "__main__":
    main(EXPERIMENT)
