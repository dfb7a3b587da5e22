"""Hooks of MkDocs: pages and plots from outside docs/, and links to them."""

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PAGES = {"README.md": "index.md", "REPRODUCTION.md": "reproduction/index.md", "CONTRIBUTING.md": "contributing.md"}
LINK = re.compile(r"(!?)\[([^]]*)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)")


def outside() -> dict[Path, str]:
    """Return the address within the site of every file that lies outside docs/."""
    results = ROOT / "experiments" / "results"
    plots = {path: f"figures/{path.parent.name}/{path.name}" for path in sorted(results.rglob("*.png"))}
    cards = {path: f"models/{path.parent.parent.name}/{path.parent.name}.md" for path in sorted(results.glob("*/*/README.md"))}
    return {ROOT / name: address for name, address in PAGES.items()} | plots | cards


def on_files(files: Files, config: Any) -> Files:
    """Add the files from outside docs/."""
    for path, address in outside().items():
        files.append(File.generated(config, address, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links to files of the repository point to their place in the site. Files without one are named only."""
    source, folder = Path(page.file.abs_src_path), os.path.dirname(page.file.src_uri)
    addresses = outside() | {Path(file.abs_src_path): file.src_uri for file in files if file.abs_src_path}

    def linked(match: re.Match[str]) -> str:
        image, text, target, anchor = match.groups(default="")
        path = (source.parent / target).resolve()
        if path in addresses:
            return f"{image}[{text}]({os.path.relpath(addresses[path], folder or '.')}{anchor})"
        is_named_only = path.exists() and ROOT in path.parents and not image
        return f"{text} (`{path.relative_to(ROOT)}`)" if is_named_only else match[0]

    return LINK.sub(linked, markdown)
