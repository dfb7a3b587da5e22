"""Labelled sequences from a file: what is read, how it is split, scaled and measured, and what is refused."""

import hashlib
import json

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.sequences import EXPERIMENT
from lrpt.cli.command import main
from lrpt.datasets.labelled import Labelled, read_labelled
from lrpt.errors import UsageError
from lrpt.losses import cross_entropy
from lrpt.tasks import LabelledSequences, labelled
from lrpt.tasks.labelled import digests, moments_of_features, split_of

COUNT, STEPS = 40, 5
RNG = np.random.default_rng(1)
INPUTS = RNG.normal(3, 2, (COUNT, STEPS, 2)).astype(np.float32)
LENGTHS = RNG.integers(1, STEPS + 1, COUNT)


def npz(path, **arrays):
    np.savez(path / "mine.npz", **{"inputs": INPUTS, "targets": np.arange(COUNT) % 3, **arrays})
    return path / "mine.npz"


def of(split):
    return split.batch(split.arrays, jnp.arange(split.size))


def test_classes_with_lengths(tmp_path):
    task = LabelledSequences(npz(tmp_path, lengths=LENGTHS), standardize=False).build(0)
    assert (task.input_size, task.output_size, task.reads) == (2, 3, "last")
    assert {name: split.size for name, split in task.splits.items()} == {"train": 32, "valid": 4, "test": 4}
    read = {tuple(np.round(row, 3)) for split in task.splits.values() for row in np.asarray(of(split).inputs)[:, 0]}
    assert read == {tuple(np.round(row, 3)) for row in INPUTS[:, 0]}
    batch = of(task.splits["train"])
    assert (np.asarray(batch.inputs)[~np.asarray(batch.mask)] == 0).all()
    assert sorted(np.asarray(batch.mask).sum(1)) != [STEPS] * 32
    logits = jnp.asarray(RNG.normal(size=(32, 3)), jnp.float32)
    np.testing.assert_allclose(task.metrics(logits, batch)["loss"], cross_entropy(logits, batch.targets))


def test_names_of_parts_and_classes(tmp_path):
    split = np.array(["train"] * 30 + ["valid"] * 5 + ["test"] * 5)
    task = LabelledSequences(npz(tmp_path, targets=np.array(["cat", "dog"] * 20), split=split)).build(0)
    assert task.metadata["classes"] == ["cat", "dog"]
    np.testing.assert_array_equal(of(task.splits["test"]).targets, [1, 0, 1, 0, 1])


def test_numbers_of_classes_are_in_their_order_and_not_in_that_of_words(tmp_path):
    task = LabelledSequences(npz(tmp_path, targets=np.arange(COUNT) % 12)).build(0)
    assert task.metadata["classes"] == [*map(str, range(12))]


