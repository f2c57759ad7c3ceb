"""Law 8, and checks that a mechanism's card is true.

Letters: T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from attnlab._argument_checks import GATE_NAMES
from attnlab.laws._compare import require
from attnlab.laws._law_inputs import (
    HEAD_DIM,
    HEADS,
    LawInputs,
    make_inputs,
    possible_masks,
)
from attnlab.laws._states import absorb
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism
from attnlab.mechanisms.softmax import Softmax
from attnlab.state import JoinedState


def check_rows_and_signs(mechanism: Mechanism) -> None:
    """The card's rows_sum_to_one and signed."""
    lowest, sums = [], []
    for seed in range(20):
        x = make_inputs(mechanism, B=2, G=2, T=11, S=11, seed=seed)
        weights = x.weights(mechanism, possible_masks(mechanism)[0]).detach()
        lowest.append(float(weights.min()))
        sums.append(weights.sum(-1))
    card, total = mechanism.card, torch.stack(sums)
    negative = min(lowest) < 0
    require(
        negative == card.signed,
        f"card: signed={card.signed}, but the least weight is {min(lowest):.3g}",
    )
    ones = bool((((total - 1).abs() < 1e-6) | (total == 0)).all())
    sums_text = f"rows sum to between {total.min():.3g} and {total.max():.3g}"
    expected = card.rows_sum_to_one
    require(ones == expected, f"card: rows_sum_to_one={expected}, but {sums_text}")


def check_used_inputs(mechanism: Mechanism) -> None:
    """The card's learned, uses_query and uses_key: an unused input may have any width."""
    card = mechanism.card
    learned = bool(list(mechanism.parameters()))
    require(learned == card.learned, f"card: learned={card.learned}, but has parameters: {learned}")
    x = make_inputs(mechanism, B=1, G=2, T=5, S=5)
    mask = possible_masks(mechanism)[0]
    out = x.output(mechanism, mask)
    wide = torch.randn(1, HEADS, 5, HEAD_DIM, dtype=torch.float64)
    for used, name, q, k in (
        (card.uses_query, "uses_query", wide, x.k),
        (card.uses_key, "uses_key", x.q, wide[:, :2]),
    ):
        if not used:
            same = torch.equal(mechanism(q, k, x.v, mask, **x.gates), out)
            require(same, f"card: {name}=False, but that input changes the output")


def check_state_size(mechanism: Mechanism) -> None:
    """The card's constant_state: the memory of a state, including spare capacity, stops growing."""
    state, sizes = None, []
    x = make_inputs(mechanism, B=1, G=1, T=1, S=1)
    with torch.no_grad():
        for _ in range(900):
            state = absorb(mechanism, x, slice(None), None, state)
            parts = state.parts if isinstance(state, JoinedState) else (state,)
            tensors = [t for part in parts for t in vars(part).values() if isinstance(t, Tensor)]
            sizes.append(sum(t.numel() * t.element_size() for t in tensors))
    constant = max(sizes[300:600]) == max(sizes[600:])
    expected, growth = mechanism.card.constant_state, f"{sizes[300]} to {sizes[-1]} bytes"
    require(constant == expected, f"card: constant_state={expected}, but it went from {growth}")


def check_visible_keys(mechanism: Mechanism) -> None:
    """visible_keys, covers_all, attend_dense and shift_invariant agree with the weights."""
    S = 20
    x = make_inputs(mechanism, B=1, G=2, T=S, S=S)
    softmax = Softmax(head_dim=HEAD_DIM, heads=HEADS, beta=getattr(mechanism, "beta", None))
    for mask in possible_masks(mechanism):
        causal = mask.causal
        weights = x.weights(mechanism, mask).detach()
        counts = (weights != 0).sum(-1).flatten()  # (H*T,)
        W = mechanism.visible_keys(S, causal)
        if W is not None:
            median, largest = int(counts.median()), int(counts.max())
            text = f"visible_keys({S}, {causal}) is {W}, but queries see {median} to {largest} keys"
            others = mechanism.feature_count() is not None  # which it sees through features
            require(largest >= W and (median <= W or others), text)
        if mechanism.covers_all(S, causal):
            exact = softmax.weights(x.q, x.k, mask).detach()
            require(
                torch.allclose(weights, exact),
                f"covers_all({S}, {causal}) is True, but it is not softmax",
            )
        if type(mechanism).attend_dense is not Mechanism.attend_dense:
            allowed = torch.ones(1, 1, S, S, dtype=torch.bool)
            allowed = allowed.tril() if causal else allowed
            dense = mechanism.attend_dense(x.q, x.k, x.v, allowed, 0, 0.0)
            same = torch.allclose(dense, x.output(mechanism, mask))
            require(same, "attend_dense differs from forward under the same mask")
    if mechanism.shift_invariant:
        _check_shift(mechanism)


