"""Randomly generated melodies for users without a collection: two repeated parts of eight bars, some of which recur."""

import re

import numpy as np

KEYS = ("D", "G", "Ador", "Emin")
RHYTHMS = {
    "6/8": ("%%% %%%", "%2% %2%", "%3 %3", "%3 %%%", "%%% %2%", "%2% z2%"),
    "4/4": ("%%%% %%%%", "%2%2 %2%2", "%2%% %>%%%", "(3%%% %2 %4", "%4 %>%%%"),
}
"""Meter -> bars in ABC notation, with '%' as a placeholder for a note."""
FORM = "abacabadefegefad"
SCALE = "DEFGABcdefgab"


def drawn_tunes(count: int) -> str:
    """Generate ABC notation of `count` tunes. Tune k does not depend on `count`."""
    return "\n".join(_tune(number, np.random.default_rng((0xABC, number))) for number in range(1, count + 1))


def _tune(number: int, rng: np.random.Generator) -> str:
    meter = str(rng.choice(list(RHYTHMS)))
    bars = {name: _bar(str(rng.choice(RHYTHMS[meter])), rng) for name in dict.fromkeys(FORM)}
    lines = [" | ".join(bars[name] for name in FORM[start : start + 4]) for start in range(0, len(FORM), 4)]
    header = f"X:{number}\nT:Drawn {number}\nM:{meter}\nL:1/8\nK:{rng.choice(KEYS)}\n"
    return header + "".join(f"{start}{line} {end}\n" for line, start, end in zip(lines, ("|:", "") * 2, ("|", ":|") * 2, strict=True))


def _bar(rhythm: str, rng: np.random.Generator) -> str:
    """Replace the placeholders of a rhythm by the notes of a random walk on the scale."""
    place = int(rng.integers(2, len(SCALE) - 2))

    def step(_: re.Match[str]) -> str:
        nonlocal place
        place = int(np.clip(place + rng.choice((-2, -1, -1, 1, 1, 2)), 0, len(SCALE) - 1))
        return SCALE[place]

    return re.sub("%", step, rhythm)
