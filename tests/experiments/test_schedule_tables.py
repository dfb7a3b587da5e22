"""Melodies and words under a scheduler: two updates, then every table, and Figure 4 from their results."""

import json
from functools import partial

import pytest

from experiments import europarl, music
from experiments.efficiency import command as efficiency
from experiments.efficiency.points import Point, lines
from experiments.report.command import main as report
from lrpt.cli.command import main
from lrpt.datasets.abc import drawn_tunes
from lrpt.runs.files import sealed

FEW = "--no-compare --model.size 5 --model.embedding 5 --devices 1 --train.updates 2 --train.batch-size 2 --train.evaluation-batch 2"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    (folder / "tunes.abc").write_text(drawn_tunes(30))
    (folder / "text").write_text("the cat sat on a mat. " * 12)
    for experiment, file, preset in ((music, "tunes.abc", "paper"), (europarl, "text", "cs-guide")):
        name = experiment.EXPERIMENT.name
        flags = ["--preset", preset, "--data.file", str(folder / file), "--data.steps", "6", "--workdir", str(folder / name)]
        main(experiment.EXPERIMENT, [*FEW.split(), *flags])
    return folder


def test_presets_differ_in_size_and_language_alone():
    for experiment in (music.EXPERIMENT, europarl.EXPERIMENT):
        for name, preset in experiment.presets.items():
            assert preset.config.model.parameter_shapes(20, 20), name
            assert preset.config.data.source in ("drawn", "irish", "python", "europarl_cs", "europarl_de")


def test_guidance_names_the_white_spaces():
    found = europarl.QUICK.data.build(0).metadata["white_spaces"]
    assert tuple(found) == europarl.GUIDE["guided_symbols"]


@pytest.mark.slow
def test_notes_are_grouped(runs, capsys):
    main(music.EXPERIMENT, ["notes", str(runs / "music"), "--length", "600"])
    said = " ".join(capsys.readouterr().out.split())
    assert "kind bar" in said
    found = json.loads((runs / "music" / "notes.json").read_text())
    assert {"bar", "note", "rest"} >= found["kind"].keys()
    counts = [sum(count for _, count in found[name].values()) for name in ("kind", "bars")]
    assert counts[0] == counts[1] <= 600
    assert found["kind"]["note"][1] == sum(count for _, count in found["length"].values())
    assert (runs / "music" / "figures" / "notes.png").exists()


@pytest.mark.slow
def test_the_analysis_of_a_kept_result_is_computed_again(tmp_path, capfd, assert_refused):
    main(music.EXPERIMENT, [*FEW.split(), "--preset", "quick", "--data.tunes", "40", "--workdir", str(tmp_path / "run")])
    report(["--collect", str(tmp_path / "run")], tmp_path)
    main(music.EXPERIMENT, ["notes", str(tmp_path / "run")])
    kept = tmp_path / "experiments" / "results" / "music" / "run" / "analysis.json"
    analysis, notes = json.loads(kept.read_text()), json.loads((tmp_path / "run" / "notes.json").read_text())
    assert analysis["notes"] == notes
    assert analysis["masks"]["soft"].keys() == analysis["masks"]["hard"].keys()
    capfd.readouterr()
    report(["--verify"], tmp_path)
    assert "analysis.json: the largest difference is 0.0e+00" in capfd.readouterr().out
    analysis["schedule"]["mean"] += 0.01
    kept.write_text(json.dumps(sealed(analysis)))
    assert_refused(lambda words: report(words, tmp_path), ["--verify"], "do not verify", code=1, printed=True)


@pytest.mark.slow
def test_words_have_ends(runs, capsys):
    main(europarl.EXPERIMENT, ["words", str(runs / "europarl"), "--split", "train", "--reach", "2"])
    assert "+2" in capsys.readouterr().out
    found = json.loads((runs / "europarl" / "words.json").read_text())
    assert (found["offsets"], len(found["means"])) == ([-2, -1, 0, 1, 2], 5)
    before, at_the_end, behind = found["control"][1:4]
    assert before == pytest.approx(behind), "letters on both sides of every white space"
    assert before != pytest.approx(at_the_end)
    assert found["words"] > 50


@pytest.mark.slow
@pytest.mark.parametrize(
    ("experiment", "command", "message"),
    [
        (music, "notes {}/europarl", "does not read melodies"),
        (europarl, "words {}/music", "does not read characters"),
        (europarl, "words {}/europarl --reach 0", "reach is 0: expected 1 or more"),
        (europarl, "words {}/europarl --length 5 --reach 3", "boundaries has 3 steps on both sides"),
    ],
)
def test_bad_flags(experiment, command, message, runs, assert_refused):
    assert_refused(partial(main, experiment.EXPERIMENT), command.format(runs).split(), message)


@pytest.mark.slow
def test_efficiency_of_finished_runs(runs, capfd, assert_refused):
    efficiency.main([str(runs / "europarl"), "--figure", str(runs / "efficiency.png")])
    assert "VCRNN 5" in capfd.readouterr().out
    assert (runs / "efficiency.png").exists()
    assert_refused(efficiency.main, [runs / "nowhere"], "holds no finished run")
    (runs / "damaged").mkdir()
    (runs / "damaged" / "result.json").write_text('{"model": "a VCRNN"}')
    assert_refused(efficiency.main, [runs / "damaged"], "result.json has no 'metrics'")
    assert_refused(efficiency.main, [runs / "music"], "has no 'bits_per_character'")


def test_points_of_a_line_have_one_source_which_is_named_if_there_are_several():
    czech, german = (Point("VCRNN", "VCRNN 4", 3.0, 1.5, f"europarl_{language}") for language in ("cs", "de"))
    assert lines([czech, czech]) == {"VCRNN": [czech, czech]}
    assert lines([czech, german]) == {"VCRNN on europarl_cs": [czech], "VCRNN on europarl_de": [german]}
