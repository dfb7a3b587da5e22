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

UNKNOWN = re.compile(r"^(Unrecognized options: (--[\w.-]+).*?)(?:; perhaps you meant (--\S+))?(; see .*)$")
"""A message about an unknown flag, with the flag that tyro proposes, if any, and the command that shows help."""

CLOSE = 0.75
"""least similarity of a name to a misspelled one, by `difflib`"""


def one_line(text: str) -> str:
    """Return the message inside a frame of tyro as one line, with the flag that tyro proposes for a misspelled one.

    If standard output is not UTF-8, frames consist of other characters or of none. The first line of a frame is a title.
    """
    inner = [line.strip(" │") for line in text.splitlines()[1:]]
    blocks = (list(lines) for is_rule, lines in itertools.groupby(inner, lambda line: set(line) <= set("─-╰╯")) if not is_rule)
    message = " ".join(next(blocks, ["the command line cannot be read"])).rstrip(".")
    message = re.sub(r"^Error parsing [\w.]+: ", "", message)  # tyro puts this before messages of `UsageError`, which name the flag
    for pattern, expected in NOT_A_NUMBER:
        message = pattern.sub(rf"\1 is '\2': expected {expected}", message)
    proposal = re.search(r"Perhaps you meant:\s+(--\S+)", " ".join(inner))
    return f"{message}; perhaps you meant {proposal[1]}" if proposal else message


def with_short_flags(message: str, flags: Sequence[str]) -> str:
    """Return a message about an unknown flag with the closest of tyro's proposal and `flags`, of which tyro knows nothing.

    Names are compared without their groups, so that --rank is close to --model.rank. Other messages are returned unchanged.
    """
    if not (found := UNKNOWN.match(message)):
        return message
    start, unknown, proposal, end = found.groups()
    names = {_last(flag): flag for flag in [*([proposal] if proposal else []), *flags]}
    closest = difflib.get_close_matches(_last(unknown), names, 1, CLOSE)
    return f"{start}; perhaps you meant {names[closest[0]]}{end}" if closest else message


def _last(flag: str) -> str:
    return flag.rpartition(".")[2].lstrip("-").replace("_", "-")
