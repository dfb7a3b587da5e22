"""Tests of polyphonic music: files of both formats, generated pieces against a loop, and the loss of a frame."""

import hashlib
import json
from io import BytesIO

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.io
from mirrors import empty_mirror, source_of
from test_text import PARTS, examples

from lrpt.datasets import jsb
from lrpt.errors import UsageError
from lrpt.metrics import piece_metrics
from lrpt.tasks import Chorales
from lrpt.tasks.chorales import FOLLOWS, FORMATS, SCALES, VOICES, chord_progression, frame_metrics, parts
from lrpt.tasks.task import Example

NOTES = {
    "train": [[[60, 64], [62], [], [21, 108]], [[65, 69, 72], [65]]],
    "valid": [[[40], [41], [42]]],
    "test": [[[50], [51]], [[30, 31], [32], [33], [34], [35]]],
}


def bits(piece):
    return np.array([[21 + k in notes for k in range(88)] for notes in piece], np.uint8)


def write(path, notes=NOTES):
    if path.suffix == ".json":
        path.write_text(json.dumps(notes))
        return path
    cells = {}
    for part, pieces in notes.items():
        cells[f"{part}data"] = np.empty((1, len(pieces)), object)
        for index, piece in enumerate(pieces):
            cells[f"{part}data"][0, index] = bits(piece)
    scipy.io.savemat(path, cells)
    return path


def pieces_of(batch):
    """Return the (inputs, targets) of each piece without padding, and check that padding is silent."""
    inputs, targets, masks = map(np.asarray, batch)
    assert not np.any(inputs[~masks])
    assert not np.any(targets[~masks])
    return [(x[m], y[m]) for x, y, m in zip(inputs, targets, masks, strict=True)]


@pytest.mark.parametrize("first_frame", [False, True])
@pytest.mark.parametrize("kind", FORMATS)
def test_pieces_of_a_file_are_predicted_frame_by_frame(tmp_path, kind, first_frame):
    task = Chorales(file=write(tmp_path / f"music.{kind}"), first_frame=first_frame).build(0)
    for part in PARTS:
        found = pieces_of(examples(task.splits[part]))
        for (inputs, targets), notes in zip(found, NOTES[part], strict=True):
            frames = bits(notes)
            expected = np.concatenate([np.zeros((1, 88)), frames]) if first_frame else frames
            np.testing.assert_array_equal(inputs, expected[:-1])
            np.testing.assert_array_equal(targets, expected[1:])
    assert task.metadata["pieces"] == {"train": 2, "valid": 1, "test": 2}
    assert task.metadata["predicted_frames"]["test"] == (7 if first_frame else 5)


@pytest.mark.parametrize("longest", [2, 3, 4, 100])
def test_parts_of_long_pieces_predict_every_frame_once(longest):
    piece = np.arange(11)
    found = parts(piece, longest)
    assert max(map(len, found)) <= longest
    assert min(map(len, found)) >= 2
    np.testing.assert_array_equal(np.concatenate([part[1:] for part in found]), piece[1:])
    np.testing.assert_array_equal(np.concatenate([part[:-1] for part in found]), piece[:-1])


def test_long_pieces_of_a_file_are_cut(tmp_path):
    (tmp_path / "music.json").write_text(json.dumps(NOTES))
    whole, cut = (Chorales(file=tmp_path / "music.json", longest=longest).build(0) for longest in (None, 2))
    assert cut.metadata["predicted_frames"] == whole.metadata["predicted_frames"]
    assert cut.metadata["pieces"] == cut.metadata["predicted_frames"]
    assert cut.splits["train"].batch(cut.splits["train"].arrays, np.arange(1)).inputs.shape == (1, 1, 88)


def test_the_digest_is_of_pieces_and_splits(tmp_path):
    """It is the same for both formats. A piece may move to another split, and a frame to another piece."""
    (one, *_), (valid,), (first, second) = NOTES["train"], NOTES["valid"], NOTES["test"]
    moved = NOTES | {"train": [*NOTES["train"], first], "test": [second]}
    shifted = NOTES | {"test": [[*first, second[0]], second[1:]]}
    others = [moved, shifted, NOTES | {"valid": [one], "train": [valid, NOTES["train"][1]]}]
    paths = [write(tmp_path / "same.mat"), *(write(tmp_path / f"{i}.json", notes) for i, notes in enumerate([NOTES, *others]))]
    found = [Chorales(file=path).build(0).metadata["sha256"] for path in paths]
    assert found[0] == found[1]
    assert len(set(found)) == 4


def with_the_training_split_only():
    file = BytesIO()
    scipy.io.savemat(file, {"traindata": bits([[60], [62]])})
    return file.getvalue()


