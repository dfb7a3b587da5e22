"""Data sets that tensorflow-datasets keeps ready: prepared once from the published files, and again where they are damaged."""

import fcntl
import shutil
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, TypeVar

import tensorflow_datasets as tfds

from lrpt.datasets.sources import Source, find, obtain, writable_root
from lrpt.errors import UsageError

T = TypeVar("T")


class PublishedFiles(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Base of the builders: examples out of published files, in file order.

    Args:
      files: the published files by name; not needed where the data are prepared.
      **options: as `tfds.core.GeneratorBasedBuilder`; `file_format` must be 'array_record'.
    """

    VERSION = tfds.core.Version("1.0.0")
    about: ClassVar[str]

    def __init__(self, files: Mapping[str, Path], **options: Any) -> None:
        self._files = files
        super().__init__(**options)

    @abstractmethod
    def _features(self) -> dict[str, Any]:
        """What an example holds."""

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.FeaturesDict(self._features())
        return tfds.core.DatasetInfo(builder=self, description=self.about, features=features, disable_shuffling=True)


def load_prepared(builder: Any, read: Callable[[Any], T], files: Sequence[Source], dir: Path | None, folder: str) -> T:
    """What `read` makes of a data set.

    The published files are looked for in `dir` and in `dir`/`folder`, and downloaded where they are missing. They are prepared once, in
    `dir`/prepared or, where `dir` cannot be written, in the user's cache; a prepared set that is damaged or incomplete is made again.

    Args:
      builder: a class derived from `PublishedFiles`.
      read: is given a mapping from split to examples, and raises anything where they are not what they should be.
      files: the published files.

    Raises:
      UsageError: a file that is damaged, or missing and not to be downloaded; no place to write to.
    """
    find(files, dir, folder)  # so that a damaged file is reported even where prepared data would do without it
    root = writable_root(dir) / "prepared"

    def open_prepared() -> T:
        return read(builder({}, data_dir=root, file_format="array_record").as_data_source())

    with suppress(Exception):  # absent or damaged, which shows in many unrelated exceptions
        return open_prepared()
    _prepare(root, builder, obtain(files, dir, folder), open_prepared)
    return open_prepared()


def examples_of(prepared: Any, split: str, count: int) -> Sequence[Mapping[str, Any]]:
    """All examples of a split.

    Raises:
      ValueError: there are not so many.
    """
    examples = prepared[split].__getitems__(range(len(prepared[split])))
    if len(examples) != count:
        raise ValueError(f"{len(examples)} examples are prepared for '{split}', expected {count}")
    return examples


def _prepare(root: Path, builder: Any, files: Mapping[str, Path], open_prepared: Callable[[], Any]) -> None:
    """Writes the prepared set. Processes that start together wait for each other."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with (root / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with suppress(Exception):
                open_prepared()
                return
            shutil.rmtree(root / builder.name, ignore_errors=True)
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()), TemporaryDirectory() as unused:
                builder(files, data_dir=root, file_format="array_record").download_and_prepare(download_dir=unused)
    except (OSError, RuntimeError) as error:  # a full disk is a RuntimeError of the writer of array_record
        raise UsageError(
            f"prepared data cannot be written to {root} ({error}): free space there, or name a --data.dir that can be written",
            code=1,
        ) from error
