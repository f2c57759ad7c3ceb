"""A chooser: which of the strings in a document is the answer, learned by counting.

Readers copy, and what they copy from is taught to mean nothing: answers are swapped in their
documents. So they do not know that a string which often was an answer is one more likely here,
nor what to say of a document that does not tell. A log-linear model over the strings of a
document knows both, and errs elsewhere than they do. It is given no rule: its features are the
words and shapes around a string, and how often a string was an answer, the own label left out.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab.tasks.knowledge.data import Library, Pair, Relation, body_of, title_of
from attnlab.tasks.knowledge.objectives import Entities
from attnlab.tasks.knowledge.reading import occurrences, standing

# Chosen by cross-validation on training pairs (docs/log.md).
DECAY = 1.0  # of a context's squared weight, against the sum of losses
SEEN = 3  # times that a context must come to count
GUESSES = 5  # answers that do not stand in the document, the likeliest by its words
CAUTION = 10.0  # documents that a word must outweigh before it tells of an answer
STEPS, RATE = 120, 0.08

TOKEN = re.compile(r"\w+|[^\w\s]")
NAME = "NAME"  # a word of the title, whoever it is
EDGE = "^"
ABSENT = "absent"
ELSE = ""  # the option that the answer is none of the others


@dataclass(frozen=True)
class Option:
    """A string that could be the answer."""

    text: str
    contexts: list[list[str]]
    """Of each place where it stands."""
    counts: list[float]
    """What is known of the string itself."""


@dataclass(frozen=True)
class Choice:
    """An option, and how likely it is."""

    text: str
    likely: float
    stands: bool
    """In a document of that name; else it is a guess."""


class Chooser:
    """Learned from the pairs of one relation."""

    def __init__(self, pairs: Sequence[Pair], library: Library, relation: Relation) -> None:
        self.library, self.relation = library, relation
        self.lore = Lore(pairs, library, relation)
        asked = [self.options(question, label=answer) for question, answer in pairs]
        seen = Counter(
            context
            for options in asked
            for each in options
            for contexts in each.contexts
            for context in set(contexts)
        )
        often = [context for context, count in seen.items() if count >= SEEN]
        self.places = {context: place for place, context in enumerate(often)}
        self.contexts = torch.zeros(len(self.places), 1)
        self.counts = torch.zeros(COUNTS)
        if pairs:
            self._fit(asked, [answer for _, answer in pairs])

    def options(
        self, question: str, *, heard: Iterable[str] = (), label: str | None = None
    ) -> list[Option]:
        """What could be the answer; `heard` are strings that readers said. The label of a question
        that is learned from does not count among the answers known."""
        name = self.relation.name_in(question)
        documents = list(dict.fromkeys(self.library.by_title.get(name or "", [])))
        bodies = [body_of(document) for document in documents]
        contexts: dict[str, list[list[str]]] = {
            text: []
            for document, body in zip(documents, bodies, strict=True)
            for text in [*self.lore.strings_in(document, body, label), *heard]
            if standing(text, body)
        }
        for document, body in zip(documents, bodies, strict=True):
            for text, context in contexts_in(title_of(document), body, list(contexts)):
                contexts[text].append(context)
        found = [
            Option(text, places, self.lore.counts(text, label))
            for text, places in contexts.items()
            if places  # else it begins or ends inside a token
        ]
        guesses = self.lore.guesses(documents, label)
        for text in [text for text in guesses if text not in contexts][:GUESSES]:
            found.append(Option(text, [[ABSENT]], self.lore.counts_of_guess(guesses[text])))
        return [*found, Option(ELSE, [[ELSE]], [0.0] * COUNTS)]

    def choose(self, question: str, heard: Iterable[str] = ()) -> list[Choice]:
        """How likely each option is; what is left of 1 is for something else."""
        options = self.options(question, heard=heard)
        scores = Sheet([options], self.places).scores(self.contexts, self.counts)
        return [
            Choice(option.text, math.exp(score), option.contexts != [[ABSENT]])
            for option, score in zip(options, scores, strict=True)
            if option.text != ELSE
        ]

    def _fit(self, asked: list[list[Option]], answers: list[str]) -> None:
        """The likeliest weights, all questions at once: convex but for the sum over places."""
        sheet = Sheet(asked, self.places)
        place, right = 0, []
        for options, answer in zip(asked, answers, strict=True):
            texts = [each.text for each in options]
            right.append(place + texts.index(answer if answer in texts else ELSE))
            place += len(options)
        weights = [self.contexts.requires_grad_(), self.counts.requires_grad_()]
        optimiser = torch.optim.Adam(weights, lr=RATE)
        for step in range(STEPS):
            optimiser.param_groups[0]["lr"] = RATE * (1 - step / STEPS)
            optimiser.zero_grad()
            loss = -sheet.scores(self.contexts, self.counts)[right].sum()
            size = self.contexts.square().sum() + 0.1 * self.counts.square().sum()
            (loss + DECAY * size).backward()
            optimiser.step()
        self.contexts, self.counts = (each.detach().requires_grad_(False) for each in weights)


class Sheet:
    """Options of many questions as tensors. Letters: Q questions, O options, P places."""

    def __init__(self, asked: Sequence[Sequence[Option]], places: dict[str, int]) -> None:
        options = [(q, option) for q, options in enumerate(asked) for option in options]
        contexts = [
            (o, [places[each] for each in context if each in places])
            for o, (_, option) in enumerate(options)
            for context in option.contexts
        ]
        self.questions = len(asked)
        self.question = torch.tensor([q for q, _ in options])  # (O,)
        self.option = torch.tensor([o for o, _ in contexts])  # (P,)
        self.ids = torch.tensor([i for _, ids in contexts for i in ids], dtype=torch.long)
        sizes = torch.tensor([len(ids) for _, ids in contexts])
        self.offsets = sizes.cumsum(0) - sizes  # (P,)
        self.counts = torch.tensor([option.counts for _, option in options])  # (O, COUNTS)

    def scores(self, contexts: Tensor, counts: Tensor) -> Tensor:
        """(O,) log-probabilities among the options of the same question."""
        if len(contexts):
            stands = F.embedding_bag(self.ids, contexts, self.offsets, mode="sum")[:, 0]  # (P,)
        else:
            stands = torch.zeros(len(self.option))
        each = _sum_exp(stands, self.option, len(self.counts)) + self.counts @ counts  # (O,)
        return each - _sum_exp(each, self.question, self.questions)[self.question]


def _sum_exp(x: Tensor, group: Tensor, groups: int) -> Tensor:
    """The logarithm of the sum of exponentials in each group."""
    most = torch.full((groups,), -math.inf).scatter_reduce(0, group, x.detach(), "amax")
    return most + torch.zeros(groups).index_add(0, group, (x - most[group]).exp()).log()


class Lore:
    """What the labels tell of strings and words, without reading: counts."""

    def __init__(self, pairs: Sequence[Pair], library: Library, relation: Relation) -> None:
        self.answers = Counter(answer for _, answer in pairs)
        names = [relation.name_in(question) or "" for question, _ in pairs]
        self.labelled = Counter(names)
        self.runs = Entities(numbers=any(re.search(r"\d", answer) for answer in self.answers))
        self.runs.prepare(library.documents)
        self.words: dict[str, set[str]] = defaultdict(set)  # the titles of a word's documents
        self.bodies = {
            title: " ".join(map(body_of, documents))
            for title, documents in library.by_title.items()
        }
        for title, body in self.bodies.items():
            for word in re.findall(r"\w+", body):
                self.words[word].add(title)
        self.by_first_word: dict[str, list[str]] = defaultdict(list)
        for answer in self.answers:
            self.by_first_word[next(iter(TOKEN.findall(answer)), "")].append(answer)
        self.beside: dict[str, Counter[str]] = defaultdict(Counter)  # a word's answers
        for (_, answer), name in zip(pairs, names, strict=True):
            for word in words_but(library.by_title.get(name, []), answer):
                self.beside[word][answer] += 1
        self._spread: dict[str, tuple[int, int]] = {}

    def strings_in(self, document: str, body: str, label: str | None) -> list[str]:
        """Answers known from others, and capitalised runs."""
        first = dict.fromkeys(TOKEN.findall(body))
        known = [answer for word in first for answer in self.by_first_word.get(word, [])]
        known = [answer for answer in known if self.answers[answer] > (answer == label)]
        return [*known, *self.runs.texts(document)]

    def counts(self, text: str, label: str | None) -> list[float]:
        """Of a string that stands in the document: the own label is left out of all counts."""
        if text not in self._spread:
            words = re.findall(r"\w+", text)
            titles = set.intersection(*(self.words[word] for word in words)) if words else set()
            titles = {title for title in titles if standing(text, self.bodies[title])}
            self._spread[text] = len(titles), sum(self.labelled[title] for title in titles)
        spread, stood = self._spread[text]
        answers = self.answers[text] - (text == label)
        others = max(answers, stood - (label is not None))
        rate = (answers + 0.4) / (others + 2.0)
        return [
            math.log(rate / max(1e-3, 1 - rate)),
            math.log(answers + 0.5),
            math.log(max(1, spread)),
            float(not answers),
            float(not answers and spread <= 1),
            0.0,
            0.0,
        ]

    def guesses(self, documents: Sequence[str], label: str | None) -> dict[str, float]:
        """Answers by what the likeliest of the document's words tells of them, best first."""
        total = self.answers.total() - (label is not None)
        best: dict[str, float] = {}
        for word in words_but(documents, label):
            beside = self.beside.get(word, Counter())
            seen = beside.total() - (label is not None)
            for answer, count in beside.items() if seen > 0 else ():
                own = answer == label
                usual = (self.answers[answer] - own) / total
                if usual:
                    likely = (count - own + CAUTION * usual) / (seen + CAUTION)
                    best[answer] = max(best.get(answer, 0.0), likely)
        return dict(sorted(best.items(), key=lambda pair: (-pair[1], pair[0])))

    def counts_of_guess(self, likely: float) -> list[float]:
        return [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, math.log(likely)]


