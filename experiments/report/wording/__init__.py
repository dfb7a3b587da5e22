"""Words of the report: markdown, and sentences that follow from verdicts."""
