"""How many CPU devices one model gets by rule."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrpt import ModelConfig
from lrpt.devices import hardware, parallel
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
    monkeypatch.setattr(hardware, "cores", lambda: cores)
    monkeypatch.setattr(jax.config, "update", asked.__setitem__)
    config = RunConfig(ModelConfig(size=size, matrices=storage), OptimConfig("adding"), TrainConfig(batch_size=batch), Adding())
    parallel.request_devices(None, 1, batch, config.dense_width, keep=False)
    assert asked == {"jax_num_cpu_devices": devices}


@pytest.mark.parametrize(("batch_size", "shards"), [(16, 8), (20, 5), (7, 7), (11, 1)])
def test_a_batch_is_split_over_as_many_accelerators_as_divide_it(batch_size: int, shards: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "platform", lambda: "gpu")
    monkeypatch.setattr(jax, "local_device_count", lambda: 8)
    assert parallel.layout(1, batch_size) == parallel.Layout(1, shards)


def test_a_flag_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, int] = {}
    monkeypatch.setattr(jax.config, "update", asked.__setitem__)
    parallel.request_devices(2, 1, 32, dense_width=1000, keep=False)
    assert asked == {"jax_num_cpu_devices": 2}


COMPILED: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, _seconds, **_more: COMPILED.append(name) if name.endswith("backend_compile_duration") else None
)


def test_copying_a_tree_to_the_devices_compiles_one_program() -> None:
    """Stacking on a device compiles two programs for each shape, which delayed the first update by a second."""
    trees = [{str(size): jnp.arange(float(size)) for size in range(11, 16)}]
    jax.block_until_ready(trees)
    COMPILED.clear()
    placed = parallel.place(parallel.Layout(1, 1), trees)
    assert len(COMPILED) == 1
    assert [leaf.shape for leaf in jax.tree.leaves(placed)] == [(1, size) for size in range(11, 16)]


def test_prng_keys_are_copied_to_the_devices() -> None:
    key = jax.random.key(7)
    (placed,) = jax.tree.leaves(parallel.place(parallel.Layout(1, 1), [{"key": key}]))
    assert jax.random.key_data(placed).tolist() == [jax.random.key_data(key).tolist()]


@pytest.mark.devices(4)
def test_rows_that_were_dealt_out_are_brought_together_in_their_order() -> None:
    """As the state of streams, which a checkpoint holds."""
    layout, rows = parallel.Layout(1, 4), np.arange(24.0, dtype=np.float32).reshape(8, 3)
    dealt = parallel.scatter(layout, [{"carry": rows}])
    assert dealt["carry"].shape == (4, 2, 3)
    ((_, found),) = parallel.gather(layout, dealt)[0].items()
    np.testing.assert_array_equal(found, rows)
