"""The choice of a mechanism for each head, checked by applying it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import attnlab
from attnlab import create_mechanism
from attnlab.bench._progress import NO_PROGRESS
from attnlab.heads._assignment import (
    PlanCheck,
    PlanOutcome,
    apply_plan,
    check_softmax_replacement,
    evaluate_plans,
    single_mechanism_plan,
    with_new_seeds,
)
from attnlab.heads._inputs import HeadInputs
from attnlab.heads._mechanism_errors import (
    UNIFORM_SPEC,
    measure_heads,
    shift_seed,
)
from attnlab.heads._results import control_verdict
from attnlab.heads._run_heads import measure_model
from attnlab.mechanisms import MECHANISMS
from attnlab.report import Table
from tests.support.head_models import (
    INPUTS,
    READERS,
    SMALL,
    SPECS,
    TEXT,
    attnlab_decoder,
    encoder,
    language_model,
)


@pytest.mark.parametrize("name", READERS)
def test_apply_plan_replaces_the_heads(name: str) -> None:
    """Captured under the plan, each head has the weights of its mechanism."""
    reader = READERS[name]()
    window = reader.windows(INPUTS, SMALL).checking[0]
    assert check_softmax_replacement(reader, window) < 1e-6
    names = list(measure_heads(reader, [window], ["elu"], SMALL).layers)
    H = len(measure_heads(reader, [window], ["elu"], SMALL).heads_in(names[0]))
    plan = {names[1]: ["window:window=4", UNIFORM_SPEC, *["softmax"] * (H - 2)]}
    with torch.no_grad():
        before = reader.run(window)
        with apply_plan(reader.model, plan), attnlab.capture(reader.model) as captured:
            after = reader.run(window)
        assert torch.equal(reader.run(window), before)  # the model is restored
    assert not torch.allclose(before, after, atol=1e-4)
    first, second = (layer.weights for layer in captured.layers)
    assert first is not None
    assert second is not None
    T = window.ids.shape[1]
    positions = torch.arange(T)
    far = (positions[:, None] - positions).abs() >= 4
    assert float(second[0][far].abs().max()) == 0
    allowed = positions[:, None] >= positions if reader.causal else torch.ones(T, T).bool()
    uniform = allowed / allowed.sum(1, keepdim=True)
    assert torch.allclose(second[1].float(), uniform, atol=1e-3)
    assert float((second[2].float() - uniform).abs().max()) > 0.01


def test_outcomes_are_the_loss_of_the_model() -> None:
    reader = language_model()
    windows = reader.windows(INPUTS, SMALL)
    measured = measure_heads(reader, windows.choosing, SPECS, SMALL)
    outcomes = evaluate_plans(reader, windows.checking, measured, SPECS, SMALL.tolerance)
    assert [outcome.name.split(":")[0] for outcome in outcomes] == [
        "as it is",
        "within 0.15",
        "within 0.3",
        "within 0.6",
        "0.3 on heads by chance",
        "all window",
        "all uniform weights",
    ]
    with torch.no_grad():
        losses = [
            float(reader.model(input_ids=window.ids, labels=window.ids).loss)
            for window in windows.checking
        ]
    assert outcomes[0].scores == pytest.approx(losses, rel=1e-5)
    assert outcomes[0].cost == 1
    assert outcomes[-1].cost == 0
    assert outcomes[-1].replaced == 1
    assert outcomes[1].cost >= outcomes[2].cost >= outcomes[3].cost
    assert outcomes[1].scores != outcomes[-1].scores


@pytest.mark.parametrize("name", ["llama", "own"])
@pytest.mark.parametrize("seed", [0, 7])
def test_the_check_uses_new_random_directions(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every layer, in both kinds of models, and different for every seed."""
    recorded: list[Tensor] = []

    def record_and_forward(self: Any, *arguments: Any, **options: Any) -> Tensor:
        recorded.append(self.get_buffer("draws").clone())
        return forward(self, *arguments, **options)

    kind = MECHANISMS["favor"]
    forward = kind.forward
    monkeypatch.setattr(kind, "forward", record_and_forward)
    reader = READERS[name]()
    reader.seed = seed
    windows = reader.windows(INPUTS, SMALL)
    measured = measure_heads(reader, windows.choosing[:1], ["favor:features=8"], SMALL)
    count = len(recorded)
    plan = single_mechanism_plan(measured, "favor:features=8")
    PlanCheck(reader, windows.checking[:1], measured, NO_PROGRESS).outcome("all", plan)
    assert count == len(recorded) - count == 2  # two layers each
    choosing, checking = recorded[:count], recorded[count:]
    for directions in checking:
        assert all(not torch.equal(directions, other) for other in choosing)
    assert not torch.equal(checking[0], checking[1])
    default = create_mechanism("favor", head_dim=measured.heads[0].size, heads=1, features=8)
    assert torch.equal(choosing[0], default.get_buffer("draws")) == (seed == 0)


