"""Ask a run what it cannot know: people who do not exist, and questions of another kind."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnlab.models import Decoder
from attnlab.tasks.knowledge._answers import (
    Answer,
    answer_with_confidence,
    max_context,
    readable,
)
from attnlab.tasks.knowledge._certainty import AnswerVerdict, Certainty
from attnlab.tasks.knowledge._data import WORLD, read_corpus, title_of
from attnlab.tasks.knowledge._made_up_names import Use, made_up_questions
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding
from attnlab.tasks.knowledge._world import WorldConfig, make_world

EXAMPLES = 8
GENERAL_QUESTIONS = (
    "Who is the president of France?",
    "What is the capital of Peru?",
    "How many legs does a spider have?",
    "Why is the sky blue?",
    "What is two plus two?",
    "When does the train to Berlin leave?",
    "Which river flows through Cairo?",
    "Who wrote the first novel?",
    "How do I cook rice?",
    "What time is it?",
    "Where can I buy a ticket?",
    "Is water heavier than oil?",
    "What does this word mean?",
    "How far away is the moon?",
    "Which language is spoken in Brazil?",
    "Can you translate this sentence?",
    "What is the largest ocean?",
    "How old is the universe?",
    "Tell me a joke.",
    "Hello!",
)
OTHER_QUESTIONS = (
    "What is {}'s favorite color?",
    "How tall is {}?",
    "Is {} left-handed?",
    "How often did {} travel by ship?",
    "Which songs does {} like?",
)
"""About a name that may be known, but of a kind that no training question had."""


def audit_unknown(
    model: Decoder,
    encoding: KnowledgeTextEncoding,
    certainty: Certainty,
    corpus: object,
    *,
    count: int,
    seed: int,
) -> tuple[dict[str, Any], dict[str, Any], list[Answer]]:
    """The data of an audit about unknown names and about off-topic questions, and all answers about
    unknown names. `corpus` is the corpus in the run's settings, none of whose titles is asked
    about if the file is still there."""
    titles = [*certainty.names, *_titles_of(corpus)]
    questions = made_up_questions(titles, certainty.relations, Use.AUDIT, 2 * count, seed)
    kinds, asked = [], list[Answer]()
    for kind, texts in questions.items():
        answers = _ask(model, encoding, texts, count)
        asked += answers
        kinds.append({"kind": kind, **_summary(answers, certainty)})
    others = off_topic_questions(certainty, seed)
    off_topic = _summary(_ask(model, encoding, others, len(others)), certainty)
    return {**_summary(asked, certainty), "kinds": kinds}, off_topic, asked


def off_topic_questions(certainty: Certainty, seed: int) -> list[str]:
    """Questions of no kind that the run was trained on, some of them about names that it knows."""
    names = random.Random(f"{seed} off topic").sample(
        certainty.names, min(len(certainty.names), 4 * len(OTHER_QUESTIONS))
    )
    about_names = [
        OTHER_QUESTIONS[i % len(OTHER_QUESTIONS)].format(name) for i, name in enumerate(names)
    ]
    return [*GENERAL_QUESTIONS, *about_names]


def _titles_of(corpus: object) -> list[str]:
    if corpus == WORLD:
        return [title_of(document) for document in make_world(WorldConfig()).corpus]
    try:
        return [title_of(document) for document in read_corpus(Path(str(corpus)))]
    except ValueError:  # the file was moved or changed since; the training names are left
        return []


def _ask(
    model: Decoder, encoding: KnowledgeTextEncoding, questions: Sequence[str], count: int
) -> list[Answer]:
    """Answers to the first questions that the model can read."""
    context = max_context(model)
    asked = [question for question in questions if readable(question, encoding, context)]
    return answer_with_confidence(model, encoding, asked[:count])


def _summary(answers: Sequence[Answer], certainty: Certainty) -> dict[str, Any]:
    verdicts = [certainty.verdict(answer) for answer in answers]
    counts = Counter(verdicts)
    return {
        "count": len(answers),
        "mean_confidence": sum(a.confidence for a in answers) / len(answers) if answers else None,
        "known_share": counts[AnswerVerdict.KNOWN] / len(answers) if answers else None,
        "verdicts": {str(verdict): counts[verdict] for verdict in AnswerVerdict},
        "examples": [
            {
                "question": answer.question,
                "answer": answer.text,
                "confidence": answer.confidence,
                "verdict": str(verdict),
            }
            for answer, verdict in list(zip(answers, verdicts, strict=True))[:EXAMPLES]
        ],
    }
