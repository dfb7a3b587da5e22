"""Tests of the list of published files, and of the places where files are looked for."""

import os
import subprocess
import sys

import pytest
from mirrors import source_of

from lrpt.datasets import sources
from lrpt.datasets.__main__ import main
from lrpt.datasets.published import data_sets, listing
from lrpt.errors import UsageError


def test_every_file_is_listed_with_address_checksum_and_size():
    lines = [*listing([])]
    for name, (folder, files) in data_sets().items():
        bytes_ = f"{sum(source.size for source in files):,} bytes"
        assert any(line.startswith(f"# {name}: {len(files)} files, {bytes_}; ") and folder in line for line in lines)
        for source in files:
            assert f"{source.url} {source.sha256} {source.size}" in lines


def test_only_named_data_sets_are_listed(capsys):
    main(["ptb"])
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(data_sets()["ptb"].files)
    with pytest.raises(SystemExit, match="2"):
        main(["pbt"])
    assert capsys.readouterr().err == "lrpt: error: no data set is called 'pbt': choose from mnist, ptb, jsb, irish_abc, wikipedia\n"


def test_a_flag_is_no_name_of_a_data_set(assert_refused):
    assert_refused(main, ["ptb", "--nope"], "Unrecognized options: --nope; see python -m lrpt.datasets --help")


def test_a_reader_that_needs_no_more_ends_the_list_silently():
    read, write = os.pipe()
    os.close(read)
    found = subprocess.run([sys.executable, "-m", "lrpt.datasets", "ptb"], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (found.returncode, found.stderr) == (128 + 13, b"")


@pytest.mark.parametrize("place", [".", "music", "irish", "music/irish"])
def test_files_are_found_in_every_part_of_their_folder(place, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    path = tmp_path / place / "one.abc"
    path.write_text("X:1")
    assert sources.find([source_of(path)], tmp_path, "music/irish") == {"one.abc": path}


@pytest.mark.parametrize(("count", "named"), [(1, "0.abc"), (3, "0.abc, 1.abc, 2.abc"), (40, "0.abc and 39 others")])
def test_of_many_missing_files_the_first_is_named_and_the_command_that_lists_all(count, named, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    missing = [sources.Source(f"{n}.abc", f"file:///nowhere/{n}.abc", 1, f"digest{n}") for n in range(count)]
    with sources.without_downloads(), pytest.raises(UsageError) as raised:
        sources.obtain(missing, tmp_path, "irish_abc/oneills1850")
    text = str(raised.value)
    assert f"missing data: {count} of {count} files are not in {tmp_path} or its folder irish_abc/oneills1850, and" in text
    assert f"get {named} from the addresses that `python -m lrpt.datasets irish_abc` prints, and name their directory as --data.dir" in text
    assert len(text.replace(str(tmp_path), "")) < 260