def test_given_seeds_are_shifted_too() -> None:
    assert shift_seed("favor:seed=3,orthogonal=false", 4) == "favor:seed=7,orthogonal=false"
    assert shift_seed("elu", 4) == "elu"
    plan = {"a": ["elu", "favor:features=8"], "b": ["favor:features=8", "elu"]}
    assert with_new_seeds(plan, 0) == {
        "a": ["elu", "favor:features=8,seed=1"],
        "b": ["favor:features=8,seed=2", "elu"],
    }


def create_outcome(name: str, scores: list[float], control: bool = True) -> PlanOutcome:
    return PlanOutcome(name, scores, [1.0] * len(scores), 0.5, 0.5, 0.1, control)


def test_control_verdict() -> None:
    choice = create_outcome("within 0.1", [1.0, 1.1, 1.0, 1.1], control=False)
    worse = create_outcome("all window", [2.0, 2.1, 2.0, 2.2])
    better = create_outcome("all uniform weights", [0.9, 1.0, 0.9, 1.0])
    uncertain = create_outcome("0.1 on heads by chance", [2.0, 0.9, 1.1, 1.0])
    assert (
        control_verdict(choice, [worse]) == "All controls do worse than the choice, as they must."
    )
    assert control_verdict(choice, [worse, better, uncertain]) == (
        "A control did no worse than the choice (all uniform weights): this text cannot show "
        "whether the choice is right. "
        "Worse than the choice, but within the uncertainty over 4 windows: 0.1 on heads by chance; "
        "give more --windows."
    )
    assert control_verdict(choice, []) == ""


def test_a_control_that_equals_the_choice_is_left_out() -> None:
    reader, settings = language_model(), replace(SMALL, tolerance=50.0)
    section = measure_model(reader, TEXT, settings, mechanisms=["window:window=4"])
    losses = next(
        p for p in section.blocks if isinstance(p, Table) and "not used to choose" in p.title
    )
    assert [row[0] for row in losses.rows][-2:] == ["within 100", "all uniform weights"]
    assert section.findings[-1].endswith("is left out: it is the same plan.")
    controls = {row["attention"] for row in section.measurements if row.get("control")}
    assert controls == {"all uniform weights"}


def test_both_halves_of_the_text_have_windows() -> None:
    reader = attnlab_decoder()
    ids = torch.tensor(reader.encode(TEXT))
    split = reader.windows(INPUTS, SMALL)
    assert (len(split.choosing), len(split.checking), split.tokens) == (2, 2, 48)
    starts_by_window = []
    for window in (*split.choosing, *split.checking):
        starts = [i for i in range(len(ids) - 47) if torch.equal(ids[i : i + 48], window.ids[0])]
        starts_by_window.append(starts)
    assert all(starts_by_window)
    short = reader.windows(HeadInputs(TEXT[:40]), SMALL)
    assert (len(short.choosing), short.tokens) == (1, 20)
    with pytest.raises(ValueError, match="the text has 20 tokens; give a text with 32 or more"):
        reader.windows(HeadInputs(TEXT[:20]), SMALL)


def test_masked_tokens_are_the_same_each_time() -> None:
    reader = encoder(head=True)
    assert reader.measure == "masked-token loss"
    window = reader.windows(INPUTS, SMALL).checking[0]
    assert window.ids[0, 0] == 2  # [CLS]
    assert window.ids[0, -1] == 3  # [SEP]
    first, second = (float(reader.evaluate(window, number)) for number in (0, 1))
    assert float(reader.evaluate(window, 0)) == first
    assert first != second
    headless = encoder(head=False)
    assert headless.measure == "distance"
    output = headless.evaluate(window, 0)
    assert headless.score(output, output) == 0
    assert headless.score(2 * output, output) == pytest.approx(1)
