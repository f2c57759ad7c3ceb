"""The choice of a mechanism for each head, checked by applying it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import attnlab
from attnlab import create_mechanism
from attnlab.bench._progress import SILENT
from attnlab.heads._assignment import (
    Check,
    Outcome,
    apply_plan,
    check_exchange,
    check_plans,
    same_for_all,
    with_new_draws,
)
from attnlab.heads._inputs import Material
from attnlab.heads._mechanism_errors import (
    EVEN,
    measure_heads,
    redrawn,
)
from attnlab.heads._results import verdict
from attnlab.heads._run_heads import measure_model
from attnlab.mechanisms import MECHANISMS
from attnlab.report import Table
from tests.support.head_models import (
    READ,
    READERS,
    SMALL,
    SPECS,
    TEXT,
    encoder,
    language_model,
    own_model,
)


@pytest.mark.parametrize("name", READERS)
def test_a_plan_is_what_the_model_computes(name: str) -> None:
    """Captured under the plan, each head's weights are its mechanism's own."""
    reader = READERS[name]()
    window = reader.windows(READ, SMALL).checking[0]
    assert check_exchange(reader, window) < 1e-6
    names = list(measure_heads(reader, [window], ["elu"], SMALL).layers)
    H = len(measure_heads(reader, [window], ["elu"], SMALL).of(names[0]))
    plan = {names[1]: ["window:window=4", EVEN, *["softmax"] * (H - 2)]}
    with torch.no_grad():
        before = reader.run(window)
        with apply_plan(reader.model, plan), attnlab.capture(reader.model) as seen:
            after = reader.run(window)
        assert torch.equal(reader.run(window), before)  # all is as it was
    assert not torch.allclose(before, after, atol=1e-4)
    first, second = (layer.weights for layer in seen.layers)
    assert first is not None
    assert second is not None
    T = window.ids.shape[1]
    at = torch.arange(T)
    far = (at[:, None] - at).abs() >= 4
    assert float(second[0][far].abs().max()) == 0
    allowed = at[:, None] >= at if reader.causal else torch.ones(T, T).bool()
    even = allowed / allowed.sum(1, keepdim=True)
    assert torch.allclose(second[1].float(), even, atol=1e-3)
    assert float((second[2].float() - even).abs().max()) > 0.01


def test_outcomes_are_the_models_own_loss() -> None:
    reader = language_model()
    windows = reader.windows(READ, SMALL)
    found = measure_heads(reader, windows.choosing, SPECS, SMALL)
    outcomes = check_plans(reader, windows.checking, found, SPECS, SMALL.tolerance)
    assert [each.name.split(":")[0] for each in outcomes] == [
        "as it is",
        "within 0.15",
        "within 0.3",
        "within 0.6",
        "0.3 on heads by chance",
        "all window",
        "all uniform weights",
    ]
    with torch.no_grad():
        wanted = [
            float(reader.model(input_ids=each.ids, labels=each.ids).loss)
            for each in windows.checking
        ]
    assert outcomes[0].scores == pytest.approx(wanted, rel=1e-5)
    assert outcomes[0].cost == 1
    assert outcomes[-1].cost == 0
    assert outcomes[-1].share == 1
    assert outcomes[1].cost >= outcomes[2].cost >= outcomes[3].cost
    assert outcomes[1].scores != outcomes[-1].scores


@pytest.mark.parametrize("name", ["llama", "own"])
@pytest.mark.parametrize("seed", [0, 7])
def test_the_check_has_draws_that_nothing_was_chosen_on(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every layer, of both kinds of models, and others for every seed."""
    made: list[Tensor] = []

    def heard(self: Any, *arguments: Any, **options: Any) -> Tensor:
        made.append(self.get_buffer("draws").clone())
        return forward(self, *arguments, **options)

    kind = MECHANISMS["favor"]
    forward = kind.forward
    monkeypatch.setattr(kind, "forward", heard)
    reader = READERS[name]()
    reader.seed = seed
    windows = reader.windows(READ, SMALL)
    measured = measure_heads(reader, windows.choosing[:1], ["favor:features=8"], SMALL)
    chosen_on = len(made)
    plan = same_for_all(measured, "favor:features=8")
    Check(reader, windows.checking[:1], measured, SILENT).outcome("all", plan)
    assert chosen_on == len(made) - chosen_on == 2  # two layers each
    choosing, checking = made[:chosen_on], made[chosen_on:]
    for draws in checking:
        assert all(not torch.equal(draws, other) for other in choosing)
    assert not torch.equal(checking[0], checking[1])
    usual = create_mechanism("favor", head_dim=measured.heads[0].size, heads=1, features=8)
    assert torch.equal(choosing[0], usual.get_buffer("draws")) == (seed == 0)


