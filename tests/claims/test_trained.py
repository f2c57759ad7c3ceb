"""Claims of trained models: verdicts, controls, and what a wrong experiment would say."""

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
    run_one,
    trained,
    trained_heads,
    trained_sentences,
    trained_words,
)
from attnlab.claims import trained_knowledge as knowledge
from attnlab.claims import trained_summary as summary
from attnlab.claims import trained_vision as vision
from attnlab.claims._claim import Evidence, Lines
from attnlab.claims._trained_models import PLACES, Read, needs
from attnlab.claims._trained_models import trained as trained_model
from attnlab.claims._world_models import learned
from attnlab.claims.judges import Every
from tests.support.real_models import load_minilm, load_smollm2

MINILM = (
    "untrained-uniform", "head-patterns", "layers-differ", "subject-and-pronoun",
    "context-changes-keys", "gradient-at-attended",
)  # fmt: skip
KNOWLEDGE = ("pretraining-gives-knowledge", "invented-answers", "unseen-name", "name-origin-bias")


@lru_cache
def result(name: str, seed: int) -> Result:
    return run_one(CLAIMS[name], seed, "small")


def check(name: str, seed: int, outcome: str = "holds") -> None:
    found = result(name, seed)
    assert (found.verdict.outcome, found.trusted) == (outcome, True), found


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", MINILM)
def test_an_encoder(name: str, seed: int) -> None:
    load_minilm()
    check(name, seed)


@pytest.mark.parametrize("name", ["causal-backwards", "first-token-sink"])
def test_a_language_model(name: str) -> None:
    load_minilm()
    load_smollm2()
    check(name, 0)


@pytest.mark.parametrize("name", KNOWLEDGE)
def test_what_a_small_model_knows(name: str) -> None:
    check(name, 0)


@pytest.mark.parametrize("seed", [0, 1])
def test_patches(seed: int) -> None:
    check("patches-are-convolution", seed)


def test_a_missing_model_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLACES, "minilm", ("no_such_package", "model", "no-such-model"))
    assert needs("minilm")() == "needs no-such-model (pip install)"
    found = run_one(CLAIMS["head-patterns"], 0, "small")
    assert found.verdict.outcome == "not run"
    assert "no-such-model" in found.verdict.condition


def test_a_performer_matches() -> None:
    check("performer-matches", 0)


def test_a_performer_is_compared_while_softmax_learns() -> None:
    """A loss of 0 would leave a Performer no room to be behind."""
    evidence = result("performer-matches", 0).evidence
    assert evidence is not None
    details = evidence.details
    guess = float(details["loss of guessing"] or 0)
    for rate in summary.RATES:
        loss = float(details[f"loss of softmax at {rate:g} times the rate"] or 0)
        assert 0.2 < loss < 0.75 * guess


def test_guessing_by_hand() -> None:
    # of 4 tokens one was seen twice, one once: with one more of each 3, 2, 1, 1 of 7
    found = summary.guessing_loss([0, 0, 1], [0, 1, 2, 2], 4)
    assert found == pytest.approx(-(math.log(3 / 7) + math.log(2 / 7) + 2 * math.log(1 / 7)) / 4)


def test_texts_to_summarize_hold_their_words_once() -> None:
    for pair in summary.texts(40, 3):
        words, (kind, _, field) = pair.text.split(), pair.summary.split()
        assert words.count(kind) == words.count(field) == 1
        assert words.index(field) == words.index(kind) + 2
    assert summary.texts(5, 3) == summary.texts(5, 3) != summary.texts(5, 4)


def test_texts_read_together_are_read_as_one_by_one() -> None:
    load_minilm()
    texts = ["a short text", "and one that is quite a bit longer than that"]
    reader = trained_model("minilm")
    for text, together in zip(texts, reader.read_all(texts), strict=True):
        alone = reader.read(text)
        assert together.sequence == alone.sequence
        assert torch.allclose(together.weights, alone.weights, atol=1e-5)


def test_jensen_shannon_by_its_definition() -> None:
    weights = torch.rand(3, 5, 7, dtype=torch.float64).softmax(-1)
    found = trained_heads._jensen_shannon(weights)
    for i in range(3):
        for j in range(3):
            a, b = weights[i], weights[j]
            m = (a + b) / 2
            both = (a * (a / m).log()).sum(-1) + (b * (b / m).log()).sum(-1)
            assert float(found[i, j]) == pytest.approx(float(both.mean() / 2), abs=1e-12)


def test_rank_correlation_by_hand() -> None:
    one = torch.tensor([1.0, 20.0, 3.0, 4.0])
    assert trained_words.rank_correlation(one, one.log()) == pytest.approx(1)
    assert trained_words.rank_correlation(one, -one) == pytest.approx(-1)
    swapped = torch.tensor([1.0, 4.0, 3.0, 20.0])  # ranks 1 3 2 4 for 1 4 2 3: 1 - 6 * 2 / 60
    assert trained_words.rank_correlation(one, swapped) == pytest.approx(0.8)


