"""Checkpoints under every kind of damage: whole, or passed over in so many words; never wrong numbers, never a traceback."""

import json
import os
import shutil
from typing import Any, NamedTuple

import numpy as np
import pytest
from tiny import tree

from lrpt.errors import UsageError
from lrpt.runs import checkpoint
from lrpt.runs.checkpoint import SEAL, Checkpoints, Damaged, Misfit

METADATA = {"best": {"update": 0, "loss": float("inf")}, "tally": {"counts": {}, "sums": {}}, "exact": 0.1 + 0.2}


def state(update):
    rng = np.random.default_rng(update)
    return {"a": rng.standard_normal((3, 4)).astype(np.float32), "b": {"c": rng.standard_normal(500)}, "n": np.asarray(update, np.int32)}


def assert_is_of(restored, update):
    assert restored.update == update
    assert restored.metadata == METADATA
    for found, expected in zip(leaves(restored.state), leaves(state(update)), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def leaves(nested):
    return [nested["a"], nested["b"]["c"], nested["n"]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A directory with the checkpoints 8 and 12."""
    path = tmp_path_factory.mktemp("saved")
    checkpoints = Checkpoints(path, pytest.fail)
    for update in (4, 8, 12):
        checkpoints.save(update, state(update), METADATA)
    return path


@pytest.fixture
def copy(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "checkpoints")
    return tmp_path / "checkpoints"


def files(saved):
    return sorted(path.relative_to(saved / "12").as_posix() for path in (saved / "12").rglob("*") if path.is_file())


def steps(path):
    return sorted(int(entry.name) for entry in path.iterdir())


def test_round_trip(saved):
    checkpoints = Checkpoints(saved, pytest.fail)
    assert_is_of(checkpoints.latest(state(0)), 12)
    assert_is_of(checkpoints.restore(state(0), 8), 8)


@pytest.mark.parametrize("name", ["16", "016"])
def test_a_folder_that_is_no_checkpoint_does_not_stop_the_others(name, copy):
    """A link to a disk that is not there, and a number that is written in another way."""
    if name == "16":
        (copy / name).symlink_to(copy / "nowhere")
    else:
        (copy / name).mkdir()
    warned = []
    assert_is_of(Checkpoints(copy, warned.append).latest(state(0)), 12)
    assert len(warned) == (name == "16")


def test_looking_for_checkpoints_leaves_no_directory(tmp_path):
    checkpoints = Checkpoints(tmp_path / "none", pytest.fail)
    assert checkpoints.latest(state(0)) is None
    checkpoints.remove_after(0)
    assert not (tmp_path / "none").exists()


def test_the_two_latest_and_the_best_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path / "run", pytest.fail)
    for update, best in ((4, 4), (8, 8), (12, 8), (16, 8)):
        checkpoints.save(update, state(update), METADATA, best)
    again = Checkpoints(tmp_path / "run", pytest.fail)
    assert again.updates() == [16, 12, 8]
    again.save(20, state(20), METADATA, 20)
    again.save(24, state(24), METADATA, 20)
    assert steps(tmp_path / "run") == [20, 24]


def test_a_checkpoint_can_be_written_again(copy):
    checkpoints = Checkpoints(copy, pytest.fail)
    checkpoints.save(12, state(7), METADATA)
    np.testing.assert_array_equal(checkpoints.latest(state(0)).state["a"], state(7)["a"])


def test_checkpoints_of_later_updates_are_removed(copy):
    checkpoints = Checkpoints(copy, pytest.fail)
    checkpoints.remove_after(12)
    assert steps(copy) == [8, 12]
    checkpoints.remove_after(8)
    assert steps(copy) == [8]
    assert_is_of(checkpoints.latest(state(0)), 8)


def missing(content):
    return None


def empty(content):
    return b""


def half(content):
    return content[: len(content) // 2]


def one_bit(content):
    return content[: len(content) // 2] + bytes([content[len(content) // 2] ^ 1]) + content[len(content) // 2 + 1 :]


def garbage(content):
    return b"\xff\xfe{garbage"


@pytest.mark.parametrize("harm", [missing, empty, half, one_bit, garbage])
def test_damage_to_any_file_is_found(saved, tmp_path, harm, capfd):
    """One file at a time: the checkpoint before is taken, one warning names the damaged one, and training can go on from there."""
    for i, name in enumerate(files(saved)):
        path = tmp_path / str(i)
        shutil.copytree(saved, path)
        file = path / "12" / name
        damaged = harm(file.read_bytes())
        file.unlink()
        if damaged is not None:
            file.write_bytes(damaged)
        said = []
        checkpoints = Checkpoints(path, said.append)
        assert_is_of(checkpoints.latest(state(0)), 8)
        (warning,) = said
        assert warning.startswith(f"the checkpoint of update 12 in {path} is damaged (")
        assert "\n" not in warning
        if i % 5 == 0:
            checkpoints.remove_after(8)
            checkpoints.save(12, state(12), METADATA)
            assert_is_of(checkpoints.latest(state(0)), 12)
    assert "".join(capfd.readouterr()) == ""


def removing_while_read(monkeypatch, removed):
    """Let a trainer call `removed` when a reader begins to compute digests."""
    digests = checkpoint._digests

    def of(path):
        if path.name == "12" and path.exists():
            removed()
        if not path.exists():
            raise FileNotFoundError(2, "No such file or directory", str(path / "gone"))
        return digests(path)

    monkeypatch.setattr(checkpoint, "_digests", of)


def test_a_checkpoint_that_is_removed_while_it_is_read_is_missing(copy, monkeypatch):
    """And the one before is taken without a warning, because nothing is damaged."""
    removing_while_read(monkeypatch, lambda: shutil.rmtree(copy / "12"))
    assert_is_of(Checkpoints(copy, pytest.fail).latest(state(0)), 8)
    with pytest.raises(Damaged):
        Checkpoints(copy, pytest.fail).restore(state(0), 12)


def test_a_damaged_file_that_cannot_be_read_is_damage(copy, monkeypatch):
    monkeypatch.setattr(checkpoint, "_digests", raising(PermissionError(13, "Permission denied")))
    with pytest.raises(Damaged, match="Permission denied"):
        Checkpoints(copy, pytest.fail).restore(state(0), 12)


def test_checkpoints_that_are_replaced_while_they_are_read_are_listed_again(copy, monkeypatch):
    """All that the reader has listed are gone, and the run is healthy."""

    def replaced():
        (copy / "12").rename(copy / "20")
        shutil.rmtree(copy / "8")

    removing_while_read(monkeypatch, replaced)
    assert_is_of(Checkpoints(copy, pytest.fail).latest(state(0))._replace(update=12), 12)


def raising(error):
    def fail(*_):
        raise error

    return fail


def test_a_flipped_bit_of_an_array_is_named(copy):
    (file,) = (copy / "12" / "state" / "d").iterdir()
    file.write_bytes(one_bit(file.read_bytes()))
    checkpoints = Checkpoints(copy, pytest.fail)
    with pytest.raises(Damaged, match=f"the contents of state/d/{file.name} are not what was saved"):
        checkpoints.restore(state(0), 12)


def test_a_checkpoint_without_a_seal_is_damaged(copy):
    (copy / "12" / SEAL).unlink()
    said = []
    checkpoints = Checkpoints(copy, said.append)
    assert_is_of(checkpoints.latest(state(0)), 8)
    assert "is damaged (seal.json cannot be read)" in said[0]


@pytest.mark.parametrize("content", ["{}", "[]", "3", '{"files": 3, "arrays": {}}', '{"files": {}, "arrays": {}}'])
def test_a_seal_that_is_none(copy, content):
    (copy / "12" / SEAL).write_text(content)
    said = []
    checkpoints = Checkpoints(copy, said.append)
    assert_is_of(checkpoints.latest(state(0)), 8)
    assert len(said) == 1


def test_files_that_others_put_there_do_no_harm(copy):
    (copy / "12" / ".DS_Store").write_bytes(b"x")
    (copy / "notes.txt").write_text("mine")
    checkpoints = Checkpoints(copy, pytest.fail)
    assert_is_of(checkpoints.latest(state(0)), 12)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: {**t, "a": t["a"].astype(np.float16)},
        lambda t: {**t, "a": t["a"].T},
        lambda t: {"a": t["a"], "n": t["n"]},
        lambda t: {**t, "more": t["a"]},
    ],
    ids=["dtype", "shape", "less", "more"],
)
def test_arrays_that_do_not_fit_the_model_are_refused(saved, change):
    """Orbax would cast the dtype without a word."""
    checkpoints = Checkpoints(saved, pytest.fail)
    with pytest.raises(Misfit, match="not of the shapes and dtypes that the model has"):
        checkpoints.restore(change(state(0)), 12)


class Narrow(NamedTuple):
    """A state as an earlier version of a library had it."""

    params: Any
    update: Any


class Wide(NamedTuple):
    params: Any
    update: Any
    carry: Any


def test_checkpoints_of_another_version_are_not_called_damaged(tmp_path):
    path = tmp_path / "run"
    old = Checkpoints(path, pytest.fail)
    for update in (4, 8):
        old.save(update, Narrow(state(update), np.asarray(update)), METADATA)
    before = tree(path)
    said = []
    new = Checkpoints(path, said.append)
    with pytest.raises(UsageError, match=f"no checkpoint in {path} fits: another version of this library .* another --workdir") as raised:
        new.latest(Wide(state(0), np.asarray(0), np.zeros((4, 2), np.float32)))
    assert raised.value.code == 1
    assert [warning.partition(" (")[0] for warning in said] == [f"the checkpoint of update {u} in {path} does not fit" for u in (8, 4)]
    assert "damaged" not in "".join([*said, str(raised.value)])
    assert tree(path) == before


def test_a_checkpoint_that_does_not_fit_is_passed_over_where_another_does(copy):
    """As after damage to what its seal says of the arrays."""
    seal = json.loads((copy / "12" / SEAL).read_text())
    (copy / "12" / SEAL).write_text(json.dumps(seal | {"arrays": {"['a']": "float32[3, 5]"}}))
    said = []
    checkpoints = Checkpoints(copy, said.append)
    assert_is_of(checkpoints.latest(state(0)), 8)
    assert "does not fit (its arrays are not of the shapes and dtypes" in said[0]


@pytest.mark.parametrize("other", ["other", ""], ids=["another run", "no run"])
def test_a_checkpoint_of_another_run_is_not_used(tmp_path, other):
    for path, run in (("mine", "mine"), ("other", other)):
        Checkpoints(tmp_path / path, pytest.fail, lambda run=run: run).save(4, state(4), METADATA)
    shutil.copytree(tmp_path / "other" / "4", tmp_path / "mine" / "8")
    said = []
    assert_is_of(Checkpoints(tmp_path / "mine", said.append, lambda: "mine").latest(state(0)), 4)
    assert "(it belongs to another run)" in said[0]


def test_a_reader_without_an_identifier_accepts_any_run(tmp_path):
    Checkpoints(tmp_path, pytest.fail, lambda: "mine").save(4, state(4), METADATA)
    assert_is_of(Checkpoints(tmp_path, pytest.fail).latest(state(0)), 4)


@pytest.mark.parametrize("at", ["save", "seal", "rename"])
def test_a_death_while_the_first_checkpoint_is_written_leaves_none(tmp_path, monkeypatch, at):
    class Death(BaseException):
        pass

    def die(*_, **__):
        raise Death

    with monkeypatch.context() as patch:
        if at == "save":
            patch.setattr("orbax.checkpoint.Checkpointer.save", die)
        elif at == "seal":
            patch.setattr("lrpt.runs.checkpoint.write_json", die)
        else:
            patch.setattr("pathlib.Path.rename", die)
        with pytest.raises(Death):
            Checkpoints(tmp_path, pytest.fail).save(4, state(4), METADATA)
    checkpoints = Checkpoints(tmp_path, pytest.fail)
    assert checkpoints.updates() == []
    assert checkpoints.latest(state(0)) is None
    checkpoints.save(4, state(4), METADATA)
    assert_is_of(checkpoints.latest(state(0)), 4)
    assert [entry.name for entry in tmp_path.iterdir()] == ["4"]


def test_a_death_while_a_checkpoint_is_removed_leaves_no_part_of_it(copy, monkeypatch):
    class Death(BaseException):
        pass

    def die(path, **_):
        if path.exists():
            (path / SEAL).unlink()
            raise Death

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", die)
        with pytest.raises(Death):
            Checkpoints(copy, pytest.fail).remove_after(8)
    checkpoints = Checkpoints(copy, pytest.fail)
    assert checkpoints.updates() == [8]
    checkpoints.save(16, state(16), METADATA)
    assert steps(copy) == [8, 16]


def test_the_best_checkpoint_is_resumed_from_where_both_latest_are_damaged(tmp_path):
    said = []
    checkpoints = Checkpoints(tmp_path / "run", said.append)
    for update in (4, 8, 12):
        checkpoints.save(update, state(update), METADATA, best=4)
    for update in (8, 12):
        (tmp_path / "run" / str(update) / SEAL).write_text("{")
    assert_is_of(checkpoints.latest(state(0)), 4)
    assert len(said) == 2


def test_all_damaged(copy):
    for update in (8, 12):
        (copy / str(update) / SEAL).write_text("{")
    said = []
    checkpoints = Checkpoints(copy, said.append)
    with pytest.raises(UsageError, match=f"every checkpoint in {copy} is damaged: remove that directory to start over") as raised:
        checkpoints.latest(state(0))
    assert raised.value.code == 1
    assert len(said) == 2


def test_what_a_killed_process_left_is_no_checkpoint(copy):
    shutil.copytree(copy / "12", copy / "16.orbax-checkpoint-tmp")
    (copy / "16.orbax-checkpoint-tmp" / SEAL).unlink()
    checkpoints = Checkpoints(copy, pytest.fail)
    assert checkpoints.updates() == [12, 8]
    checkpoints.save(16, state(16), METADATA)
    assert_is_of(checkpoints.latest(state(0)), 16)
    assert steps(copy) == [12, 16]


def test_the_seal_names_every_array(saved):
    seal = json.loads((saved / "12" / SEAL).read_text())
    assert seal["arrays"] == {"['a']": "float32[3, 4]", "['b']['c']": "float64[500]", "['n']": "int32[]"}
    assert set(seal["files"]) == set(files(saved)) - {SEAL}


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system cannot reserve space")
def test_space_is_reserved_for_the_arrays_and_for_orbax(tmp_path, monkeypatch):
    """Which writes each array twice."""
    asked = []
    monkeypatch.setattr("os.posix_fallocate", lambda file, start, size: asked.append(size))
    Checkpoints(tmp_path, pytest.fail).save(4, state(4), METADATA)
    (size,) = asked
    assert size > 2 * (12 * 4 + 500 * 8 + 4)


def test_a_checkpoint_that_cannot_be_written_is_an_os_error(tmp_path):
    (tmp_path / "file").write_text("")
    checkpoints = Checkpoints(tmp_path / "file" / "below", pytest.fail)
    with pytest.raises(OSError, match="the checkpoint of update 4 could not be written to"):
        checkpoints.save(4, state(4), METADATA)
