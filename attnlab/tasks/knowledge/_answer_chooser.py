"""A log-linear model that chooses which string of a document answers a question.

Readers are trained on swapped answers. So they cannot know that some strings are answers more often
than others, and they cannot answer if the document does not contain the answer. The chooser learns
both from the labels. Its features are the words around a string and how often the string was the
answer. In training, a pair does not count its own label.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attnlab.tasks.knowledge._data import Library, Pair, Relation, body_of, title_of
from attnlab.tasks.knowledge._document_reader import occurrences, occurs_in
from attnlab.tasks.knowledge._pretraining_objectives import Entities

# Chosen by cross-validation on training pairs (docs/log.md).
WEIGHT_DECAY = 1.0  # factor on the squared weights; the losses are summed, not averaged
MIN_COUNT = 3  # rarer features are ignored
GUESSES = 5  # most probable answers that are not in the document
PRIOR = 10.0  # pseudo-count of documents when a word predicts an answer
STEPS, LEARNING_RATE = 120, 0.08

TOKEN, WORD = re.compile(r"\w+|[^\w\s]"), re.compile(r"[^\W\d_]+")
NAME = "NAME"  # replaces a word of the title
EDGE = ["^"] * 3  # before the first token and after the last
OTHER = ""  # the candidate for all other answers
Candidate = tuple[str, dict[str, float]]
"""A string at one position of a document, a guess, or OTHER; with its features."""


@dataclass(frozen=True)
class Choice:
    """A possible answer, its probability, and whether a document contains it."""

    text: str
    probability: float
    in_document: bool


class Chooser:
    """Chooses answers for one relation, trained on its labeled pairs."""

    def __init__(self, pairs: Sequence[Pair], library: Library, relation: Relation) -> None:
        self.library, self.relation = library, relation
        self.answers = Counter(answer for _, answer in pairs)
        self.runs = Entities()
        self.runs.prepare(library.documents, [answer for _, answer in pairs])
        self.question_counts: Counter[str] = Counter()  # questions whose documents contain a string
        # answers of documents with a word
        self.answers_by_word: dict[str, Counter[str]] = defaultdict(Counter)
        for question, answer in pairs:
            documents = self._documents(question)
            strings = {text for document in documents for text in self._strings(document)}
            self.question_counts.update(strings)
            for word in words_without(documents, answer):
                self.answers_by_word[word][answer] += 1
        candidate_lists = [self.candidates(question, label=answer) for question, answer in pairs]
        counts = Counter(
            name
            for candidates in candidate_lists
            for _, features in candidates
            for name in features
        )
        frequent = [name for name, count in counts.items() if count >= MIN_COUNT]
        self.columns = {name: column for column, name in enumerate(frequent)}
        self.weights = torch.zeros(len(frequent))
        if pairs:
            self._fit(candidate_lists, [answer for _, answer in pairs])

    def choose(self, question: str, reader_answers: Collection[str] = ()) -> list[Choice]:
        """The possible answers. The rest of the probability is for all others. `reader_answers` are
        candidates too."""
        candidates = self.candidates(question, reader_answers=reader_answers)
        probabilities = self._log_probabilities(*self._table([candidates]))[0].exp().tolist()
        choices: dict[str, Choice] = {}
        for (text, features), probability in zip(candidates, probabilities, strict=True):
            total = probability + (choices[text].probability if text in choices else 0.0)
            choices[text] = Choice(text, total, in_document="guess" not in features)
        del choices[OTHER]
        return list(choices.values())

    def candidates(
        self, question: str, *, reader_answers: Collection[str] = (), label: str | None = None
    ) -> list[Candidate]:
        """All candidates of a question. `label` is the right answer, in training."""
        documents = self._documents(question)
        candidates: list[Candidate] = [
            (text, {**around, **self._rates(text, label)})
            for document in documents
            for text, around in find_occurrences(
                document, [*self._strings(document, label), *reader_answers]
            )
        ]
        guesses, contained = self._guesses(documents, label), dict(candidates)
        other_guesses = [text for text in guesses if text not in contained]
        candidates += [
            (text, {"guess": 1.0, "likely": guesses[text]}) for text in other_guesses[:GUESSES]
        ]
        return [*candidates, (OTHER, {"other": 1.0})]

    def _documents(self, question: str) -> list[str]:
        name = self.relation.name_in(question) or ""
        return list(dict.fromkeys(self.library.by_title.get(name, [])))

    def _strings(self, document: str, label: str | None = None) -> list[str]:
        """Strings of a document that may be answers: answers of other pairs, and what looks like
        an answer."""
        body = body_of(document)
        known_answers = [text for text, count in self.answers.items() if count > (text == label)]
        runs = self.runs.texts(document)
        return [text for text in [*known_answers, *runs] if text in body and occurs_in(text, body)]

    def _rates(self, text: str, label: str | None) -> dict[str, float]:
        """Features: how often a string was the answer when a document contained it."""
        answers = self.answers[text] - (text == label)
        questions = max(answers, self.question_counts[text] - (label is not None))
        rate = (answers + 0.4) / (questions + 2.0)
        return {"log odds": math.log(rate / (1 - rate)), "new": float(not answers)}

    def _guesses(self, documents: Sequence[str], label: str | None) -> dict[str, float]:
        """Answers with log-probabilities, each by its most informative word, best first."""
        own_label = Counter([] if label is None else [label])
        answers, best = self.answers - own_label, dict[str, float]()
        prior = PRIOR / max(1, answers.total())
        for word in words_without(documents, label):
            counts = self.answers_by_word.get(word, own_label) - own_label
            total = counts.total() + PRIOR
            for answer, count in counts.items():
                log_probability = math.log((count + prior * answers[answer]) / total)
                best[answer] = max(best.get(answer, log_probability), log_probability)
        return dict(sorted(best.items(), key=lambda pair: (-pair[1], pair[0])))

    def _table(self, candidate_lists: Sequence[Sequence[Candidate]]) -> tuple[Tensor, Tensor]:
        """The features of all N candidates, sparse (N, F), and each question's rows of it (Q, M),
        with N as padding. Letters: Q questions, M most candidates of one, F features."""
        entries = [
            (row, self.columns[name], value)
            for row, (_, features) in enumerate(chain.from_iterable(candidate_lists))
            for name, value in features.items()
            if name in self.columns
        ]
        indices = torch.tensor([entry[:2] for entry in entries], dtype=torch.long).reshape(-1, 2).T
        values, sizes = (
            torch.tensor([entry[2] for entry in entries]),
            [len(row) for row in candidate_lists],
        )
        shape = (sum(sizes), len(self.columns))
        table = torch.sparse_coo_tensor(indices, values, shape, check_invariants=True)
        rows = list(torch.arange(shape[0]).split(sizes))
        return table.coalesce(), pad_sequence(rows, True, padding_value=shape[0])

    def _log_probabilities(self, features: Tensor, rows: Tensor) -> Tensor:
        """(Q, M): among the candidates of the same question."""
        scores = torch.sparse.mm(features, self.weights[:, None])[:, 0]  # (N,)
        return torch.cat([scores, torch.tensor([-math.inf])])[rows].log_softmax(1)

    def _fit(self, candidate_lists: list[list[Candidate]], answers: list[str]) -> None:
        """Maximum likelihood over all questions. An answer has the sum of its occurrences."""
        table, wrong = self._table(candidate_lists), list[Tensor]()
        for candidates, answer in zip(candidate_lists, answers, strict=True):
            right = answer if answer in dict(candidates) else OTHER
            wrong.append(torch.tensor([text != right for text, _ in candidates]))
        masked = pad_sequence(wrong, True, padding_value=True)  # (Q, M)
        self.weights.requires_grad_()
        optimizer = torch.optim.Adam([self.weights], lr=LEARNING_RATE)
        for _ in range(STEPS):
            optimizer.zero_grad()
            log_probabilities = (
                self._log_probabilities(*table).masked_fill(masked, -math.inf).logsumexp(1)
            )
            (WEIGHT_DECAY * self.weights.square().sum() - log_probabilities.sum()).backward()
            optimizer.step()
        self.weights = self.weights.detach()


def words_without(documents: Iterable[str], answer: str | None) -> set[str]:
    """The words of the documents without those of the answer."""
    return set(WORD.findall(" ".join(documents))) - set(WORD.findall(answer or ""))


def find_occurrences(document: str, texts: Iterable[str]) -> list[Candidate]:
    """Each occurrence of one of the texts, with the words around it as features."""
    body, title = body_of(document), set(TOKEN.findall(title_of(document)))
    tokens = list(TOKEN.finditer(body))
    words = [NAME if t[0] in title else re.sub(r"\d", "0", t[0]) for t in tokens]
    starts = {token.start(): index for index, token in enumerate(tokens)}
    ends = {token.end(): index + 1 for index, token in enumerate(tokens)}
    return [
        (text, dict.fromkeys(_context_features(words, starts[start], ends[end]), 1.0))
        for text in dict.fromkeys(texts)
        for start, end in occurrences(text, body)
        if start in starts and end in ends  # otherwise it begins or ends inside a token
    ]


def _context_features(words: list[str], start: int, end: int) -> list[str]:
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
