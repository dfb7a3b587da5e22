"""Data sets that tensorflow-datasets stores: prepared once from the published files, and again if they are damaged."""

import shutil
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, TypeVar

import tensorflow_datasets as tfds
from filelock import FileLock

from lrpt.datasets.sources import Source, find, obtain, writable_root
from lrpt.errors import UsageError

T = TypeVar("T")


class PublishedFiles(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Base class of tfds builders that read examples from published files, in file order.

    Args:
      files: the published files by name; empty if the data set is already prepared.
      **options: options of `tfds.core.GeneratorBasedBuilder`; `file_format` must be 'array_record'.
    """

    VERSION = tfds.core.Version("1.0.0")
    about: ClassVar[str]

    def __init__(self, files: Mapping[str, Path], **options: Any) -> None:
        self._files = files
        super().__init__(**options)

    @abstractmethod
    def _features(self) -> dict[str, Any]:
        """Return the features of an example."""

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.FeaturesDict(self._features())
        return tfds.core.DatasetInfo(builder=self, description=self.about, features=features, disable_shuffling=True)


def load_prepared(builder: Any, read: Callable[[Any], T], files: Sequence[Source], dir: Path | None, folder: str) -> T:
    """Load a data set with `read`, and prepare it first if necessary.

    `find` says which directories are searched for the published files. Missing files are downloaded. The data set is prepared once, in
    `dir`/prepared, or in the user's cache if `dir` is not writable. A damaged or incomplete data set is prepared again.

    Args:
      builder: a class derived from `PublishedFiles`.
      read: converts the prepared data, a mapping from split to examples, to the result. It may raise any exception if they are invalid.
      files: the published files.
      dir: the user's data directory, or None for the cache.
      folder: the data set's folder in `dir` and in the cache.

    Raises:
      UsageError: a file is damaged, or missing and cannot be downloaded, or no directory is writable.
    """
    find(files, dir, folder)  # reports damaged files even if the data set is already prepared
    root = writable_root(dir) / "prepared"

    def open_prepared() -> T:
        return read(builder({}, data_dir=root, file_format="array_record").as_data_source())

    with suppress(Exception):  # missing and damaged data raise many unrelated exceptions
        return open_prepared()
    _prepare(root, builder, obtain(files, dir, folder), open_prepared)
    return open_prepared()


def examples_of(prepared: Any, split: str, count: int) -> Sequence[Mapping[str, Any]]:
    """Return all examples of a split.

    Raises:
      ValueError: the split does not have `count` examples.
    """
    examples = prepared[split].__getitems__(range(len(prepared[split])))
    if len(examples) != count:
        raise ValueError(f"{len(examples)} examples are prepared for '{split}', expected {count}")
    return examples


def _prepare(root: Path, builder: Any, files: Mapping[str, Path], open_prepared: Callable[[], Any]) -> None:
    """Write the prepared data set. Processes that start together wait for each other."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / "lock"):
            with suppress(Exception):
                open_prepared()
                return
            shutil.rmtree(root / builder.name, ignore_errors=True)
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()), TemporaryDirectory() as unused:
                builder(files, data_dir=root, file_format="array_record").download_and_prepare(download_dir=unused)
    except (OSError, RuntimeError) as error:  # array_record's writer raises RuntimeError if the disk is full
        raise UsageError(
            f"prepared data cannot be written to {root} ({error}): free space there, or name a --data.dir that can be written",
            code=1,
        ) from error
