"""What small models learn: the expected verdicts, and wrong code that changes them.

Claims that train models are slow tests, except in a few steps: then only the parts are tested.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path

import pytest
import torch
from torch import Tensor

from attnlab.claims import CLAIMS, Result, Trial, abilities_sinks, abilities_structure, run_claim
from attnlab.claims import _ability_models as models
from attnlab.claims import abilities_positions as positions
from attnlab.claims import abilities_variants as variants
from attnlab.claims._ability_models import AbilityTraining
from attnlab.claims._registry import select_claims
from attnlab.mechanisms.window import Window
from attnlab.tasks.simple import IGNORE

SEED = 10  # the first of the ledger's seeds, by which nothing was chosen
EXPECTED: dict[str, str] = {
    "recall-needs-state": "undecided",
    "delta-recalls-more": "undecided",
    "alibi-extrapolates": "refuted",
    "no-positions-extrapolate": "undecided",
    "rotary-base-extrapolates": "holds",
    "window-reach": "holds",
    "convolution-induction": "holds",
    "parity-one-layer": "holds",
    "sparsemax-zeros": "holds",
    "mla-cache": "holds",
    "differential-cancels-noise": "refuted",
    "off-by-one-sink": "holds",
    "window-needs-sinks": "holds",
}
FAST = ("window-reach",)
CASES = [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in EXPECTED]
SHORT = AbilityTraining("recall:pairs=3,length=13,vocabulary=22", width=6, heads=2, steps=5)


def run_small(name: str, seed: int = SEED) -> Result:
    return run_claim(CLAIMS[name], seed, "small")


@pytest.mark.parametrize("name", CASES)
def test_verdicts(name: str) -> None:
    result = run_small(name)
    if result.verdict.outcome == "not run":
        pytest.skip(result.verdict.condition)
    assert result.verdict.outcome == EXPECTED[name], result
    assert result.trusted is (None if EXPECTED[name] == "undecided" else True), result.control


def test_the_ledger_has_the_verdicts_of_fresh_seeds() -> None:
    """Thresholds were changed after results of seed 0, so its verdicts must not be cited."""
    page = (Path(__file__).parents[2] / "docs" / "claims.md").read_text()
    section = page[page.index("## What small models learn") :]
    for name, outcome in EXPECTED.items():
        text = section[section.index(f"### {name}\n") :]
        assert f"seed {SEED}: {outcome}, " in text[: text.index("\n### ", 5)]


def test_topic_has_exactly_these_claims() -> None:
    rows = select_claims(topic="abilities")
    assert [claim.name for claim in rows] == list(EXPECTED)
    assert {claim.name for claim in rows if claim.quoted} == {
        name for name, verdict in EXPECTED.items() if verdict == "refuted"
    }


# Wrong code


def test_window_that_is_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    original: Callable[..., None] = Window.__init__

    @wraps(original)
    def wider(self: Window, *, window: int, **options: object) -> None:
        original(self, window=window + 1, **options)

    monkeypatch.setattr(Window, "__init__", wider)
    assert run_small("window-reach").verdict.outcome == "refuted"


# Parts of the experiments


def test_training_is_repeatable_and_differs_by_seed() -> None:
    models.train_ability.cache_clear()
    first = models.train_ability(SHORT).state_dict()
    models.train_ability.cache_clear()
    again = models.train_ability(SHORT).state_dict()
    other = models.train_ability(replace(SHORT, seed=1)).state_dict()
    assert all(torch.equal(x, again[name]) for name, x in first.items())
    assert any(not torch.equal(x, other[name]) for name, x in first.items())


def test_training_stops_when_the_task_is_learned() -> None:
    """A task with one possible answer is learned before 20 batches are over."""
    model = torch.nn.Linear(3, 2)
    calls: list[int] = []

    def draw() -> tuple[Tensor, Tensor]:
        calls.append(1)
        return torch.eye(3)[None], torch.tensor([[1, 1, IGNORE]])

    models.train_model(model, draw, steps=400, learning_rate=0.1, stop_at=0.99)
    assert 20 <= len(calls) < 100


def test_accuracy_of_a_model_that_knows_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    ids, targets = models.make_rows(SHORT.make_ability(), models.TEST_ROWS, models.TEST_SEED)
    right = torch.nn.functional.one_hot(targets.clamp(min=0), 22).float()
    half = right.clone()
    half[::2] = 0  # answers 0, which is a key
    for logits, expected in ((right, 1.0), (half, 0.5)):
        monkeypatch.setattr(models, "train_ability", lambda _, logits=logits: lambda _: logits)
        assert models.ability_accuracy(SHORT) == pytest.approx(expected, abs=0.01)
    assert ids.shape == targets.shape == (models.TEST_ROWS, 13)


def test_longer_rows_fit_learned_positions() -> None:
    training = replace(positions.ENCODINGS["learned"], steps=1)
    assert 0 <= models.ability_accuracy(training, positions.JUDGED) <= 1


def test_backcopy_rows() -> None:
    task = abilities_sinks.Backcopy(3)
    ids, following = task.draw(50)
    assert torch.equal(ids[:, 1:], following[:, :-1])
    assert (ids[:, 0] == abilities_sinks.TOKENS).all()
    triggers, copies = abilities_sinks.TRIGGERS, 0
    for row in ids.tolist():
        for before, newest, after in zip(row, row[1:], row[2:], strict=False):
            if newest < triggers <= before < abilities_sinks.TOKENS:
                assert after == before
                copies += 1
    assert copies > 50


def test_gradient_reach_of_full_attention() -> None:
    assert abilities_structure.gradient_reach(["softmax"], 11, seed=0) == 10


def test_fraction_of_zeros_counts_only_visible_weights() -> None:
    weights = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]])
    assert variants._zero_fraction(weights) == pytest.approx(2 / 6)


def test_cache_of_latent_keys() -> None:
    """A token has 3 numbers instead of a key and a value of 6 numbers each."""
    sizes = {
        name: variants.cache_bytes(models.train_ability(replace(SHORT, attention=name, steps=1)))
        for name in ("softmax", "softmax:latent=3")
    }
    assert sizes["softmax"] == 4 * sizes["softmax:latent=3"]


def test_noise_weight_counts_what_sees_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer 9 stands at position 1, and a convolution of 4 shows it to positions 1 to 4. The
    second head has all its weight on the answer, of both signs."""
    ids, targets = torch.tensor([5, 9, 1, 2, 3, 4]), torch.full((6,), IGNORE)
    targets[5] = 9
    weights = torch.full((2, 6, 6), 1 / 6)
    rows = [(ids, targets, weights)]
    monkeypatch.setattr(variants, "attention_rows", lambda *_: rows)
    assert variants.noise_weight(SHORT) == pytest.approx(2 / 6)
    weights[1] = torch.tensor([0, 0.5, -0.5, 0, 0, 0])
    assert variants.noise_weight(SHORT) == pytest.approx(0)


def test_parity_accuracy_of_the_first_bit() -> None:
    """The parity of one bit is the bit, which an LSTM learns at once; it is no constant."""
    ability = abilities_structure.PARITY.make_ability()
    ids, targets = models.make_rows(ability, 40, 0)
    assert torch.equal(ids[:, 0], targets[:, 0])
    assert torch.equal(ids.sum(1) % 2, targets[:, -1])


def test_trials_of_other_seeds_share_no_training() -> None:
    seeds = [set(models.training_seeds(Trial(seed))) for seed in range(5)]
    assert len(set().union(*seeds)) == sum(map(len, seeds))
