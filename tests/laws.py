"""The laws of DESIGN.md as functions that raise AssertionError: the tests run them over the whole
registry, and over broken mechanisms to see that they would notice.

Letters: B batch, H query heads, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from hypothesis import assume, currently_in_test_context
from hypothesis import strategies as st
from torch import Tensor

from attnlab import MECHANISMS, Mask, Mechanism, create_mechanism
from attnlab.create import create_attention, create_heads
from attnlab.mechanism import repeat_heads
from attnlab.mechanisms.groups import members_of

TOLERANCE = 1e-10
HEAD_DIM, HEADS, VALUE_DIM, MAX_LENGTH = 5, 6, 7, 40
GROUPS = (
    "2*softmax+4*favor:features=7,chunk=3",
    "3*window:window=2+3*synthesizer",
    "1*elu:chunk=2+5*bigbird:block=2",
    "4*linformer:rank=3+2*hard",
    "elu;softmax;elu;window:window=2;softmax;elu",  # a line of text for each head
)
GARBAGE = (float("nan"), float("inf"), 1e4)


def all_trials() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every mechanism at every set of options that it wants tested."""
    for name, kind in MECHANISMS.items():
        for options in kind.trials:
            yield name, dict(options)
            if kind.compilable:  # has a second path, which all laws hold on too
                yield name, {**options, "torch": True}
    for groups in GROUPS:
        yield groups, {}
        if any(member.compilable for member in members_of(build(groups, {}))):
            yield groups, {"torch": True}


def build(name: str, options: dict[str, Any], seed: int = 0) -> Mechanism:
    options = dict(options)
    in_torch = options.pop("torch", False)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        sizes: dict[str, Any] = {"head_dim": HEAD_DIM, "heads": HEADS}
        if name in MECHANISMS:
            sizes["max_length"] = MAX_LENGTH if MECHANISMS[name].card.needs_length else None
            mechanism = create_mechanism(name, **sizes, **options).double()
        elif ";" in name:
            specs = name.split(";")
            mechanism = create_heads(specs, head_dim=HEAD_DIM, max_length=MAX_LENGTH).double()
        else:  # a line of text, as a layer takes it
            mechanism = create_attention(name, **sizes, max_length=MAX_LENGTH).double()
        for parameter in mechanism.parameters():  # tables of about zero would hide mistakes
            torch.nn.init.normal_(parameter)
    mechanism.use_compiled = not in_torch
    return mechanism


