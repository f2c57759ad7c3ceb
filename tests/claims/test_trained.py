"""Claims about trained models: verdicts, controls, and wrong experiments that change them."""

from __future__ import annotations

import math
import random
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab.claims import (
    CLAIMS,
    Result,
    Trial,
    _generated_sentences,
    run_claim,
    trained,
    trained_heads,
    trained_words,
)
from attnlab.claims import trained_knowledge as knowledge
from attnlab.claims import trained_summary as summary
from attnlab.claims import trained_vision as vision
from attnlab.claims._claim import Evidence, Lines
from attnlab.claims._pretrained_models import MODEL_PACKAGES, ReadText, needs_models, trained_reader
from attnlab.claims._world_models import learn_world
from attnlab.claims.judges import Every
from tests.support.real_models import load_minilm, load_smollm2

MINILM = (
    "untrained-uniform", "head-patterns", "layers-differ", "subject-and-pronoun",
    "context-changes-keys", "gradient-at-attended",
)  # fmt: skip
KNOWLEDGE = ("pretraining-gives-knowledge", "invented-answers", "unseen-name", "name-origin-bias")


@lru_cache
def run_small(name: str, seed: int) -> Result:
    return run_claim(CLAIMS[name], seed, "small")


def check_verdict(name: str, seed: int, outcome: str = "holds") -> None:
    claim_result = run_small(name, seed)
    assert (claim_result.verdict.outcome, claim_result.trusted) == (outcome, True), claim_result


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MINILM)
def test_claims_about_an_encoder(name: str, seed: int) -> None:
    load_minilm()
    check_verdict(name, seed)


@pytest.mark.parametrize("name", ["causal-backwards", "first-token-sink"])
def test_claims_about_a_language_model(name: str) -> None:
    load_minilm()
    load_smollm2()
    check_verdict(name, 0)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "unseen-name" else [pytest.mark.slow])
        for name in KNOWLEDGE
    ],
)
def test_claims_about_knowledge(name: str) -> None:
    check_verdict(name, 0)


@pytest.mark.parametrize("seed", [0, 1])
def test_patch_claim(seed: int) -> None:
    check_verdict("patches-are-convolution", seed)


def test_missing_model_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODEL_PACKAGES, "minilm", ("no_such_package", "model", "no-such-model"))
    assert needs_models("minilm")() == "needs no-such-model (pip install)"
    result = run_claim(CLAIMS["head-patterns"], 0, "small")
    assert result.verdict.outcome == "not run"
    assert "no-such-model" in result.verdict.condition


@pytest.mark.slow
def test_performer_claim() -> None:
    check_verdict("performer-matches", 0)


@pytest.mark.slow
def test_performer_is_compared_while_softmax_learns() -> None:
    """With a loss of 0 no gap could be measured."""
    evidence = run_small("performer-matches", 0).evidence
    assert evidence is not None
    details = evidence.details
    guess = float(details["loss of guessing"] or 0)
    for rate in summary.LEARNING_RATE_FACTORS:
        loss = float(details[f"loss of softmax at {rate:g} times the learning rate"] or 0)
        assert 0.2 < loss < 0.75 * guess


def test_guessing_loss_by_hand() -> None:
    # of 4 tokens one occurs twice and one once: with add-one smoothing 3, 2, 1, 1 of 7
    loss = summary.guessing_loss([0, 0, 1], [0, 1, 2, 2], 4)
    assert loss == pytest.approx(-(math.log(3 / 7) + math.log(2 / 7) + 2 * math.log(1 / 7)) / 4)


def test_summary_texts_contain_each_word_once() -> None:
    for pair in summary.make_texts(40, 3):
        words, (kind, _, field) = pair.text.split(), pair.summary.split()
        assert words.count(kind) == words.count(field) == 1
        assert words.index(field) == words.index(kind) + 2
    assert summary.make_texts(5, 3) == summary.make_texts(5, 3) != summary.make_texts(5, 4)


def test_read_all_equals_reading_one_by_one() -> None:
    load_minilm()
    texts = ["a short text", "and one that is quite a bit longer than that"]
    reader = trained_reader("minilm")
    for text, together in zip(texts, reader.read_all(texts), strict=True):
        alone = reader.read(text)
        assert together.sequence == alone.sequence
        assert torch.allclose(together.weights, alone.weights, atol=1e-5)


def test_jensen_shannon_by_its_definition() -> None:
    weights = torch.rand(3, 5, 7, dtype=torch.float64).softmax(-1)
    divergences = trained_heads._jensen_shannon(weights)
    for i in range(3):
        for j in range(3):
            a, b = weights[i], weights[j]
            m = (a + b) / 2
            both = (a * (a / m).log()).sum(-1) + (b * (b / m).log()).sum(-1)
            assert float(divergences[i, j]) == pytest.approx(float(both.mean() / 2), abs=1e-12)


def test_rank_correlation_by_hand() -> None:
    one = torch.tensor([1.0, 20.0, 3.0, 4.0])
    assert trained_words.rank_correlation(one, one.log()) == pytest.approx(1)
    assert trained_words.rank_correlation(one, -one) == pytest.approx(-1)
    swapped = torch.tensor([1.0, 4.0, 3.0, 20.0])  # ranks 1 3 2 4 for 1 4 2 3: 1 - 6 * 2 / 60
    assert trained_words.rank_correlation(one, swapped) == pytest.approx(0.8)


