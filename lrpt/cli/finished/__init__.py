"""Commands that read a finished run: samples of text and tunes, scores in one stream, trained schedules."""
