"""O'Neill's "Music of Ireland" (1903) in ABC notation, through tensorflow-datasets without TensorFlow."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from lrpt.datasets.prepared import PublishedFiles, examples_of, load_prepared
from lrpt.datasets.sources import Source

FOLDER = "irish_abc/oneills1850"
# Transcriptions by several people, from the music21 corpus. Its licence file and the header of each file state their terms.
_MIRROR = "https://raw.githubusercontent.com/cuthbertLab/music21/3146cb08762979cd6aae7dc95f246144026eb3cd/music21/corpus/oneills1850/"
_PUBLISHED = (
    ("0001-0050.abc", 22848, "b036492885861009a95bb395c2c13bd85366cb1d4bb07341093939c443d5a945"),
    ("0051-0100.abc", 22684, "75bfd1ed77621e3fe5e4ade05510dd94d4fe378d637cb5bf94a3e3fddc9a4d64"),
    ("0101-0200.abc", 37435, "cde02ef9f1fc5d0773a609d9607fdcb505c115a461e50734355017fc9161b986"),
    ("0201-0300.abc", 40435, "6ec568c6e085fa85e95cc004e07e4cdc787f7c82f794935464f3e210704f354a"),
    ("0301-0350.abc", 20713, "818261ab833cc3627cc76a73091cb7c75ce2d82fbe25b10267170240ed981cda"),
    ("0351-0400.abc", 19406, "308e6e0d426cf172e480a745ad97505d1255187503197365a7686998465998e9"),
    ("0401-0486.abc", 36808, "e7423c4457854e9c2cee49e9a4829303f08bd76c65861ab8471b778e40cecc02"),
    ("0487-0500.abc", 5700, "dd7c66c066409bdc2b6508b28c6bc8c05100784060fd578e42bc08a5c5e35784"),
    ("0501-0550.abc", 19340, "02994f9d8bf5e711f80adc7329f32f8642f587ca6a51c5a8adecf89bf6670fbd"),
    ("0550-0625.abc", 27884, "7b78d17f8d9a3bc75f80358ca65159617112fa5cce2afd9ee61ac76b8f827e9c"),
    ("0626-0635.abc", 4657, "43e65b44ca0bf295fea4c9ce0d6447591bd9bfb5bf2aa042c0a900aaaf5ea4d7"),
    ("0626-0700.abc", 36917, "f95cef6d95215488832be40d374ca22c336f3cbe242c5657a821fe03ded35c87"),
    ("0701-0720.abc", 6668, "067a9e44e825bb3e4d8a7d566e8ee219f0e4ea1a9b3c11baf4bf48935077305d"),
    ("0721-0730.abc", 3472, "1ab7841050184faca170a825dd877403a19a62f1871b662116f26588cbad7e3b"),
    ("0731-0731.abc", 383, "5134432c15b06eebfcaf710c55ac6a81dc4e47723242c099a103445c521a6930"),
    ("0732-0758_bs.abc", 10067, "141099ff29dbd847225e54a542da4546724e146e5da7139628b0bdac789fc823"),
    ("0732-0758_mh.abc", 8504, "8facdcfdb3bd80fc05c6b2f4a2cc32c1277f88434d2129780e32a7fac5fad988"),
    ("0759-0810.abc", 18802, "e20200e939be38f2fec2cd49ad318b75c0a5377290f81be4ed56624ae25baa72"),
    ("0811-0899.abc", 27315, "d805497ad87c172555e5f65fd5f8d991e998e18e059cc604da0a5ce93a9bab35"),
    ("0900-0950.abc", 18062, "e62737fc9fa4e6b9967f2902a70326d4d55f8b18cf913d72b0ddde64d44c3540"),
    ("0951-0981.abc", 10115, "ac3bc021aa30aeea355cd05cc724f614c42573d3e4191a57c7aa2ea3545a640d"),
    ("0981-1000.abc", 8940, "a8701258a4f2918c802dfe49354be499e5dc75c13b7bcca55321cb798caddae5"),
    ("1001-1031.abc", 10504, "8bea24fe59bc52923e5dad095b4d96bfbf2c99713a6697d40d93c6a384ae0aff"),
    ("1031-1115.abc", 29827, "f8f9cc934279172b8c30f981305c30bf08871efdbbb18aeb7a833206dcdf58e3"),
    ("1116-1135_mh.abc", 6332, "88fbab8ec821090c9e74a9a8b61f65f0077d8ee66cf1f6caa68ba83e9f9dadce"),
    ("1116-1135_ml.abc", 6862, "fcaad6f97ca9278360798354f3a399786a54313f346e8537676f637c81924ddc"),
    ("1136-1175.abc", 14075, "0b4de65595cb03bd4a620ae27461b6834eafa275e27f3561ca416b612387f44e"),
    ("1176-1275.abc", 33905, "59b3cf59edb1da83ca393687a61dfb3220d782d311df638bfa98e16c6a028499"),
    ("1276-1375.abc", 30009, "f12e4ff9b9e34e81ad0e837c2ac9391187677aa83e7b3d5247a11e9f48ecc774"),
    ("1376-1475.abc", 40362, "e525ea231c0470487ad2b6779e9b26a08eaab37743f67b1aff7444bead0aee69"),
    ("1476-1555.abc", 33733, "088546006a393fd0adb9925b6350690f2d79c6a0eb9fd352f6eb43cd88434444"),
    ("1556-1576.abc", 7395, "92df436aeb3ee6bf1e0671c31064fc82b073beaa61ac992ab240e51a1929814e"),
    ("1556-1624.abc", 28492, "3b8de3c0d957fa2df377e491076ca584f303a7d652ed2390c8a7788ac177173c"),
    ("1577-1624.abc", 18958, "0576478141ebd471bfc75389ec08d5197c6ba3333008ba0644823163fd87ed42"),
    ("1625-1700.abc", 27441, "70a3bb18236be08d46381ce32a53dfd11afc3538396fe0fb39c5df80d500fffd"),
    ("1701-1780.abc", 36975, "e309c14410bcefe078c875da797b117c13bef656ccc948a62d80e4f77a45af36"),
    ("1710-1750.abc", 13683, "898f9d93700123f2165e9854f2a9f4034f249417a986837f9b89766e2f495612"),
    ("1781-1800.abc", 10906, "db830d36396dfe3a6d165fb5f7f1913dc0e94d557d4a2a1d6e80f0316d93e8d8"),
    ("1801-1850.abc", 25370, "86b19309e78e041cfca95fc7d7e9a07e8e51ee2ac627c7960e327c3d34bfd70f"),
)
FILES = tuple(Source(name, _MIRROR + name, size, sha256) for name, size, sha256 in _PUBLISHED)


class LrptIrishAbc(PublishedFiles):
    """A tfds builder with one example per file: its name and its text."""

    about = "Tunes of O'Neill's collection of 1903 in ABC notation, some of them in two transcriptions."

    def _features(self) -> dict[str, Any]:
        return {"name": tfds.features.Text(), "text": tfds.features.Text()}

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        return {"tunes": self._generate_examples()}

    def _generate_examples(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for index, source in enumerate(FILES):
            yield index, {"name": source.name, "text": self._files[source.name].read_text("utf-8")}


@lru_cache(maxsize=1)
def load_irish_abc(dir: Path | None = None) -> dict[str, str]:
    """Load the text of each file by its name, sorted by name.

    `load_prepared` lists the directories that are searched.

    Raises:
      UsageError: a file is damaged, or missing and cannot be downloaded, or no directory is writable.
    """
    return load_prepared(LrptIrishAbc, _read, FILES, dir, FOLDER)


def _read(prepared: Any) -> dict[str, str]:
    return {example["name"].decode(): example["text"].decode() for example in examples_of(prepared, "tunes", len(FILES))}
