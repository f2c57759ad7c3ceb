"""Head importance, logit lens, attribution and patching agree with plain torch.

Letters: B batch, H heads, T tokens, M value size, W width, V vocabulary.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import attnlab
from attnlab.interpret._adapters import attention_sites
from attnlab.interpret._model_input import ModelInput
from attnlab.models import Seq2Seq, Seq2SeqConfig, StackConfig
from attnlab.report import to_json, to_markdown
from tests.support.hand_written_models import Edits, HandWritten, run
from tests.support.intervention_models import CLOSE, NAMES, hooks_of, model_and_inputs
from tests.support.small_models import model_of


@pytest.fixture(params=NAMES)
def prepared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A model and one row of its inputs, which every function reads whatever it is given."""
    model, inputs = model_and_inputs(request.param)
    row = {name: x[:1] for name, x in inputs.items()}
    ids = row.get("target", row.get("ids", torch.zeros(1, 0, dtype=torch.int64)))
    source = ModelInput(model, None, row, ids, [str(i) for i in ids[0].tolist()], "model")
    for module in ("_logit_lens", "_attribution"):
        monkeypatch.setattr(f"attnlab.interpret.{module}.read_input", lambda *_, **__: source)
    monkeypatch.setattr("attnlab.interpret._head_importance._read", lambda *_: [source])
    return request.param, model, row, source


def final_norm(name: str, model: Any) -> tuple[Any, Tensor, Tensor]:
    """The last norm, the output matrix (V, W) and its bias (V,)."""
    if name == "gpt2":
        return model.transformer.ln_f, model.lm_head.weight, torch.zeros(1)
    if name == "llama":
        return model.model.norm, model.lm_head.weight, torch.zeros(1)
    stack = getattr(model, "decoder", getattr(model, "stack", model))
    bias = torch.zeros(1) if model.head.bias is None else model.head.bias
    return stack.norm, model.head.weight, bias


def read_out(name: str, model: Any, stream: Tensor) -> Tensor:
    norm, matrix, bias = final_norm(name, model)
    x = norm(stream)
    if name.startswith("encoder"):
        x = model.transform_norm(F.gelu(model.transform(x)))
    x = x[:, :1] if name.startswith("vit") else x
    return x @ matrix.T + bias


def test_the_lens_reads_every_stream(prepared: Any) -> None:
    name, model, row, _ = prepared
    lens = attnlab.logit_lens(model, "text")
    expected = run(model, *row.values())
    assert lens.logits is not None
    assert len(lens.layers) == len(expected.streams)
    with torch.no_grad():
        for logits, stream in zip(lens.logits, expected.streams, strict=True):
            torch.testing.assert_close(logits, read_out(name, model, stream)[0], **CLOSE)
    last = lens.logits[-1].softmax(-1)
    best = last.amax(-1)
    torch.testing.assert_close(lens.final_probability[-1], best)
    assert float(lens.divergence[-1].abs().max()) < 1e-5
    log_p = lens.logits.log_softmax(-1)
    torch.testing.assert_close(
        lens.divergence, (last * (log_p[-1] - log_p)).sum(-1), rtol=1e-4, atol=1e-5
    )
    assert lens.top[0][0][0][1] >= lens.top[0][0][1][1]
    assert "layer" in to_markdown(lens.report())
    assert hooks_of(model) == 0


def direct(name: str, model: Any, streams: HandWritten, part: Tensor, token: int) -> float:
    """What a part (1, T, W) of the last stream adds to the logit, by the frozen last norm."""
    norm, matrix, _ = final_norm(name, model)
    x, at = streams.streams[-1], 0 if name.startswith("vit") else -1
    centered = isinstance(norm, nn.LayerNorm)
    inner, c = x[0, at], part[0, at]
    inner, c = (u - u.mean() if centered else u for u in (inner, c))
    eps = getattr(norm, "eps", None) or getattr(norm, "variance_epsilon", None) or 1.2e-7
    scale = (inner.square().mean() + eps).rsqrt()
    return float((c * scale * norm.weight) @ matrix[token])


def test_terms_are_the_parts_of_the_stream(prepared: Any) -> None:
    name, model, row, _ = prepared
    token = 3 if name.startswith("vit") else 6
    position = -1 if name.startswith("encoder") else None
    result = attnlab.attribute(model, "text", token, position=position)
    expected = run(model, *row.values())
    logits = expected.logits[0] if name.startswith("vit") else expected.logits[0, -1]
    assert result.logit == pytest.approx(float(logits[token]), abs=1e-5)
    assert result.total == pytest.approx(result.logit, abs=1e-4)
    assert hooks_of(model) == 0
    assert all(parameter.grad is None for parameter in model.parameters())
    kinds = {term.kind for term in result.terms}
    assert ("output transform" in kinds) == name.startswith("encoder")
    if name.startswith("encoder"):
        return
    with torch.no_grad():
        check_terms(name, model, expected, result)