def test_features_are_standardized_by_the_training_split(tmp_path):
    task = LabelledSequences(npz(tmp_path, lengths=LENGTHS)).build(0)
    batch = of(task.splits["train"])
    steps = np.asarray(batch.inputs, np.float64)[np.asarray(batch.mask)]
    np.testing.assert_allclose(steps.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(steps.std(0), 1, atol=1e-5)
    assert not np.asarray(batch.inputs)[~np.asarray(batch.mask)].any()
    assert np.abs(np.asarray(of(task.splits["test"]).inputs)).max() < 6


def test_regression_is_measured_in_the_unit_of_the_targets(tmp_path):
    targets = RNG.normal(100, 25, (COUNT, 2))
    task = LabelledSequences(npz(tmp_path, targets=targets)).build(0)
    assert task.output_size == 2
    batch = of(task.splits["valid"])
    predictions = jnp.zeros((4, 2))
    means = {name: float(values.mean()) for name, values in task.metrics(predictions, batch).items()}
    constants = task.metadata["scaling"]["predictions"]
    mean, scale = np.array(constants["mean"]), np.array(constants["standard_deviation"])
    assert task.scaling.to_json() == task.metadata["scaling"] == json.loads(json.dumps(task.metadata["scaling"]))
    truth = np.asarray(batch.targets, np.float64) * scale + mean
    assert {tuple(np.round(row, 2)) for row in truth} <= {tuple(np.round(row, 2)) for row in targets}
    assert task.summarize(means) == {"loss": means["loss"], "rmse": pytest.approx(np.sqrt(np.mean((truth - mean) ** 2)), rel=1e-5)}


def test_targets_of_half_precision_are_standardized_in_single_precision(tmp_path):
    targets = (2_001 + np.arange(COUNT) % 4).astype(np.float16)[:, None]
    task = LabelledSequences(npz(tmp_path, targets=targets)).build(0)
    for part, split in task.splits.items():
        restored = task.scaling.restore(np.asarray(of(split).targets))
        assert set(np.round(np.ravel(restored), 4)) <= {2_001.0, 2_002.0, 2_003.0, 2_004.0}, part


def test_targets_are_standardized_by_the_training_split(tmp_path):
    """Targets of the test split are far from those of training."""
    split = np.array(["train"] * 30 + ["valid"] * 5 + ["test"] * 5)
    targets = np.random.default_rng(2).normal(100, 25, (COUNT, 2)) + 1e4 * (split == "test")[:, None]
    task = LabelledSequences(npz(tmp_path, targets=targets, split=split)).build(0)
    mean, deviation = targets[:30].mean(0), targets[:30].std(0)
    for part in ("train", "test"):
        np.testing.assert_allclose(of(task.splits[part]).targets, (targets[split == part] - mean) / deviation, rtol=1e-5, atol=1e-6)


def test_each_output_is_standardized_by_itself(tmp_path):
    """Neither the distance of the means nor the unit of another output matters. A constant output stays in its unit."""
    rng = np.random.default_rng(3)
    targets = np.stack([rng.normal(0, 1, COUNT), rng.normal(1000, 1, COUNT), rng.normal(0, 1e-3, COUNT), np.full(COUNT, 0.1)], 1)
    split = np.array(["train"] * 30 + ["valid"] * 5 + ["test"] * 5)
    task = LabelledSequences(npz(tmp_path, targets=targets, split=split)).build(0)
    batch = of(task.splits["train"])
    np.testing.assert_allclose(np.asarray(batch.targets).std(0), [1, 1, 1, 0], atol=1e-4)
    np.testing.assert_allclose(task.metadata["scaling"]["predictions"]["standard_deviation"], [*targets[:30, :3].std(0), 1])
    predictions = jnp.asarray(rng.normal(size=(30, 4)), jnp.float32)
    means = {name: float(values.mean()) for name, values in task.metrics(predictions, batch).items()}
    found = task.summarize(means)
    expected = np.sqrt(np.mean((np.asarray(task.scaling.restore(predictions), np.float64) - targets[:30]) ** 2))
    assert found == {"loss": pytest.approx(np.mean((predictions - batch.targets) ** 2)), "rmse": pytest.approx(expected, rel=1e-4)}


def test_a_table_is_the_same_as_arrays(tmp_path):
    lines = ["sequence,target,split,a,b"]
    parts = (["train"] * 8 + ["valid", "test"]) * 4
    for i in range(COUNT):
        lines += [f"s{i},{i % 3},{parts[i]},{INPUTS[i, t, 0]!s},{INPUTS[i, t, 1]!s}" for t in range(LENGTHS[i])]
    (tmp_path / "mine.csv").write_text("\n".join(lines))
    table = read_labelled(tmp_path / "mine.csv")
    arrays = read_labelled(npz(tmp_path, lengths=LENGTHS, split=np.array(parts)))
    np.testing.assert_array_equal(table.inputs.astype(np.float32), arrays.inputs)
    for found, expected in zip(table[1:], arrays[1:], strict=True):
        np.testing.assert_array_equal(found, expected)


def test_rows_of_several_sequences_may_take_turns(tmp_path):
    """As in a log: the rows of each sequence are in order, and those of others stand between them."""
    path = tmp_path / "mine.csv"
    path.write_text("sequence,target,x\nb,1,10\na,0,1\nb,1,20\na,0,2\na,0,3\n")
    found = read_labelled(path)
    np.testing.assert_array_equal(found.inputs[..., 0], [[10, 20, 0], [1, 2, 3]])
    assert (found.lengths.tolist(), found.targets.tolist()) == ([2, 3], [1, 0])


LARGE = 1e9 + np.random.default_rng(6).normal(0, 1, (COUNT, STEPS, 2))
"""Numbers that are all the same in float32, whose spacing is 64 there."""


def test_numbers_far_from_zero_are_standardized_in_the_precision_of_the_file(tmp_path):
    lines = [f"s{i},{i % 3},{LARGE[i, t, 0]!s},{LARGE[i, t, 1]!s}" for i in range(COUNT) for t in range(STEPS)]
    (tmp_path / "mine.csv").write_text("\n".join(["sequence,target,a,b", *lines]))
    for path in (npz(tmp_path, inputs=LARGE), tmp_path / "mine.csv"):
        task = LabelledSequences(path).build(0)
        found = np.asarray(of(task.splits["train"]).inputs)
        assert found.dtype == np.float32
        train = LARGE[split_of(read_labelled(path)) == "train"]
        np.testing.assert_allclose(found, (train - train.mean((0, 1))) / train.std((0, 1)), atol=1e-5)
        assert "feature 0 varies by less than float32 can hold" in task.metadata["notice"]


def test_integers_that_float32_cannot_hold_are_kept(tmp_path):
    inputs = 2**24 + RNG.integers(0, 2, (COUNT, STEPS))
    found = LabelledSequences(npz(tmp_path, inputs=inputs)).build(0)
    assert np.unique(found.splits["train"].arrays["inputs"]).size == 2
    small = read_labelled(npz(tmp_path, inputs=inputs.astype(np.uint8)))
    assert small.inputs.dtype == np.float32


def test_numbers_that_become_one_are_refused_unless_they_are_standardized(tmp_path):
    constant = np.concatenate([LARGE[..., :1] - 1e9, np.full_like(LARGE[..., :1], 0.1)], -1)
    task = LabelledSequences(npz(tmp_path, inputs=constant), standardize=False).build(0)
    assert np.asarray(of(task.splits["train"]).inputs).dtype == np.float32
    assert "notice" not in task.metadata
    with pytest.raises(UsageError, match=r"mine\.npz: feature 0 varies by less than float32 can hold: .*no-standardize"):
        LabelledSequences(npz(tmp_path, inputs=LARGE), standardize=False).build(0)


def test_the_digest_is_that_of_float32(tmp_path):
    """Runs of earlier versions go on."""
    inputs, targets = RNG.normal(size=(COUNT, STEPS)), np.arange(COUNT) % 3
    found = LabelledSequences(npz(tmp_path, inputs=inputs)).build(0).metadata["sha256"]
    assert found == hashlib.sha256(inputs.astype(np.float32).tobytes() + targets.tobytes()).hexdigest()


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["3", "-1", "+10", "0 "], [3, -1, 10, 0]),
        (["3", "-1.5", ".5", "1e2"], [3.0, -1.5, 0.5, 100.0]),
        (["01", "1", "1_0", "10"], None),
        (["1e5", "2e5", "10", "7"], None),
        (["1_0.5", "1", "2", "3"], None),
        (["1.5", "a.b", "2", "3"], None),
        (["\u0661", "1", "2", "3"], None),
        ([str(10**20), str(10**20 + 1), "3", "4"], None),
    ],
)
def test_labels_are_numbers_only_if_they_are_written_like_numbers(labels, expected, tmp_path):
    """Python reads 1_0 as 10. Two names may not become one class, and a class is no target of regression."""
    (tmp_path / "mine.csv").write_text("sequence,a,target\n" + "".join(f"{i},2,{label}\n" for i, label in enumerate(labels)))
    found = read_labelled(tmp_path / "mine.csv").targets
    assert found.tolist() == (labels if expected is None else expected)
    assert [*map(type, found.tolist())] == [*map(type, labels if expected is None else expected)]


