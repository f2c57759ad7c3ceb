"""Runs notebooks of examples/ with Jupyter and keeps their outputs.

python -m docs.scripts.notebooks NAMES. Without names, it runs those whose outputs are not from this
version or these cells. A note in each notebook says which made its outputs; a test reads it.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from base64 import b64decode, b64encode
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

import attnlab

EXAMPLES = Path(__file__).parents[2] / "examples"
WITHOUT_OUTPUTS = ("claims", "looking", "mechanisms")  # their pages are interactive, and large
NOTE = "attnlab"
COLORS = 64  # of a stored picture, which makes it four times as small


def paths_with_outputs() -> list[Path]:
    return sorted(p for p in EXAMPLES.glob("*.ipynb") if p.stem not in WITHOUT_OUTPUTS)


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def origin(notebook: dict[str, Any]) -> dict[str, str]:
    """The version, and a digest of the cells."""
    sources = ["".join(cell["source"]) for cell in notebook["cells"]]
    digest = hashlib.sha256(json.dumps(sources).encode()).hexdigest()[:16]
    return {"version": attnlab.__version__, "cells": digest}


def execute(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "jupyter", "execute", "--inplace", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{path.name}: {done.stderr[-2000:]}")
    notebook = read(path)
    for cell in notebook["cells"]:
        cell["metadata"].pop("execution", None)  # times
        if cell["cell_type"] == "code":  # warnings and progress bars differ from run to run
            cell["outputs"] = [x for x in cell["outputs"] if x.get("name") != "stderr"]
            for data in (output.get("data", {}) for output in cell["outputs"]):
                if "image/png" in data:
                    data["image/png"] = smaller_picture(data["image/png"])
    notebook["metadata"]["language_info"] = {"name": "python"}
    notebook["metadata"][NOTE] = origin(notebook)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(path.name, f"{path.stat().st_size / 1000:.0f} kB")


def smaller_picture(png: str) -> str:
    file = BytesIO()
    picture = Image.open(BytesIO(b64decode(png))).convert("RGB")
    picture.quantize(COLORS).save(file, format="png", optimize=True)
    return b64encode(file.getvalue()).decode()


def main() -> None:
    names = sys.argv[1:]
    for path in paths_with_outputs():
        notebook = read(path)
        stale = notebook["metadata"].get(NOTE) != origin(notebook)
        if path.stem in names or (not names and stale):
            execute(path)


if __name__ == "__main__":
    main()
