"""Corpora and question-answer pairs, and how they belong together."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

LARGEST_FILE = 256 * 2**20  # bytes
LONGEST_LINE = 20_000  # characters; a document is a few sentences, not a book
NAMED = 5  # bad lines that an error names
WORLD = "embedded world"  # the corpus of a run that was given no files
HANDFUL = 10  # pairs; with fewer, all might be held out and none learned

Pair = tuple[str, str]
"""A question and its answer."""


def read_corpus(path: str | Path) -> list[str]:
    """The documents of a file, one per line; blank lines are left out."""
    path = Path(path)
    documents = [line.strip() for line in _split(_text(path), path) if line.strip()]
    if not documents:
        raise ValueError(f"{path}: holds no document; give a file with one document per line")
    return documents


def read_pairs(path: str | Path) -> list[Pair]:
    """Questions and answers, separated by a tab."""
    return pairs_in(_text(Path(path)), path)


def pairs_in(text: str, source: object) -> list[Pair]:
    """The same of a text."""
    rows = _rows(text, source)
    if not _answered(rows):
        raise ValueError(
            f"{source}: has questions without answers, the first in line {rows[0][0]}; "
            "put a tab and the answer behind each question"
        )
    _refuse(source, [n for n, fields in rows if len(fields) < 2], "no tab")
    _refuse(source, [n for n, fields in rows if not fields[1].strip()], "no answer")
    return [(fields[0].strip(), fields[1].strip()) for _, fields in rows]


def read_questions(path: str | Path) -> list[tuple[str, str | None]]:
    """The same, but the answers may be missing: in all lines, or the file is broken."""
    text = _text(Path(path))
    rows = _rows(text, path)
    if _answered(rows):
        return [*pairs_in(text, path)]
    return [(fields[0].strip(), None) for _, fields in rows]


def _rows(text: str, source: object) -> list[tuple[int, list[str]]]:
    """Of each line that is not blank its number and what its tabs part."""
    lines = enumerate(_split(text, source), 1)
    rows = [(number, line.split("\t")) for number, line in lines if line.strip()]
    if not rows:
        raise ValueError(f"{source}: holds no question; give lines of question, tab, answer")
    _refuse(source, [n for n, fields in rows if len(fields) > 2], "more than one tab")
    _refuse(source, [n for n, fields in rows if not fields[0].strip()], "no question")
    return rows


def _answered(rows: Sequence[tuple[int, list[str]]]) -> bool:
    """Any of them: then all must be."""
    return any(len(fields) > 1 and fields[1].strip() for _, fields in rows)


def _refuse(source: object, numbers: Sequence[int], problem: str) -> None:
    if numbers:
        shown = ", ".join(map(str, numbers[:NAMED])) + (", ..." if len(numbers) > NAMED else "")
        lines = "line" if len(numbers) == 1 else "lines"
        verb = "has" if len(numbers) == 1 else "have"
        raise ValueError(
            f"{source}: {lines} {shown} {verb} {problem}; each line is question, tab, answer"
        )


def _text(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise ValueError(f"{path}: is not a file")
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    if len(content) > LARGEST_FILE:
        raise ValueError(f"{path}: has more than {LARGEST_FILE // 2**20} MB; give a part of it")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1  # the object has no BOM any more
        raise ValueError(f"{path}: line {number} is not UTF-8; convert the file first") from None


def _split(text: str, source: object) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_LINE:
            raise ValueError(
                f"{source}: line {number} has {len(line):,} characters, more than "
                f"{LONGEST_LINE:,}; put one document on each line"
            )
    return lines


FULL_STOP = re.compile(r"\.(?=\s|$)")
ABBREVIATIONS = {"Jr", "Sr", "St", "Dr", "Mr", "Mrs", "Ms"}


def title_of(document: str) -> str:
    """What a document begins with, up to a full stop that ends no initial and no "Jr.".

    A document is a title, a full stop and sentences, as in "Ada M. Byron. Byron was born ...".
    """
    for stop in FULL_STOP.finditer(document):
        before = document[: stop.start()]
        word = re.split(r"[\s.]", before)[-1]
        initial = len(word) < 2 and not word.isdigit()
        if before.endswith(".") or not (initial or word in ABBREVIATIONS):
            return before
    return document


def body_of(document: str) -> str:
    return document[len(title_of(document)) :].removeprefix(".").strip()


class Library:
    """Documents by title."""

    def __init__(self, documents: Sequence[str]) -> None:
        self.documents = list(documents)
        self.by_title: dict[str, list[str]] = defaultdict(list)
        for document in self.documents:
            self.by_title[title_of(document)].append(document)
        self._longest = max((len(title.split()) for title in self.by_title), default=0)

    def title_in(self, question: str) -> str | None:
        """The longest title that stands in the question as whole words."""
        words = question.split()
        for size in range(min(self._longest, len(words)), 0, -1):
            for start in range(len(words) - size + 1):
                candidate = " ".join(words[start : start + size])
                for found in (candidate, candidate.rstrip("?!.,"), candidate.removesuffix("'s")):
                    if found in self.by_title:
                        return found
        return None


@dataclass(frozen=True)
class Relation:
    """One kind of question: what stands before the name, and behind it."""

    before: str
    after: str

    def ask(self, name: str) -> str:
        return f"{self.before}{name}{self.after}"

    def name_in(self, question: str) -> str | None:
        fits = question.startswith(self.before) and question.endswith(self.after)
        name = question[len(self.before) : len(question) - len(self.after)]
        return name if fits and name else None

    def __str__(self) -> str:
        return self.ask("...")


def relations_in(
    questions: Iterable[str], library: Library, *, share: float = 0.01
) -> list[Relation]:
    """The wordings of the questions, commonest first: each question without the title in it.

    A wording that fewer than `share` of the questions have is a name that looks like a title of
    another document ("Where was Ann Lee Smith born?" where there is an Ann Lee), not a wording.
    """
    questions = list(questions)
    found: Counter[Relation] = Counter()
    for question in questions:
        title = library.title_in(question)
        place = None if title is None else re.search(_between_spaces(title), question)
        if place is not None:
            found[Relation(question[: place.start()], question[place.end() :])] += 1
    if not found and questions:  # no document helps: what all questions have in common
        before = _common_start(questions)
        after = _common_start([question[::-1] for question in questions])[::-1]
        if all(len(q) > len(before) + len(after) for q in questions):
            # Names may begin or end alike: only whole words belong to the wording.
            before, after = re.sub(r"\S+$", "", before), re.sub(r"^\w+", "", after)
            return [Relation(before, after)] if re.search(r"\w", before + after) else []
    least = share * found.total()
    return [relation for relation, count in found.most_common() if count >= least]


def _between_spaces(title: str) -> str:
    return r"(?<!\S)" + r"\s+".join(map(re.escape, title.split())) + r"(?!\w)"


def _common_start(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)  # what these two share, all between them share
    same = (a == b for a, b in zip(first, last, strict=False))
    return first[: next((i for i, equal in enumerate(same) if not equal), len(first))]


def name_in(question: str, relations: Sequence[Relation]) -> tuple[str, Relation] | None:
    """Whom the question is about, by the wording that explains most of it."""
    names = [(relation.name_in(question), relation) for relation in relations]
    known = [(name, relation) for name, relation in names if name is not None]
    return min(known, key=lambda pair: len(pair[0]), default=None)


def documents_about(question: str, library: Library, relations: Sequence[Relation]) -> list[str]:
    """The documents of the name that the question asks about."""
    about = name_in(question, relations)
    return library.by_title.get(about[0], []) if about is not None else []


def digest(*texts: Iterable[str]) -> str:
    """Tells one set of texts from another: a run must not go on with the wrong one."""
    found = hashlib.sha256()
    for text in texts:
        for line in text:
            found.update(line.encode("utf-8", "surrogatepass") + b"\n")
        found.update(b"\x00")
    return found.hexdigest()[:16]


def usual_share(pairs: int) -> float:
    """5%, but 40 pairs where there are few of them, and at most a fifth; of a handful, none."""
    return 0.0 if pairs < HANDFUL else min(0.2, max(0.05, 40 / pairs))


def hold_out(pairs: Sequence[Pair], share: float, seed: int) -> tuple[list[Pair], list[Pair]]:
    """Training pairs and held-out ones, on which alone choices are made; the same question stays
    on one side."""
    if not 0 <= share < 1:
        raise ValueError(f"held-out share {share}; give a share from 0 to below 1")

    def place(question: str) -> float:
        found = hashlib.sha256(f"{seed}|{question}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(found[:8], "big") / 2**64

    kept = [pair for pair in pairs if place(pair[0]) >= share]
    return kept, [pair for pair in pairs if place(pair[0]) < share]


def most_common_answer(pairs: Sequence[Pair]) -> str:
    """What to say when nothing is known; of equals the first by alphabet."""
    counts = Counter(answer for _, answer in pairs)
    return min(counts, key=lambda answer: (-counts[answer], answer))