def test_blanks_around_a_name_and_the_type_of_text_make_no_classes(tmp_path):
    (tmp_path / "mine.csv").write_text("sequence,a,split,target\n1,2,train ,up \n2,3,test,up\n2,4,test , up\n")
    found = read_labelled(tmp_path / "mine.csv")
    assert (found.targets.tolist(), found.split.tolist()) == (["up", "up"], ["train", "test"])
    names = np.array([b"up", "d\u00f6wn".encode()] * (COUNT // 2))
    assert read_labelled(npz(tmp_path, targets=names)).targets.tolist() == ["up", "d\u00f6wn"] * (COUNT // 2)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"inputs": np.zeros((3, 4, 5, 6))}, "expected real numbers of shape (sequences, steps, features)"),
        ({"inputs": np.zeros((COUNT, 0, 2))}, "inputs have 0 steps: expected 1 or more"),
        ({"targets": np.zeros(3, int)}, "targets are of shape (3,), and there are 40 sequences"),
        ({"lengths": np.zeros(COUNT, int)}, "lengths are int64 of shape (40,) (0, 0, 0, ...): expected 40 integers from 1 to 5"),
        ({"lengths": LENGTHS.astype(float)}, "lengths are float64 of shape (40,)"),
        ({"length": LENGTHS}, "it has an array length: expected no others than inputs, targets, lengths, split"),
        (
            {"inputs": np.array([[1.0], [2.0, 3.0]] * 20, object)},
            "inputs is a list of Python objects: pad sequences of different lengths, and give lengths",
        ),
        ({"targets": np.array(["a", "b"] * 20, object)}, "and give lengths; store names as targets.astype(str)"),
        ({"split": np.array(["all"] * COUNT)}, "split has the name all: expected train, valid, test"),
        ({"split": np.array(["train"] * 3)}, "split is <U5 of shape (3,) (train, train, train): expected a name for each of 40 sequences"),
        ({"split": np.array(["train"] * COUNT)}, "no sequence is in its valid split"),
        (
            {"targets": np.array([9] + [1] * 39), "split": np.array(["test"] + ["valid", "train"] * 19 + ["train"])},
            "lacks the class 9; for regression, write floats",
        ),
        (
            {"inputs": np.where(np.arange(8).reshape(2, 4) == 6, np.nan, 0)[[0, 1] * 20]},
            "the first is feature 0 at step 2 of sequence 1, counted from 0",
        ),
        (
            {"targets": np.full(COUNT, np.nan)},
            "a target is not a finite number of float32: the first is that of sequence 0, counted from 0",
        ),
        ({"inputs": INPUTS.astype(complex)}, "inputs are complex128 of shape (40, 5, 2): expected real numbers"),
        ({"targets": np.ones(COUNT, complex)}, "targets are complex128: expected real numbers or names"),
        ({"targets": np.full(COUNT, 4)}, "all targets are the class 4: expected two or more classes"),
        ({"inputs": np.zeros((0, 4)), "targets": np.zeros(0)}, "it has no sequence"),
        ({"inputs": np.zeros((0, 4, 2)), "targets": np.zeros(0)}, "it has no sequence"),
    ],
)
def test_what_does_not_fit_is_one_line(arrays, says, tmp_path):
    with pytest.raises(UsageError) as error:
        LabelledSequences(npz(tmp_path, **arrays)).build(0)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n1,2\n", "expected a header with the columns sequence and target, and rows below it, and found a, b"),
        ("sequence;target;a\n1;2;3\n", "and found sequence;target;a; separate columns by commas"),
        ("sequence,target,a\n", "it has a header and no rows: write a row for each step"),
        ("a,b\n", "and rows below it, and found a, b"),
        ("", "and rows below it, and found an empty file"),
        ("sequence,target,a\n1,2,x\n", "line 2 has a feature that is no number: a=x"),
        ("sequence,target,a\n1,2,1\n1,3,1\n", "sequence 1 has several values of target: 2, 3"),
        ("sequence,target\n1,2\n", "it has no feature"),
        ("sequence,target,a,b,a\n1,2,3,4,5\n", "several columns are called a: give each a name of its own"),
        ("sequence,target,a,b\n1,2,3,4\n1,2,0,5,4\n", "line 3 has 5 values, and the header 4: write 0.5, not 0,5"),
        ("sequence,a,target\n1,2,3\n1,2\n", "line 3 has no value of target: give one for each column of the header"),
        ("sequence,a,target\n1,2,0.5\n2,2,\n", "line 3 has an empty target: write a value there, or leave the sequence out"),
        ("sequence,a,target\n ,2,\n", "line 2 has an empty sequence and an empty target: write"),
        ("sequence,a,target,split\n1,2,3, \n", "line 2 has an empty split: write"),
        (
            "sequence,a,target\n1,1e300,3\n",
            "values that are not finite numbers: 1; the first is feature 0 at step 0 of sequence 0, counted from 0",
        ),
        (f"sequence,a,target\n1,2,{'n' * 200_000}\n", "field larger than field limit"),
        ("sequence,a,target\n1,2,\u00e9\n", "mine.csv, which is not UTF-8 (byte 0xe9 at position 22): convert it"),
    ],
)
def test_a_table_that_does_not_fit_is_one_line(text, says, tmp_path):
    (tmp_path / "mine.csv").write_text(text, "latin-1")
    with pytest.raises(UsageError) as error:
        read_labelled(tmp_path / "mine.csv")
    assert says in str(error.value)


