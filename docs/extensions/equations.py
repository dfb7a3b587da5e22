"""An extension of Griffe: equations of docstrings, which are written in reStructuredText, as the site's Markdown."""

import re
import textwrap
from typing import Any

import griffe

BLOCK = re.compile(r"^([ \t]*)\.\. math::[ \t]*\n((?:[ \t]*\n|\1[ \t]+.*\n?)+)", re.MULTILINE)
INLINE = re.compile(r":math:`([^`]*)`")


def as_markdown(text: str) -> str:
    r"""Return a docstring with `.. math::` as \[ \] and `:math:` as \( \)."""

    def block(match: re.Match[str]) -> str:
        equations = textwrap.dedent(match[2]).strip()
        return textwrap.indent(f"\n$$\n\\begin{{gathered}}\n{equations}\n\\end{{gathered}}\n$$\n", match[1]) + "\n"

    return INLINE.sub(lambda match: f"${match[1]}$", BLOCK.sub(block, text))


class Equations(griffe.Extension):
    """Rewrite the docstring of every object of a package."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
