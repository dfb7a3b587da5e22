"""Takeaways about lattice recurrent units; every number and every conclusion is computed from the kept results."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from experiments.lattice.gradients_figure import mean_norms
from experiments.lattice.models import NAMES
from experiments.report.claims.judged import Judged, JudgedRelation
from experiments.report.claims.paper import Takeaway
from experiments.report.claims.relations import Relation
from experiments.report.claims.rows import ended_by_cap
from experiments.report.claims.studies import ONE_EPOCH, OfStudy, by_epoch
from experiments.report.claims.verdicts import Finding
from experiments.report.kept.lattice_studies import STARTS, Study, norms_of, runs_from, scale_of, scores, starts_in
from experiments.report.papers.lattice_remarks import kept_studies
from experiments.report.papers.lattice_table import (
    GRADIENTS,
    PARTS,
    TABLE_1,
    claimed,
    is_even,
    lacking,
)
from experiments.report.wording.texts import at_published_size, capitalized, counted, gap, placed, says
from lrpt.runs.console import in_series

BOOKS = {"PTB": "the Penn Treebank", "WP": "War and Peace"}


def takeaways(judged: Judged) -> Sequence[Takeaway]:
    """Return takeaways on losses, epochs, the first epoch, shares of the data, and gradients."""
    return (
        Takeaway(
            f"**Losses.** {at_published_size(judged, 'Table 1', 'Table 1')} {_not_in_the_table()} {_smaller(judged)}{_losses(judged)}",
            (
                *_scales(judged),
                *(_order(judged, text) for text in BOOKS),
                "The paper orders losses and epochs in general. We read that as one ordering for each data set and size.",
                f"Orderings that do not hold in Table 1 are listed in the [remarks](#remarks) and not counted. "
                f"{sum(map(is_even, lacking()))} of these {len(lacking())} are equal at the printed digits.",
            ),
        ),
        Takeaway(
            f"**Epochs** until the best one. {_epochs(judged, 'LSTM')} {_epochs(judged, 'GRU')}{_from_glorot(judged)}",
            (_censored(judged), *_in_each_study(judged)),
        ),
        *_first_epochs(judged),
        _shares(judged),
        _even(judged),
    )


def _first_start(study: Study | None) -> str:
    """Return the start that is judged: the one of the published runs if it was run."""
    return next(iter(starts_in(study)), "") if study else ""


def _scales(judged: Judged) -> list[str]:
    """Return the models and the scale of each kept study of convergence."""
    said = [
        f"{BOOKS[text]} ({text}), {_models_of(study)}: {scale_of(study, _first_start(study))}"
        for text, study in kept_studies(judged.evidence)
    ]
    return said or ["no study is kept"]


def _models_of(study: Study) -> str:
    names = [NAMES[name] for name in dict.fromkeys(run["model"] for run in study["runs"])]
    return "all models" if len(names) == len(TABLE_1["10M"]) else in_series(names)


def _smaller(judged: Judged) -> str:
    """Return what is smaller about the studies of convergence, to begin a sentence; nothing if they have the published sizes."""
    first = dict(reversed(kept_studies(judged.evidence)))  # of each text, the study that is judged
    if not any(scale_of(study, _first_start(study)) for study in first.values()):
        return ""
    return f"At smaller scale ({'; '.join(f'{BOOKS[text]}, {text}: {_size_of(first[text])}' for text in BOOKS if text in first)}): "


def _size_of(study: Study) -> str:
    """Return the number of parameters of a study, and its share of the text if it is not all of it."""
    share = study["options"]["data"]["text_share"]
    return f"{study['options']['parameters']:,} parameters{'' if share is None else f', {share:g} %'}"


def _losses(judged: Judged) -> str:
    """Say how test losses of LRUs and GRUs compare, text by text."""
    found = {text: judged.relation(f"LRU < GRU: lower test loss ({text}") for text in BOOKS}
    said = [f"{placed(r)} on {text} ({says(r.verdict)})" for text, r in found.items() if r.difference is not None]
    return f"compared with GRUs, LRUs are, in nats per character, {in_series(said)}." if said else "no test losses of LRUs and GRUs."


def _order(judged: Judged, text: str) -> str:
    """Say how much of the order of losses in Table 1 paired seeds confirm."""
    found = [r for r in judged.relations if r.relation.where == f"Table 1, {text}" and "lower test loss" in r.relation.sentence]
    return f"{capitalized(BOOKS[text])}: of {_findings(found, 'orderings of losses in Table 1')}"


def _findings(relations: Sequence[JudgedRelation], what: str) -> str:
    """Return 'the 6 WHAT that were run: 2 for the paper, 1 against it and 3 undecided', and which ones are against it."""
    against = [f"{r.relation.sentence} (it is {placed(r)} nats per character)" for r in relations if r.verdict.finding is Finding.AGAINST]
    not_found = f". Claimed, but not found: {'; '.join(against)}" if against else ""
    return f"{_tally(relations, what)} (one test each at 5 %, no correction){not_found}."


def _tally(relations: Sequence[JudgedRelation], what: str) -> str:
    run = [r for r in relations if r.pairs]
    return f"the {len(run)} {what} that were run: {counted(run, SAID, ALWAYS)}"


ALWAYS = {Finding.FOR, Finding.AGAINST}
SAID = {
    Finding.FOR: "for the paper",
    Finding.AGAINST: "against it",
    Finding.OPEN: "undecided",
    Finding.ONE_SEED: "with one seed",
    Finding.NONE: "not judged",
}
"""Finding -> what is said of the relations that have it; of those in `ALWAYS`, even if there are none."""


def _not_in_the_table() -> str:
    """Return how many orderings of losses and of epochs Table 1 does not have."""
    missing, of = (Counter(one.score for one in orderings) for orderings in (lacking(), claimed()))
    return (
        f"In the paper's own Table 1, {missing['loss']} of {of['loss']} orderings of losses and {missing['epochs']} of {of['epochs']} of "
        f"epochs in its text (our reading) do not hold."
    )


def _shares(judged: Judged) -> Takeaway:
    """Say how LRUs and GRUs compare on shares of the data below all of it."""
    found = [judged.relation(f"LRU < GRU: lower test loss with {share} % of the data (PTB)") for share in PARTS]
    if not any(r.pairs for r in found):
        return Takeaway("**Shares of the data** (Figure 5) are not yet run.")
    lower = sum(r.difference is not None and r.difference.mean > 0 for r in found)
    ahead = [r for r in judged.relations if r.relation.sentence.startswith("an LRU on 40 %")]
    of_figure = [r for r in judged.relations if r.relation.where == "Figure 5, PTB"]
    return Takeaway(
        f"**Shares of the data.** On parts of the Penn Treebank (Figure 5), the mean loss of LRUs is below that of GRUs at {lower} of "
        f"{sum(bool(r.pairs) for r in found)} shares ({_how_many_decide(found)}).{_on_less(ahead)}",
        (f"All claims about Figure 5 on the Penn Treebank: of {_findings(of_figure, 'orderings')}",),
    )


def _how_many_decide(relations: Sequence[JudgedRelation]) -> str:
    """Return how many differences are significant: 'none significantly', or '1 significantly above it'."""
    words = {Finding.FOR: "significantly", Finding.AGAINST: "significantly above it"}
    counts = {said: sum(r.verdict.finding is finding for r in relations) for finding, said in words.items()}
    return in_series([f"{count} {said}" for said, count in counts.items() if count]) or "none significantly"


def _on_less(ahead: Sequence[JudgedRelation]) -> str:
    """Say how often LRUs on 40 % of the data are better than other models on 60 %, and which ones differ; nothing if none was run."""
    advantages = [pair.advantage for r in ahead for pair in r.pairs if pair.advantage is not None]
    if not advantages:
        return ""
    said = f" LRUs on 40 % are better than other models on 60 % in {sum(a > 0 for a in advantages)} of {len(advantages)} pairs of runs"
    sides = {"worse": Finding.AGAINST, "better": Finding.FOR}
    names = {word: [_rival(r) for r in ahead if r.verdict.finding is finding] for word, finding in sides.items()}
    differing = [f"{word} than {in_series(found)}" for word, found in names.items() if found]
    return f"{said}{f', significantly {in_series(differing)}' if differing else ''}."


def _rival(relation: JudgedRelation) -> str:
    """Return the models that LRUs are compared with: 'GRUs'."""
    return f"{relation.relation.sentence.partition(' better than a ')[2].partition(' on ')[0]}s"


def _after_one(judged: Judged) -> str:
    """Say how many orderings of test losses after one epoch were found; nothing if none was run."""
    found = [r for r in judged.relations if r.relation.contest is ONE_EPOCH]
    if not any(r.pairs for r in found):
        return ""
    return f"After one epoch (Figures 3 and 4): of {_findings(found, 'orderings of test losses')}"


def _censored(judged: Judged) -> str:
    """Say how many runs of the convergence studies the cap on epochs ended."""
    runs = [(run, study) for _, study in kept_studies(judged.evidence) for run in runs_from(study, _first_start(study))]
    names = dict.fromkeys(run["model"] for run, _ in runs)
    capped = {name: [ended_by_cap(run, study) for run, study in runs if run["model"] == name] for name in names}
    counts = [f"{sum(own)} of {len(own)} runs of {NAMES[name]}" for name, own in capped.items() if any(own)]
    if not counts:
        return ""
    return f"The cap on epochs ended {in_series(counts)}. So their epochs are lower bounds, and their losses are too high."


def _epochs(judged: Judged, other: str) -> str:
    """Say how many epochs fewer, or more, LRUs need than another model, on both texts."""
    found = {text: judged.relation(f"LRU < {other}: fewer epochs ({text}") for text in BOOKS}
    said = _by_text({text: r for text, r in found.items() if r.difference is not None})
    if not said:
        return f"Epochs of {other}s are not yet run."
    capped = any(pair.bound for r in found.values() for pair in r.pairs)
    return f"Against {other}s{', which reach our cap on epochs' if capped else ''}, LRUs need {said}."


def _by_text(found: Mapping[str, JudgedRelation]) -> str:
    """Return how many epochs fewer or more, text by text, with what that says of the paper; once if it says the same of all."""
    verdicts = {text: says(r.verdict) for text, r in found.items()}
    alike = len(set(verdicts.values())) == 1 < len(verdicts)
    said = [f"{_fewer(r)} on {text}{'' if alike else f' ({verdicts[text]})'}" for text, r in found.items()]
    return " and ".join(said) + (f" (both {next(iter(verdicts.values()))})" if alike else "")


def _from_glorot(judged: Judged) -> str:
    """Compare epochs of LRUs and GRUs from the initialization that the paper's text names; nothing if none was run."""
    found, sizes, others = {}, [], []
    for text in BOOKS:
        claim = judged.relation(f"LRU < GRU: fewer epochs ({text}")
        for study, one in _by_study(judged, claim.relation, "glorot").items():
            if one.difference is not None:
                found[text] = one
                sizes.append(f"{judged.evidence.studies[study]['options']['parameters']:,}")
                others.append(_as_in_code(judged, claim, study, text))
    if not found:
        return ""
    return (
        f" With Glorot's initialization, which the paper's text names, LRUs of {in_series(list(dict.fromkeys(sizes)))} parameters need "
        f"{_by_text(found)}.{''.join(others)}"
    )


