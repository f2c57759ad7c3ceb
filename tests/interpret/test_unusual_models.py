"""Interventions in models with shared weights, two stacks, shared keys, or bfloat16 numbers.

Letters: H heads, T tokens, W width.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch

import attnlab
from attnlab.interpret._attention_sites import with_stream
from attnlab.interpret._model_input import ModelInput
from attnlab.interpret._replay import repeat_rows
from tests.support.intervention_models import hooks_of
from tests.support.small_transformers import GROUPED, WORDS, small, transformers


def test_a_record_separates_the_runs_of_a_shared_layer() -> None:
    model = small("albert")
    cache = attnlab.record(model, [5, 6, 7, 8])
    first, second = cache.layers
    for layer in (first, second):
        assert layer.attention is not None
        assert layer.v is not None
        assert layer.heads is not None
        torch.testing.assert_close(layer.heads, layer.attention @ layer.v, rtol=1e-4, atol=1e-5)
    assert first.stream is not None
    assert second.input is not None
    assert torch.equal(first.stream, second.input)
    assert second.stream is not None
    assert torch.equal(second.stream, cache["logits"])
    with pytest.raises(ValueError, match="runs several times with the same weights"):
        attnlab.intervene(model).patch(0, 1, cache)
    result = attnlab.head_importance(model, [5, 6, 7], metric="distance")
    assert len(result.heads) == 3
    assert not result.replayed


def test_an_encoder_decoder_means_its_decoder_whatever_the_lengths(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = small("bart")
    target = torch.tensor([[0, 5, 6, 5, 6]])
    sources = [
        ModelInput(
            model, None,
            {"input_ids": torch.arange(7, 7 + length)[None], "decoder_input_ids": target},
            target, ["t"] * 5, "bart",
        )
        for length in (5, 7)
    ]  # fmt: skip
    for module in ("_average_attention", "_find_heads"):
        monkeypatch.setattr(f"attnlab.interpret.{module}.read_all", lambda *_, **__: sources)
    heads = attnlab.find_heads(model, "previous", ["texts"])
    assert len(heads.layers) == 2
    assert all("decoder" in layer for layer in heads.layers)
    name = attnlab.average(model, ["texts"], heads.numbers[0], 0).layer_name
    assert name == heads.layers[0]


def test_a_model_whose_last_layers_read_keys_of_earlier_ones() -> None:
    torch.manual_seed(0)
    config = transformers.Gemma4TextConfig(
        **WORDS, **{**GROUPED, "num_hidden_layers": 4}, num_kv_shared_layers=1,
        layer_types=["sliding_attention", *["full_attention"] * 3], hidden_size_per_layer_input=0,
        global_head_dim=4, vocab_size_per_layer_input=60,
    )  # fmt: skip
    model: Any = transformers.Gemma4ForCausalLM(config).eval()
    ids = torch.tensor([[5, 6, 7, 8]])
    result = attnlab.head_importance(model, ids, metric="logit", answer=3, heads=[(0, 1), (3, 2)])
    assert not result.replayed
    with torch.no_grad():
        whole = model(ids).logits[0, -1, 3]
        for head in result.heads:
            with attnlab.intervene(model).ablate(head.layer, head.head):
                after = model(ids).logits[0, -1, 3]
            assert head.effect == pytest.approx(float(after - whole), abs=1e-6)
    with pytest.raises(ValueError, match="its blocks cannot be run one by one"):
        attnlab.patching_map(model, [5, 6, 7], [5, 8, 7], 3)
    assert hooks_of(model) == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_logit_in_half_precision_is_attributed(dtype: torch.dtype) -> None:
    model = small("llama")
    expected = attnlab.attribute(model, [5, 6, 7], 3)
    result = attnlab.attribute(model.to(dtype), [5, 6, 7], 3)
    assert not result.notes
    for one, other in zip(result.terms, expected.terms, strict=True):
        assert one.kind == other.kind
        assert one.value == pytest.approx(other.value, abs=0.02)


def test_attribution_names_the_layers_of_a_hybrid_as_interventions_do() -> None:
    torch.manual_seed(0)
    config = transformers.BambaConfig(
        **WORDS, **{**GROUPED, "num_hidden_layers": 3}, attn_layer_indices=[2], mamba_n_heads=6,
        mamba_d_head=8, mamba_d_state=5, mamba_n_groups=1, mamba_chunk_size=4,
    )  # fmt: skip
    model: Any = transformers.BambaForCausalLM(config).eval()
    result = attnlab.attribute(model, [5, 6, 7, 8], 3)
    assert result.total == pytest.approx(result.logit, abs=1e-4)
    assert {(t.layer, t.name) for t in result.terms if t.kind == "head"} == {
        (2, site.name) for site in attnlab.intervene(model).sites
    }
    rest = [(t.kind, t.layer) for t in result.terms if t.kind in ("block", "feed-forward")]
    assert rest == [("block", 0), ("block", 1), ("feed-forward", 2)]


def test_a_model_that_computes_with_time_first() -> None:
    """FSMT's layers get (T, B, W): a mean is over the tokens of a row, not over the rows."""
    torch.manual_seed(0)
    sizes = {f"{part}_{name}": size for part in ("encoder", "decoder") for name, size in (
        ("layers", 1), ("attention_heads", 2), ("ffn_dim", 12),
    )}  # fmt: skip
    config = transformers.FSMTConfig(
        langs=["en", "de"], src_vocab_size=20, tgt_vocab_size=20, d_model=8,
        max_position_embeddings=16, init_std=0.5, **sizes,
    )  # fmt: skip
    model = transformers.FSMTForConditionalGeneration(config).eval()
    source, target = torch.randint(5, 20, (3, 7)), torch.randint(5, 20, (3, 4))

    @torch.no_grad()
    def logits(rows: slice) -> torch.Tensor:
        inputs = {"input_ids": source[rows], "decoder_input_ids": target[rows], "use_cache": False}
        result: torch.Tensor = model(**inputs).logits
        return result

    whole = logits(slice(0, 1))
    with attnlab.intervene(model).ablate(0, how="mean"):
        together, alone = logits(slice(None)), logits(slice(0, 1))
    assert float((alone - whole).abs().max()) > 1e-3
    torch.testing.assert_close(together[:1], alone, rtol=1e-4, atol=1e-5)
    assert torch.equal(logits(slice(0, 1)), whole)
    assert hooks_of(model) == 0


def test_a_block_that_returns_a_named_tuple() -> None:
    class Pair(NamedTuple):
        stream: torch.Tensor
        rest: int

    stream = torch.zeros(1, 3, 4)
    pair = Pair(stream + 1, 7)
    changed = with_stream(pair, stream)
    assert isinstance(changed, Pair)
    assert changed.stream is stream
    assert changed.rest == 7
    repeated = repeat_rows(pair, 5)
    assert isinstance(repeated, Pair)
    assert repeated.stream.shape == (5, 3, 4)
    assert repeated.rest == 7
