"""Tests of folders of piano rolls: which file goes to which split, in which order, and what is refused."""

import json

import numpy as np
import pytest
import scipy.io

from experiments.jsb.command import EXPERIMENT
from lrpt.cli.command import main
from lrpt.datasets.rolls import part_of, read_rolls
from lrpt.datasets.splits import PARTS, random_parts
from lrpt.errors import UsageError
from lrpt.tasks import Chorales


def roll(mark, frames=4):
    """Return a piece that sounds only the note `mark`, so that a test recognizes it."""
    piece = np.zeros((frames, 88), np.uint8)
    piece[:, mark] = 1
    return piece


def cells(*pieces):
    array = np.empty((1, len(pieces)), object)
    for index, piece in enumerate(pieces):
        array[0, index] = piece
    return array


def folder(path, files):
    """Write files of variables, by name."""
    for name, variables in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        scipy.io.savemat(path / name, variables)
    return path


def marks(pieces):
    """Return the note of each piece of each split."""
    return {part: [int(np.flatnonzero(piece.all(axis=0))[0]) for piece in pieces[part]] for part in pieces}


SPLIT_BY_NAME = {
    "test/b.mat": {"roll": roll(5)},
    "test/a.mat": {"anything": roll(4), "rate": 4.0},
    "Valid/deep/x.mat": {"roll": cells(roll(2), roll(3, 7))},
    "sonata_TRAIN-2.mat": {"roll": roll(1)},
    "sonata_TRAIN-1.mat": {"roll": roll(0)},
    ".hidden.mat": {"roll": roll(9)},
}


def test_names_of_files_and_folders_decide_the_split(tmp_path):
    pieces, notice = read_rolls(folder(tmp_path, SPLIT_BY_NAME), 2)
    assert marks(pieces) == {"train": [0, 1], "valid": [2, 3], "test": [4, 5]}
    assert not notice
    np.testing.assert_array_equal(pieces["valid"][1], roll(3, 7))


def test_notes_are_the_keys_of_a_piano(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"train": [[[21, 108], []]], "valid": [], "test": [[[60]]]}))
    pieces, _ = read_rolls(path, 2)
    np.testing.assert_array_equal(np.argwhere(pieces["train"][0]), [[0, 0], [0, 87]])
    np.testing.assert_array_equal(np.argwhere(pieces["test"][0]), [[0, 39]])
    for note in (20, 109):
        path.write_text(json.dumps({part: [[[note]]] for part in PARTS}))
        with pytest.raises(UsageError, match=rf"notes \[{note}\] are not all from 21 to 108"):
            read_rolls(path, 2)


def test_split_files_of_a_folder_are_joined(tmp_path):
    """A folder of files like the published ones has the pieces of all of them."""
    one = {f"{part}data": cells(roll(index), roll(index + 10)) for index, part in enumerate(PARTS)}
    two = {f"{part}data": cells(roll(index + 20)) for index, part in enumerate(PARTS)}
    path = folder(tmp_path, {"1.mat": one, "2.mat": two, "more/train.mat": {"roll": roll(40)}})
    assert marks(read_rolls(path, 2)[0]) == {"train": [0, 10, 20, 40], "valid": [1, 11, 21], "test": [2, 12, 22]}


@pytest.mark.parametrize(("count", "sizes"), [(3, (1, 1, 1)), (4, (2, 1, 1)), (10, (8, 1, 1)), (25, (20, 2, 3))])
def test_files_that_name_no_split_are_split_at_random_and_always_alike(tmp_path, count, sizes):
    path = folder(tmp_path, {f"{index:02}.mat": {"roll": cells(roll(index), roll(index + 40))} for index in range(count)})
    pieces, notice = read_rolls(path, 2)
    found = marks(pieces)
    files = {part: [mark for mark in found[part] if mark < 40] for part in PARTS}
    assert tuple(map(len, files.values())) == sizes
    assert sorted(mark for kept in files.values() for mark in kept) == list(range(count))
    for part in PARTS:  # both pieces of a file are in its split
        assert found[part] == [mark for index in files[part] for mark in (index, index + 40)]
    assert f"{count} files are split at random: {sizes[0]} train, {sizes[1]} valid, {sizes[2]} test" in notice["notice"]
    assert marks(read_rolls(path, 2)[0]) == found