def test_blanks_after_commas_do_not_count(tmp_path):
    """A column called ' target' would be a feature, and ' a' another class than 'a'."""
    (tmp_path / "plain.csv").write_text("sequence,target,x\n1,a,2\n2,b,3\n")
    (tmp_path / "blanks.csv").write_text("sequence, target, x\n1, a,  2\n2,b, 3\n")
    for found, expected in zip(read_labelled(tmp_path / "blanks.csv"), read_labelled(tmp_path / "plain.csv"), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_damage_anywhere_in_a_file_is_one_line_or_harmless(tmp_path):
    """A flipped byte of a compressed archive; its header fields and the checksums of its content are among them."""
    np.savez_compressed(tmp_path / "mine.npz", inputs=INPUTS[:5], targets=np.arange(5))
    whole = (tmp_path / "mine.npz").read_bytes()
    for position in range(0, len(whole), 3):
        (tmp_path / "bad.npz").write_bytes(whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :])
        try:
            found = read_labelled(tmp_path / "bad.npz")
        except UsageError:
            continue
        np.testing.assert_array_equal(found.inputs, INPUTS[:5])


def test_other_files_are_refused(tmp_path):
    for name, says in (("mine.txt", "expected a file that ends with .npz or .csv"), ("none.npz", "cannot be read")):
        with pytest.raises(UsageError, match=says):
            read_labelled(tmp_path / name)
    for name in ("device.npz", "device.csv"):
        (tmp_path / name).symlink_to("/dev/null")
        with pytest.raises(UsageError, match=rf"{name}, which is a device or a pipe: copy what it gives to a file"):
            read_labelled(tmp_path / name)
    (tmp_path / "text.npz").write_text("inputs, targets")
    with pytest.raises(UsageError, match=r"text\.npz: it is no \.npz file: write one with np\.savez"):
        read_labelled(tmp_path / "text.npz")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(UsageError, match=r"bad\.npz"):
        read_labelled(tmp_path / "bad.npz")


