"""The documentation's pictures, all drawn by attnlab."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attnlab.claims import CLAIMS, run_one
from attnlab.claims.pictures import save_picture
from attnlab.claims.report import stated
from attnlab.matrices import save_matrices
from docs.scripts.cards import names

CLAIMED = ("heads-split", "noise-isotropic", "features-more", "equal-q-k-identity")


def draw(folder: Path) -> Iterator[Path]:
    for name in names():
        path = folder / f"{name}.svg"
        save_matrices(name, path, overwrite=True)
        yield path
    for name in CLAIMED:
        evidence = run_one(CLAIMS[name], 0, "small").evidence
        assert evidence is not None
        path = folder / f"claim-{name}.svg"
        save_picture(evidence.plot, stated(CLAIMS[name]), path, overwrite=True)
        yield path
