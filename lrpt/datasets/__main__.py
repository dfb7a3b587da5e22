"""Print address, SHA-256 and size of the published files of data sets.

python -m lrpt.datasets                   all data sets
python -m lrpt.datasets irish_abc ptb     these
python -m lrpt.datasets irish_abc | grep -v '#' | cut -d ' ' -f 1 | xargs -n 1 curl -LO
"""

import os
import sys

from lrpt.datasets.published import listing
from lrpt.errors import UsageError


def _check_no_flags(words: list[str]) -> None:
    """Raise a UsageError for a word that is a flag, not a name."""
    if flags := [word for word in words if word.startswith("-")]:
        raise UsageError(f"Unrecognized options: {', '.join(flags)}; see python -m lrpt.datasets --help")


def main(names: list[str]) -> None:
    """Print the list. Exit with 2 and one line if a name is wrong, and silently if its reader needs no more, as `head` does."""
    if {"-h", "--help"} & {*names}:
        print(__doc__)
        return
    try:
        _check_no_flags(names)
        print("\n".join(listing(names)), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python prints an error when it flushes on exit
        sys.exit(128 + 13)
    except UsageError as error:
        print(f"lrpt: error: {error}", file=sys.stderr)
        sys.exit(error.code)


if __name__ == "__main__":
    main(sys.argv[1:])