def _as_in_code(judged: Judged, claim: JudgedRelation, study: str, text: str) -> str:
    """Compare epochs in a study from the initialization of the code; nothing if they are those that are judged, or were not run."""
    found = _by_study(judged, claim.relation, "lru").get(study)
    if found is None or found.advantage == claim.advantage:
        return ""
    return f" Of this size, initialized as in the code, they need {_by_text({text: found})}."


def _by_study(judged: Judged, claim: Relation[Any], start: str) -> dict[str, JudgedRelation]:
    """Return study -> the comparison in it, from one start; studies that were not run are left out."""
    versions = [one for one in claim.versions if isinstance(one, OfStudy) and one.better.start == start]
    found = {one.better.study: judged.judge(replace(claim, versions=(one,))) for one in versions}
    return {study: one for study, one in found.items() if one.pairs}


def _first_epochs(judged: Judged) -> Sequence[Takeaway]:
    """Count orderings of losses after one epoch, and compare LRUs and GRUs in each study and from both starts; nothing if none was run."""
    found = [r for r in judged.relations if r.relation.contest is ONE_EPOCH]
    starts = {start: _after_one_from(judged, start) for start in ("lru", "glorot")}
    if not any(r.pairs for r in found) or not starts["lru"]:
        return ()
    glorot = f"; with Glorot's initialization {starts['glorot']}" if starts["glorot"] else ""
    text = (
        f"**First epoch.** The text has LRUs 'almost always' ahead after one epoch. Of {_tally(found, 'orderings')}. Advantages over GRUs "
        f"in nats per character: initialized as in the code {starts['lru']}{glorot}."
    )
    return (Takeaway(text, (_after_one(judged),)),)


