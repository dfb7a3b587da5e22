"""Words that follow from a verdict, so that an authored sentence cannot say the opposite of its numbers."""

from experiments.report.verdicts import Finding, Status, Verdict


def lead(verdict: Verdict) -> str:
    """Return the beginning of a sentence about a claim."""
    if verdict.status is Status.NOT_RUN:
        return "Not yet run:"
    if verdict.status is Status.SMALLER:
        return {Finding.FOR: "At smaller scale, as the paper says,", Finding.AGAINST: "At smaller scale, against the paper,"}.get(
            verdict.finding, "At smaller scale, and undecided:"
        )
    return {Finding.FOR: "As the paper says,", Finding.AGAINST: "Against the paper,"}.get(verdict.finding, "For some seeds only,")
