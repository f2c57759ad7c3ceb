"""A chooser: which string of a document answers the question, as a log-linear model.

Readers learn from swapped answers, so they cannot know that some strings are answers more often
than others, and they have nothing to say about a document without the answer. The chooser learns
both from the labels. Its features are the words around a string and how often the string was the
answer. A pair that it learns from does not count its own label.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attnlab.tasks.knowledge._data import Library, Pair, Relation, body_of, title_of
from attnlab.tasks.knowledge._document_reader import occurrences, standing
from attnlab.tasks.knowledge._pretraining_objectives import Entities

# Chosen by cross-validation on training pairs (docs/log.md).
WEIGHT_DECAY = 1.0  # times the squared weights, against the sum of losses
MIN_COUNT = 3  # a rarer feature is left out
GUESSES = 5  # answers that do not stand in the document, the likeliest by its words
PRIOR = 10.0  # documents that a word must outweigh before it tells of an answer
STEPS, LEARNING_RATE = 120, 0.08

TOKEN, WORD = re.compile(r"\w+|[^\w\s]"), re.compile(r"[^\W\d_]+")
NAME = "NAME"  # stands for a word of the title
EDGE = ["^"] * 3  # before the first token and after the last
OTHER = ""  # the candidate that stands for every other answer
Candidate = tuple[str, dict[str, float]]
"""A string at one place of a document, a guess, or OTHER; with its features."""


@dataclass(frozen=True)
class Choice:
    """A possible answer, its probability, and whether it stands in a document or is a guess."""

    text: str
    likely: float
    stands: bool


class Chooser:
    """Learned from the pairs of one relation."""

    def __init__(self, pairs: Sequence[Pair], library: Library, relation: Relation) -> None:
        self.library, self.relation = library, relation
        self.answers = Counter(answer for _, answer in pairs)
        self.runs = Entities(numbers=any(re.search(r"\d", answer) for answer in self.answers))
        self.runs.prepare(library.documents)
        self.offered: Counter[str] = Counter()  # labeled questions whose documents have a string
        self.beside: dict[str, Counter[str]] = defaultdict(Counter)  # answers beside a word
        for question, answer in pairs:
            documents = self._documents(question)
            self.offered.update({text for each in documents for text in self._strings(each)})
            for word in words_without(documents, answer):
                self.beside[word][answer] += 1
        asked = [self.candidates(question, label=answer) for question, answer in pairs]
        counts = Counter(name for each in asked for _, features in each for name in features)
        kept = [name for name, count in counts.items() if count >= MIN_COUNT]
        self.columns = {name: column for column, name in enumerate(kept)}
        self.weights = torch.zeros(len(kept))
        if pairs:
            self._fit(asked, [answer for _, answer in pairs])

    def choose(self, question: str, heard: Collection[str] = ()) -> list[Choice]:
        """The possible answers; what is left of 1 is for all others. `heard`: what readers said."""
        candidates = self.candidates(question, heard=heard)
        probabilities = self._log_probabilities(*self._table([candidates]))[0].exp().tolist()
        found: dict[str, Choice] = {}
        for (text, features), probability in zip(candidates, probabilities, strict=True):
            likely = probability + (found[text].likely if text in found else 0.0)
            found[text] = Choice(text, likely, stands="guess" not in features)
        del found[OTHER]
        return list(found.values())

    def candidates(
        self, question: str, *, heard: Collection[str] = (), label: str | None = None
    ) -> list[Candidate]:
        """`label`: the answer of a pair that is learned from."""
        documents = self._documents(question)
        found: list[Candidate] = [
            (text, {**around, **self._rates(text, label)})
            for document in documents
            for text, around in places_in(document, [*self._strings(document, label), *heard])
        ]
        guesses, there = self._guesses(documents, label), dict(found)
        absent = [text for text in guesses if text not in there]
        found += [(text, {"guess": 1.0, "likely": guesses[text]}) for text in absent[:GUESSES]]
        return [*found, (OTHER, {"other": 1.0})]

    def _documents(self, question: str) -> list[str]:
        name = self.relation.name_in(question) or ""
        return list(dict.fromkeys(self.library.by_title.get(name, [])))

    def _strings(self, document: str, label: str | None = None) -> list[str]:
        """Answers known from other pairs, and capitalized runs."""
        body = body_of(document)
        known = [text for text, count in self.answers.items() if count > (text == label)]
        runs = self.runs.texts(document)
        return [text for text in [*known, *runs] if text in body and standing(text, body)]

    def _rates(self, text: str, label: str | None) -> dict[str, float]:
        """How often a string was the answer where it stood."""
        answers = self.answers[text] - (text == label)
        offered = max(answers, self.offered[text] - (label is not None))
        rate = (answers + 0.4) / (offered + 2.0)
        return {"log odds": math.log(rate / (1 - rate)), "new": float(not answers)}

    def _guesses(self, documents: Sequence[str], label: str | None) -> dict[str, float]:
        """Log-probabilities by the word of the documents that tells most, best first."""
        own = Counter([] if label is None else [label])
        answers, best = self.answers - own, dict[str, float]()
        prior = PRIOR / max(1, answers.total())
        for word in words_without(documents, label):
            beside = self.beside.get(word, own) - own
            seen = beside.total() + PRIOR
            for answer, count in beside.items():
                likely = math.log((count + prior * answers[answer]) / seen)
                best[answer] = max(best.get(answer, likely), likely)
        return dict(sorted(best.items(), key=lambda pair: (-pair[1], pair[0])))

    def _table(self, asked: Sequence[Sequence[Candidate]]) -> tuple[Tensor, Tensor]:
        """The features of all N candidates, sparse (N, F), and each question's rows of it (Q, M),
        with N for none. Letters: Q questions, M most candidates of one, F features."""
        cells = [
            (row, self.columns[name], value)
            for row, (_, features) in enumerate(one for each in asked for one in each)
            for name, value in features.items()
            if name in self.columns
        ]
        places = torch.tensor([cell[:2] for cell in cells], dtype=torch.long).reshape(-1, 2).T
        values, sizes = torch.tensor([cell[2] for cell in cells]), [len(each) for each in asked]
        shape = (sum(sizes), len(self.columns))
        table = torch.sparse_coo_tensor(places, values, shape, check_invariants=True)
        rows = list(torch.arange(shape[0]).split(sizes))
        return table.coalesce(), pad_sequence(rows, True, padding_value=shape[0])

    def _log_probabilities(self, features: Tensor, rows: Tensor) -> Tensor:
        """(Q, M): among the candidates of the same question."""
        scores = torch.sparse.mm(features, self.weights[:, None])[:, 0]  # (N,)
        return torch.cat([scores, torch.tensor([-math.inf])])[rows].log_softmax(1)

    def _fit(self, asked: list[list[Candidate]], answers: list[str]) -> None:
        """Maximum likelihood, all questions at once; an answer has the sum of its places."""
        table, wrong = self._table(asked), list[Tensor]()
        for candidates, answer in zip(asked, answers, strict=True):
            right = answer if answer in dict(candidates) else OTHER
            wrong.append(torch.tensor([text != right for text, _ in candidates]))
        masked = pad_sequence(wrong, True, padding_value=True)  # (Q, M)
        self.weights.requires_grad_()
        optimizer = torch.optim.Adam([self.weights], lr=LEARNING_RATE)
        for _ in range(STEPS):
            optimizer.zero_grad()
            likely = self._log_probabilities(*table).masked_fill(masked, -math.inf).logsumexp(1)
            (WEIGHT_DECAY * self.weights.square().sum() - likely.sum()).backward()
            optimizer.step()
        self.weights = self.weights.detach()


def words_without(documents: Iterable[str], answer: str | None) -> set[str]:
    """The words of the documents but the answer's: what else tells of it."""
    return set(WORD.findall(" ".join(documents))) - set(WORD.findall(answer or ""))