def test_the_digest_is_of_splits_and_lengths_too(tmp_path):
    split = np.array(["train"] * 30 + ["valid"] * 5 + ["test"] * 5)
    changes = [{}, {"split": np.roll(split, 1)}, {"lengths": np.full(COUNT, STEPS - 1)}, {"targets": np.arange(COUNT) % 2}]
    inputs = np.pad(INPUTS[:, :-1], ((0, 0), (0, 1), (0, 0)))  # the same whether their last step is padding or not
    found = [LabelledSequences(npz(tmp_path, **{"inputs": inputs, "split": split, **one})).build(0).metadata for one in changes]
    assert len({one["sha256_of_splits"] for one in found}) == 4
    assert len({one["sha256"] for one in found}) == 2, "the digest of earlier versions stays as it was"


@pytest.mark.slow
def test_sequences_that_have_moved_between_splits_are_refused(tmp_path, assert_refused, monkeypatch):
    """When the command is repeated, and when it resumes; a run that recorded the older digest alone goes on."""
    split = np.array(["train"] * 30 + ["valid"] * 5 + ["test"] * 5)
    path = npz(tmp_path, split=split)
    sizes = "--model.size 4 --model.rank 2 --train.batch-size 4 --train.evaluate-every 1 --train.updates-per-call 1 --devices 1"
    words = ["--no-compare", "--data.file", path, *sizes.split()]
    with monkeypatch.context() as older:
        older.setattr(labelled, "digests", lambda *found: {"sha256": digests(*found)["sha256"]})
        main(EXPERIMENT, [*map(str, words), "--train.updates", "1", "--workdir", str(tmp_path / "older")])
    main(EXPERIMENT, [*map(str, words), "--train.updates", "1", "--workdir", str(tmp_path / "run")])
    npz(tmp_path, split=split[::-1])
    says = (
        f"{tmp_path / 'run'} holds a run on other splits or lengths of sequences than {path} has now",
        "restore the file, or name another",
    )
    for updates in (1, 2):
        more = ["--train.updates", updates, "--workdir", tmp_path / "run"]
        assert_refused(lambda given: main(EXPERIMENT, given), [*words, *more], *says, code=1)
    main(EXPERIMENT, [*map(str, words), "--train.updates", "2", "--workdir", str(tmp_path / "older")])
    assert json.loads((tmp_path / "older" / "result.json").read_text())["updates"] == 2