def check_terms(name: str, model: Any, expected: HandWritten, result: Any) -> None:
    token = result.token_id
    value = {(term.kind, term.layer, term.head, term.name): term.value for term in result.terms}
    first = direct(name, model, expected, expected.streams[0], token)
    assert value["embedding", None, None, ""] == pytest.approx(first, abs=1e-5)
    layers = list(dict.fromkeys(term.name for term in result.terms if term.kind == "head"))
    own = list(zip(expected.heads, expected.projections, strict=True))[-len(layers) :]
    assert sum(term.kind == "head" for term in result.terms) == sum(z.shape[1] for z, _ in own)
    names = [site.name for site in attention_sites(model)]
    for layer, (z, projection) in zip(layers, own, strict=True):
        zero = projection(torch.zeros_like(z).transpose(1, 2).flatten(2))
        number = names.index(layer)
        for head in range(z.shape[1]):
            alone = torch.zeros_like(z)
            alone[:, head] = z[:, head]
            part = projection(alone.transpose(1, 2).flatten(2)) - zero
            added = direct(name, model, expected, part, token)
            assert value["head", number, head, layer] == pytest.approx(added, abs=1e-5)
        bias = value.get(("attention bias", number, None, layer), 0.0)
        assert bias == pytest.approx(direct(name, model, expected, zero, token), abs=2e-5)
    for block, feed in enumerate(expected.feeds):
        added = direct(name, model, expected, feed, token)
        assert value["feed-forward", block, None, ""] == pytest.approx(added, abs=2e-5)


def test_post_norm_terms_sum_to_the_logit() -> None:
    model = model_of("decoder", "softmax", norm_first=False)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    result = attnlab.attribute(model, [3, 4, 5, 3], 6)
    assert result.total == pytest.approx(result.logit, abs=1e-4)
    assert {"norm bias", "attention bias", "head", "feed-forward"} <= {t.kind for t in result.terms}
    assert not result.notes


@pytest.mark.parametrize("metric", ["loss", "logit", "probability", "distance", "logit_difference"])
def test_the_importance_of_every_head(prepared: Any, metric: Any) -> None:
    name, model, row, source = prepared
    predicts_tokens = name.split()[0] not in ("encoder", "vit")
    options: dict[str, Any] = {} if metric in ("loss", "distance") else {"answer": 3}
    options |= {"other": 2} if metric == "logit_difference" else {}
    options |= {"position": 1} if name.startswith("encoder") and options else {}
    if metric == "loss" and not predicts_tokens:
        with pytest.raises(ValueError, match="the loss needs a model that predicts next tokens"):
            attnlab.head_importance(model, "text", metric=metric)
        return
    result = attnlab.head_importance(model, "text", metric=metric, **options)
    assert result.replayed

    def number(logits: Tensor) -> float:
        if metric == "loss":
            return float(F.cross_entropy(logits[0, :-1], source.ids[0, 1:]))
        if metric == "distance":
            return float((logits - whole).norm() / whole.norm())
        at = logits[0] if logits.dim() == 2 else logits[0, options.get("position", -1)]
        at = at.softmax(-1) if metric == "probability" else at
        return float(at[3] - at[2]) if metric == "logit_difference" else float(at[3])

    whole = run(model, *row.values()).logits
    assert result.baseline == pytest.approx(number(whole), abs=1e-5)
    for head in result.heads:

        def zero(layer: int, z: Tensor, head: Any = head) -> Tensor:
            if layer != head.layer:
                return z
            z = z.clone()
            z[:, head.head] = 0
            return z

        without = run(model, *row.values(), edits=Edits(heads=zero)).logits
        assert head.effect == pytest.approx(number(without) - number(whole), abs=1e-5)
        assert result.effects[head.layer][head.head] == head.effect
    assert "head-importance" in to_json(result.report())
    assert hooks_of(model) == 0


@pytest.mark.parametrize("how", ["zero", "mean", "resample"])
def test_batches_of_equal_and_unequal_texts_agree(how: Any) -> None:
    model, _ = model_and_inputs("decoder softmax")
    texts = [[3, 4, 5, 6], [7, 8, 2], [5, 4, 3, 3]]
    together = attnlab.head_importance(model, texts, how=how)
    alone = [attnlab.head_importance(model, text, how=how) for text in texts]
    for number, head in enumerate(together.heads):
        effects = [each.heads[number].effect for each in alone]
        assert head.per_text == pytest.approx(effects, abs=1e-6)
        assert head.effect == pytest.approx(sum(effects) / 3, abs=1e-6)
    assert together.texts == 3