def _check_shift(mechanism: Mechanism) -> None:
    """A text after padding gives the same output as without it."""
    shift, S = 3, 20
    x = make_inputs(mechanism, B=1, G=2, T=S, S=S)
    real = (torch.arange(S + shift) >= shift)[None]
    q, k, v, *gates = (torch.cat([t[:, :, :shift].detach(), t.detach()], dim=2) for t in x.leaves())
    behind = LawInputs(q, k, v, real, dict(zip(x.gates, gates, strict=True)))
    for mask in possible_masks(mechanism):
        out = behind.output(mechanism, replace(mask, keys=real))[:, :, shift:]
        same = torch.allclose(out, x.output(mechanism, mask))
        require(same, f"shift_invariant=True, but a shift by {shift} positions changes the output")


def check_refusals(mechanism: Mechanism) -> None:
    """8. What the mechanism cannot do raises a clear error."""
    card = mechanism.card
    few, many = (make_inputs(mechanism, B=2, G=3, T=T, S=7) for T in (5, 7))
    usual = possible_masks(mechanism)[0]

    def require_refused(x: LawInputs, mask: Mask, case: str) -> None:
        _require_error(lambda: x.output(mechanism, mask), case)
        _require_error(lambda: x.weights(mechanism, mask), f"{case}, in weights")

    if not card.causal:
        require_refused(many, Mask(causal=True), "a causal mask")
    if not card.bidirectional:
        require_refused(many, Mask(), "no causal mask")
    if not card.cross:
        mask = usual if card.bidirectional else Mask(True, start=3)
        require_refused(few, mask, "cross-attention")
        state = absorb(mechanism, few, slice(None), None)
        _require_error(lambda: mechanism.read(few.q, state, 0), "cross-attention, in read")
    wrong = replace(usual, keys=torch.ones(2, 6, dtype=torch.bool))
    require_refused(many, wrong, "a mask for 6 of 7 keys")
    _require_error(
        lambda: replace(many, q=many.q[:, :4]).weights(mechanism, usual), "4 of 6 heads, in weights"
    )
    documents = torch.tensor([[0, 0, 0, 1, 1, 1, 1]] * 2)
    if not card.packs:
        require_refused(many, replace(usual, segments=documents), "packed documents")
    require_refused(many, replace(usual, segments=documents[:, :6]), "segments for 6 of 7 keys")
    _check_gate_refusals(mechanism, many, usual, require_refused)


def _check_gate_refusals(
    mechanism: Mechanism,
    x: LawInputs,
    mask: Mask,
    require_refused: Callable[[LawInputs, Mask, str], None],
) -> None:
    for gate in mechanism.gates:
        value = x.gates[gate.name].detach()
        others = {name: other for name, other in x.gates.items() if name != gate.name}
        require_refused(replace(x, gates=others), mask, f"no {gate.name}")
        for bound, outside in ((gate.low, gate.low - 1), (gate.high, gate.high + 1)):
            if bound not in (torch.inf, -torch.inf):
                bad = {**x.gates, gate.name: torch.full_like(value, outside)}
                require_refused(replace(x, gates=bad), mask, f"{gate.name} of {outside:g}")
        short = {**x.gates, gate.name: value[:, :, 1:]}
        require_refused(replace(x, gates=short), mask, f"{gate.name} for 6 of 7 keys")
        without = replace(x, gates=others)
        _require_error(
            partial(absorb, mechanism, without, slice(None), None), f"no {gate.name}, in absorb"
        )
    for name in GATE_NAMES:
        if name not in x.gates:
            more = {**x.gates, name: torch.zeros(x.k.shape[:3], dtype=x.k.dtype)}
            require_refused(replace(x, gates=more), mask, f"{name}, which it does not take")


def _require_error(call: Callable[[], object], case: str) -> None:
    try:
        call()
    except ValueError as error:
        require("\n" not in str(error) and bool(str(error)), f"{case}: the error has several lines")
        return
    except Exception as error:
        require(False, f"{case}: raises {type(error).__name__}, not a ValueError that explains it")
    require(False, f"{case}: is not refused")
