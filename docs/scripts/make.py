"""Writes what the documentation takes from the code: `make docs`, or python -m docs.scripts.make.

The tests ask for every file of `made` as it would be written now; pictures are drawn anew with
--pictures, since a rounding of one color is no news.
"""

from __future__ import annotations

import sys
from pathlib import Path

from docs.scripts import api, cards, commands

DOCS = Path(__file__).parent.parent


def made() -> dict[Path, str]:
    """Every file that is written wholly or partly by this script, and its text."""
    return {**cards.made(DOCS), **commands.made(DOCS), **api.made(DOCS)}


def main() -> None:
    for path, text in made().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(DOCS.parent))
    if "--pictures" in sys.argv[1:]:
        from docs.scripts import pictures

        for path in pictures.draw(DOCS / "pictures"):
            print(path.relative_to(DOCS.parent))


if __name__ == "__main__":
    main()
