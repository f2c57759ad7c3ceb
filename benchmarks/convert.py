"""Texts for `attnlab convert`: the docstrings of installed packages, one document for each module.

    python benchmarks/convert.py [--out FOLDER]

train.jsonl and held-out.jsonl have no package in common, and no docstring twice. A document has
6,000 to 24,000 characters, enough for texts of 1,024 tokens. Which packages are held out depends on
their names only. At most 250 documents are written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from attnlab.tasks.language._text_sources import docstrings_of, find_sources

SHORTEST, LONGEST = 6_000, 24_000  # characters
HELD_OUT = 0.15  # of the packages
MOST = 250  # documents in a file


def documents() -> Iterator[tuple[str, str]]:
    """The package and the docstrings of each module that has enough of them."""
    seen: set[str] = set()
    locations = sysconfig.get_paths()
    for root in map(Path, dict.fromkeys(locations[name] for name in ("stdlib", "purelib"))):
        for source in find_sources(root):
            new = [text for text in docstrings_of(source) if text not in seen]
            seen.update(new)
            text = "\n\n".join(new)
            if len(text) >= SHORTEST:
                yield source.relative_to(root).parts[0].removesuffix(".py"), text[:LONGEST]


def is_held_out(package: str) -> bool:
    return hashlib.sha256(package.encode()).digest()[0] < 256 * HELD_OUT


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path())
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    listed = list(documents())
    random.Random(0).shuffle(listed)
    for name, held_out in (("train", False), ("held-out", True)):
        texts = [text for package, text in listed if is_held_out(package) == held_out][:MOST]
        lines = [json.dumps({"text": text}) + "\n" for text in texts]
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        print(
            f"{folder / name}.jsonl: {len(texts):,} documents, {sum(map(len, texts)):,} characters"
        )


if __name__ == "__main__":
    main()
