"""Debian's packages: each has a long description and a synopsis of one line, written by people.

They come from apt's own lists. Where the system keeps no translations, apt fetches all lists into
a folder of ours; the system's stay as they are.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from attnlab._safe_files import write_text
from attnlab.tasks.summary._pairs import Pair

HELPER = Path("/usr/lib/apt/apt-helper")  # opens whatever a list was packed with
MISSING = (
    "this machine has no apt, where the texts of `debian` come from; "
    "use --data docstrings, or a file"
)
SECONDS, EVERY = 900.0, 5.0  # at most, and between two signs of life
HOOKS = ("Pre-Invoke", "Post-Invoke", "Post-Invoke-Success")
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
    found = _whole([]) or _whole(_private(folder))
    if not found:
        say("fetching the package lists into the cache (about 16 MB)")
        _fetch(folder, say)
        found = _whole(_private(folder))
    if not found:
        raise ValueError("apt knows no English descriptions; use --data docstrings, or a file")
    return found


def _fetch(folder: Path, say: Callable[[str], None]) -> None:
    for part in ("lists/partial", "archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    # only a file can clear a list of settings, and only one that is named is read after the
    # system's: its hooks would tell other programs that the system's lists had changed
    hooks = folder / "hooks.conf"
    write_text(hooks, "".join(f"#clear APT::Update::{name};\n" for name in HOOKS))

    def tell() -> None:
        size = sum(path.stat().st_size for path in (folder / "lists").rglob("*") if path.is_file())
        say(f"fetching: {size / 1e6:.0f} MB so far, as they lie on the disk")

    command = ["apt-get", "update", "--quiet=2", f"--config-file={hooks}", *_private(folder)]
    _run(command, tell)


def _whole(options: Sequence[str]) -> list[Path]:
    """All lists by name, if packages and descriptions are among them."""
    found = _targets(options)
    if {kind for kind, _ in found} != {"Packages", "Translations"}:
        return []
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


def _run(command: Sequence[str], tell: Callable[[], None] = lambda: None) -> bytes:
    """What it prints; `tell` is called now and then while it works."""
    begin = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            out, error = _waited(process, begin, tell)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        reason = " ".join(error.decode(errors="replace").split())[:200]
        raise ValueError(f"apt could not do it ({reason}); use --data docstrings, or a file")
    return out


def _waited(
    process: subprocess.Popen[bytes], begin: float, tell: Callable[[], None]
) -> tuple[bytes, bytes]:
    while True:
        try:
            return process.communicate(timeout=EVERY)
        except subprocess.TimeoutExpired:
            if time.monotonic() - begin > SECONDS:
                raise ValueError(
                    f"apt took longer than {SECONDS:.0f} seconds; try again later"
                ) from None
            tell()


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
