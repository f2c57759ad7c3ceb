"""Debian packages: each has a long description and a synopsis of one line, written by people.

They come from apt's package lists. If the system has no translations, apt downloads the lists into
attnlab's cache; the lists of the system do not change.
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

HELPER = Path("/usr/lib/apt/apt-helper")  # unpacks a list, whatever its compression
NO_APT = "this machine has no apt, which --data debian needs; use --data docstrings, or give a file"
TIMEOUT, PROGRESS_SECONDS = 900.0, 5.0
HOOKS = ("Pre-Invoke", "Post-Invoke", "Post-Invoke-Success")
# Empty packages, and crates whose description only says that they are crates.
UNINFORMATIVE = re.compile(
    r"\b(transitional|dummy|metapackage|meta-package|meta package|packaged by debcargo)\b", re.I
)
MIN_WORDS, MAX_WORDS = 2, 20  # of a synopsis
MIN_TEXT_WORDS = 20  # a shorter text is hardly longer than its synopsis


def package_lists(folder: Path, report: Callable[[str], None]) -> list[Path]:
    """The list files of packages and their English descriptions; downloads them into `folder` if
    the system has none."""
    if shutil.which("apt-get") is None or not HELPER.exists():
        raise ValueError(NO_APT)
    paths = _complete_lists([]) or _complete_lists(_cache_options(folder))
    if not paths:
        report("downloading the package lists into the cache (about 16 MB)")
        _download(folder, report)
        paths = _complete_lists(_cache_options(folder))
    if not paths:
        raise ValueError("apt has no English descriptions; use --data docstrings, or give a file")
    return paths


def _download(folder: Path, report: Callable[[str], None]) -> None:
    for part in ("lists/partial", "archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    # The system's hooks would notify other programs that its lists changed. Only a config file can
    # clear them, and it has to be named to be read after the system's own.
    hooks = folder / "hooks.conf"
    write_text(hooks, "".join(f"#clear APT::Update::{name};\n" for name in HOOKS))

    def report_size() -> None:
        size = sum(path.stat().st_size for path in (folder / "lists").rglob("*") if path.is_file())
        report(f"downloading: {size / 1e6:.0f} MB on disk so far")

    command = ["apt-get", "update", "--quiet=2", f"--config-file={hooks}", *_cache_options(folder)]
    _run(command, report_size)


def _complete_lists(options: Sequence[str]) -> list[Path]:
    """All list files sorted by name, if there are both packages and descriptions."""
    lists = _find_lists(options)
    if {kind for kind, _ in lists} != {"Packages", "Translations"}:
        return []
    return [path for _, path in sorted(lists, key=lambda item: item[1].name)]


def _cache_options(folder: Path) -> list[str]:
    settings = {
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder,
        "Acquire::Languages": "en",
    }
    if os.geteuid() == 0:
        settings["APT::Sandbox::User"] = "root"  # apt's own user may not write here
    return [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]


def _find_lists(options: Sequence[str]) -> list[tuple[str, Path]]:
    """(kind, path) of each list that exists."""
    columns = "$(CREATED_BY)\t$(LANGUAGE)\t$(FILENAME)"
    lists = []
    for line in _run(["apt-get", "indextargets", "--format", columns, *options]).splitlines():
        kind, language, name = line.decode().split("\t")
        relevant = kind == "Packages" or (kind == "Translations" and language == "en")
        if relevant and Path(name).exists():
            lists.append((kind, Path(name)))
    return lists


def _run(command: Sequence[str], on_wait: Callable[[], None] = lambda: None) -> bytes:
    """The output of a command. Calls `on_wait` every few seconds while it runs."""
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            out, error = _wait(process, start, on_wait)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        reason = " ".join(error.decode(errors="replace").split())[:200]
        raise ValueError(f"apt failed ({reason}); use --data docstrings, or give a file")
    return out


def _wait(
    process: subprocess.Popen[bytes], start: float, on_wait: Callable[[], None]
) -> tuple[bytes, bytes]:
    while True:
        try:
            return process.communicate(timeout=PROGRESS_SECONDS)
        except subprocess.TimeoutExpired:
            if time.monotonic() - start > TIMEOUT:
                raise ValueError(
                    f"apt took longer than {TIMEOUT:.0f} seconds; try again later"
                ) from None
            on_wait()


def read_package_list(path: Path) -> str:
    return _run([str(HELPER), "cat-file", str(path)]).decode("utf-8", "replace")


def stanzas(text: str) -> Iterator[dict[str, str]]:
    """The fields of each paragraph of a list. A line that continues a field begins with a space."""
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


def parse_pairs(texts: Sequence[str]) -> list[Pair]:
    """All pairs in these lists. Of texts with the same first paragraph it keeps the shortest.

    Packages of one source share that paragraph, and the model would read it again and again.
    """
    sources: dict[str, str] = {}
    descriptions: dict[tuple[str, str], str] = {}
    for text in texts:
        for fields in stanzas(text):
            package = fields.get("Package", "")
            if "Description-en" in fields:
                descriptions[package, fields.get("Description-md5", "")] = fields["Description-en"]
            elif package:
                sources[package] = fields.get("Source", package).split(" ")[0]
    pairs: dict[str, Pair] = {}
    for (package, _), description in sorted(descriptions.items()):
        pair = _make_pair(description, sources.get(package, package))
        if pair is not None:
            shortest = pairs.setdefault(_first_paragraph(pair.text), pair)
            if len(pair.text) < len(shortest.text):
                pairs[_first_paragraph(pair.text)] = pair
    return list(pairs.values())


def _make_pair(description: str, source: str) -> Pair | None:
    synopsis, _, rest = description.partition("\n")
    summary, text = " ".join(synopsis.split()), _join_lines(rest)
    short = not MIN_WORDS <= len(summary.split()) <= MAX_WORDS
    if short or len(text.split()) < MIN_TEXT_WORDS or UNINFORMATIVE.search(f"{summary} {text}"):
        return None
    return Pair(text, summary, source)


def _join_lines(rest: str) -> str:
    """Join each paragraph into one line. Indented lines are list items and stay separate."""
    paragraphs: list[str] = [""]
    for line in rest.split("\n"):
        if line.strip() in ("", "."):
            paragraphs.append("")
        elif line.startswith("  "):
            paragraphs += [" ".join(line.split()), ""]
        else:
            paragraphs[-1] = f"{paragraphs[-1]} {' '.join(line.split())}".strip()
    return "\n".join(filter(None, paragraphs))


def _first_paragraph(text: str) -> str:
    """The first paragraph without its numbers, because versions of a package differ only in
    these."""
    return re.sub(r"\d+", "0", text.partition("\n")[0].lower())
