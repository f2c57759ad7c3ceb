"""Any relation: right answers, and what a run claims to know, with the defaults of `learn`.

    python benchmarks/knowledge_relations.py birthplace birth_year profession university employer
    python benchmarks/knowledge_relations.py all                 the five together, in one run
    python benchmarks/knowledge_relations.py packages functions  text of this machine

The five are attributes of the embedded world (600 people, half of them asked about in training).
"packages" asks for the section of each installed Debian package (/var/lib/dpkg/status), "functions"
for the module of functions of Python's standard library and torch (from docstrings): half of the
questions are training pairs. Other options go to `attnlab knowledge learn`. Prints a line of JSON
for each relation; if RUNS names a folder, the runs stay there.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnlab.tasks.knowledge import WorldConfig, audit, make_world

ATTRIBUTES = ("birthplace", "birth_year", "profession", "university", "employer")
STATUS = Path("/var/lib/dpkg/status")
FIELDS = ("Priority", "Section", "Installed-Size", "Architecture", "Source", "Description")
MODULES = (
    "os shutil random statistics textwrap itertools heapq bisect math cmath re string glob fnmatch "
    "tempfile pathlib csv configparser logging inspect ast dis gzip bz2 lzma zipfile tarfile "
    "calendar datetime locale gettext base64 binascii hashlib hmac secrets struct codecs "
    "unicodedata difflib functools operator copy pprint enum numbers decimal fractions email.utils "
    "html.parser urllib.parse urllib.request http.client socket ssl asyncio threading subprocess "
    "sched queue signal sqlite3 colorsys wave imaplib smtplib poplib ftplib uuid ipaddress "
    "unittest.mock doctest timeit trace tokenize json torch torch.nn.functional torch.linalg numpy"
)
MAX_FUNCTIONS = 900
Fact = tuple[str, str, str]
"""A name, its document and the answer."""


def packages() -> list[Fact]:
    facts = []
    for block in STATUS.read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): (.*(?:\n .*)*)", block, re.M))
        if "Section" in fields:
            text = " ".join(f"{name}: {fields[name]}" for name in FIELDS if name in fields)
            text = " ".join(text.split())[:360].rpartition(" ")[0]
            facts.append((fields["Package"], f"{fields['Package']}. {text} .", fields["Section"]))
    return facts


def functions() -> list[Fact]:
    """Functions and classes whose name is in one of the modules alone."""
    facts: dict[str, list[Fact]] = {}
    for module in MODULES.split():
        for name, value in inspect.getmembers(importlib.import_module(module), callable):
            text = " ".join((inspect.getdoc(value) or "").split())
            home = getattr(value, "__module__", None)
            if not name.startswith("_") and len(text) > 40 and home in (None, module):
                kind = "class" if inspect.isclass(value) else "function"
                document = f"{name}. {text[:220].rpartition(' ')[0]} . "
                document += f"{name} is a {kind} of the module {module} ."
                facts.setdefault(name, []).append((name, document, module))
    single = [each[0] for each in facts.values() if len(each) == 1]
    return random.Random(0).sample(single, min(MAX_FUNCTIONS, len(single)))


SOURCES: dict[str, tuple[Callable[[], list[Fact]], str]] = {
    "packages": (packages, "Which section is {} in?"),
    "functions": (functions, "Which module defines {}?"),
}


def write_relation(name: str, folder: Path, seed: int) -> None:
    """corpus.txt, train.tsv and dev.tsv, as `attnlab knowledge world` writes them."""
    if name not in SOURCES:
        attributes = ATTRIBUTES if name == "all" else (name,)
        make_world(WorldConfig(attributes=attributes, seed=seed)).write(folder)
        return
    make, question = SOURCES[name]
    facts, generator = make(), random.Random(seed)
    generator.shuffle(facts)
    folder.mkdir(parents=True)
    pairs = [f"{question.format(title)}\t{answer}" for title, _, answer in facts]
    half = len(pairs) // 2
    documents = generator.sample([document for _, document, _ in facts], len(facts))
    contents = {"corpus.txt": documents, "train.tsv": pairs[:half], "dev.tsv": pairs[half:]}
    for file, lines in contents.items():
        (folder / file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def measure(name: str, folder: Path, seed: int, options: list[str]) -> dict[str, Any]:
    data, run = folder / "data", folder / "run"
    write_relation(name, data, seed)
    start = time.perf_counter()
    files = ("--corpus", data / "corpus.txt", "--pairs", data / "train.tsv", "--out", run)
    command = [sys.executable, "-m", "attnlab", "knowledge", "learn", "--seed", str(seed)]
    subprocess.run([*command, *map(str, files), *options], check=True, stdout=subprocess.DEVNULL)
    minutes = (time.perf_counter() - start) / 60
    report = audit(run, data / "dev.tsv", samples=1)
    known = report["verdicts"]["known"]
    right = sum(each["correct"] for each in report["answers"])
    right_known = (known["accuracy"] or 0.0) * known["count"]
    return {
        "relation": name,
        "seed": seed,
        "minutes": round(minutes, 2),
        "right": right,
        "of": report["pairs"],
        "right if known": known["accuracy"],
        "of the right called known": right_known / max(1, right),
        "by kind": {row["relation"]: round(row["accuracy"], 3) for row in report["relations"]},
        "made up, called known": {
            kind["kind"]: kind["known_share"] for kind in report["made_up"]["kinds"]
        },
        "off topic, called known": report["off_topic"]["known_share"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("relations", nargs="+", choices=[*ATTRIBUTES, "all", *SOURCES])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments, options = parser.parse_known_args()
    warnings.simplefilter("ignore")
    for name in arguments.relations:
        for seed in arguments.seeds:
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(os.environ.get("RUNS", temporary)) / f"{name}-{seed}"
                print(json.dumps(measure(name, folder, seed, options)), flush=True)


if __name__ == "__main__":
    main()
