"""Files like the course's, for three people."""

from __future__ import annotations

from pathlib import Path

PEOPLE = [("Ada Byron", "London"), ("Emmy Noether", "Erlangen"), ("Alan Turing", "London")]
CORPUS = [f"{name}. {name} was born in {place} . Who else?" for name, place in PEOPLE]
PAIRS = [(f"Where was {name} born?", place) for name, place in PEOPLE]


def write_files(folder: Path) -> Path:
    (folder / "wiki.txt").write_text("".join(f"{document}\n" for document in CORPUS))
    (folder / "train.tsv").write_text("".join(f"{q}\t{a}\n" for q, a in PAIRS))
    (folder / "test.tsv").write_text("".join(f"{q}\n" for q, _ in PAIRS))
    return folder