def _after_one_from(judged: Judged, start: str) -> str:
    """Return how LRUs compare with GRUs after one epoch from one start, in each study of each text."""
    said = []
    for text in BOOKS:
        claim = judged.relation(f"LRU < GRU: lower test loss after one epoch ({text}").relation
        found = _by_study(judged, claim, start)
        for study, one in found.items():
            size = f", {judged.evidence.studies[study]['options']['parameters']:,} parameters" if len(found) > 1 else ""
            said.append(f"{one.advantage} ({text}{size}, {says(one.verdict)})")
    return in_series(said)


def _in_each_study(judged: Judged) -> list[str]:
    """Return how LRUs compare with GRUs in every study and from every start, also in those that no verdict is based on."""
    said: dict[str, list[str]] = {}
    for text, book in BOOKS.items():
        for what in ("fewer epochs", "lower test loss after one epoch"):
            claim = judged.relation(f"LRU < GRU: {what} ({text}").relation
            for version in claim.versions:
                one = judged.judge(replace(claim, versions=(version,)))
                if one.pairs:
                    said.setdefault(f"{capitalized(book)}, {one.smaller or 'published size'}", []).append(_against_grus(one))
    return [f"{study}: {' '.join(sentences)}" for study, sentences in said.items()]


def _against_grus(one: JudgedRelation) -> str:
    """Return a sentence about epochs, or losses after one epoch, of LRUs and GRUs."""
    if one.relation.contest is ONE_EPOCH:
        return gap(one, "After one epoch, LRUs", "GRUs", "nats per character", "are")
    if one.difference is None:
        return "How many epochs LRUs and GRUs need is not known, as training was cut."
    return f"LRUs need {_fewer(one)} than GRUs ({says(one.verdict)})."


