"""Error messages of tyro, parsed from its output: tyro prints them in frames and exits, and has no public interface to them."""

import difflib
import itertools
import re
from collections.abc import Sequence

NOT_A_NUMBER = (
    (re.compile(r"^Error parsing (--\S+): invalid literal for int\(\) with base 10: '(.*)'$"), "an integer"),
    (re.compile(r"^Error parsing (--\S+): could not convert string to float: '(.*)'$"), "a number"),
    (re.compile(r"^Error parsing (--\S+): no type matching \{None\}\|INT could be instantiated from \['(.*)'\]$"), "an integer or None"),
    (re.compile(r"^Error parsing (--\S+): no type matching \{None\}\|FLOAT could be instantiated from \['(.*)'\]$"), "a number or None"),
)
"""What tyro says of a value that is no number, and what was expected."""

UNKNOWN = re.compile(r"^Unrecognized options: (--[\w.-]+)")
"""What tyro says of an unknown flag."""

CLOSE = 0.75
"""least similarity of a name to a misspelled one, by `difflib`"""


def one_line(text: str, short_flags: Sequence[str]) -> str:
    """Return the message inside a frame of tyro as one line, with a flag that is close to a misspelled one.

    That is the flag that tyro proposes, or one of `short_flags`, of which tyro knows nothing, if its name is closer.

    If standard output is not UTF-8, frames consist of other characters or of none. The first line of a frame is a title.
    """
    inner = [line.strip(" │") for line in text.splitlines()[1:]]
    blocks = (list(lines) for is_rule, lines in itertools.groupby(inner, lambda line: set(line) <= set("─-╰╯")) if not is_rule)
    message = " ".join(next(blocks, ["the command line cannot be read"])).rstrip(".")
    message = re.sub(r"^Error parsing [\w.]+: ", "", message)  # tyro puts this before messages of `UsageError`, which name the flag
    for pattern, expected in NOT_A_NUMBER:
        message = pattern.sub(rf"\1 is '\2': expected {expected}", message)
    found = re.search(r"Perhaps you meant:\s+(--\S+)", " ".join(inner))
    proposal = _closest(message, found[1] if found else "", short_flags)
    return f"{message}; perhaps you meant {proposal}" if proposal else message


def _closest(message: str, proposal: str, short_flags: Sequence[str]) -> str:
    """Return tyro's proposal for an unknown flag or a closer flag. Names are compared without groups: --rank is close to --model.rank."""
    unknown = UNKNOWN.match(message)
    names = {_last(flag): flag for flag in filter(None, (proposal, *short_flags))}
    close = difflib.get_close_matches(_last(unknown[1]), names, 1, CLOSE) if unknown else []
    return names[close[0]] if close else proposal


def _last(flag: str) -> str:
    return flag.rpartition(".")[2].lstrip("-").replace("_", "-")