WRONG = [
    ("music.mid", b"", "expected a name that ends in .json or .mat"),
    ("music.json", b"{", "does not hold pieces of 88 notes"),
    ("music.json", json.dumps(NOTES | {"test": [[[20], [60]]]}).encode(), "notes [20] are not all from 21 to 108"),
    ("music.json", json.dumps({"train": []}).encode(), "does not hold pieces of 88 notes (it has no valid and no test)"),
    (
        "music.json",
        json.dumps(NOTES | {"valid": []}).encode(),
        "whose valid split has no pieces: put at least one piece of two frames into each",
    ),
    (
        "music.json",
        json.dumps(NOTES | {"test": [[[60]]]}).encode(),
        "whose test split has a piece of fewer than two frames: remove such pieces, or",
    ),
    ("music.mat", b"MATLAB", "does not hold pieces of 88 notes"),
    ("music.mat", with_the_training_split_only(), "does not hold pieces of 88 notes (it has no validdata and no testdata)"),
]


@pytest.mark.parametrize(("name", "content", "expected"), WRONG, ids=[expected for *_, expected in WRONG])
def test_a_file_that_holds_no_music_says_so_in_one_line(tmp_path, name, content, expected):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError) as raised:
        Chorales(file=tmp_path / name).build(0)
    assert str(raised.value).startswith(f"data.file is {tmp_path / name}")
    assert expected in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["nowhere.json", "nowhere.mat"])
def test_a_file_that_is_missing_is_named(tmp_path, name):
    with pytest.raises(UsageError, match=r"which cannot be read \(.*No such file"):
        Chorales(file=tmp_path / name).build(0)


def progression_by_a_loop(tonic, mode, uniform):
    """Generate the notes of each frame from the same random numbers, as the docstring describes."""
    frames, degree, tones = [], 0, None
    for index, (hold, following, *voices) in enumerate(uniform):
        if index and hold >= 1 / 3:
            shares = np.array(FOLLOWS[degree]) / sum(FOLLOWS[degree])
            degree = next(k for k in range(7) if following < shares[: k + 1].sum() or k == 6)
        if index == 0 or hold >= 1 / 3:
            tones = [0, *(int(3 * u) for u in voices)]
        classes = [int(12 * tonic) + SCALES[int(2 * mode)][(degree + 2 * tone) % 7] for tone in tones]
        frames.append({next(n for n in range(low, low + 12) if n % 12 == c % 12) for low, c in zip(VOICES, classes, strict=True)})
    return frames


@pytest.mark.parametrize("seed", range(4))
def test_synthetic_pieces_equal_a_loop(seed):
    rng = np.random.default_rng(seed)
    tonic, mode, uniform = rng.random(), rng.random(), rng.random((60, 5))
    arguments = (jnp.asarray(a, jnp.float32) for a in (tonic, mode, uniform))
    found = np.asarray(jax.jit(chord_progression)(*arguments))
    np.testing.assert_array_equal(found, bits(progression_by_a_loop(tonic, mode, uniform)))


def test_the_lowest_random_number_draws_no_chord_of_weight_0():
    """The tonic, whose weight behind itself is 0, is the first in the table."""
    uniform = jnp.asarray([[0.0] * 5, [0.5, 0.0, 0.0, 0.0, 0.0]])
    frames = np.asarray(chord_progression(jnp.float32(0), jnp.float32(0), uniform))
    assert [(21 + int(np.flatnonzero(frame)[0])) % 12 for frame in frames] == [0, 2]


def test_synthetic_pieces_with_64_bit_numbers():
    uniform = np.random.default_rng(0).random((6, 5))
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(chord_progression)(*map(jnp.float32, (0.1, 0.2)), jnp.asarray(uniform, jnp.float32)))
    np.testing.assert_array_equal(found, bits(progression_by_a_loop(0.1, 0.2, uniform)))


def test_synthetic_pieces_of_a_seed_are_those_of_earlier_versions():
    """Else a kept result could not be computed again: the tables of chords and scales, and the random numbers, stay as they are."""
    found = hashlib.sha256()
    for split in Chorales(length=16).build(0).splits.values():
        for array in examples(split):
            found.update(np.asarray(array).astype(np.uint8).tobytes())
    assert found.hexdigest() == "33dcdcc52d6a4c62433dc39a9a91b3edbf32fbe52607373e818059ba320b6da6"


@pytest.mark.parametrize(("mode", "steps"), [(0, [2, 2, 1, 2, 2, 2, 1]), (1, [2, 1, 2, 2, 1, 3, 1])], ids=["major", "harmonic minor"])
def test_scales_are_those_of_western_music(mode, steps):
    assert np.diff([*SCALES[mode], 12]).tolist() == steps


def test_synthetic_pieces_are_in_all_keys():
    """Most pieces begin with a whole triad of their tonic."""
    task = Chorales(length=4).build(0)
    firsts = np.concatenate([np.asarray(examples(task.splits[part]).inputs)[:, 0] for part in PARTS])
    found = {frozenset((21 + np.flatnonzero(frame)) % 12) for frame in firsts}
    triads = {frozenset((tonic + np.array([0, third, 7])) % 12) for tonic in range(12) for third in (3, 4)}
    assert len(triads) == 24
    assert triads <= found


