"""What every test runs under: four CPU devices, no silent rank promotion, programs compiled once per machine.

Shapes and types are checked in cells, recurrence, losses, metrics and optim.

Warnings are errors: see pyproject.toml.
"""

import contextlib
import functools
import gc
import os
import time
from importlib.metadata import version
from pathlib import Path

# Read when JAX starts, and handed on to programs that tests start.
DEFAULTS = {
    "NPROC": "16",  # with fewer threads than CPU devices, steps with collectives that are queued wait for each other for ever
    "OPENBLAS_NUM_THREADS": "1",  # NumPy's threads would stand in the way of those of JAX
    # The first as the command line has it, so that programs that tests start round alike. The others halve the time of the tests: thousands
    # of programs are compiled, and each runs for a moment. JAX 0.12 ends at the last.
    "XLA_FLAGS": "--xla_cpu_prefer_vector_width=512 --xla_backend_optimization_level=0"
    + " --xla_cpu_use_fusion_emitters=false" * version("jaxlib").startswith("0.10."),
    "MPLBACKEND": "Agg",
    "JAX_DEFAULT_MATMUL_PRECISION": "highest",  # accelerators round to fewer bits than the oracles otherwise
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # several workers share one accelerator
    "JAX_COMPILATION_CACHE_DIR": str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lrpt-tests"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
MAPPED = Path("/proc/self/maps")  # a line for each piece of memory, on Linux
DEADLINE = "LRPT_DEADLINE"  # seconds since 1970 after which no slow test starts, so that CI ends in time on a slow machine, too

if version("jax") in ("0.10.0", "0.10.1"):  # these print errors when they load programs (lrpt.devices.compilation.QUIET)
    del DEFAULTS["JAX_COMPILATION_CACHE_DIR"]

for name, value in DEFAULTS.items():
    os.environ.setdefault(name, value)

import hypothesis  # noqa: E402
import jax  # noqa: E402
import pytest  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

hypothesis.settings.register_profile("lrpt", deadline=None)  # a busy machine is slow, and no test is about milliseconds
hypothesis.settings.load_profile("lrpt")

jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.local_devices()  # starts JAX here, so that nothing a test calls can change the number of devices

# Not matrices: JAX rebuilds pytrees around things that are no arrays, which a checked dataclass refuses. Nor analysis, compression, tasks
# and training: they name protocols that cannot be checked at run time, and take NumPy arrays where they promise JAX arrays.
install_import_hook(["lrpt.cells", "lrpt.recurrence", "lrpt.losses", "lrpt.metrics", "lrpt.optim"], "beartype.beartype")

# tyro reads the source of every class of settings again for every command line, which takes two thirds of the time of parsing one.
with contextlib.suppress(ImportError, AttributeError):  # private names of tyro 1.0
    from tyro import _docstrings

    _docstrings._ClassTokenization.make = staticmethod(functools.cache(_docstrings._ClassTokenization.make))


def pytest_configure(config: pytest.Config) -> None:
    # Another worker is writing that entry, or was killed while it did: JAX says so and compiles.
    config.addinivalue_line("filterwarnings", "ignore:Error (reading|writing) persistent compilation cache entry:UserWarning")


def pytest_collection_finish() -> None:
    """Let the garbage collector leave out modules and tests, which stay, and look less often than after every 700 objects of JAX."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs more devices than there are, and slow tests after the deadline.

    A CPU has four devices here, a machine with accelerators as many as it has.
    """
    if item.get_closest_marker("slow") and time.time() > float(os.environ.get(DEADLINE, "inf")):
        pytest.skip(f"{DEADLINE} has passed")
    needed, found = max((mark.args[0] for mark in item.iter_markers("devices")), default=1), jax.local_device_count()
    if needed > found:
        pytest.skip(f"needs {needed} devices, and {found} {jax.default_backend()} device(s) were found")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many slow tests were left out."""
    count = sum(DEADLINE in str(report.longrepr) for report in terminalreporter.stats.get("skipped", ()))
    if count:
        terminalreporter.write_line(f"{count} slow tests were left out: {DEADLINE} has passed")


@pytest.fixture(autouse=True)
def no_modules_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no process that a test starts import the modules that other tests have imported for their user."""
    monkeypatch.setattr("lrpt.runs.imports._imported", {})


@pytest.fixture(autouse=True)
def files_need_not_be_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk, which would take minutes in all. Tests that look for the waiting replace this function themselves."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the directory of real data sets, for tests that cannot do without."""
    if not os.environ.get("LRPT_DATA"):
        pytest.skip("needs real data: set LRPT_DATA to a directory that holds mnist/ and the like")
    return Path(os.environ["LRPT_DATA"])


@pytest.fixture
def tables():
    """Take out of the tables what documentation adds to them."""
    from lrpt import CELLS, PARAMETRIZATIONS  # not before the hook
    from lrpt.optim import RECIPES

    held = CELLS, PARAMETRIZATIONS, RECIPES
    before = [dict(table) for table in held]
    yield
    for table, entries in zip(held, before, strict=True):
        for name in table.keys() - entries:
            del table[name]
        table.update(entries)


@pytest.fixture
def assert_refused(capfd):
    """Check that a command leaves with `code` and one line that says all this, and no other, unless it had `warned` or `printed`."""

    def check(main, words, *says, code=2, warned=False, printed=False):
        capfd.readouterr()
        with pytest.raises(SystemExit) as leaving:
            main([str(word) for word in words])
        out, err = capfd.readouterr()
        (line,) = (line for line in err.splitlines() if not (warned and line.startswith("lrpt: warning: ")))
        assert line.startswith("lrpt: error: ")
        assert leaving.value.code == code, line
        assert all(words in line for words in says), line
        assert printed or not out
        assert "Traceback" not in out

    return check


@pytest.fixture(autouse=True, scope="module")
def programs_in_memory():
    """Free compiled programs before XLA crashes: a process may map 65,530 pieces of memory, and a program takes six."""
    yield
    if MAPPED.exists() and len(MAPPED.read_bytes().splitlines()) > 15_000:
        jax.clear_caches()
        gc.collect()