COUNTS = 7


def words_but(documents: Iterable[str], answer: str | None) -> set[str]:
    """The words of the documents, the answer itself taken out: what else tells of it."""
    text = " ".join(dict.fromkeys(documents))
    for start, end in reversed(occurrences(answer, text) if answer else []):
        text = f"{text[:start]} {text[end:]}"
    return set(re.findall(r"[^\W\d_]+", text))


def contexts_in(title: str, body: str, texts: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Each place where one of the texts stands, as words and shapes around it."""
    tokens = list(TOKEN.finditer(body))
    names = set(re.findall(r"\w+", title))
    words = [NAME if t[0] in names else "0" * len(t[0]) if t[0].isdigit() else t[0] for t in tokens]
    shapes = [NAME if t[0] in names else _shape(t[0]) for t in tokens]
    begins = {token.start(): place for place, token in enumerate(tokens)}
    ends = {token.end(): place for place, token in enumerate(tokens)}
    found = [
        (begins[start], ends[end], text)
        for text in texts
        for start, end in occurrences(text, body)
        if start in begins and end in ends
    ]
    spans = [(first, last) for first, last, _ in found]
    return [(text, _around(words, shapes, first, last, spans)) for first, last, text in found]


def _around(
    words: list[str], shapes: list[str], first: int, last: int, spans: list[tuple[int, int]]
) -> list[str]:
    def some(of: list[str], start: int, end: int) -> str:
        return " ".join(of[i] if 0 <= i < len(of) else EDGE for i in range(start, end))

    before = [end for _, end in spans if end < first]
    inside = any(a <= first and last <= b and b - a > last - first for a, b in spans)
    return [
        *(f"before {some(words, first - size, first)}" for size in (1, 2, 3)),
        *(f"after {some(words, last + 1, last + 1 + size)}" for size in (1, 2)),
        f"between {some(words, first - 1, first)} | {some(words, last + 1, last + 2)}",
        *(f"shapes {some(shapes, first - size, first)}" for size in (2, 3, 6)),
        f"shapes after {some(shapes, last + 1, last + 3)}",
        f"shapes between {some(shapes, first - 2, first)} | {some(shapes, last + 1, last + 3)}",
        *(f"earlier {word}" for word in sorted(set(words[max(0, first - 8) : first]))),
        *(f"later {word}" for word in sorted(set(words[last + 1 : last + 6]))),
        *(f"has {word}" for word in words[first : last + 1]),
        f"ends {words[last][-3:]}",
        f"words {last - first + 1}",
        f"inside {inside}",
        f"order {min(6, len({a for a, _ in spans if a < first}))}",
        f"far {min(6, first // 8)}",
        f"gap {min(8, first - max(before)) if before else EDGE}",
    ]


def _shape(token: str) -> str:
    if token.isdigit():
        return f"0{min(4, len(token))}"
    return "X" if token[:1].isupper() else "x" if token.isalpha() else token
