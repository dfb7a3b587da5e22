"""Writing and checking of the pages, and the other things that the options of the command ask for."""

import re
from collections.abc import Mapping, Sequence
from os.path import normpath
from pathlib import Path, PurePosixPath

from experiments.report.claims.judged import Judged, tally
from experiments.report.claims.rows import Evidence
from experiments.report.claims.scales import SEEDS
from experiments.report.claims.verdicts import Status
from experiments.report.figures.analyses import analysis_figures
from experiments.report.figures.learning_curves import draw_study
from experiments.report.figures.studies import DRAWN_BY, draw_studies
from experiments.report.kept.collecting import collect
from experiments.report.kept.records import load
from experiments.report.kept.summaries import crossing_name, load_summary
from experiments.report.kept.verification import verify
from experiments.report.options import PROGRAM, Options
from experiments.report.pages import crossing
from experiments.report.pages.cards import CARD, card_pages
from experiments.report.pages.commands_page import commands_page
from experiments.report.pages.curves_page import curves_page
from experiments.report.pages.overview import overview
from experiments.report.pages.paper_page import DOCS, page, page_path
from experiments.report.pages.verdicts import VERDICTS
from experiments.report.papers import highway, lattice, low_rank, variable_computation
from experiments.report.wording.markdown import RESULTS, figure_path, runs_page
from lrpt.errors import UsageError
from lrpt.runs.console import Console
from lrpt.runs.files import write_text
from lrpt.runs.layout import FIGURES

REPORT = PurePosixPath("REPRODUCTION.md")
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")
PAPERS = (low_rank.PAPER, variable_computation.PAPER, highway.PAPER, lattice.PAPER)


def run(options: Options, root: Path, console: Console) -> None:
    """Do what the options say to the repository at `root`.

    Raises:
      UsageError: a result file is damaged, a run cannot be collected, or a page is stale.
    """
    if sum([options.collect is not None, options.check, options.verify is not None]) > 1:
        raise UsageError("--collect, --verify and --check exclude each other: collect first")
    if options.data_dir is not None and options.collect is None and options.verify is None:
        raise UsageError(
            f"--data.dir is {options.data_dir}, and pages are written without data: add --verify or --collect, or leave it out"
        )
    if options.verify is not None:
        verify(root / RESULTS, options.verify, options.data_dir, console)
        return
    if options.collect is not None:
        collect(options.collect, root / RESULTS, console, options.data_dir, options.weights)
        console.say(f"next: {PROGRAM}")
        return
    evidence = evidence_of(root)
    console.say(f"computing the pages from {len(evidence.records)} runs; this takes a minute or two ...")
    judged = [Judged(paper, evidence) for paper in PAPERS]
    texts = pages(judged, root)
    for record in evidence.records:
        if record.result is None:
            console.warn(f"{RESULTS / record.experiment / record.name} is partial: {record.state}")
    if options.check:
        _check(root, texts)
    else:
        _draw(root, judged)
        for path, text in texts.items():
            write_text(root / path, text)
    found = tally(judged)
    console.say(f"{REPORT}: {len(evidence.records)} runs, {found[Status.REPRODUCED]} of {found.total()} claims reproduced")


def evidence_of(root: Path) -> Evidence:
    """Return everything that is kept.

    Raises:
      UsageError: a file is damaged.
    """
    crossings = {crossing_name(equal): summary for equal, summary in crossing.kept(root).items()}
    studies = {name: load_summary(root / RESULTS / f"{name}.json") for name in DRAWN_BY}
    return Evidence(load(root / RESULTS), {**crossings, **{name: study for name, study in studies.items() if study is not None}})


def pages(judged: Sequence[Judged], root: Path) -> dict[PurePosixPath, str]:
    """Return the text of every page by its path from the top of the repository."""
    return {
        REPORT: overview(judged, crossing.meanings(root)),
        **{path: text for one in judged for path, text in _pages_of(one).items()},
        page_path("runs"): runs_page(judged[0].evidence.records, judged[0].evidence.studies),
        page_path("crossing"): f"{crossing.section(root)}\n",
        page_path("verdicts"): VERDICTS,
        **card_pages(judged[0].evidence.records, root),
    }


def _pages_of(judged: Judged) -> dict[PurePosixPath, str]:
    """Return the pages of a paper: claims, curves and commands."""
    name = judged.paper.name
    return {
        page_path(name): page(judged),
        page_path(f"{name}_curves"): curves_page(judged),
        page_path(f"{name}_commands"): commands_page(judged, SEEDS),
    }


def _check(root: Path, texts: Mapping[PurePosixPath, str]) -> None:
    for path, text in texts.items():
        if not (root / path).exists() or (root / path).read_text() != text:
            raise UsageError(f"{path} is not what the results say: run {PROGRAM}", code=1)
    known = {path.name for path in texts}
    for path in sorted((root / DOCS).glob("*.md")):
        if path.name not in known:
            raise UsageError(f"{DOCS / path.name} is no page of the report: remove it", code=1)
    for path in sorted((root / RESULTS).glob(f"*/*/{CARD}")):
        if path.relative_to(root).as_posix() not in {str(name) for name in texts}:
            raise UsageError(f"{path.relative_to(root)} is a card of weights that are not kept: remove it", code=1)
    for image, page_of in _images(texts).items():
        if not (root / image).exists():
            raise UsageError(f"{image}, which {page_of} shows, is missing: run {PROGRAM}, or restore it", code=1)


def _images(texts: Mapping[PurePosixPath, str]) -> dict[PurePosixPath, PurePosixPath]:
    """Return the images that pages show, each with a page that shows it."""
    shown = [(path, link) for path, text in texts.items() for link in IMAGE.findall(text)]
    return {PurePosixPath(normpath(path.parent / link)): path for path, link in shown}


def _draw(root: Path, judged: Sequence[Judged]) -> None:
    evidence = judged[0].evidence
    for one in judged:
        for study in one.paper.studies:
            if study.runs(evidence):
                draw_study(study, evidence, root / figure_path(f"{study.name}.png"))
            for name, (_, draw) in analysis_figures(study, evidence).items():
                draw(root / figure_path(f"{name}.png"))
    draw_studies(evidence, root / RESULTS / FIGURES)
    crossing.draw(root)
