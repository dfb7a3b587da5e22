"""Low-rank Highway networks on permutation-invariant images: Miceli Barone 2016, appendix A.1.

    python -m experiments.highway_mnist                                   three networks on 8x8 digits, nothing to download
    python -m experiments.highway_mnist --preset paper --data.dir DIR     LR-Highway on MNIST
    python -m experiments.highway_mnist --preset lrd --data.dir DIR       LRD-Highway on MNIST

Published (test accuracy in percent): LR-Highway 5x1024/256: 98.83; LRD-Highway: 98.64
(after 68 and 55 epochs in the author's logs).

Evaluations follow each epoch. Presets follow the paper. lowrank-highwaynetwork differs in these points:

- With each halving of the learning rate it returns to the best parameters (`--optim.return-to-best`).
- It takes the mean over classes (`--data.over mean`).
- It penalizes the norm of the readout instead of its square (`--model.penalty-form original --model.readout-penalty 1e-5`).
- Both gates share one pair of masks (`--model.share-masks`).
- It seems to read images in the order of the file; here each epoch draws another order.
- It replaces gradients with NaN by a tiny constant; here the run ends with an error.
- It multiplies Adam's beta1 by 1 - 1e-8 at each update; here beta1 is constant.
- It also ends after 20 epochs without improvement; here training ends when no halving is left, or after 70 epochs.
"""

from dataclasses import replace

from lrpt.cli.command import main
from lrpt.cli.experiment import Experiment, Preset, matrix_variants
from lrpt.networks.configuration import TiedStorageConfig
from lrpt.networks.highway_classifier import HighwayConfig
from lrpt.optim import OptimConfig
from lrpt.tasks import ImageVectors
from lrpt.training.config import RunConfig, TrainConfig

QUICK = RunConfig(
    HighwayConfig(size=128, matrices=TiedStorageConfig("low_rank", 32)),
    OptimConfig("adam", 3e-3, halve_after=10),
    TrainConfig(updates=2_000, batch_size=50, evaluate_every=23, evaluation_batch=300),
    ImageVectors("digits"),
)

PAPER = RunConfig(
    HighwayConfig(),
    OptimConfig("adam", 3e-3, halve_after=3),
    TrainConfig(updates=35_000, batch_size=100, evaluate_every=500),
    ImageVectors("mnist"),
)
LRD = replace(PAPER, model=replace(PAPER.model, parametrization="low_rank_plus_diagonal"))

EXPERIMENT = Experiment(
    name="highway_mnist",
    about="Say which digit an image shows, from all pixels at once and in no order.",
    reproduces="Miceli Barone 2016, appendix A.1",
    presets={
        "quick": Preset(QUICK, "Highway, LR- and LRD-Highway 5x128 on 8x8 digits, no download", compare=True),
        "paper": Preset(PAPER, "LR-Highway 5x1024/256 on MNIST"),
        "lrd": Preset(LRD, "LRD-Highway 5x1024/256 on MNIST"),
    },
    variants=matrix_variants("highway"),
    score="accuracy",
    closing="""
What you saw: three Highway networks of five layers that differ only in how the two matrices of each layer are stored. What the matrices of
a layer see is dropped and normalized; what passes through is not.

Next:
  python -m experiments.highway_mnist --seeds 3                        mean and standard deviation
  python -m experiments.highway_mnist --preset paper --data.dir DIR    MNIST, as in the paper (DIR: where its files are, or go)""",
)

if __name__ == "__main__":
    main(EXPERIMENT)
