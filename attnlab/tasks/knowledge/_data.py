"""Read corpora and question-answer pairs, and find the documents that a question is about."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_FILE = 256 * 2**20  # bytes
MAX_LINE = 20_000  # characters; a document is a few sentences, not a book
MAX_LISTED = 5  # line numbers in an error
WORLD = "embedded world"  # the corpus of a run without files
MIN_PAIRS = 10  # with fewer pairs none is held out

Pair = tuple[str, str]
"""A question and its answer."""


def read_corpus(path: str | Path) -> list[str]:
    """The documents of a file, one per line, without blank lines."""
    path = Path(path)
    documents = [line.strip() for line in _split_lines(_read_file(path), path) if line.strip()]
    if not documents:
        raise ValueError(f"{path}: has no documents; give a file with one document per line")
    return documents


def read_pairs(path: str | Path) -> list[Pair]:
    """Read questions and answers, separated by a tab."""
    return parse_pairs(_read_file(Path(path)), path)


def parse_pairs(text: str, source: object) -> list[Pair]:
    """The pairs in a text. Errors name the source."""
    rows = _parse_rows(text, source)
    if not _has_answers(rows):
        raise ValueError(
            f"{source}: has questions without answers, the first in line {rows[0][0]}; "
            "put a tab and the answer after each question"
        )
    _raise_for_lines(source, [n for n, fields in rows if len(fields) < 2], "no tab")
    _raise_for_lines(source, [n for n, fields in rows if not fields[1].strip()], "no answer")
    return [(fields[0].strip(), fields[1].strip()) for _, fields in rows]


def read_questions(path: str | Path) -> list[tuple[str, str | None]]:
    """Read questions with answers, or questions only. All lines must be alike."""
    text = _read_file(Path(path))
    rows = _parse_rows(text, path)
    if _has_answers(rows):
        return [*parse_pairs(text, path)]
    return [(fields[0].strip(), None) for _, fields in rows]


def _parse_rows(text: str, source: object) -> list[tuple[int, list[str]]]:
    """(line number, fields between tabs) of each line that is not blank."""
    lines = enumerate(_split_lines(text, source), 1)
    rows = [(number, line.split("\t")) for number, line in lines if line.strip()]
    if not rows:
        raise ValueError(f"{source}: has no questions; give lines of question, tab, answer")
    _raise_for_lines(source, [n for n, fields in rows if len(fields) > 2], "more than one tab")
    _raise_for_lines(source, [n for n, fields in rows if not fields[0].strip()], "no question")
    return rows


def _has_answers(rows: Sequence[tuple[int, list[str]]]) -> bool:
    """Whether any row has an answer. Then all rows need one."""
    return any(len(fields) > 1 and fields[1].strip() for _, fields in rows)


def _raise_for_lines(source: object, numbers: Sequence[int], problem: str) -> None:
    if numbers:
        listed = ", ".join(map(str, numbers[:MAX_LISTED])) + (
            ", ..." if len(numbers) > MAX_LISTED else ""
        )
        lines = "line" if len(numbers) == 1 else "lines"
        verb = "has" if len(numbers) == 1 else "have"
        raise ValueError(
            f"{source}: {lines} {listed} {verb} {problem}; each line is question, tab, answer"
        )


def _read_file(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise ValueError(f"{path}: is not a file; give a text file")
        with path.open("rb") as file:
            content = file.read(MAX_FILE + 1)
    except FileNotFoundError:
        raise ValueError(f"{path}: does not exist") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    if len(content) > MAX_FILE:
        raise ValueError(f"{path}: has more than {MAX_FILE // 2**20} MB; give a part of it")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # error.object has no byte-order mark
        number = error.object.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}: line {number} is not UTF-8; convert the file first") from None


def _split_lines(text: str, source: object) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE:
            raise ValueError(
                f"{source}: line {number} has {len(line):,} characters, more than "
                f"{MAX_LINE:,}; put one document on each line"
            )
    return lines


ENDINGS = " ?!."  # of a question
FULL_STOP = re.compile(r"\.(?=\s|$)")
ABBREVIATIONS = {"Jr", "Sr", "St", "Dr", "Mr", "Mrs", "Ms"}


def title_of(document: str) -> str:
    """The start of a document up to the first full stop, except after an initial or "Jr.".

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
        """The longest title that the question contains as whole words."""
        words = question.split()
        for size in range(min(self._longest, len(words)), 0, -1):
            for start in range(len(words) - size + 1):
                candidate = " ".join(words[start : start + size])
                for title in (candidate, candidate.rstrip("?!.,"), candidate.removesuffix("'s")):
                    if title in self.by_title:
                        return title
        return None


