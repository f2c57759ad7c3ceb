"""Latent attention: folded projections equal heads with keys and values of their own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnlab import Mask
from attnlab.layers import MultiHead
from attnlab.mechanisms import MECHANISMS
from attnlab.models import Decoder, StackConfig
from attnlab.position import RotaryPositions
from attnlab.state import JoinedState, KeyValues

WIDTH, HEADS, RANK, TOKENS, ROWS = 24, 3, 5, 7, 2
BY_SCORES = [name for name, kind in MECHANISMS.items() if kind.by_scores]


def layer(attention: str = "softmax", rotary: bool = True) -> MultiHead:
    torch.manual_seed(0)
    positions = RotaryPositions(WIDTH // HEADS) if rotary else None
    made = MultiHead(
        WIDTH, HEADS, attention, causal=True, latent=RANK, rotary=positions, max_length=64
    )
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made.double().eval()


def unfolded(made: MultiHead, x: Tensor) -> Tensor:
    """Softmax attention of heads whose keys and values are computed, head by head."""
    latent = made.latent
    assert latent is not None
    D, E = latent.head_dim, latent.rotary_dim
    queries, keys = made.project(x).split([HEADS * (D + E), RANK + E], dim=-1)
    content, position = latent.norm(keys[..., :RANK]), torch.arange(x.shape[1])[None]
    outs = []
    for head, q in enumerate(queries.split(D + E, dim=-1)):
        own = content @ latent.to_keys[head].T  # (B, T, D)
        scores = q[..., :D] @ own.mT
        if latent.rotary is not None:
            turned = (
                latent.rotary(part[:, None], position)[:, 0]
                for part in (q[..., D:], keys[..., RANK:])
            )
            rotated_query, rotated_key = turned
            scores = scores + rotated_query @ rotated_key.mT
        scores = scores / (D + E) ** 0.5
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        outs.append(
            scores.masked_fill(later, -torch.inf).softmax(-1) @ (content @ latent.to_values[head])
        )
    return made.out(torch.cat(outs, dim=-1))


@pytest.mark.parametrize("rotary", [True, False])
def test_folded_projections_change_nothing(rotary: bool) -> None:
    made, x = layer(rotary=rotary), torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64)
    x.requires_grad_()
    results = []
    for out in (made(x, Mask(causal=True)), unfolded(made, x)):
        grads = torch.autograd.grad(out.square().sum(), [x, *made.parameters()])
        results.append([out.detach(), *grads])
    for folded, expected in zip(*results, strict=True):
        torch.testing.assert_close(folded, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("attention", BY_SCORES)
def test_decoding_equals_forward(attention: str) -> None:
    made, x = layer(attention), torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        expected = made(x, Mask(causal=True))
        first, state = made.prefill(x[:, :4], Mask(causal=True))
        outs = [first]
        for t in range(4, TOKENS):
            out, state = made.step(x[:, t : t + 1], state, t)
            outs.append(out)
    torch.testing.assert_close(torch.cat(outs, dim=1), expected, rtol=1e-10, atol=1e-10)


def test_padded_prompts_continue_as_if_alone() -> None:
    made, x = layer(), torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64)
    lengths = torch.tensor([TOKENS, 4])
    keys = torch.arange(TOKENS) < lengths[:, None]
    with torch.no_grad():
        _, state = made.prefill(x, Mask(True, keys))
        new = torch.randn(ROWS, 1, WIDTH, dtype=torch.float64)
        out, state = made.step(new, state.trim(lengths), lengths)
        alone = made(torch.cat([x[1:, :4], new[1:]], dim=1), Mask(causal=True))[:, -1:]
        swapped = state.select(torch.tensor([1, 0]))
    torch.testing.assert_close(out[1:], alone, rtol=1e-10, atol=1e-10)
    assert swapped.nbytes == state.nbytes


@pytest.mark.parametrize("attention", BY_SCORES)
def test_the_latent_key_is_stored_once(attention: str) -> None:
    made, x = layer(attention), torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        _, state = made.prefill(x, Mask(causal=True))
        for length in range(TOKENS, TOKENS + 3):
            own = state.attention
            memory = own.parts[0] if isinstance(own, JoinedState) else own
            assert isinstance(memory, KeyValues)
            assert memory.is_shared
            assert memory.nbytes == ROWS * length * (RANK + 4) * 8  # E is 4
            gates = len(made.mechanism.gates)
            assert state.nbytes == memory.nbytes + gates * ROWS * length * 8
            _, state = made.step(x[:, :1], state.select(torch.arange(ROWS)), length)


def test_a_shared_state_refuses_other_values() -> None:
    made, x = layer(), torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        _, state = made.prefill(x, Mask(causal=True))
        k = torch.randn(ROWS, 1, 1, RANK + 4, dtype=torch.float64)
        with pytest.raises(ValueError, match=r"absorb\(k, k\)"):
            made.mechanism.absorb(k, k + 1, None, state.attention)


def test_in_a_decoder() -> None:
    config = StackConfig(
        vocabulary=11, context=16, width=WIDTH, layers=2, heads=HEADS,
        attention=f"softmax:latent={RANK}", position="rotary",
    )  # fmt: skip
    model = Decoder(config).double().eval()
    ids = torch.randint(0, 11, (ROWS, TOKENS))
    with torch.no_grad():
        whole = model(ids)
        logits, state = model.prefill(ids[:, :5], torch.full((ROWS,), 5))
        torch.testing.assert_close(logits, whole[:, 4])
        logits, _ = model.step(ids[:, 5], state)
    torch.testing.assert_close(logits, whole[:, 5])


def test_one_layer_can_leave_out_what_all_layers_normalize() -> None:
    made = MultiHead(WIDTH, HEADS, "softmax:latent=4,normalize=false", causal=True, normalize=True)
    assert made.query_norm is None
    assert made.key_norm is None


@pytest.mark.parametrize(
    ("attention", "options", "message"),
    [
        ("gla:latent=4", {}, "gla cannot read latent keys; choose from softmax, "),
        ("1*softmax:latent=4+2*window:latent=4", {}, "give one mechanism for all"),
        ("softmax:latent=4,normalize=true", {}, "leave out normalize"),
        ("softmax:latent=-1", {}, "latent is -1; give 0 to 65536 numbers"),
        ("softmax:latent=x", {}, "latent is 'x'; give 0 to"),
        ("softmax:latent=4", {"normalize": True}, "leave out normalize"),
        (f"softmax:latent={WIDTH // HEADS}", {"normalize": True}, "leave out normalize"),
        ("softmax:latent=4", {"key_heads": 1}, "leave out key_heads"),
        ("softmax:latent=4", {"memory_width": 8}, "leave out latent"),
    ],
)
def test_errors(attention: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        MultiHead(WIDTH, HEADS, attention, causal="memory_width" not in options, **options)  # type: ignore[arg-type]
    assert len(str(caught.value).splitlines()) == 1
