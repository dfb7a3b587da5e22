"""Your own sequences: classification or regression from one .npz or CSV file, without code.

python -m experiments.sequences                          rows of 8x8 digits, nothing to download
python -m experiments.sequences --data.file mine.npz     arrays inputs, targets, and optionally lengths and split
python -m experiments.sequences --data.file mine.csv     columns sequence, target and features, a row for each step
"""

from lrpt.cli.command import main
from lrpt.cli.experiment import GRU_VARIANTS, Experiment, Preset
from lrpt.networks.configuration import InitialConfig, TiedStorageConfig
from lrpt.networks.sequence_model import ModelConfig
from lrpt.optim import OptimConfig
from lrpt.tasks import LabelledSequences
from lrpt.training.config import RunConfig, TrainConfig

QUICK = RunConfig(
    ModelConfig(size=64, matrices=TiedStorageConfig("low_rank_plus_diagonal", 8), initial=InitialConfig(carry_bias=1.0)),
    OptimConfig("permuted_mnist", 2e-3),
    TrainConfig(updates=2_000, batch_size=20, evaluate_every=200, patience=5),
    LabelledSequences(),
)

EXPERIMENT = Experiment(
    name="sequences",
    about="Predict the label of a sequence: your own data from one .npz or CSV file.",
    reproduces="nothing; for your data",
    presets={"quick": Preset(QUICK, "GRU, LR-GRU and LRD-GRU of width 64, no download", compare=True)},
    variants=GRU_VARIANTS,
    closing="""
What you saw: the loss and, for classes, the accuracy of three GRUs that differ in how their recurrent matrices are stored. result.json
has further metrics: for regression rmse, in the unit of the targets.

Next:
  python -m experiments.sequences --data.file mine.npz                                        your data: see docs/own_data.md
  python -m experiments.sequences --no-compare --vary model.rank=2,4,8,16                     how much rank does it need?
  python -m experiments.sequences --no-compare --model.cell lstm --model.size 256             another cell""",
)

if __name__ == "__main__":
    main(EXPERIMENT)