@pytest.mark.slow
def test_the_command_learns_from_a_file(tmp_path):
    """A class that the sign of the last step tells, in sequences of different lengths."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 6, 400)
    inputs = rng.normal(size=(400, 6))
    targets = (inputs[np.arange(400), lengths - 1] > 0).astype(int)
    path = npz(tmp_path, inputs=inputs, targets=targets, lengths=lengths)
    words = f"--no-compare --data.file {path} --model.size 8 --model.rank 2 --train.updates 300 --train.evaluate-every 100 --devices 1"
    main(EXPERIMENT, [*words.split(), "--optim.learning-rate", "0.02", "--workdir", str(tmp_path / "run")])
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["metrics"]["test"]["accuracy"] > 0.85


def test_moments_of_features_are_those_of_many_numbers_and_of_constants():
    """Sums of 8 million numbers in single precision stall. A constant stays in its unit, if it is not exact in binary, too."""
    values = np.random.default_rng(5).uniform(1, 2, (10_000, 784, 1)).astype(np.float32)
    found = Labelled(np.concatenate([values, np.full_like(values, 0.1)], -1), np.full(10_000, 784), np.zeros(10_000, int), None)
    mean, deviation = moments_of_features(found, np.ones(10_000, bool))
    np.testing.assert_allclose(mean, [values.mean(dtype=np.float64), np.float32(0.1)], rtol=1e-6)
    np.testing.assert_allclose(deviation, [values.std(dtype=np.float64), 1], rtol=1e-6)