def test_each_text_is_read_at_its_own_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = model_and_inputs("encoder softmax")
    inspected: Any = SimpleNamespace(mask_id=2, token=str)
    rows = [torch.tensor([row]) for row in ([2, 5, 6, 7], [5, 6, 7, 2])]
    sources = [ModelInput(model, inspected, {"ids": ids}, ids, [], "m") for ids in rows]
    monkeypatch.setattr("attnlab.interpret._head_importance._read", lambda *_: sources)
    result = attnlab.head_importance(model, "texts", metric="logit", answer=3)
    with torch.no_grad():
        whole = [model(ids)[0, at, 3] for ids, at in zip(rows, (0, 3), strict=True)]
    assert result.baseline == pytest.approx(float(sum(whole)) / 2, abs=1e-5)
    for head in result.heads:
        with torch.no_grad(), attnlab.intervene(model).ablate(head.layer, head.head):
            after = [model(ids)[0, at, 3] for ids, at in zip(rows, (0, 3), strict=True)]
        expected = [float(x - y) for x, y in zip(after, whole, strict=True)]
        assert head.per_text == pytest.approx(expected, abs=1e-5)


def test_a_layer_without_head_outputs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = StackConfig(vocabulary=9, context=16, width=24, layers=1, heads=2)
    model = Seq2Seq(Seq2SeqConfig(stack, stack, copy=True)).eval()
    row = {"source": torch.tensor([[3, 4, 5]]), "target": torch.tensor([[3, 4]])}
    source = ModelInput(model, None, row, row["target"], ["3", "4"], "model")
    monkeypatch.setattr("attnlab.interpret._head_importance._read", lambda *_: [source])
    notes = attnlab.head_importance(model, "text").notes
    assert notes == ["Not ablated, because they show no outputs of their heads: copy."]


def test_a_metric_of_your_own_and_progress() -> None:
    model, _ = model_and_inputs("gpt2")
    steps: list[tuple[int, int]] = []
    result = attnlab.head_importance(
        model,
        [[5, 6, 7]],
        metric=lambda logits, ids: logits[-1].softmax(-1)[ids[0]],
        progress=lambda done, total: steps.append((done, total)),
    )
    same = attnlab.head_importance(model, [[5, 6, 7]], metric="probability", answer=5)
    assert [h.effect for h in result.heads] == pytest.approx(
        [h.effect for h in same.heads], abs=1e-7
    )
    assert steps == [(n + 1, 6) for n in range(6)]


@pytest.mark.parametrize("name", ["gpt2", "llama", "decoder gated_delta"])
def test_the_patching_map(name: str) -> None:
    model, inputs = model_and_inputs(name)
    bad = inputs["ids"][:1]
    good = bad.clone()
    good[0, 2] = 8 if int(bad[0, 2]) != 8 else 7
    patched = attnlab.patching_map(model, good, bad, 6, other=3)
    one, other = run(model, good), run(model, bad)
    clean, corrupted = (float(x.logits[0, -1, 6] - x.logits[0, -1, 3]) for x in (one, other))
    assert (patched.clean, patched.corrupted) == pytest.approx((clean, corrupted), abs=1e-5)
    assert patched.restored.shape == (len(one.streams), bad.shape[1])
    for layer, position in ((0, 2), (1, 2), (1, bad.shape[1] - 1), (2, 1), (2, bad.shape[1] - 1)):

        def patch(number: int, x: Tensor, layer: int = layer, position: int = position) -> Tensor:
            if number != layer - 1:
                return x
            x = x.clone()
            x[:, position] = one.streams[layer][:, position]
            return x

        logits = run(model, bad, edits=Edits(stream=patch)).logits[0, -1]
        expected = float(logits[6] - logits[3])
        if layer == 0:  # only this token differs
            expected = clean
        assert float(patched.values[layer, position]) == pytest.approx(expected, abs=1e-5)
    torch.testing.assert_close(patched.restored, (patched.values - corrupted) / (clean - corrupted),
                               rtol=1e-3, atol=1e-3)  # fmt: skip
    assert "restores" in to_markdown(patched.report())
    assert hooks_of(model) == 0


def test_the_tuned_lens_comes_nearer_on_held_out_texts() -> None:
    model = model_of("decoder", "softmax")
    random = torch.Generator().manual_seed(5)
    texts = [torch.randint(2, 9, (9,), generator=random) for _ in range(40)]
    lens = attnlab.logit_lens(model, texts[0], tuned=True, texts=texts)
    probe = lens.probe
    assert probe is not None
    assert (probe.tokens, probe.held_out_tokens) == (270, 90)
    assert probe.tuned_divergence[0] < probe.plain_divergence[0]
    assert probe.tuned_divergence[-1] == pytest.approx(0, abs=1e-4)
    again = attnlab.logit_lens(model, texts[0], tuned=probe)
    assert lens.logits is not None
    assert again.logits is not None
    assert torch.equal(lens.logits, again.logits)
    assert "held-out" in to_markdown(lens.report())


