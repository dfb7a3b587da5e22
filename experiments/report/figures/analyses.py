"""Figures of a study besides its learning curves, drawn from the `analysis.json` of its runs."""

from experiments.report.claims.paper import Draw, Study
from experiments.report.claims.rows import Evidence
from experiments.report.figures.highway import highway_figures
from experiments.report.figures.schedules import schedule_figures


def analysis_figures(study: Study, evidence: Evidence) -> dict[str, tuple[str, Draw]]:
    """Return the figures of analyses: name -> what it shows, and a function that writes it to a path."""
    return schedule_figures(study, evidence) | highway_figures(study, evidence)
