"""Numbers of schedules that are made up here, and times of the steps of a network whose parameters are drawn here."""

from types import SimpleNamespace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrpt.cli.finished.schedule_numbers import ScheduleTrace, around_words, read_schedule, step_times, summarize
from lrpt.datasets.vocabulary import Vocabulary
from lrpt.networks.over_time import over_time
from lrpt.networks.sequence_model import recurrent_of
from lrpt.networks.variable_computation import VariableConfig
from lrpt.tasks import NextSymbol


def test_operations_on_characters_are_those_of_the_first_eight_places():
    """The other eight are buffer bits."""
    model = VariableConfig("vcrnn", 5, parametrization="dense", lag=16)
    trained: Any = SimpleNamespace(config=SimpleNamespace(model=model), interface=SimpleNamespace(input_size=2))
    m = np.tile([1.0] * 8 + [0.5] * 8, 3)
    found = summarize(trained, ScheduleTrace(np.zeros(len(m), int), m[:, None]))
    assert found.on_characters == 8 / (8 + 8 / 4)
    assert found.by_place == [1] * 8 + [0.5] * 8


def test_a_leading_blank_ends_no_word_and_of_several_the_first_does():
    vocabulary, text = Vocabulary.of("abc "), " ab  c a"
    symbols = np.array([vocabulary.symbols.index(character) for character in text])
    trained: Any = SimpleNamespace(vocabulary=vocabulary)
    found = around_words(trained, ScheduleTrace(symbols, np.arange(8.0)[:, None]), reach=0)
    assert found.words == 2
    assert found.means == [pytest.approx((3 + 6) / 2)]


STEPS, SIZE = 12, 5


@pytest.fixture
def trained(tmp_path):
    """A network with a mask that no default describes: rounded down, with a wide band of rounded values, and sharp."""
    (tmp_path / "text").write_text("the cat sat on the mat\n" * 40)
    task = NextSymbol(file=tmp_path / "text", reading="stream", steps=STEPS).build(0)
    mask: dict[str, Any] = {"rounding": "floor", "epsilon": 0.3, "sharpness_end": 3.0}
    config = VariableConfig("vcrnn", SIZE, parametrization="dense", initialization="normal", recurrence="plain", **mask)
    model = config.build(task.input_size, task.output_size, "all")
    variables = model.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))
    rng = np.random.default_rng(1)
    params = jax.tree.map(lambda a: (0.7 * rng.standard_normal(a.shape)).astype(np.float32), variables["params"])
    variables = {"params": params, "settings": jax.tree.map(lambda _: jnp.float32(3.0), variables["settings"])}
    network = recurrent_of(config, task.input_size)

    def embedded(symbols):
        return model.apply(variables, symbols, method=lambda model, xs: model.embedding(xs))

    return SimpleNamespace(
        config=SimpleNamespace(model=config),
        path=tmp_path,
        task=task,
        model=model,
        variables=variables,
        over_time=lambda symbols: over_time(network, variables, jnp.swapaxes(embedded(symbols), 0, 1)),
    )


def test_what_is_timed_has_the_masks_of_the_run(trained):
    """m depends on all states before it, so another mask has another mean m."""
    found = {one.name: one for one in step_times(trained, (0.5,), STEPS, rounds=1, blocks=2)}
    config = trained.config.model
    for name, mode in (("masked", "soft"), ("blocks, as trained", "hard")):
        network = VariableConfig(**{**vars(config), "evaluation": mode}).build(trained.task.input_size, trained.task.output_size, "all")
        m = read_schedule(cast(Any, SimpleNamespace(**{**vars(trained), "model": network})), "valid", STEPS).proportions
        assert found[name].proportion == pytest.approx(m.mean(), rel=1e-5), name
    d = np.floor(m * SIZE)
    assert found["blocks, as trained"].multiplications == pytest.approx(np.mean(2 * d**2) + 2 * SIZE)


def test_windows_are_read_as_one_text_to_the_last_step_that_is_asked_for(trained):
    """Each window begins with the state after the one before, and the last one is cut."""
    symbols, m = read_schedule(trained, "valid", 2 * STEPS + 5)
    assert len(symbols) == len(m) == 2 * STEPS + 5
    _, whole = trained.model.apply(trained.variables, jnp.asarray(symbols)[None], None, None, method="schedule")
    np.testing.assert_allclose(m, whole[0], rtol=1e-5)
