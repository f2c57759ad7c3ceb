"""Law 8, and the card held to its word: what a mechanism says of itself is so.

Letters: T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnlab.laws._compare import must
from attnlab.laws._trial import HEAD_DIM, HEADS, make_inputs
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism
from attnlab.mechanisms.softmax import Softmax


def check_rows_and_signs(mechanism: Mechanism) -> None:
    """The card's rows_sum_to_one and signed."""
    lowest, sums = [], []
    for seed in range(20):
        x = make_inputs(mechanism, B=2, G=2, T=11, S=11, seed=seed)
        weights = mechanism.weights(x.q, x.k, Mask()).detach()
        lowest.append(float(weights.min()))
        sums.append(weights.sum(-1))
    card, total = mechanism.card, torch.stack(sums)
    negative = min(lowest) < 0
    must(negative == card.signed, f"card: signed={card.signed}, the least weight {min(lowest):.3g}")
    ones = bool((((total - 1).abs() < 1e-6) | (total == 0)).all())
    found = f"card: rows_sum_to_one={card.rows_sum_to_one}, rows sum to {total.min():.3g} at least"
    must(ones == card.rows_sum_to_one, f"{found} and {total.max():.3g} at most")


def check_what_is_used(mechanism: Mechanism) -> None:
    """The card's learned, uses_query and uses_key: what is not used may have any width."""
    card = mechanism.card
    learned = bool(list(mechanism.parameters()))
    must(learned == card.learned, f"card: learned={card.learned}, but has parameters: {learned}")
    x = make_inputs(mechanism, B=1, G=2, T=5, S=5)
    out = mechanism(x.q, x.k, x.v, Mask())
    wide = torch.randn(1, HEADS, 5, HEAD_DIM, dtype=torch.float64)
    for used, name, q, k in (
        (card.uses_query, "uses_query", wide, x.k),
        (card.uses_key, "uses_key", x.q, wide[:, :2]),
    ):
        if not used:
            same = torch.equal(mechanism(q, k, x.v, Mask()), out)
            must(same, f"card: {name}=False, but another one changes the output")


def check_state_size(mechanism: Mechanism) -> None:
    """The card's constant_state: what is held stops growing, spare room included."""
    state, sizes = None, []
    x = make_inputs(mechanism, B=1, G=1, T=1, S=1)
    with torch.no_grad():
        for _ in range(900):
            state = mechanism.absorb(x.k, x.v, None, state)
            held = [t for t in vars(state).values() if isinstance(t, Tensor)]
            sizes.append(sum(t.numel() * t.element_size() for t in held))
    constant = max(sizes[300:600]) == max(sizes[600:])
    said = mechanism.card.constant_state
    must(constant == said, f"card: constant_state={said}, but {sizes[300]} became {sizes[-1]} B")


def check_sight(mechanism: Mechanism) -> None:
    """visible_keys, covers_all, attend_dense and shift_invariant agree with the weights."""
    S = 20
    x = make_inputs(mechanism, B=1, G=2, T=S, S=S)
    softmax = Softmax(head_dim=HEAD_DIM, heads=HEADS, beta=getattr(mechanism, "beta", None))
    for causal in (False, True) if mechanism.card.causal else (False,):
        mask = Mask(causal=causal)
        weights = mechanism.weights(x.q, x.k, mask).detach()
        counts = (weights != 0).sum(-1).flatten()  # (H*T,)
        W = mechanism.visible_keys(S, causal)
        if W is not None:
            usual, most = int(counts.median()), int(counts.max())
            text = f"visible_keys({S}, {causal}) is {W}, queries see {usual} keys, {most} at most"
            must(usual <= W <= most, text)
        if mechanism.covers_all(S, causal):
            exact = softmax.weights(x.q, x.k, mask).detach()
            must(torch.allclose(weights, exact), f"covers_all({S}, {causal}), but is not softmax")
        if type(mechanism).attend_dense is not Mechanism.attend_dense:
            allowed = torch.ones(1, 1, S, S, dtype=torch.bool)
            allowed = allowed.tril() if causal else allowed
            dense = mechanism.attend_dense(x.q, x.k, x.v, allowed, 0, 0.0)
            same = torch.allclose(dense, mechanism(x.q, x.k, x.v, mask))
            must(same, "attend_dense differs from forward under the same mask")
    if mechanism.shift_invariant:
        _check_shift(mechanism)


def _check_shift(mechanism: Mechanism) -> None:
    """A text behind padding attends as alone."""
    shift, S = 3, 20
    x = make_inputs(mechanism, B=1, G=2, T=S, S=S)
    behind = [torch.nn.functional.pad(t.detach(), (0, 0, shift, 0)) for t in x.leaves()]
    real = (torch.arange(S + shift) >= shift)[None]
    for causal in (False, True) if mechanism.card.causal else (False,):
        out = mechanism(*behind, Mask(causal=causal, keys=real))[:, :, shift:]
        same = torch.allclose(out, mechanism(*x.leaves(), Mask(causal=causal)))
        must(same, f"shift_invariant, but {shift} positions further on its output is another")


def check_refusals(mechanism: Mechanism) -> None:
    """8. What it cannot do is an error that says so."""
    card = mechanism.card
    few, many = (make_inputs(mechanism, B=2, G=3, T=T, S=7) for T in (5, 7))
    if not card.causal:
        mask = Mask(causal=True)
        _refuses(lambda: mechanism(many.q, many.k, many.v, mask), "a causal mask")
        _refuses(lambda: mechanism.weights(many.q, many.k, mask), "a causal mask, in weights")
    if not card.cross:
        _refuses(lambda: mechanism(few.q, few.k, few.v, Mask()), "cross-attention")
        _refuses(lambda: mechanism.weights(few.q, few.k, Mask()), "cross-attention, in weights")
        state = mechanism.absorb(few.k, few.v)
        _refuses(lambda: mechanism.read(few.q, state, 0), "cross-attention, in read")
    wrong = Mask(keys=torch.ones(2, 6, dtype=torch.bool))
    _refuses(lambda: mechanism(many.q, many.k, many.v, wrong), "a mask for 6 of 7 keys")
    _refuses(lambda: mechanism.weights(many.q, many.k, wrong), "a mask for 6 of 7 keys, in weights")
    _refuses(lambda: mechanism.weights(many.q[:, :4], many.k, Mask()), "4 of 6 heads, in weights")


def _refuses(call: Callable[[], object], what: str) -> None:
    try:
        call()
    except ValueError as error:
        must("\n" not in str(error) and bool(str(error)), f"{what} is refused in many lines")
        return
    except Exception as error:
        must(False, f"{what} ends in a {type(error).__name__}, not in a ValueError that says so")
    must(False, f"{what} is not refused; weights begins with self.prepare_weights(q, k, mask)")