@pytest.mark.slow
def test_synthetic_pieces_have_all_lengths_and_differ_between_parts():
    task = Chorales(length=9).build(3)
    batches = {part: examples(task.splits[part]) for part in PARTS}
    lengths = [mask.sum() + 1 for part in PARTS for mask in np.asarray(batches[part].mask)]
    assert set(map(int, lengths)) == {4, 5, 6, 7, 8, 9}
    assert len(lengths) == 382
    starts = {part: {x.tobytes() for x in np.asarray(batches[part].inputs)} for part in PARTS}
    assert not starts["train"] & starts["test"]
    whole = examples(Chorales(length=9, first_frame=True).build(3).splits["test"])
    np.testing.assert_array_equal(whole.targets[:, 0], batches["test"].inputs[:, 0])
    assert not np.any(whole.inputs[:, 0])


def test_figures_are_those_of_the_definitions():
    rng = np.random.default_rng(0)
    logits, targets = rng.normal(0, 2, (3, 6, 88)), rng.integers(0, 2, (3, 6, 88))
    counts = np.array([6, 1, 3])
    mask = np.arange(6) < counts[:, None]
    batch = Example(jnp.zeros((3, 6, 88)), jnp.asarray(targets, jnp.float32), jnp.asarray(mask))
    metrics = frame_metrics(jnp.asarray(logits, jnp.float32), batch)
    p = 1 / (1 + np.exp(-logits))
    lost = -np.log(np.where(targets == 1, p, 1 - p)).sum(-1)
    np.testing.assert_allclose(metrics["nats"], [row[:n].sum() for row, n in zip(lost, counts, strict=True)], rtol=1e-5)
    np.testing.assert_array_equal(metrics["frames"], counts)
    summary = piece_metrics({name: float(values.mean()) for name, values in metrics.items()})
    assert summary["loss"] == pytest.approx(lost[mask].mean(), rel=1e-5)
    assert summary["piece_loss"] == pytest.approx(np.mean([row[:n].mean() for row, n in zip(lost, counts, strict=True)]), rel=1e-5)


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Register small files in place of the published ones, in a directory that serves as the mirror."""
    with empty_mirror(tmp_path, monkeypatch, jsb.load_jsb) as mirror:
        files = {kind: source_of(write(mirror / source.name)) for kind, source in jsb.FILES.items()}
        monkeypatch.setattr(jsb, "FILES", files)
        monkeypatch.setattr(jsb, "COUNTS", {part: len(pieces) for part, pieces in NOTES.items()})
        yield mirror


def assert_same_pieces(actual, expected):
    assert {part: len(actual[part]) for part in actual} == {part: len(expected[part]) for part in expected}
    for part in expected:
        for one, two in zip(actual[part], expected[part], strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", FORMATS)
def test_files_are_prepared_once(published, kind):
    expected = {part: [*map(bits, pieces)] for part, pieces in NOTES.items()}
    assert_same_pieces(jsb.load_jsb(kind, published), expected)
    jsb.load_jsb.cache_clear()
    (published / jsb.FILES[kind].name).unlink()
    assert_same_pieces(jsb.load_jsb(kind, published), expected)
    assert Chorales("jsb", kind, dir=published).build(0).metadata["music"] == f"jsb ({kind})"


def test_files_are_downloaded_and_checked(published):
    jsb.load_jsb("json")
    jsb.load_jsb.cache_clear()
    (published / "JSB_Chorales.mat").write_bytes(b"MATLAB")
    with pytest.raises(UsageError, match=r"JSB_Chorales.mat is damaged, incomplete or another file"):
        jsb.load_jsb("mat", published)


def test_the_published_files_hold_the_same_pieces(data_dir, tmp_path):
    (tmp_path / "jsb").symlink_to(data_dir / "jsb")
    notes, zeros_and_ones = (jsb.load_jsb(kind, tmp_path) for kind in FORMATS)
    assert_same_pieces(notes, zeros_and_ones)
    assert {part: len(pieces) for part, pieces in notes.items()} == {"train": 229, "valid": 76, "test": 77}
    task = Chorales("jsb", dir=tmp_path).build(0)
    assert task.metadata["predicted_frames"] == {"train": 13_807 - 229, "valid": 4_602 - 76, "test": 4_725 - 77}
    batch = examples(task.splits["test"])
    assert batch.inputs.shape == (77, 159, 88)
    silent = task.metrics(jnp.zeros(batch.targets.shape), batch)
    np.testing.assert_allclose(silent["loss"], 88 * np.log(2), rtol=1e-5)


def test_generated_parts_share_no_piece():
    splits = Chorales(length=16).build(0).splits.values()
    pieces = [np.asarray(split.batch(split.arrays, jnp.arange(split.size)).inputs).reshape(split.size, -1) for split in splits]
    whole = np.concatenate(pieces)
    assert len(np.unique(whole, axis=0)) == len(whole)
