"""The command of every row and ordering of a paper, on a page of their own."""

from collections.abc import Iterator, Sequence

from experiments.report.claims.judged import Judged
from experiments.report.claims.matching import excess, recorded
from experiments.report.claims.rows import Planned, Row


def commands_page(judged: Judged, seeds: Sequence[int]) -> str:
    """Return the page; `--seeds` is left to the reader of the commands."""
    paper = judged.paper
    text = (
        "Each command trains one model. Presets named `small`, `annealed` or `equal`, and commands with `--train.updates`, are smaller "
        "than published. Add `--seeds N` and `--workdir DIR`, and `--data.dir DIR` if the data are published files. The commands of kept "
        f"studies are on [their page](runs.md), verdicts on the page of [claims]({paper.name}.md)."
    )
    return "\n\n".join([f"# {paper.title}: commands", text, *_commands(judged, seeds)]) + "\n"


def _first_names(names: Sequence[str]) -> str:
    """Return up to two names, and how many more there are."""
    return "; ".join(names) if len(names) <= 2 else f"{names[0]}, and {len(names) - 1} more rows"


def _longer(row: Row, judged: Judged) -> str:
    """Return which seeds of a row were trained for longer than its command says, and with which flag; nothing if none was."""
    if row.network is None:
        return ""
    runs = row.network.runs(judged.evidence)
    longer = {seed: recorded(run)["train.updates"] for seed, run in runs.items() if excess(row.network.config, run)}
    return "".join(f"; seed {seed} with --train.updates {updates}" for seed, updates in longer.items())


def _commands(judged: Judged, seeds: Sequence[int]) -> list[str]:
    """Return the commands of every row, those of relations included, each once, in a block for each place in the paper."""
    named: dict[Planned, dict[str, str]] = {}
    for planned, where, name in _named(judged, seeds):
        named.setdefault(planned, {}).setdefault(name, where)
    blocks: dict[str, list[str]] = {}
    for planned, names in named.items():
        blocks.setdefault(next(iter(names.values())), []).extend([f"# {_first_names(list(names))}", *planned.lines])
    return [part for where, lines in blocks.items() for part in (f"## {where}", "```bash\n" + "\n".join(lines) + "\n```")]


def _named(judged: Judged, seeds: Sequence[int]) -> Iterator[tuple[Planned, str, str]]:
    """Yield each command with the place and the name of a row or ordering that needs it; of an ordering, if no row needs it."""
    of_rows = [(planned, row) for row in judged.paper.rows for planned in row.planned(seeds)]
    yield from ((planned, row.where, f"{row.title}{_longer(row, judged)}") for planned, row in of_rows)
    known = {planned for planned, _ in of_rows}
    relations = judged.paper.relations
    versions = [("", relation, relation) for relation in relations]
    versions += [("smaller scale: ", relation, version) for relation in relations for version in relation.versions[1:]]
    for scale, relation, version in versions:
        for planned in version.planned(seeds):
            if planned not in known:
                known.add(planned)
                yield planned, f"{relation.where}: orderings", f"{scale}{relation.sentence}"
