"""Compiled programs on disk: where they are, that a second process finds them, and what turns them off."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

from lrpt.devices import compilation

ROOT = Path(__file__).parents[2]

COUNT_COMPILATIONS = """
import jax
from lrpt.devices import compilation, parallel
compilation.SECONDS = 0
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name) if name.endswith("cache_hits") else None)
parallel.request_devices(1, 1, 8, keep={keep})
jax.jit(lambda x: jax.numpy.sin(x) @ x)(jax.numpy.ones((8, 8))).block_until_ready()
print(len(hits))
"""


def hits(home, keep=True, **changes):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    environment |= {"XDG_CACHE_HOME": str(home), "PYTHONPATH": str(ROOT), **changes}
    done = subprocess.run([sys.executable, "-c", COUNT_COMPILATIONS.format(keep=keep)], capture_output=True, text=True, env=environment)
    assert not done.returncode, done.stderr
    return int(done.stdout), done.stderr


@pytest.mark.slow
@pytest.mark.skipif(jax.__version_info__ < compilation.QUIET, reason="this version of JAX prints errors, so nothing is kept")
def test_the_second_process_compiles_nothing_again(tmp_path):
    assert hits(tmp_path)[0] == 0
    found, said = hits(tmp_path)
    assert found > 0
    assert not said


@pytest.mark.slow
def test_it_can_be_turned_off(tmp_path):
    hits(tmp_path, keep=False)
    hits(tmp_path, JAX_ENABLE_COMPILATION_CACHE="false")
    hits(tmp_path, JAX_COMPILATION_CACHE_DIR=str(tmp_path / "other"))
    assert not (tmp_path / "lrpt").exists()


@pytest.mark.slow
def test_a_folder_that_cannot_be_made_is_no_error(tmp_path):
    (tmp_path / "lrpt").write_text("a file")
    found, said = hits(tmp_path)
    assert (found, said) == (0, "")


@pytest.fixture
def options(monkeypatch, tmp_path):
    """The options that are set in JAX, which has no cache yet."""
    found = {}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compilation, "JAX", SimpleNamespace(jax_compilation_cache_dir=None, jax_enable_compilation_cache=True))
    monkeypatch.setattr(jax, "config", SimpleNamespace(update=found.__setitem__))
    return found


def test_versions_that_print_errors_keep_nothing(options, monkeypatch, tmp_path):
    monkeypatch.setattr(compilation, "QUIET", (99, 0, 0))
    assert compilation.keep_programs() is None
    assert not options
    assert not list(tmp_path.iterdir())


def test_the_first_version_without_errors_keeps_the_programs_that_took_long_up_to_a_size(options, monkeypatch):
    monkeypatch.setattr(compilation, "QUIET", jax.__version_info__)
    assert compilation.keep_programs() == compilation.folder()
    assert options == {
        "jax_compilation_cache_dir": str(compilation.folder()),
        "jax_compilation_cache_max_size": compilation.LARGEST,
        "jax_persistent_cache_min_compile_time_secs": compilation.SECONDS,
    }


def test_a_folder_that_can_only_be_read_keeps_nothing(options, monkeypatch):
    monkeypatch.setattr(compilation, "QUIET", jax.__version_info__)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert compilation.keep_programs() is None
    assert not options


def test_processors_do_not_share_programs(monkeypatch):
    here = compilation.folder()
    monkeypatch.setattr(compilation, "_processor", lambda: "flags: avx1024")
    assert compilation.folder() != here
    assert compilation.folder().parent == here.parent


@pytest.mark.parametrize("name", ["flags", "Features"])
def test_processors_differ_by_their_instruction_sets(name, monkeypatch):
    """Linux calls them flags on x86 and features on ARM."""
    found = set()
    for sets in ("fp sse", "fp avx"):
        monkeypatch.setattr(Path, "read_text", lambda path, sets=sets: f"processor : 0\n{name} : {sets}\n")
        found.add(compilation.folder())
    assert len(found) == 2


@pytest.mark.skipif(not jax.config.jax_compilation_cache_dir, reason="no cache is set")
def test_a_folder_of_the_users_choice_stays():
    before = jax.config.jax_compilation_cache_dir
    assert compilation.keep_programs() is None
    assert jax.config.jax_compilation_cache_dir == before