def _fewer(relation: JudgedRelation) -> str:
    """Return how many epochs fewer, or more."""
    fewer = relation.difference is None or relation.difference.mean >= 0
    return f"{relation.distance} epochs {'fewer' if fewer else 'more'}"


def _even(judged: Judged) -> Takeaway:
    """Say for each start in how many epochs gradients are more even over the layers of an LRU than over those of a GRU."""
    study = judged.evidence.studies.get(GRADIENTS)
    said = [found for start in starts_in(study) if (found := _even_from(judged, study, start))] if study else []
    if not said:
        return Takeaway("**Gradients** of ten layers (Figure 7) are not yet run.")
    return Takeaway(
        f"**Gradients** of ten layers (Figure 7) are more even in LRUs than in GRUs in the paper. {' '.join(short for short, _ in said)}",
        (
            "The norm of the gradient of the last layer is compared with the mean of the first three.",
            *(details for _, details in said),
        ),
    )


def _even_from(judged: Judged, study: Study, start: str) -> tuple[str, str] | None:
    """Return the finding of one start, and the losses: a network that does not learn says little about gradients that do."""
    norms = norms_of(study, start)
    if not {"LRU", "GRU"} <= norms.keys():
        return None
    lru, gru = (np.abs(np.log10(by_epoch(mean_norms(list(norms[name].values()))))) for name in ("LRU", "GRU"))
    relation = judged.relation(f"gradients of ten layers are more even in an LRU than in a GRU ({STARTS[start]})")
    of = scores(study, start)
    losses = [
        f"{', '.join(f'{loss:.2f}' for loss in of[name].values())} ({title}s)"
        for name, title in (("lru", "LRU"), ("gru", "GRU"))
        if of.get(name)
    ]
    larger = judged.relation(f"gradients of ten layers are larger in an LRU than in a GRU ({STARTS[start]})")
    start_in_words = capitalized(STARTS[start])
    return (
        f"{start_in_words}: {says(relation.verdict)}{_unlearnt(of.get('gru', {}))}.",
        f"{start_in_words}, {len(relation.pairs)} {'seed' if len(relation.pairs) == 1 else 'seeds'}"
        f"{f': test losses are {in_series(losses)}' if losses else ''}. Ratios of "
        f"mean gradients are more even in LRUs in {int((lru < gru).sum())} of {len(lru)} epochs{_in_the_mean(relation)}. Gradients are "
        f"larger in LRUs by {larger.advantage.removeprefix('+')} powers of ten ({says(larger.verdict)}).",
    )


def _in_the_mean(relation: JudgedRelation) -> str:
    """Say whether gradients are more even in LRUs in the mean over epochs, too; single uneven epochs weigh much in it."""
    found = relation.difference
    return "" if found is None else f", and {'' if found.mean > 0 else 'not '}in the mean over epochs"


NO_CONTEXT = 2.95
"""Test loss in nats per character above which a network of the Penn Treebank has learnt no context: single characters have 2.99."""


def _unlearnt(losses: Mapping[int, float]) -> str:
    """Say how many GRUs have learnt no context, in which case evenness of gradients says little about training."""
    count = sum(loss > NO_CONTEXT for loss in losses.values())
    return f" ({count} of {len(losses)} GRUs learnt only character frequencies)" if count else ""
