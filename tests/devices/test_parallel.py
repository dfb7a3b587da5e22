"""How many host devices one model gets by rule."""

import jax
import pytest

from lrpt import ModelConfig
from lrpt.devices import parallel
from lrpt.networks.configuration import TiedStorageConfig
from lrpt.optim import OptimConfig
from lrpt.tasks.synthetic import Adding
from lrpt.training.config import RunConfig, TrainConfig

DENSE, STRUCTURED = TiedStorageConfig("dense"), TiedStorageConfig("low_rank", 64)


@pytest.mark.parametrize(
    ("size", "storage", "batch", "cores", "devices"),
    [
        (128, DENSE, 20, 2, 2),
        (640, DENSE, 32, 2, 2),
        (641, DENSE, 32, 2, 1),
        (1000, STRUCTURED, 64, 2, 2),
        (128, DENSE, 15, 2, 1),  # two devices do not divide the batch
        (128, DENSE, 64, 16, 4),
        (128, DENSE, 16, 16, 2),  # 4 rows of a shard are too few
    ],
)
def test_a_batch_is_split_unless_the_dense_matrices_are_wide(
    size: int, storage: TiedStorageConfig, batch: int, cores: int, devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, int] = {}
    monkeypatch.setattr(parallel, "cores", lambda: cores)
    monkeypatch.setattr(jax.config, "update", asked.__setitem__)
    config = RunConfig(ModelConfig(size=size, matrices=storage), OptimConfig("adding"), TrainConfig(batch_size=batch), Adding())
    parallel.request_devices(None, 1, batch, config.dense_width, keep=False)
    assert asked == {"jax_num_cpu_devices": devices}


def test_a_flag_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, int] = {}
    monkeypatch.setattr(jax.config, "update", asked.__setitem__)
    parallel.request_devices(2, 1, 32, dense_width=1000, keep=False)
    assert asked == {"jax_num_cpu_devices": 2}