def test_generated_sentences_favor_no_position() -> None:
    """In half of them the correct word is the nearer one, and each word occurs once."""
    for kind in _generated_sentences.SENTENCE_MAKERS:
        nearer = 0
        for text, word, target, other in _generated_sentences.make_sentences(
            kind, random.Random(0), 40
        ):
            words = text.split()
            assert all(words.count(each) == 1 for each in (word, target, other))
            nearer += words.index(other) < words.index(target) < words.index(word)
        assert nearer == 20


def test_halves_of_generated_sentences_share_no_name() -> None:
    for kind in _generated_sentences.SENTENCE_MAKERS:
        examples = _generated_sentences.make_sentences(kind, random.Random(0), 400)
        halves = [
            {word for _, _, *two in half for word in two}
            for half in (examples[:200], examples[200:])
        ]
        assert len(halves[0]) > 10
        assert not halves[0] & halves[1]


def test_homonyms_have_equal_positions() -> None:
    load_minilm()
    reader = trained_reader("minilm")
    for one, other, word in trained_words.HOMONYMS:
        assert reader.read(one).position_of(word) == reader.read(other).position_of(word), word


@pytest.mark.slow
def test_convnet_claim() -> None:
    """Three short runs may be undecided, but must not refute the claim."""
    result = run_small("convnet-small-data", 0)
    assert result.verdict.outcome in ("holds", "undecided"), result.verdict
    assert result.control is not None
    assert result.control.outcome == "refuted"
    assert result.evidence is not None
    sizes = [int(result.evidence.details[f"parameters, {name}"]) for name in ("ConvNet", "ViT")]
    assert abs(sizes[0] / sizes[1] - 1) <= 0.05


# Wrong experiments change the verdict


@pytest.mark.parametrize(
    ("few", "many", "expected"), [(0.2, 0.1, "holds"), (0.1, 0.2, "refuted"), (-0.1, 0, "refuted")]
)
def test_convnet_lead_that_grows_is_refuted(
    few: float, many: float, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def accuracy(model: str, size: str, seed: int, n: int) -> float:
        del size
        return 0.5 + seed * 1e-4 + (model == "convnet") * (few if n == vision.FEW_IMAGES else many)

    monkeypatch.setattr(vision, "digit_accuracy", accuracy)
    assert judge_experiment("convnet-small-data") == expected


def judge_experiment(name: str) -> str:
    claim = CLAIMS[name]
    assert claim.measure is not None
    return claim.judge(claim.measure(Trial())).outcome


def test_missing_causal_mask_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    class UniformReader:
        def read(self, text: str) -> ReadText:
            del text
            return ReadText(Any, torch.full((1, 2, 5, 5), 0.2))  # type: ignore[arg-type]

    monkeypatch.setattr(trained, "trained_reader", lambda _: UniformReader())
    assert judge_experiment("causal-backwards") == "refuted"


def test_transposed_patches_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    original = vision._flatten_patches

    def turned(images: Tensor, patch: int, *, channel_last: bool) -> Tensor:
        return original(images.mT, patch, channel_last=channel_last)

    monkeypatch.setattr(vision, "_flatten_patches", turned)
    assert judge_experiment("patches-are-convolution") == "refuted"


def test_model_without_pretraining_knows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    none = learn_world(0, "small", "none")
    monkeypatch.setattr(knowledge, "learn_world", lambda *_: none)
    assert judge_experiment("pretraining-gives-knowledge") == "refuted"
    assert judge_experiment("name-origin-bias") != "holds"


def test_both_parts_of_the_knowledge_claim_are_judged() -> None:
    """Far above the baseline with pretraining, not above it without. With the two models exchanged,
    both parts are refuted."""
    result = run_small("pretraining-gives-knowledge", 0)
    judge = CLAIMS["pretraining-gives-knowledge"].judge
    assert isinstance(judge, Every)
    for evidence, outcome in ((result.evidence, "holds"), (result.control_evidence, "refuted")):
        assert isinstance(evidence, Evidence)
        assert judge.outcomes(evidence) == [outcome] * 2


def test_plot_shows_risk_and_coverage() -> None:
    evidence = run_small("invented-answers", 0).evidence
    assert evidence is not None
    assert isinstance(evidence.plot, Lines)
    coverage, risk = evidence.plot.series[0].points[-1]
    assert coverage == pytest.approx(1)
    wrong, right = int(evidence.details["wrong"]), int(evidence.details["right"])
    assert risk == pytest.approx(wrong / (wrong + right))


def test_newcombe_interval() -> None:
    """Newcombe 1998, method 10: 56 of 70 and 48 of 80 give 0.2 (0.0524 to 0.3339)."""
    difference = knowledge._difference([True] * 56 + [False] * 14, [True] * 48 + [False] * 32)
    assert difference.value == pytest.approx(0.2)
    assert difference.ends == pytest.approx((0.0524, 0.3339), abs=1e-4)