def test_average_by_position_and_class() -> None:
    model, _ = model_and_inputs("gpt2")
    texts = [[5, 6, 7, 8], [9, 5, 6]]
    caches = [attnlab.record(model, text)["1.attention"][2] for text in texts]
    mean = attnlab.average(model, texts, 1, 2)
    torch.testing.assert_close(mean.weights[:3, :3], (caches[0][:3, :3] + caches[1]) / 2)
    torch.testing.assert_close(mean.weights[3], caches[0][3])
    assert mean.counts == [2, 2, 2, 1]
    by_class = attnlab.average(model, texts, 1, 2, by="class")
    assert sum(by_class.counts) == 7
    rows = by_class.weights.sum(1)[torch.tensor(by_class.counts) > 0]
    torch.testing.assert_close(rows, torch.ones_like(rows))
    assert "Over 2 texts" in to_markdown(mean.report())


lab: Any = attnlab  # mistakes that the types would show
BAD = [
    (
        lambda m: lab.head_importance(m, [5, 6, 7], metric="best"),
        "no metric 'best'; give one of loss",
    ),
    (
        lambda m: lab.head_importance(m, [5, 6, 7], metric="logit", answer=99),
        "no answer 99; the model predicts 0 to 59",
    ),
    (
        lambda m: lab.head_importance(m, [5, 6, 7], metric="logit", answer="a"),
        "the model has no tokenizer; give its number",
    ),
    (
        lambda m: lab.head_importance(m, [5, 6, 7], metric="logit_difference", answer=3),
        "needs two tokens",
    ),
    (
        lambda m: lab.head_importance(m, [5, 6, 7], metric="loss", answer=3),
        "loss takes no answer",
    ),
    (
        lambda m: lab.head_importance(m, [5, 6], metric="logit", position=9),
        "no position 9; the text has 2 tokens",
    ),
    (lambda m: lab.head_importance(m, []), "there are no texts"),
    (lambda m: lab.head_importance(m), "give either texts or images"),
    (lambda m: lab.head_importance(m, [5]), "a text of two or more"),
    (lambda m: lab.attribute(m, [5, 6], 60), "no token 60; the model predicts 0 to 59"),
    (lambda m: lab.attribute(m, [5, 6], 1.5), r"token is 1\.5; give a text of one token"),
    (lambda m: lab.logit_lens(m, [5, 6], tuned=True), "needs texts to fit its probes"),
    (lambda m: lab.logit_lens(m, [5, 6], texts=[[5]]), "texts fit the tuned lens"),
    (
        lambda m: lab.find_heads(m, "copying"),
        "no kind of head 'copying'; give one of induction",
    ),
    (lambda m: lab.find_heads(m, threshold=2), "threshold is 2"),
    (lambda m: lab.average(m, [[5, 6]], 9, 0), "no layer 9; "),
    (lambda m: lab.average(m, [[5, 6]], 0, 9), "no head 9 in .*, which has 3"),
    (
        lambda m: lab.average(m, [[5, 6]], 0, 0, by="color"),
        "by is 'color'; give position or class",
    ),
    (
        lambda m: lab.patching_map(m, [5, 6], [5, 6, 7], 3),
        "the clean text has 2 tokens and the corrupted one 3",
    ),
    (lambda m: lab.patching_map(m, [5, 6], [5, 6], 3), "both texts have the same tokens"),
    (lambda m: lab.record(m, [[[5]]]), "token ids have shape"),
    (lambda m: lab.record(m, [[5, 6], [7, 8]]), "token ids have 2 rows; give the ids of one text"),
    (lambda m: lab.head_importance(m, [5, 6, 7], heads=[]), "heads is empty; give pairs"),
    (lambda m: lab.head_importance(m, [5, 6, 7], heads=[(0, 0.5)]), "give pairs of whole numbers"),
    (
        lambda m: lab.head_importance(m, [5], metric="distance", how="mean"),
        "every layer has one query only",
    ),
    (
        lambda m: lab.head_importance(m, [5, 6, 7], metric="logit", position=0.5),
        r"position is 0\.5; give a number from 0 to 2",
    ),
    (lambda m: lab.record(m, "text"), "has no tokenizer"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message[:30] for _, message in BAD])
def test_bad_input_is_one_line(call: Any, message: str) -> None:
    model, _ = model_and_inputs("gpt2")
    with pytest.raises(ValueError, match=message) as error:
        call(model)
    assert "\n" not in str(error.value)
    assert hooks_of(model) == 0
