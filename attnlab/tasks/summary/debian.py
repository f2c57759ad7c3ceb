"""Debian's packages: each has a long description and a synopsis of one line, written by people.

They come from apt's own lists. Where the system keeps no translations, apt fetches all lists into
a folder of ours; the system's stay as they are.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from attnlab.tasks.summary.pairs import Pair

HELPER = Path("/usr/lib/apt/apt-helper")  # opens whatever a list was packed with
MISSING = (
    "this machine has no apt, where the texts of `debian` come from; "
    "use --data docstrings, or a file"
)
SECONDS = 900.0
# Packages that hold nothing, and crates whose text only says that they are crates.
SAYS_NOTHING = re.compile(
    r"\b(transitional|dummy|metapackage|meta-package|meta package|packaged by debcargo)\b", re.I
)
LEAST_WORDS, MOST_WORDS = 2, 20
LEAST_TEXT = 20  # words; shorter ones are hardly longer than their synopsis


def lists(folder: Path, say: Callable[[str], None]) -> list[Path]:
    """Files of packages and of their English descriptions; fetched into `folder` if need be."""
    if shutil.which("apt-get") is None or not HELPER.exists():
        raise ValueError(MISSING)
    for options in ([], _private(folder)):
        found = _targets(options)
        if {kind for kind, _ in found} == {"Packages", "Translations"}:
            return [path for _, path in sorted(found, key=lambda each: each[1].name)]
    say("fetching the package lists into the cache (about 16 MB)")
    for part in ("lists/partial", "archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    _run(["apt-get", "update", "--quiet=2", *_private(folder)])
    found = _targets(_private(folder))
    if {kind for kind, _ in found} != {"Packages", "Translations"}:
        raise ValueError("apt knows no English descriptions; use --data docstrings, or a file")
    return [path for _, path in sorted(found, key=lambda each: each[1].name)]


def _private(folder: Path) -> list[str]:
    settings = {
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder,
        "Acquire::Languages": "en",
    }
    if os.geteuid() == 0:
        settings["APT::Sandbox::User"] = "root"  # apt's own user may not write here
    return [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]


def _targets(options: Sequence[str]) -> list[tuple[str, Path]]:
    """Which lists there are: what each is, and its file."""
    form = "$(CREATED_BY)\t$(LANGUAGE)\t$(FILENAME)"
    found = []
    for line in _run(["apt-get", "indextargets", "--format", form, *options]).splitlines():
        kind, language, name = line.decode().split("\t")
        wanted = kind == "Packages" or (kind == "Translations" and language == "en")
        if wanted and Path(name).exists():
            found.append((kind, Path(name)))
    return found


def _run(command: Sequence[str]) -> bytes:
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise ValueError(f"apt took longer than {SECONDS:.0f} seconds; try again later") from None
    if done.returncode:
        reason = " ".join(done.stderr.decode(errors="replace").split())[:200]
        raise ValueError(f"apt could not do it ({reason}); use --data docstrings, or a file")
    return done.stdout


def contents(path: Path) -> str:
    return _run([str(HELPER), "cat-file", str(path)]).decode("utf-8", "replace")


def stanzas(text: str) -> Iterator[dict[str, str]]:
    """Fields of each paragraph of a list; lines that go on begin with a space."""
    for paragraph in text.split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in paragraph.split("\n"):
            if line.startswith((" ", "\t")):
                fields[name] = f"{fields.get(name, '')}\n{line}"
            elif ":" in line:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        if fields:
            yield fields


def pairs_of(texts: Sequence[str]) -> list[Pair]:
    """All pairs in these lists; of those that begin with the same paragraph the shortest text.

    Packages of one source share it and add what each holds: they would be read over and over.
    """
    sources: dict[str, str] = {}
    described: dict[tuple[str, str], str] = {}
    for text in texts:
        for fields in stanzas(text):
            package = fields.get("Package", "")
            if "Description-en" in fields:
                described[package, fields.get("Description-md5", "")] = fields["Description-en"]
            elif package:
                sources[package] = fields.get("Source", package).split(" ")[0]
    found: dict[str, Pair] = {}
    for (package, _), description in sorted(described.items()):
        pair = _pair(description, sources.get(package, package))
        if pair is not None:
            kept = found.setdefault(_beginning(pair.text), pair)
            if len(pair.text) < len(kept.text):
                found[_beginning(pair.text)] = pair
    return list(found.values())


def _pair(description: str, source: str) -> Pair | None:
    synopsis, _, rest = description.partition("\n")
    summary, text = " ".join(synopsis.split()), _flowing(rest)
    short = not LEAST_WORDS <= len(summary.split()) <= MOST_WORDS
    if short or len(text.split()) < LEAST_TEXT or SAYS_NOTHING.search(f"{summary} {text}"):
        return None
    return Pair(text, summary, source)


def _flowing(rest: str) -> str:
    """Paragraphs in one line each: what stands further in is a list, line by line."""
    paragraphs: list[str] = [""]
    for line in rest.split("\n"):
        if line.strip() in ("", "."):
            paragraphs.append("")
        elif line.startswith("  "):
            paragraphs += [" ".join(line.split()), ""]
        else:
            paragraphs[-1] = f"{paragraphs[-1]} {' '.join(line.split())}".strip()
    return "\n".join(filter(None, paragraphs))


def _beginning(text: str) -> str:
    """The first paragraph; versions of one package differ by numbers alone."""
    return re.sub(r"\d+", "0", text.partition("\n")[0].lower())
