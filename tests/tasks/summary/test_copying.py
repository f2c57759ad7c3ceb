"""The copy head: against its slow definition in float64, and inside the generators."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attnlab.generate import Sampling, beam_search, generate
from attnlab.mask import Mask
from attnlab.models import Seq2Seq, Seq2SeqConfig, StackConfig
from attnlab.models._pointer_generator import CopyHead
from attnlab.training._batches import pad_rows
from tests.support.examples import examples

V, END = 11, 2


def made(seed: int = 0, cross: str = "softmax", copy: bool = True, **changes: Any) -> Seq2Seq:
    torch.manual_seed(seed)
    stack = {"vocabulary": V, "width": 12, "layers": 1, "heads": 3, "position": "sinusoidal"}
    config = Seq2SeqConfig(
        StackConfig(context=13, **{**stack, **changes}),
        StackConfig(context=9, **{**stack, **changes}),
        cross_attention=cross,
        share=True,
        copy=copy,
    )
    model = Seq2Seq(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # far from uniform, so that mistakes show
            parameter.mul_(8)
    return model


def slowly(model: Seq2Seq, source: list[int], target: list[int]) -> Tensor:
    """The definition, one row and one number at a time: probabilities (T, V)."""
    copy = model.copy
    assert copy is not None
    memory = model.encoder(torch.tensor([source]))
    x = model.decoder(torch.tensor([target]), None, memory)
    keys = [copy.key.here(memory[0, 0])]
    for s in range(1, len(source)):
        keys.append(copy.key.here(memory[0, s]) + copy.key.before(memory[0, s - 1]))
    rows = []
    for t in range(len(target)):
        gate = torch.sigmoid(x[0, t] @ copy.gate.weight[0] + copy.gate.bias[0])
        weights = torch.zeros(len(source), dtype=torch.float64)
        D = copy.head_dim
        for h in range(copy.heads):
            q = copy.query(x[0, t])[h * D : (h + 1) * D]
            k = torch.stack(keys)[:, h * D : (h + 1) * D]
            spread = copy.mechanism.weights(
                q.view(1, 1, 1, D).expand(1, copy.heads, 1, D),
                k[None, None].expand(1, copy.heads, -1, D),
                Mask(),
            )
            weights = weights + spread[0, h, 0] / copy.heads
        row = [gate * p for p in torch.softmax(model.head(x[0, t]), 0)]
        for token, weight in zip(source, weights, strict=True):
            row[token] = row[token] + (1 - gate) * weight
        rows.append(torch.stack(row))
    return torch.stack(rows)


@pytest.mark.parametrize("cross", ["softmax", "favor:features=7", "elu"])
def test_mixture_matches_its_definition(cross: str) -> None:
    model = made(cross=cross)
    source, target = [3, 5, 3, 7, 10], [END, 4, 3]
    slow = slowly(model, source, target)
    fast = model(torch.tensor([source]), torch.tensor([target]))[0]
    assert torch.allclose(fast.exp(), slow, atol=1e-12)
    assert torch.allclose(slow.sum(1), torch.ones(3, dtype=torch.float64))


@examples(25)
@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    T=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_log_probabilities_of_labels_match_the_full_table(
    lengths: list[int], T: int, seed: int
) -> None:
    """Values and gradients; padding holds anything."""
    model = made(seed)
    torch.manual_seed(seed)
    source, keys = pad_rows([torch.randint(3, V, (n,)) for n in lengths], 9)
    target = torch.randint(3, V, (len(lengths), T))
    labels = torch.randint(3, V, (len(lengths), T))
    labels[0, -1] = -100 if T > 1 or len(lengths) > 1 else labels[0, -1]
    counted = labels >= 0
    whole = model(source, target, keys)
    by_table = whole[counted].gather(1, labels[counted][:, None])[:, 0]
    log_probabilities = model(source, target, keys, labels=labels)
    assert torch.allclose(log_probabilities[:, 0], by_table, atol=1e-10)
    assert model.copy is not None
    below = [model.encoder.embedding.weight, model.head.weight]
    parameters = [*model.copy.parameters(), *below]
    one = torch.autograd.grad(by_table.sum(), parameters, retain_graph=True)
    other = torch.autograd.grad(log_probabilities[:, 0].sum(), parameters)
    for a, b in zip(one, other, strict=True):
        assert torch.allclose(a, b, atol=1e-9)


def test_gradients_match_finite_differences() -> None:
    model = made(1)
    source, target = torch.tensor([[3, 5, 3, 7]]), torch.tensor([[END, 4]])
    labels = torch.tensor([[3, 8]])  # one stands in the source, one does not
    assert model.copy is not None
    for parameter in (
        model.copy.query.weight,
        model.copy.key.before.weight,
        model.copy.gate.weight,
    ):

        def loss(value: Tensor, at: Any = parameter) -> Tensor:
            kept = at.data
            at.data = value
            loss = -model(source, target, labels=labels)[:, 0].sum()
            at.data = kept
            return loss

        (gradient,) = torch.autograd.grad(-model(source, target, labels=labels)[:, 0].sum(),
                                          [parameter])  # fmt: skip
        for i, j in [(0, 0), (0, 5)]:
            step = torch.zeros_like(parameter)
            step[i, j] = 1e-6
            with torch.no_grad():
                slope = (loss(parameter + step) - loss(parameter - step)) / 2e-6
            assert float(gradient[i, j]) == pytest.approx(float(slope), rel=1e-4, abs=1e-7)


def test_smoothing_needs_the_mean_over_the_vocabulary() -> None:
    model = made(2)
    source, target = torch.tensor([[3, 5]]), torch.tensor([[END, 4]])
    labels = torch.tensor([[3, 8]])
    memory = model.encoder(source)
    logits = model.head(model.decoder(target, None, memory))[0]
    means = model(source, target, labels=labels)[:, 1]
    assert torch.allclose(means, logits.log_softmax(1).mean(1))


def test_padding_is_never_copied() -> None:
    model = made(3)
    short = model(torch.tensor([[3, 5]]), torch.tensor([[END, 4]]))
    keys = torch.tensor([[True, True, False]])
    for token in (0, 7):
        padded = model(torch.tensor([[3, 5, token]]), torch.tensor([[END, 4]]), keys)
        assert torch.allclose(short, padded, atol=1e-12)


def test_an_empty_source_uses_only_the_vocabulary() -> None:
    model = made(4)
    source, keys = torch.tensor([[3, 5]]), torch.tensor([[False, False]])
    labels = torch.tensor([[3, 8]])
    logits = model(source, torch.tensor([[END, 4]]), keys)
    assert torch.allclose(logits.exp().sum(-1), torch.ones(1, 2, dtype=torch.float64))
    alone = model(source, torch.tensor([[END, 4]]), keys, labels=labels)
    assert torch.allclose(alone[:, 0], logits[0].gather(1, labels[0][:, None])[:, 0])
    loss = -alone.sum()
    loss.backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)


def test_decoding_step_by_step_equals_one_pass() -> None:
    model = made(5)
    source, keys = pad_rows([torch.tensor([3, 5, 6, 3]), torch.tensor([8, 9])], 0)
    target = torch.tensor([[END, 3, 5], [END, 8, 8]])
    whole = model(source, target, keys)
    with torch.no_grad():
        step, state = model.prefill(target[:, :1], torch.tensor([1, 1]), source, keys)
        assert torch.allclose(step, whole[:, 0], atol=1e-10)
        for t in (1, 2):
            step, state = model.step(target[:, t], state)
            assert torch.allclose(step, whole[:, t], atol=1e-10)
        swapped = state.select(torch.tensor([1, 0, 1]))
        again, _ = model.step(torch.tensor([4, 4, 4]), swapped)
        one, _ = model.step(torch.tensor([4, 4]), state)
    assert torch.allclose(again, one[[1, 0, 1]], atol=1e-10)


def context(*sources: list[int]) -> dict[str, Tensor]:
    ids, keys = pad_rows([torch.tensor(each) for each in sources], 0)
    return {"source": ids, "source_keys": keys}


def test_beam_width_one_is_greedy() -> None:
    model = made(6)
    texts = context([3, 5, 6, 3], [8, 9], [4, 4, 4, 4, 10])
    greedy = generate(model, [[END]] * 3, new_tokens=6, stop=END, context=texts)
    beams = beam_search(model, [[END]] * 3, new_tokens=6, stop=END, width=1, context=texts)
    assert [row[0].ids for row in greedy] == [row[0].ids for row in beams]
    for one, other in zip(greedy, beams, strict=True):
        assert one[0].score == pytest.approx(other[0].score)


def test_the_widest_beam_finds_the_true_best() -> None:
    """All sequences of up to three tokens, scored by whole passes."""
    model = made(7)
    source = [3, 5, 6]
    scores: dict[tuple[int, ...], float] = {}

    def grow(ids: list[int], score: float) -> None:
        with torch.no_grad():
            row = model(torch.tensor([source]), torch.tensor([[END, *ids]]))[0, -1]
        for token in range(V):
            after = score + float(row[token])
            if token == END or len(ids) == 2:
                scores[*ids, token] = after
            else:
                grow([*ids, token], after)

    grow([], 0.0)
    assert math.fsum(map(math.exp, scores.values())) == pytest.approx(1)
    best = max(scores, key=lambda ids: scores[ids])
    hypotheses = beam_search(
        model, [[END]], new_tokens=3, stop=END, width=V**2, best=3, context=context(source)
    )[0]
    assert [*hypotheses[0].ids, *([END] if hypotheses[0].finished else [])] == list(best)
    assert [each.score for each in hypotheses] == pytest.approx(sorted(scores.values())[:-4:-1])


def test_samples_follow_the_mixture() -> None:
    model = made(8)
    texts = context([3, 5, 6])
    with torch.no_grad():
        wanted = model(texts["source"], torch.tensor([[END]]))[0, 0].exp()
    rows = generate(
        model, [[END]], new_tokens=1, sampling=Sampling(temperature=1.0), samples=4000,
        context=texts,
    )[0]  # fmt: skip
    shares = torch.bincount(torch.tensor([row.ids[0] for row in rows]), minlength=V) / 4000
    assert torch.allclose(shares.double(), wanted, atol=0.04)


@pytest.mark.parametrize("cross", ["fourier", "sigmoid", "softmax:sink=0"])
def test_weights_that_are_no_probabilities_are_refused(cross: str) -> None:
    with pytest.raises(ValueError, match="are not probabilities"):
        made(cross=cross)
    made(cross=cross, copy=False)


def test_options_of_the_layer_do_not_reach_the_copy_head() -> None:
    assert made(cross="softmax:output_gate=true").copy is not None


def test_two_vocabularies_are_refused() -> None:
    one, other = (StackConfig(vocabulary=v, context=5, width=12, heads=3) for v in (7, 8))
    with pytest.raises(ValueError, match="make them equal"):
        Seq2SeqConfig(one, other, copy=True)


def test_copy_head_is_optional() -> None:
    assert made(copy=False).copy is None
    assert isinstance(made().copy, CopyHead)
