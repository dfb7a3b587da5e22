"""Error messages of tyro, parsed from its output: tyro prints them in frames and exits, and has no public interface to them."""

import itertools
import re


def one_line(text: str) -> str:
    """Return the message inside a frame of tyro as one line, with the flag that tyro proposes for a misspelled one.

    If standard output is not UTF-8, frames consist of other characters or of none. The first line of a frame is a title.
    """
    inner = [line.strip(" │") for line in text.splitlines()[1:]]
    blocks = (list(lines) for is_rule, lines in itertools.groupby(inner, lambda line: set(line) <= set("─-╰╯")) if not is_rule)
    message = " ".join(next(blocks, ["the command line cannot be read"])).rstrip(".")
    message = re.sub(r"^Error parsing [\w.]+: ", "", message)  # tyro puts this before messages of `UsageError`, which name the flag
    proposal = re.search(r"Perhaps you meant:\s+(--\S+)", " ".join(inner))
    return f"{message}; perhaps you meant {proposal[1]}" if proposal else message