def test_generated_sentences_favour_no_place() -> None:
    """In half of them the right word is the nearer one, and each word stands once."""
    for kind in trained_sentences.MAKERS:
        nearer = 0
        for text, word, wanted, other in trained_sentences.sentences(kind, random.Random(0), 40):
            words = text.split()
            assert all(words.count(each) == 1 for each in (word, wanted, other))
            nearer += words.index(other) < words.index(wanted) < words.index(word)
        assert nearer == 20


def test_the_halves_of_generated_sentences_share_no_name() -> None:
    for kind in trained_sentences.MAKERS:
        told = trained_sentences.sentences(kind, random.Random(0), 400)
        halves = [
            {word for _, _, *two in half for word in two} for half in (told[:200], told[200:])
        ]
        assert len(halves[0]) > 10
        assert not halves[0] & halves[1]


def test_words_of_two_meanings_stand_at_one_place() -> None:
    load_minilm()
    reader = trained_model("minilm")
    for one, other, word in trained_words.PAIRS:
        assert reader.read(one).place(word) == reader.read(other).place(word), word


def test_convnets_on_few_images() -> None:
    """Three seeds of a few steps need not decide, but must not say the opposite."""
    found = result("convnet-small-data", 0)
    assert found.verdict.outcome in ("holds", "undecided"), found.verdict
    assert found.control is not None
    assert found.control.outcome == "refuted"
    assert found.evidence is not None
    sizes = [int(found.evidence.details[f"parameters, {name}"]) for name in ("ConvNet", "ViT")]
    assert abs(sizes[0] / sizes[1] - 1) <= 0.05


# A wrong experiment comes to another verdict


@pytest.mark.parametrize(
    ("few", "many", "wanted"), [(0.2, 0.1, "holds"), (0.1, 0.2, "refuted"), (-0.1, 0, "refuted")]
)
def test_a_lead_that_grows(
    few: float, many: float, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def accuracy(model: str, size: str, seed: int, n: int) -> float:
        del size
        return 0.5 + seed * 1e-4 + (model == "convnet") * (few if n == vision.FEW else many)

    monkeypatch.setattr(vision, "accuracy", accuracy)
    assert measured("convnet-small-data") == wanted


def measured(name: str) -> str:
    claim = CLAIMS[name]
    assert claim.measure is not None
    return claim.judge(claim.measure(Trial())).outcome


def test_without_a_mask_it_looks_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    class Blind:
        def read(self, text: str) -> Read:
            del text
            return Read(Any, torch.full((1, 2, 5, 5), 0.2))  # type: ignore[arg-type]

    monkeypatch.setattr(trained, "trained", lambda _: Blind())
    assert measured("causal-backwards") == "refuted"


def test_patches_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    right = vision._flattened

    def turned(images: Tensor, patch: int, *, channel_last: bool) -> Tensor:
        return right(images.mT, patch, channel_last=channel_last)

    monkeypatch.setattr(vision, "_flattened", turned)
    assert measured("patches-are-convolution") == "refuted"


def test_a_model_that_never_read_knows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    none = learned(0, "small", "none")
    monkeypatch.setattr(knowledge, "learned", lambda *_: none)
    assert measured("pretraining-gives-knowledge") == "refuted"
    assert measured("name-origin-bias") != "holds"


def test_each_part_of_a_statement_is_judged() -> None:
    """Far above the baseline with pretraining, not above it without; with the two models exchanged
    both are refuted, not only one."""
    found = result("pretraining-gives-knowledge", 0)
    judge = CLAIMS["pretraining-gives-knowledge"].judge
    assert isinstance(judge, Every)
    for evidence, outcome in ((found.evidence, "holds"), (found.control_evidence, "refuted")):
        assert isinstance(evidence, Evidence)
        assert judge.outcomes(evidence) == [outcome] * 2


def test_risk_and_coverage_is_what_is_drawn() -> None:
    evidence = result("invented-answers", 0).evidence
    assert evidence is not None
    assert isinstance(evidence.plot, Lines)
    coverage, risk = evidence.plot.series[0].points[-1]
    assert coverage == pytest.approx(1)
    wrong, right = int(evidence.details["wrong"]), int(evidence.details["right"])
    assert risk == pytest.approx(wrong / (wrong + right))


def test_the_difference_of_two_shares() -> None:
    """Newcombe 1998, method 10: 56 of 70 and 48 of 80 give 0.2 (0.0524 to 0.3339)."""
    found = knowledge._difference([True] * 56 + [False] * 14, [True] * 48 + [False] * 32)
    assert found.value == pytest.approx(0.2)
    assert found.ends == pytest.approx((0.0524, 0.3339), abs=1e-4)
