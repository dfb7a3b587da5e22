"""Melodies of trained networks: prompts in ABC notation, and the tunes that the command prints and writes."""

import numpy as np
import pytest

from experiments.music import EXPERIMENT
from lrpt.cli.command import main
from lrpt.cli.finished.tunes import as_abc, check_melodies, melodies_of, prompt_numbers
from lrpt.datasets.abc import BAR, read_tune, split_tunes
from lrpt.datasets.vocabulary import Vocabulary, WordVocabulary
from lrpt.errors import UsageError

VOCABULARY = WordVocabulary.of("G4:1/2 A4:1/2 B4:1/2 | F#4:1/2")


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("", ""),
        ("GA | B", "G4:1/2 A4:1/2 | B4:1/2"),
        ("G4:1/2 | A4:1/2", "G4:1/2 | A4:1/2"),
        ("X:1\nL:1/4\nK:G\nF/ G/", "F#4:1/2 G4:1/2"),
    ],
)
def test_prompts_are_notation_or_symbols(prompt, words):
    expected = [VOCABULARY.symbols.index(word) for word in words.split()]
    np.testing.assert_array_equal(prompt_numbers(prompt, VOCABULARY), expected)


@pytest.mark.parametrize(("prompt", "says"), [("G4", "prompt has 'G4:2', which no tune"), ("GY", "'Y' stands where a note")])
def test_prompts_that_the_network_cannot_read_are_refused(prompt, says):
    with pytest.raises(UsageError, match=says):
        prompt_numbers(prompt, VOCABULARY)


@pytest.mark.parametrize("vocabulary", [Vocabulary.of("GABc dedB|"), WordVocabulary.of("G4:1/2 and A4:1/2")])
def test_a_network_that_learned_a_text_writes_no_tunes(vocabulary, tmp_path):
    with pytest.raises(UsageError, match="holds a run on a text, not on melodies: name a run"):
        check_melodies(vocabulary, tmp_path)


def test_tunes_end_at_the_end_symbol_and_unknown_symbols_are_left_out():
    melodies = melodies_of("G4:1/2 <unk> | A4:1/2 <eos> <eos> z:1 | <eos> B4:1/2")
    assert [" ".join(map(str, melody)) for melody in melodies] == ["G4:1/2 | A4:1/2", "B4:1/2"]
    tunes = split_tunes(as_abc(melodies), "written")
    assert [tune.number for tune in tunes] == ["1", "2"]
    assert [read_tune(tune) for tune in tunes] == [[*melody, BAR] for melody in melodies]


@pytest.mark.slow
def test_the_command_prints_and_writes_tunes(tmp_path, capsys):
    run = tmp_path / "run"
    flags = ["--no-compare", "--model.size", "8", "--model.embedding", "8", "--train.updates", "2", "--data.tunes", "60", "--devices", "1"]
    main(EXPERIMENT, [*flags, "--train.evaluate-every", "1", "--samples", "20", "--workdir", str(run)])
    shown = capsys.readouterr().out
    assert shown.count("writes at update") == 2
    assert "writes, in ABC notation:\nX:1\nT:Sample 1\n" in shown
    main(EXPERIMENT, ["sample", str(run), "--prompt", "DEA|", "--samples", "2"])
    tunes = split_tunes(capsys.readouterr().out, "printed")
    assert len(tunes) >= 2
    assert " ".join(map(str, read_tune(tunes[0]))).startswith("D4:1/2 E4:1/2 A4:1/2 | ")
    main(EXPERIMENT, ["sample", str(run), "--output", str(tmp_path / "a.abc")])
    assert (tmp_path / "a.abc").read_text().startswith("X:1\n")
    pytest.importorskip("mido")
    main(EXPERIMENT, ["sample", str(run), "--output", str(tmp_path / "a.mid")])
    assert (tmp_path / "a.mid").read_bytes()[:4] == b"MThd"
    with pytest.raises(SystemExit, match="2"):
        main(EXPERIMENT, ["sample", str(run), "--output", "a.wav"])
    assert "expected a name that ends in .abc or .mid" in capsys.readouterr().err
