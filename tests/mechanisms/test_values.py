"""Values worked out by hand or by another library, on sizes that all differ."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import attnlab
from attnlab import MECHANISMS, Mask, create_mechanism
from attnlab._create_mechanism import mechanism_options
from attnlab.mechanisms import _scan as scan
from attnlab.mechanisms._random_directions import sample_directions
from attnlab.mechanisms.favor import RandomFeatures
from attnlab.mechanisms.kernel import Kernel
from attnlab.mechanisms.softmax import fast_dropout
from tests.support.law_trials import build, make_inputs

E = math.e


def one_head(rows: list[list[float]]) -> Tensor:
    return torch.tensor([[rows]], dtype=torch.float64)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(
        shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    ).requires_grad_()


# q.k is 1 and 0; beta 1
HAND = {
    "softmax": [E / (E + 1), 1 / (E + 1)],
    "hard": [1, 0],
    # phi(q) = (2, 1); phi(k) = (2, 1), (1, 2): 5 and 4
    "elu": [5 / 9, 4 / 9],
    "relu": [1, 0],
    "polynomial": [1, 0],
    "window": [E / (E + 1), 1 / (E + 1)],
    "bigbird": [E / (E + 1), 1 / (E + 1)],
}


@pytest.mark.parametrize("name", HAND)
def test_two_keys_by_hand(name: str) -> None:
    q, k = one_head([[1, 0], [1, 0]]), one_head([[1, 0], [0, 1]])
    options: dict[str, Any] = {"beta": 1.0} if name in ("softmax", "window", "bigbird") else {}
    mechanism = create_mechanism(name, head_dim=2, heads=1, **options)
    weights = mechanism.weights(q, k, Mask())
    assert weights[0, 0, 0].tolist() == pytest.approx(HAND[name], abs=1e-12)
    causal = mechanism.weights(q, k, Mask(causal=True))
    assert causal[0, 0, 0].tolist() == [1, 0]


def test_elu_between_negative_numbers_by_hand() -> None:
    # phi(q) = (1, e^-1), phi(k) = (e^-2, 1), (1, e^-3)
    q, k = one_head([[0, -1]]), one_head([[-2, 0], [0, -3]])
    terms = [E**-2 + E**-1, 1 + E**-4]
    weights = create_mechanism("elu", head_dim=2, heads=1).weights(q, k, Mask())
    assert weights.flatten().tolist() == pytest.approx([t / sum(terms) for t in terms], abs=1e-12)


def test_linformer_by_hand() -> None:
    mechanism: Any = create_mechanism(
        "linformer", head_dim=1, heads=1, max_length=3, rank=2, beta=1
    )
    mechanism.double()
    with torch.no_grad():
        mechanism.key_projection.copy_(torch.tensor([[1, 0, 5], [0, 2, 5]]))
        mechanism.value_projection.copy_(torch.tensor([[1, 1, 5], [0, 3, 5]]))
    q, k = one_head([[1]]), one_head([[2], [1]])
    # projected keys 2 and 2: half of each row of F
    assert mechanism.weights(q, k, Mask()).flatten().tolist() == pytest.approx([0.5, 2])
    out = mechanism(q, k, one_head([[10], [100]]), Mask())
    assert out.item() == pytest.approx(205)


def test_synthesizers_by_hand() -> None:
    dense: Any = create_mechanism("synthesizer", head_dim=2, heads=1, max_length=3).double()
    with torch.no_grad():
        dense.table.copy_(torch.tensor([[1, 2, 9], [3, 4, 9]]))
        dense.bias.copy_(torch.tensor([0.5, 0, 9]))
    q, k = one_head([[2, -7]]), torch.empty(1, 1, 2, 0, dtype=torch.float64)
    scores = torch.tensor([2.5, 4])  # relu(q) = (2, 0)
    weights = dense.weights(q, k, Mask())
    assert weights.flatten().tolist() == pytest.approx(scores.softmax(0).tolist())
    table: Any = create_mechanism("synthesizer_random", head_dim=2, heads=1, max_length=3).double()
    with torch.no_grad():
        table.table.copy_(torch.arange(9.0).view(1, 3, 3) ** 2)
    weights = table.weights(q[..., :0], k, Mask(start=1))  # row 1: 9 and 16
    assert weights.flatten().tolist() == pytest.approx([1 / (1 + E**7), 1 / (1 + E**-7)])
    thin: Any = create_mechanism(
        "synthesizer_factorized", head_dim=2, heads=1, max_length=3, rank=2
    ).double()
    with torch.no_grad():
        thin.rows.copy_(torch.tensor([[[0, 0], [1, 2], [0, 0]]]))
        thin.columns.copy_(torch.tensor([[[1, 1], [0, 1], [9, 9]]]))
    weights = thin.weights(q[..., :0], k, Mask(start=1))  # 3 and 2
    assert weights.flatten().tolist() == pytest.approx([E / (1 + E), 1 / (1 + E)])


def test_grouped_keys_belong_to_neighboring_heads() -> None:
    q, k, v = normal(1, 2, 6, 5, 3), normal(2, 2, 2, 7, 3), normal(3, 2, 2, 7, 4)
    out = attnlab.attention(q, k, v)
    for head in range(6):
        group = slice(head // 3, head // 3 + 1)
        alone = attnlab.attention(q[:, head : head + 1], k[:, group], v[:, group])
        assert torch.allclose(out[:, head : head + 1], alone, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_softmax_against_multihead_attention(causal: bool) -> None:
    B, H, T, D = 3, 2, 7, 5
    reference = nn.MultiheadAttention(H * D, H, batch_first=True, dtype=torch.float64)
    x = normal(1, B, T, H * D)
    padding = torch.arange(T) >= torch.tensor([7, 4, 1])[:, None]  # True for padding, as in PyTorch
    future = torch.ones(T, T).triu(1).bool() if causal else None
    expected, weights = reference(
        x, x, x, key_padding_mask=padding, attn_mask=future, average_attn_weights=False
    )
    q, k, v = (
        F.linear(x, reference.in_proj_weight, reference.in_proj_bias).view(B, T, 3, H, D).unbind(2)
    )
    q, k, v = (each.transpose(1, 2) for each in (q, k, v))
    mechanism = create_mechanism("softmax", head_dim=D, heads=H)
    mask = Mask(causal, ~padding)
    out = reference.out_proj(mechanism(q, k, v, mask).transpose(1, 2).reshape(B, T, H * D))
    assert torch.allclose(out, expected, atol=1e-12)
    assert torch.allclose(mechanism.weights(q, k, mask), weights, atol=1e-12)


def has_dropout(name: str) -> bool:
    return "dropout" in [option.name for option in mechanism_options(name)]


@pytest.mark.parametrize("name", [name for name in MECHANISMS if has_dropout(name)])
def test_dropout_on_weights_while_training(name: str) -> None:
    length = 64 if MECHANISMS[name].card.needs_length else None
    mechanism = create_mechanism(name, head_dim=3, heads=1, max_length=length, dropout=0.5)
    for table in mechanism.parameters():
        nn.init.zeros_(table)
    q, k = torch.zeros(1, 1, 64, 3), torch.zeros(1, 1, 64, 3)
    v = torch.eye(64)[None, None]  # the output is the weights
    torch.manual_seed(0)
    dropped = mechanism(q, k, v, Mask())
    assert 0.4 < float((dropped == 0).double().mean()) < 0.6
    nonzero = dropped[dropped > 0]
    assert torch.allclose(nonzero, torch.full_like(nonzero, 2 / 64))
    assert torch.allclose(mechanism.eval()(q, k, v, Mask()), torch.full((64, 64), 1 / 64))


def test_dropout_keeps_the_mean_and_the_rate() -> None:
    torch.manual_seed(0)
    x = torch.ones(999_999, dtype=torch.float64, requires_grad=True)
    for rate in (0.1, 0.5, 0.9):
        out = fast_dropout(x, rate)
        lost = float((out.detach() == 0).double().mean())
        assert lost == pytest.approx(rate, abs=4.5 * math.sqrt(rate * (1 - rate) / 1e6))
        assert set(out.detach().unique().tolist()) == {0.0, 1 / (1 - rate)}
        (grad,) = torch.autograd.grad(out.sum(), x)
        assert torch.equal(grad, out.detach())
        # neighbors share one random number, but are independent
        both = (out[::2][:499_999] == 0) & (out[1::2] == 0)
        assert float(both.double().mean()) == pytest.approx(rate**2, abs=0.004)
    assert fast_dropout(x, 0.0) is x


def test_hard_gradient_is_that_of_softmax() -> None:
    q, k, v = normal(1, 1, 2, 5, 3), normal(2, 1, 2, 7, 3), normal(3, 1, 2, 7, 4)
    direction = normal(4, 1, 2, 5, 4)
    hard, soft = (
        torch.autograd.grad((attnlab.attention(q, k, v, name) * direction).sum(), (q, k))
        for name in ("hard", "softmax")
    )
    for one, other in zip(hard, soft, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


# Feature maps


def phi(mechanism: Any, x: Tensor) -> Tensor:
    features = mechanism.features(x)
    return features.divide_by_exp(torch.zeros(1, dtype=x.dtype))


def squares_and_pairs(x: Tensor) -> Tensor:
    first, second = torch.triu_indices(x.shape[-1], x.shape[-1], offset=1)
    return torch.cat([x.square(), 2**0.5 * x[..., first] * x[..., second]], -1)


FORMULAS: dict[str, Callable[[Tensor], Tensor]] = {
    "elu": lambda x: F.elu(x) + 1,
    "relu": F.relu,
    "polynomial": squares_and_pairs,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_phi_is_the_formula(name: str) -> None:
    x = 2 * normal(1, 2, 3, 11, 5).detach()
    mechanism = create_mechanism(name, head_dim=5, heads=3)
    assert torch.allclose(phi(mechanism, x), FORMULAS[name](x), atol=1e-13)


def test_polynomial_kernel_is_exact() -> None:
    q, k = normal(1, 1, 1, 7, 5), normal(2, 1, 1, 11, 5)
    mechanism = create_mechanism("polynomial", head_dim=5, heads=1)
    products = phi(mechanism, q) @ phi(mechanism, k).mT
    assert products.shape == (1, 1, 7, 11)
    assert torch.allclose(products, (q @ k.mT).square(), atol=1e-12)


@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize("name", ["favor", "fourier"])
def test_random_features_are_unbiased(name: str, orthogonal: bool) -> None:
    """The mean of phi(q).phi(k) over samples is exp(beta q.k), within its standard error."""
    D, directions = 4, 2000
    q, k = 0.7 * normal(1, 1, 1, 3, D).detach(), 0.7 * normal(2, 1, 1, 5, D).detach()
    expected = (0.5 * q @ k.mT).exp()
    estimates = []
    mechanism: Any = create_mechanism(
        name, head_dim=D, heads=1, features=8, orthogonal=orthogonal, beta=0.5
    ).double()
    for _ in range(directions):
        mechanism.redraw()
        estimates.append(phi(mechanism, q) @ phi(mechanism, k).mT)
    samples = torch.stack(estimates)
    error = samples.std(0) / math.sqrt(directions)
    assert float((error / expected).max()) < 0.05
    assert float(((samples.mean(0) - expected).abs() / error).max()) < 4.5


def test_fourier_has_no_error_where_q_equals_k() -> None:
    q = normal(1, 1, 1, 3, 4).detach()
    mechanism = create_mechanism("fourier", head_dim=4, heads=1, features=2, beta=1.0).double()
    products = (phi(mechanism, q) @ phi(mechanism, q).mT).diagonal(dim1=-2, dim2=-1)
    assert torch.allclose(products, q.square().sum(-1).exp())


def test_orthogonal_directions() -> None:
    D = 5
    directions = sample_directions(12, D, seed=3, orthogonal=True)
    assert directions.shape == (12, D)
    for block in directions.split(D):
        gram = block @ block.T
        assert torch.allclose(gram, gram.diagonal().diag(), atol=1e-12)
    many = torch.cat([sample_directions(D, D, seed, True) for seed in range(2000)])
    # as a Gaussian's: mean 0 (which QR without its signs would not give), variance 1 in every
    # entry, squared lengths chi-squared with mean D and variance 2 D
    blocks = many.view(2000, D, D)
    assert float(blocks.mean(0).abs().max()) < 4.5 / math.sqrt(2000)
    assert float((blocks.square().mean(0) - 1).abs().max()) < 4.5 * math.sqrt(2 / 2000)
    squares = many.square().sum(1)
    assert float(squares.mean()) == pytest.approx(D, abs=0.15)
    assert float(squares.var()) == pytest.approx(2 * D, rel=0.1)


def test_redraw_is_seeded_and_saved() -> None:
    def make() -> RandomFeatures:
        mechanism = create_mechanism("favor", head_dim=4, heads=1, features=6, seed=7)
        assert isinstance(mechanism, RandomFeatures)
        return mechanism

    one, other = make(), make()
    first = one.draws.clone()
    assert torch.equal(first, other.draws)
    one.redraw()
    assert not torch.equal(first, one.draws)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.draws, other.draws)
    one.redraw()
    other.redraw()
    assert torch.equal(one.draws, other.draws)


def test_favor_comes_close_to_softmax_with_many_features() -> None:
    q, k, v = (0.5 * normal(seed, 1, 2, 9, 4).detach() for seed in (1, 2, 3))
    exact = attnlab.attention(q, k, v, causal=True)
    errors = [
        float((attnlab.attention(q, k, v, "favor", True, features=n) - exact).norm() / exact.norm())
        for n in (16, 4096)
    ]
    assert errors[1] < 0.03 < errors[0]


# The scan


def test_the_scan_passes_gradcheck() -> None:
    for signed in (False, True):
        query_log, key_log = (
            normal(1, 2, 7, 1 if signed else 3),
            normal(2, 2, 7, 1 if signed else 3),
        )
        value = normal(3, 2, 7, 4)
        signs = (normal(4, 2, 7, 3), normal(5, 2, 7, 3)) if signed else (None, None)

        def call(*inputs: Tensor, signs: Any = signs) -> Tensor:
            query_sign, key_sign = inputs[3:] or signs
            query, key = scan.Features(query_sign, inputs[0]), scan.Features(key_sign, inputs[1])
            return scan.causal_scan(query, key, inputs[2], 3)

        leaves = (query_log, key_log, value, *(signs if signed else ()))
        assert torch.autograd.gradcheck(call, leaves)


@pytest.mark.parametrize("name", ["favor", "fourier", "elu"])
def test_rows_that_underflow_are_recomputed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Growing keys in one chunk make rows underflow; the pairs' gradients are right as well."""
    used = []
    original = scan._Pairs.__init__

    def counted(self: Any, step: Any, row: int) -> None:
        used.append(row)
        original(self, step, row)

    monkeypatch.setattr(scan._Pairs, "__init__", counted)
    mechanism = create_mechanism(name, head_dim=4, heads=2, chunk=5).double()
    mechanism.use_compiled = False  # the C kernels have no such rows
    assert isinstance(mechanism, Kernel)
    sign = -1 if name == "elu" else 1
    with torch.no_grad():
        q, k, v = (normal(seed, 1, 2, 8, 4) for seed in (1, 2, 3))
        # key 6 stands e^2000 above keys 0 to 5 in every feature; 5 and 6 share a chunk
        k[:, :, :6] = k[:, :, :6] * 0.1 + (-2000 if sign < 0 else 0)
        k[:, :, 6:] = k[:, :, 6:] * 0.1 + (0 if sign < 0 else 60)
        if name == "favor":  # log phi falls with |k|^2: the far keys come first
            k = k.flip(2)
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    mask = Mask(causal=True)
    fast, definition = mechanism(q, k, v, mask), mechanism.weights(q, k, mask) @ v
    direction = normal(9, *fast.shape).detach()
    assert used
    expected = torch.autograd.grad((definition * direction).sum(), (q, k, v))
    got = torch.autograd.grad((fast * direction).sum(), (q, k, v))
    assert torch.allclose(fast, definition, rtol=1e-6, atol=1e-8)
    for one, other in zip(got, expected, strict=True):
        scale = float(other.abs().max())
        assert torch.allclose(one / scale, other / scale, atol=1e-7)