def test_the_random_split_of_ten_is_a_known_one():
    """Labelled sequences had this split before folders of rolls had it."""
    order = np.random.default_rng(0).permutation(10)
    expected = ["train" if place < 8 else "valid" if place == 8 else "test" for place in order]
    assert random_parts(10).tolist() == expected


@pytest.mark.parametrize(
    ("name", "part"), [("latest.mat", None), ("val3.mat", "valid"), ("a/training/b.mat", "train"), ("test.mat", "test")]
)
def test_whole_words_name_a_split(tmp_path, name, part):
    assert part_of(tmp_path, name) == part


NAMED = {f"{part}.mat": {"roll": roll(1)} for part in PARTS}
WRONG = [
    ({}, "a folder without .mat files"),
    (NAMED | {"a.mat": {"roll": roll(1)}}, "where test.mat has a split and a.mat has none"),
    (NAMED | {"test_train.mat": {"roll": roll(1)}}, "test_train.mat names the splits test and train"),
    ({"train.mat": {"roll": roll(1)}, "test.mat": {"roll": roll(1)}}, "where no file names valid: the valid split is empty"),
    ({"a.mat": {"roll": roll(1)}, "b.mat": {"roll": roll(1)}}, "which needs three files or more"),
    (NAMED | {"test.mat": {"roll": roll(1, 1)}}, "test.mat, which has a piece of fewer than two frames"),
    (NAMED | {"test.mat": {"roll": cells()}}, "test.mat, which has no pieces"),
    (NAMED | {"test.mat": {"roll": roll(1).T}}, "it has no matrix of 88 columns or cell array: roll of shape (88, 4)"),
    (NAMED | {"test.mat": {"roll": roll(1), "onsets": roll(1)}}, "it has more than one matrix of 88 columns"),
    (NAMED | {"test.mat": {"roll": 64 * roll(1)}}, "expected zeros and ones in 88 columns"),
    (NAMED | {"test.mat": {}}, "it has no matrix of 88 columns or cell array: nothing"),
]


@pytest.mark.parametrize(("files", "says"), WRONG, ids=[says for _, says in WRONG])
def test_a_folder_that_does_not_fit_is_one_line(tmp_path, files, says):
    with pytest.raises(UsageError) as raised:
        Chorales(file=folder(tmp_path, files)).build(0)
    assert str(raised.value).startswith("data.file ")
    assert str(tmp_path) in str(raised.value)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_damaged_file_of_a_folder_is_named(tmp_path):
    (folder(tmp_path, NAMED) / "broken_train.mat").write_bytes(b"MATLAB")
    with pytest.raises(UsageError, match=r"broken_train\.mat, which does not hold pieces of 88 notes"):
        Chorales(file=tmp_path).build(0)


def test_a_single_frame_is_enough_if_it_is_predicted(tmp_path):
    files = NAMED | {"test.mat": {"roll": roll(1, 1)}}
    task = Chorales(file=folder(tmp_path, files), first_frame=True).build(0)
    assert task.metadata["predicted_frames"] == {"train": 4, "valid": 4, "test": 1}


def test_a_folder_made_of_the_published_file_is_the_published_split(data_dir, tmp_path):
    whole = scipy.io.loadmat(data_dir / "jsb" / "JSB_Chorales.mat")
    for part in PARTS:
        (tmp_path / part).mkdir()
        for index, piece in enumerate(whole[f"{part}data"].ravel()):
            scipy.io.savemat(tmp_path / part / f"{index:03}.mat", {"roll": piece})
    pieces, _ = read_rolls(tmp_path, 2)
    for part in PARTS:
        expected = whole[f"{part}data"].ravel()
        assert len(pieces[part]) == len(expected)
        for one, two in zip(pieces[part], expected, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.slow
def test_the_command_trains_on_a_folder(tmp_path, capsys):
    path = folder(tmp_path / "rolls", {f"{index}.mat": {"roll": roll(index, 6)} for index in range(5)})
    words = f"--no-compare --data.file {path} --model.size 8 --train.updates 4 --train.evaluate-every 4 --train.batch-size 1 --devices 1"
    main(EXPERIMENT, [*words.split(), "--workdir", str(tmp_path / "run")])
    assert "5 files are split at random: 3 train, 1 valid, 1 test" in capsys.readouterr().out


def test_shares_are_rounded():
    assert [int(np.sum(random_parts(12) == part)) for part in PARTS] == [10, 1, 1]
