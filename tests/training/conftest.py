"""What tests of training share: an uninterrupted run, and programs that are traced once per module instead of once per run.

A test that starts programs of its own shows that this changes nothing.
"""

import pytest

from lrpt.training import loop


@pytest.fixture(scope="module", autouse=True)
def remembered_programs():
    programs, train_all, build = {}, loop._train_all, loop.Program

    def train_all_with_memory(runs, layout, console, observers):
        config = runs[0].config
        one = config.compilation_key
        settings = (one.train.batch_size, one.train.order, one.train.fresh_every, one.train.evaluation_batch, one.train.updates_per_call)
        key = (one.model, one.optim, one.data, *settings, layout)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "Program", lambda *args: programs[key] if key in programs else programs.setdefault(key, build(*args)))
            return train_all(runs, layout, console, observers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "_train_all", train_all_with_memory)
        yield


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    """Return the directory of an uninterrupted run of the configuration of the module."""
    path = tmp_path_factory.mktemp("whole") / "run"
    loop.fit(config, {0: path}, devices=1)
    return path