@dataclass(frozen=True)
class Relation:
    """One kind of question: the text before the name and after it."""

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
    questions: Iterable[str], library: Library, *, min_fraction: float = 0.01
) -> list[Relation]:
    """The kinds of questions, most frequent first: each question without the title in it.

    A kind with fewer than `min_fraction` of the questions is ignored. It comes from a name that
    contains the title of another document ("Where was Ann Lee Smith born?" if there is an Ann Lee).
    """
    questions = list(questions)
    counts: Counter[Relation] = Counter()
    for question in questions:
        title = library.title_in(question)
        match = None if title is None else re.search(_whole_words_pattern(title), question)
        if match is not None:
            counts[Relation(question[: match.start()], question[match.end() :])] += 1
    if not counts and questions:  # no title matches: use what all questions have in common
        before = _common_prefix(questions)
        after = _common_prefix([question[::-1] for question in questions])[::-1]
        if all(len(q) > len(before) + len(after) for q in questions):
            # Names may begin or end alike, so only whole words belong to the relation.
            before, after = re.sub(r"\S+$", "", before), re.sub(r"^\w+", "", after)
            return [Relation(before, after)] if re.search(r"\w", before + after) else []
    least = min_fraction * counts.total()
    return [relation for relation, count in counts.most_common() if count >= least]


def _whole_words_pattern(title: str) -> str:
    return r"(?<!\S)" + r"\s+".join(map(re.escape, title.split())) + r"(?!\w)"


def _common_prefix(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)  # all texts in between share what these two share
    same = (a == b for a, b in zip(first, last, strict=False))
    return first[: next((i for i, equal in enumerate(same) if not equal), len(first))]


def name_in(question: str, relations: Sequence[Relation]) -> tuple[str, Relation] | None:
    """The name in a question, by the relation that covers most of the question."""
    names = [(relation.name_in(question), relation) for relation in relations]
    matches = [(name, relation) for name, relation in names if name is not None]
    return min(matches, key=lambda pair: len(pair[0]), default=None)


def loose_name_in(question: str, relations: Sequence[Relation]) -> str | None:
    """The name in a question that is worded like one of the relations, apart from capital letters,
    spaces and the mark at the end.

    >>> from attnlab.tasks.knowledge._data import Relation, loose_name_in
    >>> loose_name_in("where was  Ada born", [Relation("Where was ", " born?")])
    'Ada'
    """
    names = []
    for relation in relations:
        before, after = " ".join(relation.before.split()), " ".join(relation.after.split())
        if relation.before[-1:].isspace():
            before += " "
        if relation.after[:1].isspace():
            after = f" {after}"
        text, after = " ".join(question.split()).rstrip(ENDINGS), after.rstrip(ENDINGS)
        end = len(text) - len(after)
        name, around = text[len(before) : end].strip(), (text[: len(before)], text[max(0, end) :])
        if name and [each.casefold() for each in around] == [before.casefold(), after.casefold()]:
            names.append(name)
    return min(names, key=len, default=None)


def documents_about(question: str, library: Library, relations: Sequence[Relation]) -> list[str]:
    """The documents about the name in the question."""
    match = name_in(question, relations)
    return library.by_title.get(match[0], []) if match is not None else []


def digest(*texts: Iterable[str]) -> str:
    """Identifies a set of texts, so that a run is not resumed with other data."""
    sha = hashlib.sha256()
    for text in texts:
        for line in text:
            sha.update(line.encode("utf-8", "surrogatepass") + b"\n")
        sha.update(b"\x00")
    return sha.hexdigest()[:16]


def default_held_out_fraction(pairs: int) -> float:
    """5% of the pairs, or 40 pairs if that is more, at most a fifth; none if there are very few."""
    return 0.0 if pairs < MIN_PAIRS else min(0.2, max(0.05, 40 / pairs))


def hold_out(pairs: Sequence[Pair], fraction: float, seed: int) -> tuple[list[Pair], list[Pair]]:
    """Split pairs into training pairs and held-out pairs, which choices are based on. The question
    and the seed decide the part, so equal questions stay together."""
    if not 0 <= fraction < 1:
        raise ValueError(f"the held-out fraction is {fraction}; give a number from 0 to below 1")

    def position(question: str) -> float:
        digest = hashlib.sha256(f"{seed}|{question}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big") / 2**64

    training = [pair for pair in pairs if position(pair[0]) >= fraction]
    return training, [pair for pair in pairs if position(pair[0]) < fraction]


def most_common_answer(pairs: Sequence[Pair]) -> str:
    """The most frequent answer; of equals the first in alphabetical order."""
    counts = Counter(answer for _, answer in pairs)
    return min(counts, key=lambda answer: (-counts[answer], answer))
