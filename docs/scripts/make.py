"""Writes the generated documentation: `make docs`, or python -m docs.scripts.make.

Tests check that every file of `generate_pages` is up to date. Pictures are rendered only with
--pictures, because they differ by rounding between machines.
"""

from __future__ import annotations

import sys
from pathlib import Path

from docs.scripts import api, cards, commands

DOCS = Path(__file__).parent.parent


def generate_pages() -> dict[Path, str]:
    """Every file that this script writes, as a whole or in part, and its text."""
    return {
        **cards.generate_pages(DOCS),
        **commands.generate_pages(DOCS),
        **api.generate_pages(DOCS),
    }


def main() -> None:
    for path, text in generate_pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(DOCS.parent))
    if "--pictures" in sys.argv[1:]:
        from docs.scripts import pictures

        for path in pictures.render_pictures(DOCS / "pictures"):
            print(path.relative_to(DOCS.parent))


if __name__ == "__main__":
    main()
