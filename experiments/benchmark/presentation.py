"""Tables and plots of measured times."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.benchmark.contenders import CONTENDERS
from lrpt.analysis.plots import saved_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = dict[str, Any]
COLUMNS = (
    "contender", "train ms (min-max)", "plain is x", "flax is x", "torch is x", "forward ms", "CPU ms", "parameters", "MFLOP", "of peak",
    "temporary MiB", "faults", "compile s",
)  # fmt: skip
RIVALS = ("plain", "flax", "torch")
OURS = ("fast", "kernel")
OTHER_WORK = ("fast-dense", "fast-padded", "fast-equal-operations")


def table(rows: Sequence[Row]) -> tuple[Sequence[str], list[list[str]]]:
    """Return column names, and a line for each contender of one workload. 'plain is x 2.4': plain takes 2.4 times as long."""
    medians = {(row["contender"], row["measure"]): row["median_ms"] for row in rows}
    lines = []
    for row in (row for row in rows if row["measure"] == "train"):
        rivals = [medians.get((rival, "train")) for rival in RIVALS]
        forward = medians.get((row["contender"], "forward"))
        memory = row.get("temporary_bytes")
        lines.append(
            [
                row["contender"],
                f"{row['median_ms']:.1f} ({row['min_ms']:.1f}-{row['max_ms']:.1f})",
                *(f"{rival / row['median_ms']:.2f}" if rival else "" for rival in rivals),
                f"{forward:.1f}" if forward else "",
                f"{row['cpu_ms']:.0f}",
                f"{row['parameters']:,}",
                f"{row['flops'] / 1e6:,.0f}",
                f"{100 * row['share_of_peak']:.0f} %",
                f"{memory / 2**20:.1f}" if memory is not None else "",
                f"{row['page_faults']:,.0f}",
                f"{row['compile_seconds']:.1f}" if "compile_seconds" in row else "",
            ]
        )
    return COLUMNS, lines


def by_workload(report: dict[str, Any]) -> dict[str, list[Row]]:
    """Group the rows of a report by workload."""
    groups: dict[str, list[Row]] = {}
    for row in report["rows"]:
        groups.setdefault(row["workload"], []).append(row)
    return groups


def markdown(report: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of one table of median training times, contenders by workloads, and a description of the machine."""
    groups = by_workload(report)
    names = [name for name in CONTENDERS if any(row["contender"] == name for row in report["rows"])]
    yield "| ms for an update | " + " | ".join(groups) + " |"
    yield "|---|" + "---:|" * len(groups)
    for name in names:
        yield f"| `{name}`: {CONTENDERS[name].about} | " + " | ".join(_cell(name, rows) for rows in groups.values()) + " |"
    yield "| best of ours against the fastest rival | " + " | ".join(best_against_rivals(rows) for rows in groups.values()) + " |"
    versions = ", ".join(f"{package} {version}" for package, version in report["versions"].items())
    yield ""
    gpu = f"{report['gpu']}, " if "gpu" in report else ""
    yield f"{report['date']}, {gpu}{report['processor']}, {report['cores']} cores, {versions}, medians of {report['rounds']} rounds."


def best_against_rivals(rows: Sequence[Row]) -> str:
    """Return how many times as fast our fastest contender is as the fastest of the others: '1.9x torch-2-threads'. Empty without rivals.

    Contenders that do something else do not count: equal operations, dense matrices, the fast loop without packing, stacked models.
    """
    times = {row["contender"]: row["median_ms"] for row in rows if row["measure"] == "train" and not row["contender"].endswith("-models")}
    ours = {name: ms for name, ms in times.items() if name.startswith(OURS) and name not in OTHER_WORK}
    rivals = {name: ms for name, ms in times.items() if not name.startswith(OURS)}
    if not ours or not rivals:
        return ""
    rival = min(rivals, key=lambda name: rivals[name])
    return f"{rivals[rival] / min(ours.values()):.1f}x {rival}"


def _cell(name: str, rows: Sequence[Row]) -> str:
    """Format a median and the relative time of the plain loop: '24.1 (2.5x)'."""
    times = {row["contender"]: row["median_ms"] for row in rows if row["measure"] == "train"}
    if name not in times:
        return ""
    if "plain" not in times or name == "plain":
        return f"{times[name]:.1f}"
    ratio = times["plain"] / times[name]
    return f"{times[name]:.{1 if times[name] >= 1 else 2}f} ({ratio:.{1 if ratio >= 0.1 else 2}f}x)"


def draw(report: dict[str, Any], path: Path) -> Path:
    """Plot training times as bars, a panel for each workload. Whiskers are the range over the rounds."""
    groups = by_workload(report)
    with saved_figure(path, 6.4, 0.6 + 2.1 * len(groups)) as figure:
        panels = figure.subplots(len(groups), 1, squeeze=False)[:, 0]
        for axes, (workload, rows) in zip(panels, groups.items(), strict=True):
            _bars(axes, workload, [row for row in rows if row["measure"] == "train"])
        panels[-1].set_xlabel("milliseconds for an update: median and range")
    return path


def _bars(axes: "Axes", workload: str, rows: Sequence[Row]) -> None:
    names, medians = [row["contender"] for row in rows], [row["median_ms"] for row in rows]
    whiskers = [[row["median_ms"] - row["min_ms"] for row in rows], [row["max_ms"] - row["median_ms"] for row in rows]]
    colors = ["#0072B2" if name.startswith(OURS) else "0.6" for name in names]
    axes.barh(names, medians, xerr=whiskers, color=colors, error_kw={"elinewidth": 0.8, "ecolor": "0.3"})
    axes.invert_yaxis()
    axes.set_title(workload)
