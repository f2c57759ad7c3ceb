"""Claims about what changes the prediction: the expected verdicts, and their parts by hand.

Claims that run SmolLM2 many times or train a model are slow tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from attnlab.claims import CLAIMS, effects_attention, effects_heads, run_claim
from attnlab.claims import effects_knowledge as knowledge
from attnlab.claims._registry import select_claims
from attnlab.claims.effects_knowledge import Question
from attnlab.interpret import _intervene
from attnlab.interpret._model_input import read_input
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding
from attnlab.tokenizer import Characters
from tests.support.small_models import model_of

EXPECTED = {  # at the small size with seed 0
    "weight-predicts-effect": "undecided",
    "sink-cut-early": "refuted",
    "heads-removable": "holds",
    "induction-heads-copy": "holds",
    "synthesizer-ablation": "holds",
    "answer-at-the-name": "refuted",
}
FAST = ("synthesizer-ablation",)
CASES = [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in EXPECTED]


@pytest.mark.parametrize("name", CASES)
def test_verdicts(name: str) -> None:
    result = run_claim(CLAIMS[name], 0, "small")
    if result.verdict.outcome == "not run":
        pytest.skip(result.verdict.condition)
    assert result.verdict.outcome == EXPECTED[name], result
    assert result.trusted is (None if EXPECTED[name] == "undecided" else True), result.control


def test_topic_has_exactly_these_claims() -> None:
    assert [claim.name for claim in select_claims(topic="effects")] == list(EXPECTED)
    page = (Path(__file__).parents[2] / "docs" / "claims.md").read_text()
    section = page[page.index("## What changes the prediction") :]
    for name, outcome in EXPECTED.items():
        assert f"**{outcome}**" in section[section.index(f"### {name}\n") :].partition("\n### ")[0]


def test_heads_that_stay_refute_the_ablation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_intervene._HeadAblation, "__call__", lambda _, z: z)
    result = run_claim(CLAIMS["synthesizer-ablation"], 0, "small")
    assert result.verdict.outcome == "refuted", result


def test_cutting_a_token_by_hand() -> None:
    model = model_of("decoder", "softmax")
    source = read_input(model, [3, 4, 5, 3, 6])
    effects = effects_attention.cut_effects(source, 4)
    target = int(source.run().values[0, -1].argmax())

    def log_probability() -> float:
        return float(source.run().values[0, -1].log_softmax(-1)[target])

    def without_token_2(A: Tensor) -> Tensor:
        A[:, 4, 2] = 0
        A[:, 4] /= A[:, 4].sum(-1, keepdim=True)
        return A

    before, change = log_probability(), _intervene.intervene(model)
    for layer in range(len(change.sites)):
        change = change.weights(layer, None, without_token_2)
    with change:
        after = log_probability()
    assert len(effects) == 5
    assert abs(after - before) > 1e-4
    assert float(effects[2]) == pytest.approx(abs(after - before), abs=1e-5)


def test_later_queries_lose_the_first_token() -> None:
    A = torch.rand(2, 5, 5).tril().softmax(-1).tril()
    A = A / A.sum(-1, keepdim=True)
    changed = effects_attention.without_first(A.clone(), start=3)
    assert torch.allclose(changed[:, :3], A[:, :3])
    assert (changed[:, 3:, 0] == 0).all()
    assert torch.allclose(changed.sum(-1), torch.ones(2, 5))


def test_a_head_is_removed_from_the_projection() -> None:
    generator = torch.Generator().manual_seed(0)
    model = effects_heads.random_decoder("softmax", generator)
    ids = torch.tensor([[1, 2, 3, 4]])
    whole = model(ids)
    without = effects_heads.without_head(model, 1, 2, ids)
    assert torch.equal(model(ids), whole)  # the model itself stays
    assert not torch.allclose(whole, without)


def test_questions_are_paired_by_the_length_of_the_name() -> None:
    def question(name: list[int], answer: int) -> Question:
        return Question(name, [1, *name, 2, 9], answer)

    anna, boris, other_length = question([3, 4], 0), question([5, 6], 1), question([5, 6, 7], 1)
    same_answer, same_end = question([7, 8], 0), question([7, 4], 1)
    assert knowledge.pair_questions([anna, same_answer, same_end, other_length, boris]) == [
        (same_answer, same_end), (anna, boris),
    ]  # fmt: skip
    assert knowledge.places_of(other_length) == [1, 3, 4, 5]


def test_a_question_is_encoded_with_its_name() -> None:
    encoding = KnowledgeTextEncoding(Characters.train(["Where was Ida born? Oslo"]))
    question = knowledge.encode_question(encoding, "Where was Ida born?", "Oslo")
    first, last, after, end = knowledge.places_of(question)
    texts = [encoding.decode([question.ids[at]]) for at in (first, last, after, end)]
    assert encoding.decode(question.name).strip() == "Ida"
    assert end == len(question.ids) - 1
    assert last - first + 1 == len(question.name)
    assert after == last + 1, texts
    assert encoding.decode([question.answer]).strip() == "O"