# BigBird's pattern


def pattern_by_hand(S: int, causal: bool, block: int, side: int, first: int, count: int) -> Any:
    """Computed for each pair of tokens; the random blocks by the published hash."""
    from attnlab.mechanisms.bigbird import _hash

    blocks = math.ceil(S / block)
    edges = np.zeros((S, S), dtype=bool)
    for i in range(S):
        a = i // block
        free = [
            b
            for b in range(blocks)
            if b >= first and abs(a - b) > side and a >= first and (not causal or b < a)
        ]
        rank = {b: int(_hash(5, np.array([[a]]), np.array([[b]]))[0, 0]) >> 1 for b in free}
        chosen = sorted(free, key=lambda b: rank[b])[:count]
        for j in range(S):
            b = j // block
            visible = a < first or b < first or abs(a - b) <= side or b in chosen
            edges[i, j] = visible and (not causal or j <= i)
    return edges


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("block", "window", "first", "count"), [(2, 3, 1, 2), (3, 1, 0, 1), (1, 3, 2, 3)]
)
def test_bigbird_pattern_edge_by_edge(
    causal: bool, block: int, window: int, first: int, count: int
) -> None:
    S = 23
    mechanism = create_mechanism(
        "bigbird",
        head_dim=3,
        heads=1,
        block=block,
        window_blocks=window,
        global_blocks=first,
        random_blocks=count,
        seed=5,
    )
    q, k = normal(1, 1, 1, S, 3), normal(2, 1, 1, S, 3)
    v = torch.eye(S, dtype=torch.float64)[None, None]
    expected = pattern_by_hand(S, causal, block, window // 2, first, count)
    mask = Mask(causal)
    definition = (mechanism.weights(q, k, mask)[0, 0] > 0).numpy()
    computed = (mechanism(q, k, v, mask)[0, 0] > 0).numpy()  # the fast path's own edges
    assert (definition == expected).all()
    assert (computed == expected).all()
    per_block = expected[::block, ::block].sum(1)
    if not causal:  # each row: its window, the global blocks, the random ones, and no more
        assert per_block[first:].max() <= window + first + count
        assert (per_block[:first] == math.ceil(S / block)).all()


def test_bigbird_causal_pattern_does_not_depend_on_length() -> None:
    mechanism: Any = create_mechanism("bigbird", head_dim=3, heads=1, block=2, random_blocks=2)
    long = mechanism.edges(61, True)
    for length in range(1, 61):
        assert torch.equal(mechanism.edges(length, True), long[:length, :length])


def test_bigbird_random_blocks_differ_by_row_and_seed() -> None:
    def chosen(seed: int) -> Tensor:
        mechanism: Any = create_mechanism("bigbird", head_dim=3, heads=1, block=2, seed=seed)
        return mechanism.pattern.table(64, False)[:, -3:]

    assert len({tuple(row) for row in chosen(0)[10:].tolist()}) > 40
    assert not torch.equal(chosen(0), chosen(1))


def test_window_reaches_exactly_so_far() -> None:
    mechanism = create_mechanism("window", head_dim=3, heads=1, window=3)
    q, k = normal(1, 1, 1, 9, 3), normal(2, 1, 1, 9, 3)
    distance = torch.arange(9)[:, None] - torch.arange(9)
    assert torch.equal(mechanism.weights(q, k, Mask())[0, 0] > 0, distance.abs() < 3)
    causal = mechanism.weights(q, k, Mask(causal=True))[0, 0] > 0
    assert torch.equal(causal, (distance < 3) & (distance >= 0))


def test_condition_of_packed_documents_is_that_of_each_document() -> None:
    """Terms of other documents must not hide that the visible ones cancel."""
    mechanism = build("polynomial", {"chunk": 64, "torch": True})
    inputs = make_inputs(mechanism, B=1, G=6, T=6, S=6, seed=70)
    packed = Mask(segments=torch.tensor([[0, 0, 1, 1, 1, 1]]))
    alone = [
        mechanism.condition(inputs.q[:, :, part], inputs.k[:, :, part], Mask())
        for part in (slice(0, 2), slice(2, 6))
    ]
    assert torch.allclose(mechanism.condition(inputs.q, inputs.k, packed), torch.cat(alone, 2))