@dataclass(frozen=True)
class Inputs:
    """q, k and v with gradients, and which keys are real."""

    q: Tensor
    k: Tensor
    v: Tensor
    keys: Tensor | None

    def leaves(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.q, self.k, self.v

    def fresh(self, **changes: Tensor) -> Inputs:
        """A copy with gradients of its own, some parts replaced."""
        new = replace(self, **changes)
        q, k, v = (x.detach().clone().requires_grad_() for x in new.leaves())
        return Inputs(q, k, v, new.keys)


def make_inputs(
    mechanism: Mechanism, *, B: int, G: int, T: int, S: int, padding: str = "none", seed: int = 0
) -> Inputs:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()

    card = mechanism.card
    return Inputs(
        normal(B, HEADS, T, HEAD_DIM if card.uses_query else 0),
        normal(B, G, S, HEAD_DIM if card.uses_key else 0),
        normal(B, G, S, VALUE_DIM),
        make_keys(padding, B, S, generator),
    )


def make_keys(padding: str, B: int, S: int, generator: torch.Generator) -> Tensor | None:
    if padding == "none":
        return None
    count = torch.randint(0, S + 1, (B, 1), generator=generator)
    places = torch.arange(S).expand(B, S)
    if padding == "right":
        return places < count
    if padding == "left":
        return places >= count
    if padding == "all":  # one row has nothing but padding
        return (places >= 0) & (torch.arange(B)[:, None] > 0)
    return torch.rand(B, S, generator=generator) < 0.6


@st.composite
def sizes(draw: st.DrawFn, same_length: bool = True) -> dict[str, Any]:
    """Sizes for `make_inputs`: lengths from 1 to beyond chunk, block and window borders."""
    S = draw(st.integers(1, 20))
    return {
        "B": draw(st.integers(1, 3)),
        "G": draw(st.sampled_from([1, 2, 3, 6])),
        "S": S,
        "T": S if same_length else draw(st.integers(1, 9)),
        "padding": draw(st.sampled_from(["none", "right", "left", "random", "all"])),
        "seed": draw(st.integers(0, 10_000)),
    }


# Comparing


def assert_same(
    got: Sequence[Tensor | None], wanted: Sequence[Tensor | None], condition: float = 1.0
) -> None:
    """Equal to rounding; no gradient is the same as a gradient of zeros."""
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        if one is None and other is None:
            continue
        one = torch.zeros_like(other) if one is None and other is not None else one
        other = torch.zeros_like(one) if other is None and one is not None else other
        assert one is not None
        assert other is not None
        one, other = one.detach(), other.detach()
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        if one.numel() == 0:
            continue
        assert bool(one.isfinite().all()), "not finite"
        assert bool(other.isfinite().all()), "not finite"
        scale = 1 + other.abs().max()
        worst = float((one - other).abs().max() / scale)
        limit = TOLERANCE * condition
        assert worst <= limit, f"differs by {worst:.1e} of the largest, more than {limit:.1e}"


def gradients(out: Tensor, leaves: Sequence[Tensor], direction: Tensor | None = None) -> list[Any]:
    if not out.requires_grad:
        return [None] * len(leaves)
    generator = torch.Generator().manual_seed(1)
    if direction is None:
        direction = torch.randn(out.shape, generator=generator, dtype=torch.float64)
    total = (out * direction.to(out.dtype)).sum()
    return list(torch.autograd.grad(total, leaves, allow_unused=True))


def parameters(mechanism: Mechanism) -> list[Tensor]:
    return list(mechanism.parameters())


def require(usable: bool) -> None:
    """Look for other inputs; outside a hypothesis test there are none, and the test is at fault."""
    if currently_in_test_context():
        assume(usable)
    elif not usable:
        raise RuntimeError("these inputs do not suit the law: choose another seed")


def conditions(mechanism: Mechanism, inputs: Inputs, mask: Mask) -> tuple[float, float]:
    """By how much rounding may grow in values and in gradients, where sums can cancel."""
    with torch.no_grad():
        condition = mechanism.condition(inputs.q, inputs.k, mask)
    worst = float(condition.max()) if condition.numel() else 1.0
    require(worst < 1e3)  # a row that cancels further is noise on every path
    return worst, worst**2


def assume_margin(mechanism: Mechanism, inputs: Inputs) -> None:
    """A discontinuous mechanism is compared where rounding cannot decide between two keys."""
    if mechanism.card.continuous:
        return
    with torch.no_grad():
        scores = inputs.q @ repeat_heads(inputs.k.nan_to_num(0), HEADS).mT
        best = scores.sort(-1).values
        require(scores.shape[-1] < 2 or float(best.diff(dim=-1).min()) > 1e-6)


def compare(
    mechanism: Mechanism,
    inputs: Inputs,
    mask: Mask,
    got: Callable[[Inputs], Tensor],
    wanted: Callable[[Inputs], Tensor],
) -> None:
    """Two ways to the same output, from the same inputs: values and gradients."""
    assume_margin(mechanism, inputs)
    value_condition, gradient_condition = conditions(mechanism, inputs, mask)
    mine, theirs = inputs.fresh(), inputs.fresh()
    one, other = got(mine), wanted(theirs)
    assert_same([one], [other], value_condition)
    assert_same(
        gradients(one, [*mine.leaves(), *parameters(mechanism)]),
        gradients(other, [*theirs.leaves(), *parameters(mechanism)]),
        gradient_condition,
    )


# The laws


def check_definition(mechanism: Mechanism, inputs: Inputs, mask: Mask) -> None:
    """1. forward(q, k, v) equals weights(q, k) @ v."""
    compare(
        mechanism,
        inputs,
        mask,
        lambda x: mechanism(x.q, x.k, x.v, mask),
        lambda x: mechanism.weights(x.q, x.k, mask) @ repeat_heads(x.v, HEADS),
    )


def check_padding(mechanism: Mechanism, inputs: Inputs, mask: Mask) -> None:
    """2. What stands in padding never changes an output, and gets no gradient."""
    if mask.keys is None:
        return
    hole = ~mask.keys[:, None, :, None]
    clean = inputs.fresh(k=inputs.k.masked_fill(hole, 0), v=inputs.v.masked_fill(hole, 0))
    for garbage in GARBAGE:
        dirty = inputs.fresh(
            k=inputs.k.masked_fill(hole, garbage), v=inputs.v.masked_fill(hole, garbage)
        )
        one, other = (mechanism(x.q, x.k, x.v, mask) for x in (dirty, clean))
        assert_same([one], [other])
        mine, theirs = (
            gradients(out, [*x.leaves(), *parameters(mechanism)])
            for out, x in ((one, dirty), (other, clean))
        )
        assert_same(mine, theirs)
        for grad in mine[1:3]:
            assert grad is None or not bool(grad.masked_select(hole).any()), (
                "padding has a gradient"
            )
        weights = mechanism.weights(dirty.q, dirty.k, mask)
        assert not bool(weights.masked_select(hole.mT).any()), "padding has weight"


def check_padding_removed(mechanism: Mechanism, inputs: Inputs, mask: Mask) -> None:
    """2. Padding behind the last real key may as well not be there."""
    if mask.keys is None or not (mask.causal or mechanism.card.cross):
        return  # without a causal mask, what a block-sparse pattern picks depends on the length
    assume_margin(mechanism, inputs)
    value_condition, gradient_condition = conditions(mechanism, inputs, mask)
    for row, keys in enumerate(mask.keys):
        length = int(keys.nonzero().max()) + 1 if bool(keys.any()) else 0
        here = slice(row, row + 1)
        queries = length if not mechanism.card.cross else inputs.q.shape[2]
        whole, cut = inputs.fresh(), inputs.fresh()
        short = Mask(mask.causal, mask.keys[here, :length])
        one = mechanism(whole.q, whole.k, whole.v, mask)[here, :, :queries]
        other = mechanism(
            cut.q[here, :, :queries], cut.k[here, :, :length], cut.v[here, :, :length], short
        )
        assert_same([one], [other], value_condition)
        leaves = [parameters(mechanism), whole.leaves(), cut.leaves()]
        assert_same(
            gradients(one, [*leaves[1], *leaves[0]]),
            gradients(other, [*leaves[2], *leaves[0]]),
            gradient_condition,
        )


def check_future(mechanism: Mechanism, inputs: Inputs, mask: Mask, cut: int) -> None:
    """3. What stands from `cut` on never changes an output before it, when causal."""
    assume_margin(mechanism, inputs)
    past = (Ellipsis, slice(0, cut), slice(None))
    value_condition, gradient_condition = conditions(
        mechanism,
        replace(inputs, q=inputs.q[past], k=inputs.k[past]),
        Mask(True, _first(mask, cut)),
    )
    before = inputs.fresh()
    wanted = mechanism(before.q, before.k, before.v, mask)[past]
    wanted_gradients = gradients(wanted, [*before.leaves(), *parameters(mechanism)])
    for size in (1.0, 30.0, 300.0):
        generator = torch.Generator().manual_seed(int(size))
        changed = inputs.fresh()
        with torch.no_grad():
            for x in changed.leaves():
                later = x[..., cut:, :]
                later += size * torch.randn(later.shape, generator=generator, dtype=x.dtype)
        got = mechanism(changed.q, changed.k, changed.v, mask)[past]
        assert_same([got], [wanted], value_condition)
        got_gradients = gradients(got, [*changed.leaves(), *parameters(mechanism)])
        assert_same(got_gradients, wanted_gradients, gradient_condition)
        for grad in got_gradients[:3]:
            assert grad is None or not bool(grad[..., cut:, :].any()), "the future has a gradient"
        weights = mechanism.weights(changed.q, changed.k, mask)
        future = torch.ones(weights.shape[-2:]).triu(1).bool()
        assert not bool(weights[..., future].any()), "the future has weight"


def check_decoding(mechanism: Mechanism, inputs: Inputs, mask: Mask) -> None:
    """4. Decoding token by token equals one causal forward."""

    def decode(x: Inputs) -> Tensor:
        state, outs, states = None, [], []
        for t in range(x.k.shape[2]):
            here = slice(t, t + 1)
            keys = None if mask.keys is None else mask.keys[:, here]
            state = mechanism.absorb(x.k[:, :, here], x.v[:, :, here], keys, state)
            outs.append(mechanism.read(x.q[:, :, here], state, t))
            states.append(state)
        for t, old in enumerate(states):  # a state is a value: what came later left it alone
            again = mechanism.read(x.q[:, :, t : t + 1], old, t)
            assert torch.equal(again, outs[t]), "an old state changed"
        return torch.cat(outs, dim=2)

    def decode_spending(x: Inputs) -> Tensor:
        """As the generator does: each state is given up for the next."""
        state, outs = None, []
        for t in range(x.k.shape[2]):
            here = slice(t, t + 1)
            keys = None if mask.keys is None else mask.keys[:, here]
            keys = None if keys is None or bool(keys.all()) else keys
            if state is not None:
                state.spend()
            state = mechanism.absorb(x.k[:, :, here], x.v[:, :, here], keys, state)
            outs.append(mechanism.read(x.q[:, :, here], state, t))
        return torch.cat(outs, dim=2)

    compare(mechanism, inputs, mask, decode, lambda x: mechanism(x.q, x.k, x.v, mask))
    with torch.no_grad():  # without gradients a growing state is written in place
        value_condition, gradient_condition = conditions(mechanism, inputs, mask)
        out = mechanism(inputs.q, inputs.k, inputs.v, mask)
        assert_same([decode(inputs)], [out], value_condition)
        assert_same([decode_spending(inputs)], [out], value_condition)
    # states without gradients, read by queries that have them
    mine, theirs = (replace(inputs, k=inputs.k.detach(), v=inputs.v.detach()) for _ in "ab")
    mine, theirs = (replace(x, q=x.q.detach().clone().requires_grad_()) for x in (mine, theirs))
    one, other = decode(mine), mechanism(theirs.q, theirs.k, theirs.v, mask)
    got, wanted = gradients(one, [mine.q]), gradients(other, [theirs.q])
    assert_same(got, wanted, gradient_condition)


def check_ragged_decoding(mechanism: Mechanism, inputs: Inputs, lengths: Tensor) -> None:
    """4. Rows whose prompts had unequal lengths decode, in one batch, as each does alone."""
    assume_margin(mechanism, inputs)
    B, _, S, _ = inputs.k.shape
    prompt = int(lengths.max())
    steps = S - prompt
    rows = [torch.cat([torch.arange(n), torch.arange(prompt, S)]) for n in lengths.tolist()]
    wanted, worst = [], 1.0
    with torch.no_grad():
        for row, places in enumerate(rows):
            here = slice(row, row + 1)
            q, k, v = (x[here][:, :, places] for x in inputs.leaves())
            worst = max(worst, conditions(mechanism, replace(inputs, q=q, k=k), Mask(True))[0])
            wanted.append(mechanism(q, k, v, Mask(causal=True))[:, :, len(places) - steps :])
        real = torch.arange(prompt) < lengths[:, None]
        first = inputs.k[:, :, :prompt], inputs.v[:, :, :prompt]
        state = mechanism.absorb(*first, real).trim(lengths)
        got = []
        for step in range(steps):
            here = slice(prompt + step, prompt + step + 1)
            state = mechanism.absorb(inputs.k[:, :, here], inputs.v[:, :, here], None, state)
            got.append(mechanism.read(inputs.q[:, :, here], state, lengths + step))
            chosen = torch.arange(B - 1, -1, -1)
            flipped = mechanism.read(
                inputs.q[chosen][:, :, here], state.select(chosen), (lengths + step)[chosen]
            )
            assert_same([flipped[chosen]], [got[-1]], worst)
    assert_same([torch.cat(got, dim=2)], [torch.cat(wanted)], worst)


def check_memory(mechanism: Mechanism, inputs: Inputs, mask: Mask) -> None:
    """5. Absorbing memory once and reading equals the cross-attention forward."""
    compare(
        mechanism,
        inputs,
        mask,
        lambda x: mechanism.read(x.q, mechanism.absorb(x.k, x.v, mask.keys), 0),
        lambda x: mechanism(x.q, x.k, x.v, mask),
    )


def check_splitting(mechanism: Mechanism, inputs: Inputs, mask: Mask, cut: int) -> None:
    """6. Splitting an absorb in two changes nothing."""
    S = inputs.k.shape[2]
    start = 0 if mechanism.card.cross else min(cut, S - 1)  # the newest tokens, or any queries

    if not mechanism.card.cross and cut == S:
        cut = S - 1  # an empty second half would leave nothing that is newest

    def halves(x: Inputs) -> Tensor:
        first = mechanism.absorb(x.k[:, :, :cut], x.v[:, :, :cut], _first(mask, cut))
        rest = None if mask.keys is None else mask.keys[:, cut:]
        state = mechanism.absorb(x.k[:, :, cut:], x.v[:, :, cut:], rest, first)
        return mechanism.read(x.q[:, :, start:], state, start)

    compare(
        mechanism,
        inputs,
        mask,
        halves,
        lambda x: mechanism.read(x.q[:, :, start:], mechanism.absorb(x.k, x.v, mask.keys), start),
    )


def check_nothing(mechanism: Mechanism, inputs: Inputs, mask: Mask) -> None:
    """7. A query with nothing to look at gives zeros and finite gradients."""
    x = inputs.fresh()
    T, S = x.q.shape[2], x.k.shape[2]
    allowed = mask.allowed(T, S, x.q.device)
    out = mechanism(x.q, x.k, x.v, mask)
    for grad in gradients(out, [*x.leaves(), *parameters(mechanism)]):
        assert grad is None or bool(grad.isfinite().all()), "a gradient is not finite"
    some = torch.ones(1, 1, T, 1) > 0 if allowed is None else allowed.any(-1, keepdim=True)
    blind = ~some.expand(*out.shape[:3], 1) if S else torch.ones(*out.shape[:3], 1) > 0
    assert not bool(out.masked_select(blind).any()), "a blind query has an output"


def _first(mask: Mask, cut: int) -> Tensor | None:
    return None if mask.keys is None else mask.keys[:, :cut]