def test_draws_of_ones_own_are_moved_too() -> None:
    assert redrawn("favor:seed=3,orthogonal=false", 4) == "favor:seed=7,orthogonal=false"
    assert redrawn("elu", 4) == "elu"
    plan = {"a": ["elu", "favor:features=8"], "b": ["favor:features=8", "elu"]}
    assert with_new_draws(plan, 0) == {
        "a": ["elu", "favor:features=8,seed=1"],
        "b": ["favor:features=8,seed=2", "elu"],
    }


def told_of(name: str, scores: list[float], control: bool = True) -> Outcome:
    return Outcome(name, scores, [1.0] * len(scores), 0.5, 0.5, 0.1, control)


def test_controls_are_judged() -> None:
    chosen = told_of("within 0.1", [1.0, 1.1, 1.0, 1.1], control=False)
    worse = told_of("all window", [2.0, 2.1, 2.0, 2.2])
    better = told_of("all uniform weights", [0.9, 1.0, 0.9, 1.0])
    unsure = told_of("0.1 on heads by chance", [2.0, 0.9, 1.1, 1.0])
    assert verdict(chosen, [worse]) == "All controls do worse than what was chosen, as they must."
    assert verdict(chosen, [worse, better, unsure]) == (
        "A control did no worse than what was chosen (all uniform weights): this text cannot tell "
        "whether the choice is right. "
        "Worse than what was chosen, but not surely so over 4 windows: 0.1 on heads by chance; "
        "more --windows would tell."
    )
    assert verdict(chosen, []) == ""


def test_a_control_that_is_what_was_chosen_is_left_out() -> None:
    reader, settings = language_model(), replace(SMALL, tolerance=50.0)
    section = measure_model(reader, TEXT, settings, mechanisms=["window:window=4"])
    losses = next(p for p in section.blocks if isinstance(p, Table) and "chosen on" in p.title)
    assert [row[0] for row in losses.rows][-2:] == ["within 100", "all uniform weights"]
    assert section.findings[-1].endswith("are the same plan, so this control is left out.")
    controls = {row["attention"] for row in section.measurements if row.get("control")}
    assert controls == {"all uniform weights"}


def test_windows_do_not_overlap_and_both_halves_have_some() -> None:
    reader = own_model()
    ids = torch.tensor(reader.encode(TEXT))
    found = reader.windows(READ, SMALL)
    assert (len(found.choosing), len(found.checking), found.tokens) == (2, 2, 48)
    places = []
    for window in (*found.choosing, *found.checking):
        starts = [i for i in range(len(ids) - 47) if torch.equal(ids[i : i + 48], window.ids[0])]
        places.append(starts)
    assert all(places)
    short = reader.windows(Material(TEXT[:40]), SMALL)
    assert (len(short.choosing), short.tokens) == (1, 20)
    with pytest.raises(ValueError, match="the text has 20 tokens; give one of 32 or more"):
        reader.windows(Material(TEXT[:20]), SMALL)


def test_an_encoder_with_a_head_guesses_the_same_tokens_each_time() -> None:
    reader = encoder(head=True)
    assert reader.measure == "masked-token loss"
    window = reader.windows(READ, SMALL).checking[0]
    assert window.ids[0, 0] == 2  # [CLS]
    assert window.ids[0, -1] == 3  # [SEP]
    one, two = (float(reader.judge(window, number)) for number in (0, 1))
    assert float(reader.judge(window, 0)) == one
    assert one != two
    bare = encoder(head=False)
    assert bare.measure == "distance"
    said = bare.judge(window, 0)
    assert bare.score(said, said) == 0
    assert bare.score(2 * said, said) == pytest.approx(1)
