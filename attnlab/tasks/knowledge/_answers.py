"""Answer questions with a trained model, and measure its confidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.generate import Generated, Sampling, beam_search, generate
from attnlab.generate._generation_base import DecodingState
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
    nothing: float = 0.0
    """The probability of the empty answer, which the model learns for names that it never read."""

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


def readable(question: str, encoding: KnowledgeTextEncoding, context: int) -> bool:
    """Whether the model can read this question."""
    try:
        check_questions([question], encoding, context)
    except ValueError:  # too long, or a character that the model never saw
        return False
    return True


def answer_greedily(
    model: Decoder, encoding: KnowledgeTextEncoding, questions: Sequence[str]
) -> list[str]:
    """Greedy answers to all questions at once, as in the course; none is empty."""
    prompts = check_questions(questions, encoding, max_context(model))
    greedy = generate_greedy(model, encoding, prompts)
    return [encoding.decode(row.ids) for row in _replace_empty(model, encoding, prompts, greedy)]


def generate_greedy(
    model: Decoder | AnsweringModel,
    encoding: KnowledgeTextEncoding,
    prompts: Sequence[Sequence[int]],
) -> list[Generated]:
    """Continue each prompt greedily up to the mask."""
    results = [Generated() for _ in prompts]
    context = model.max_length if isinstance(model, AnsweringModel) else max_context(model)
    for indices, limit in _group_by_limit(prompts, context):
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
    for question, (texts, nothing) in zip(
        questions, answers_without_empty(model, encoding, prompts), strict=True
    ):
        (text, confidence), *others = texts.items()
        other, probability = max(others, key=lambda pair: pair[1], default=("", 0.0))
        answers.append(Answer(question, text, confidence, other, probability, nothing))
    return answers


def answers_without_empty(
    model: Decoder, encoding: KnowledgeTextEncoding, prompts: Sequence[Sequence[int]]
) -> list[tuple[dict[str, float], float]]:
    """The `candidate_answers` to each prompt, and the probability of the empty answer.

    If the empty answer is the likeliest, the best other one comes first.
    """
    candidates = candidate_answers(model, encoding, prompts)
    empty = [i for i, texts in enumerate(candidates) if next(iter(texts)) == ""]
    rows = generate_greedy(
        AnsweringModel(model, encoding.mask), encoding, [prompts[i] for i in empty]
    )
    nothing = [texts.pop("", 0.0) for texts in candidates]
    for i, row in zip(empty, rows, strict=True):
        probability = math.exp(row.score) * max(0.0, 1.0 - nothing[i])
        candidates[i] = {encoding.decode(row.ids): probability, **candidates[i]}
    return list(zip(candidates, nothing, strict=True))


def _replace_empty(
    model: Decoder,
    encoding: KnowledgeTextEncoding,
    prompts: Sequence[Sequence[int]],
    rows: list[Generated],
) -> list[Generated]:
    """The rows with the best other answer in place of empty ones."""
    empty = [i for i, row in enumerate(rows) if not row.ids]
    answering = AnsweringModel(model, encoding.mask)
    others = generate_greedy(answering, encoding, [prompts[i] for i in empty])
    replaced = dict(zip(empty, others, strict=True))
    return [replaced.get(i, row) for i, row in enumerate(rows)]


class AnsweringModel(nn.Module):
    """A model whose answers are not empty: their first token is not the mask that ends them."""

    def __init__(self, model: Decoder, mask: int) -> None:
        super().__init__()
        self.model, self.mask = model, mask

    @property
    def max_length(self) -> int:
        return max_context(self.model)

    def prefill(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, DecodingState]:
        logits, state = self.model.prefill(ids, lengths)
        return logits.index_fill(1, torch.tensor(self.mask), -math.inf), state

    def step(self, ids: Tensor, state: Any) -> tuple[Tensor, DecodingState]:
        return self.model.step(ids, state)


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
