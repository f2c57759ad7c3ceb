"""Answer questions with a trained model, and measure its confidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from attnlab.generate import Generated, Sampling, beam_search, generate
from attnlab.models import Decoder
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding

NEW_TOKENS = 32  # longest answer; the course has the same limit, in characters
BEAMS = 4


@dataclass(frozen=True)
class Answer:
    """The answer of a model, and the most probable different answer."""

    question: str
    text: str
    confidence: float
    """The probability of the whole answer with its end."""
    other: str = ""
    """The most probable different answer."""
    other_confidence: float = 0.0

    @property
    def margin(self) -> float:
        return self.confidence - self.other_confidence


def max_context(model: Decoder) -> int:
    """The most tokens of question and answer together. The course's synthesizer reads one less."""
    limit = model.max_length
    return model.config.context if limit is None else min(model.config.context, limit)


def check_questions(
    questions: Sequence[str], encoding: KnowledgeTextEncoding, context: int
) -> list[list[int]]:
    """The prompts of these questions. An error names the first question that the model cannot
    read."""
    prompts = []
    for number, question in enumerate(questions, 1):
        if not question.strip():
            raise ValueError(f"question {number} is empty; give a question with a name in it")
        encoding.check_characters(question, f"question {number}")
        prompts.append(encoding.encode_question(question))
        if len(prompts[-1]) >= context:
            raise ValueError(
                f"question {number} has {len(prompts[-1]) - 1} tokens; "
                f"this model reads at most {context - 2}, to leave space for an answer: "
                f"{question[:40]!r}..."
            )
    return prompts


def answer_greedily(
    model: Decoder, encoding: KnowledgeTextEncoding, questions: Sequence[str]
) -> list[str]:
    """Greedy answers to all questions at once, as in the course."""
    prompts = check_questions(questions, encoding, max_context(model))
    return [encoding.decode(row.ids) for row in generate_greedy(model, encoding, prompts)]


def generate_greedy(
    model: Decoder, encoding: KnowledgeTextEncoding, prompts: Sequence[Sequence[int]]
) -> list[Generated]:
    """Continue each prompt greedily up to the mask."""
    results = [Generated() for _ in prompts]
    for indices, limit in _group_by_limit(prompts, max_context(model)):
        rows = generate(model, [prompts[i] for i in indices], new_tokens=limit, stop=encoding.mask)
        for i, samples in zip(indices, rows, strict=True):
            results[i] = samples[0]
    return results


def _group_by_limit(prompts: Sequence[Sequence[int]], context: int) -> list[tuple[list[int], int]]:
    """Group prompt indices by the number of new tokens that fit into the context."""
    groups: dict[int, list[int]] = {}
    for i, prompt in enumerate(prompts):
        groups.setdefault(min(NEW_TOKENS, context - len(prompt)), []).append(i)
    return [(indices, limit) for limit, indices in groups.items()]


def answer_with_confidence(
    model: Decoder, encoding: KnowledgeTextEncoding, questions: Sequence[str]
) -> list[Answer]:
    """Greedy answers with their probability, and the best different answer of a beam search."""
    prompts = check_questions(questions, encoding, max_context(model))
    answers = []
    for question, texts in zip(questions, candidate_answers(model, encoding, prompts), strict=True):
        (text, confidence), *others = texts.items()
        other, probability = max(others, key=lambda pair: pair[1], default=("", 0.0))
        answers.append(Answer(question, text, confidence, other, probability))
    return answers


def candidate_answers(
    model: Decoder,
    encoding: KnowledgeTextEncoding,
    prompts: Sequence[Sequence[int]],
    max_tokens: int = NEW_TOKENS,
) -> list[dict[str, float]]:
    """Possible answers with their probabilities; the greedy answer comes first.

    `max_tokens` limits the beam search, which goes on until its worst beam has ended.
    """
    greedy = generate_greedy(model, encoding, prompts)
    beams: list[list[Generated]] = [[] for _ in prompts]
    for indices, available in _group_by_limit(prompts, max_context(model)):
        limit = min(available, max_tokens)
        rows = beam_search(
            model,
            [prompts[i] for i in indices],
            new_tokens=limit,
            stop=encoding.mask,
            width=BEAMS,
            best=BEAMS,
        )
        for i, row in zip(indices, rows, strict=True):
            beams[i] = row
    results: list[dict[str, float]] = []
    for best, row in zip(greedy, beams, strict=True):
        texts = {encoding.decode(best.ids): math.exp(best.score)}
        for hypothesis in row:
            texts.setdefault(encoding.decode(hypothesis.ids), math.exp(hypothesis.score))
        results.append(texts)
    return results


def sample_answers(
    model: Decoder,
    encoding: KnowledgeTextEncoding,
    questions: Sequence[str],
    *,
    samples: int,
    temperature: float,
    seed: int,
) -> list[list[str]]:
    """Several sampled answers to each question."""
    prompts = check_questions(questions, encoding, max_context(model))
    answers: list[list[str]] = [[] for _ in prompts]
    for indices, limit in _group_by_limit(prompts, max_context(model)):
        rows = generate(
            model,
            [prompts[i] for i in indices],
            new_tokens=limit,
            stop=encoding.mask,
            sampling=Sampling(temperature=temperature, seed=seed),
            samples=samples,
        )
        for i, row in zip(indices, rows, strict=True):
            answers[i] = [encoding.decode(generated.ids) for generated in row]
    return answers