def places_in(document: str, texts: Iterable[str]) -> list[Candidate]:
    """Each place where one of the texts stands, with the words around it as features."""
    body, title = body_of(document), set(TOKEN.findall(title_of(document)))
    tokens = list(TOKEN.finditer(body))
    words = [NAME if t[0] in title else re.sub(r"\d", "0", t[0]) for t in tokens]
    begins = {token.start(): place for place, token in enumerate(tokens)}
    ends = {token.end(): place + 1 for place, token in enumerate(tokens)}
    return [
        (text, dict.fromkeys(_around(words, begins[start], ends[end]), 1.0))
        for text in dict.fromkeys(texts)
        for start, end in occurrences(text, body)
        if start in begins and end in ends  # else it begins or ends inside a token
    ]


def _around(words: list[str], start: int, end: int) -> list[str]:
    left, right = [*EDGE, *words[:start]], [*words[end:], *EDGE]
    return [
        *(f"before {' '.join(left[-size:])}" for size in (1, 2, 3)),
        *(f"after {' '.join(right[:size])}" for size in (1, 2)),
        f"between {left[-1]} | {right[0]}",
        *(f"earlier {word}" for word in left[-8:]),
        *(f"later {word}" for word in right[:5]),
        f"ends {words[end - 1][-3:]}",
        f"words {end - start}",
    ]
