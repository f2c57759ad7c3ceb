"""Layers and models: counts, cached decoding, padding, folders; on sizes that all differ."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from attnlab import MECHANISMS, Mask, models
from attnlab._create_mechanism import create_attention
from attnlab.generate import Sampling, beam_search, generate
from attnlab.layers import Block, FeedForward, MultiHead
from attnlab.models import (
    ConvNet,
    ConvNetConfig,
    Decoder,
    Encoder,
    EncoderConfig,
    Seq2Seq,
    Seq2SeqConfig,
    StackConfig,
    ViT,
    ViTConfig,
)
from attnlab.models.vision import matched_convnet
from attnlab.position import RotaryPositions, SinusoidalPositions

CAUSAL = [name for name, kind in MECHANISMS.items() if kind.card.causal]
CROSS = [name for name, kind in MECHANISMS.items() if kind.card.cross]
SMALL = {"bigbird": "bigbird:block=2", "window": "window:window=3", "linformer": "linformer:rank=5"}


def ids(seed: int, *shape: int, vocabulary: int = 11) -> Tensor:
    return torch.randint(0, vocabulary, shape, generator=torch.Generator().manual_seed(seed))


def config(**changes: Any) -> StackConfig:
    settings = {"vocabulary": 11, "context": 24, "width": 24, "layers": 2, "heads": 6}
    return StackConfig(**{**settings, **changes})


def decoder(**changes: Any) -> Any:
    torch.manual_seed(0)
    return Decoder(config(**changes)).double().eval()


# The course's model


def test_course_parameter_counts() -> None:
    assert Decoder.preset("course").parameter_count() == 3_323_392
    synthesizer = Decoder.preset("course", attention="synthesizer")
    assert synthesizer.parameter_count() == 3_076_988
    assert synthesizer.max_length == 127
    assert Decoder.preset("course").max_length == 128
    rotary = Decoder.preset("course", position="rotary")
    assert rotary.parameter_count() == 3_290_624
    assert rotary.max_length is None
    with pytest.raises(ValueError, match="at most 127"):
        synthesizer(ids(0, 1, 128))
    with pytest.raises(ValueError, match="no preset 'corse'"):
        Decoder.preset("corse")


def test_course_weights_and_dropout() -> None:
    torch.manual_seed(0)
    model: Any = Decoder.preset("course")
    for name, parameter in model.named_parameters():
        parameter = parameter.detach()
        if parameter.dim() == 2:
            assert float(parameter.std()) == pytest.approx(0.02, rel=0.05), name
            assert abs(float(parameter.mean())) < 1e-3, name
        elif name.endswith("bias"):
            assert not bool(parameter.any()), name
    rates = [m.p for m in model.modules() if isinstance(m, nn.Dropout)]
    assert rates == [0.1] * 5  # embeddings, and one for each block's residual paths
    assert [block.attention.mechanism.dropout for block in model.stack.blocks] == [0.1] * 4


def test_decoder_equals_a_plain_gpt() -> None:
    """The same weights in PyTorch's own layers, written out."""
    model = decoder(layers=1)
    x = ids(1, 3, 7)
    stack, block = model.stack, model.stack.blocks[0]
    h = stack.embedding(x) + stack.position.table[:7]
    reference = nn.MultiheadAttention(24, 6, batch_first=True, dtype=torch.float64)
    reference.in_proj_weight, reference.in_proj_bias = (
        block.attention.project.weight,
        block.attention.project.bias,
    )
    reference.out_proj.weight, reference.out_proj.bias = (
        block.attention.out.weight,
        block.attention.out.bias,
    )
    n = F.layer_norm(h, (24,))
    h = h + reference(n, n, n, attn_mask=torch.ones(7, 7).triu(1).bool(), need_weights=False)[0]
    n = F.layer_norm(h, (24,))
    h = h + block.feed_forward.fall(F.gelu(block.feed_forward.rise(n)))
    expected = F.linear(F.layer_norm(h, (24,)), model.head.weight)
    assert torch.allclose(model(x), expected, atol=1e-12)


# Decoding


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary", "none"])
@pytest.mark.parametrize("name", [*CAUSAL, "4*softmax+2*favor", "3*window:window=3+3*elu"])
def test_cached_decoding_equals_the_whole_forward(name: str, position: str) -> None:
    """Token by token, prompts of unequal length in one batch, grouped keys where possible."""
    key_heads = 6 if "+" in name else 3
    attention = SMALL.get(name, name)
    model = decoder(attention=attention, position=position, key_heads=key_heads)
    prompts = [ids(2, n).tolist() for n in (9, 1, 4)]
    written = generate(model, prompts, new_tokens=8)
    with torch.no_grad():
        for prompt, (actual,) in zip(prompts, written, strict=True):
            text = list(prompt)
            for token, log_probability in zip(actual.ids, actual.log_probabilities, strict=True):
                logits = model(torch.tensor([text]))[0, -1]
                assert int(logits.argmax()) == token
                assert float(logits.log_softmax(-1)[token]) == pytest.approx(log_probability)
                text.append(token)


@pytest.mark.parametrize("cross", CROSS)
def test_seq2seq_decodes_as_its_forward(cross: str) -> None:
    torch.manual_seed(0)
    model = Seq2Seq(
        Seq2SeqConfig(
            encoder=config(width=18, layers=1, heads=3, vocabulary=13, position="sinusoidal"),
            decoder=config(context=20),
            cross_attention=SMALL.get(cross, cross),
        )
    )
    model = model.double().eval()
    source, lengths = ids(3, 3, 10, vocabulary=13), torch.tensor([10, 3, 7])
    keys = torch.arange(10) < lengths[:, None]
    context = {"source": source, "source_keys": keys}
    for written in (
        generate(model, [[1], [2], [3]], new_tokens=6, context=context),
        generate(
            model,
            [[1], [2], [3]],
            new_tokens=6,
            samples=2,
            context=context,
            sampling=Sampling(temperature=1.0),
        ),
        beam_search(model, [[1], [2], [3]], new_tokens=6, width=3, context=context),
    ):
        with torch.no_grad():
            for row, samples in enumerate(written):
                for one in samples:
                    text = torch.tensor([[row + 1, *one.ids[:-1]]])
                    alone = source[row : row + 1, : lengths[row]]
                    logits = model(alone, text)[0].log_softmax(-1)
                    expected = logits[torch.arange(6), torch.tensor(one.ids)]
                    assert one.log_probabilities == pytest.approx(expected.tolist(), abs=1e-8)


def test_padding_changes_nothing_in_any_model() -> None:
    x, keys = ids(1, 2, 9), torch.arange(9) < torch.tensor([9, 4])[:, None]
    other = torch.where(keys, x, (x + 1) % 11)
    for name in CAUSAL:
        model = decoder(attention=SMALL.get(name, name))
        assert torch.allclose(model(x, keys)[keys], model(other, keys)[keys], atol=1e-12)
        assert torch.allclose(model(x, keys)[1, :4], model(x[1:, :4])[0], atol=1e-12)
    for pooling in ("first", "mean"):
        encoder = Encoder(EncoderConfig(**vars(config()), pooling=pooling)).double().eval()
        whole, alone = encoder.encode(x, keys), encoder.encode(x[1:, :4])
        assert torch.allclose(whole[1, :4], alone[0], atol=1e-12)
        pooled = encoder.pool(whole, keys)[1], encoder.pool(alone)[0]
        assert torch.allclose(*pooled)
        assert encoder(x, keys).shape == (2, 9, 11)


# Layers


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_only_the_projections_that_are_used(name: str) -> None:
    card, spec = MECHANISMS[name].card, SMALL.get(name, name)
    causal = not card.bidirectional
    layer = MultiHead(24, 6, spec, key_heads=2, max_length=9, causal=causal)
    used = 24 * card.uses_query + 8 * card.uses_key + 8
    assert layer.project.weight.shape == (used, 24)
    assert layer(torch.randn(2, 7, 24), Mask(causal)).shape == (2, 7, 24)
    if card.cross:
        cross = MultiHead(24, 6, spec, memory_width=10, max_length=9)
        assert (cross.query is not None) == card.uses_query
        out = cross(torch.randn(2, 3, 24), Mask(), torch.randn(2, 7, 10))
        assert out.shape == (2, 3, 24)
    else:
        with pytest.raises(ValueError, match="cannot do cross-attention"):
            MultiHead(24, 6, spec, memory_width=10, max_length=9)
    if not card.causal:
        with pytest.raises(ValueError, match="no causal form"):
            Decoder(config(attention=name))
    if not card.bidirectional:
        with pytest.raises(ValueError, match=f"{name}: exists only in causal form"):
            MultiHead(24, 6, spec, max_length=9)
        with pytest.raises(ValueError, match=f"{name}: exists only in causal form"):
            Encoder(EncoderConfig(**vars(config(attention=spec))))


def test_feed_forward_kinds_by_hand() -> None:
    x = torch.tensor([[1.0, -2.0]])
    for kind, expected in (("gelu", F.gelu(x)), ("relu2", torch.tensor([[1.0, 0.0]]))):
        layer = FeedForward(2, kind, inner=2, bias=False)
        for matrix in (layer.rise.weight, layer.fall.weight):
            nn.init.eye_(matrix)
        assert torch.allclose(layer(x), expected)
    layer = FeedForward(2, "swiglu", inner=1, bias=False)
    nn.init.eye_(layer.rise.weight)  # gate 1, value -2
    nn.init.ones_(layer.fall.weight)
    assert float(layer(x)[0, 0].detach()) == pytest.approx(-2 / (1 + math.exp(-1)))
    assert FeedForward(24, "swiglu").rise.weight.shape == (128, 24)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_block_order_of_norms(norm: str, norm_first: bool) -> None:
    block = Block(8, 2, norm=norm, norm_first=norm_first).double()
    x = torch.randn(1, 3, 8, dtype=torch.float64)
    normed = block.attention_norm
    if norm_first:
        h = x + block.attention(normed(x), Mask())
        expected = h + block.feed_forward(block.feed_norm(h))
    else:
        h = normed(x + block.attention(x, Mask()))
        expected = block.feed_norm(h + block.feed_forward(h))
    assert torch.allclose(block(x, Mask()), expected)


def test_attention_by_text() -> None:
    mechanism: Any = create_attention("favor:features=64,orthogonal=false", head_dim=4, heads=6)
    assert (len(mechanism.draws), mechanism.orthogonal, mechanism.heads) == (64, False, 6)
    mixed: Any = create_attention(
        "2*window:window=5 + 4*softmax", head_dim=4, heads=6, dropout=0.25
    )
    assert [(m.name, m.heads) for m in mixed.members] == [("window", 2), ("softmax", 4)]
    assert mixed.members[0].dropout == 0.25
    for text, words in (
        ("2*window+3*softmax", "6 in all"),
        ("window+softmax", "how many heads"),
        ("x*window", "'x' is not a number"),
        ("favor:features", "option=value"),
        ("favr", "did you mean 'favor'"),
    ):
        with pytest.raises(ValueError, match=words.replace("*", r"\*")):
            create_attention(text, head_dim=4, heads=6)
    with pytest.raises(ValueError, match="lists 1 layers"):
        Decoder(config(attention=["softmax"]))
    model = decoder(attention=["softmax", "2*favor+4*window"])
    assert model.stack.blocks[1].attention.mechanism.members[1].name == "window"


# Positions


def test_sinusoidal_positions_and_their_shift() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        codes = SinusoidalPositions(6)
        table = codes(torch.arange(10_001)[None])[0]
    finally:
        torch.set_default_dtype(torch.float32)
    assert table[0].tolist() == [0, 1, 0, 1, 0, 1]
    assert table[3, :2].tolist() == pytest.approx([math.sin(3), math.cos(3)])
    assert table[7, 2:4].tolist() == pytest.approx(
        [math.sin(7 / 10000 ** (2 / 6)), math.cos(7 / 10000 ** (2 / 6))]
    )
    for steps in (1, 5, -2):
        moved = table[2:9_000] @ codes.shift_matrix(steps).T
        assert torch.allclose(moved, table[2 + steps : 9_000 + steps], atol=1e-9)
    with pytest.raises(ValueError, match="even"):
        SinusoidalPositions(5)


def test_rotary_products_depend_on_distance_alone() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        rotary = RotaryPositions(8, length=4)  # grows by itself
    finally:
        torch.set_default_dtype(torch.float32)
    q, k = torch.randn(2, 8, dtype=torch.float64)

    def product(s: int, t: int) -> float:
        turned = [
            rotary(x.view(1, 1, 1, 8), torch.tensor([[at]])).flatten() for x, at in ((q, s), (k, t))
        ]
        return float(turned[0] @ turned[1])

    assert product(7, 3) == pytest.approx(product(104, 100), abs=1e-6)
    assert product(0, 0) == pytest.approx(float(q @ k))
    assert abs(product(7, 3) - product(7, 4)) > 1e-3


# Images


@pytest.mark.parametrize("pooling", ["class", "mean"])
@pytest.mark.parametrize("position", ["learned", "sinusoidal", "sinusoidal-2d"])
def test_vit(pooling: str, position: str) -> None:
    for name in MECHANISMS:
        settings = ViTConfig(
            classes=5,
            image_size=12,
            channels=2,
            patch=4,
            width=24,
            layers=1,
            heads=6,
            attention=SMALL.get(name, name),
            pooling=pooling,
            position=position,
        )
        if not MECHANISMS[name].card.bidirectional:
            with pytest.raises(ValueError, match=f"{name}: exists only in causal form"):
                ViT(settings)
            continue
        model = ViT(settings)
        assert model(torch.randn(3, 2, 12, 12)).shape == (3, 5)
        assert model.encode(torch.randn(3, 2, 12, 12)).shape[1] == 9 + (pooling == "class")
    with pytest.raises(ValueError, match=r"\(3, 2, 12, 11\)"):
        model(torch.randn(3, 2, 12, 11))
    with pytest.raises(ValueError, match="give a divisor of image_size 13"):
        ViTConfig(classes=5, image_size=13, patch=4)


def test_patch_embedding_is_a_linear_map_of_flattened_patches() -> None:
    model = ViT(
        ViTConfig(classes=5, image_size=12, channels=2, patch=4, width=24, heads=6)
    ).double()
    images = torch.randn(3, 2, 12, 12, dtype=torch.float64)
    patches = images.unfold(2, 4, 4).unfold(3, 4, 4)  # (3, 2, 3, 3, 4, 4)
    flat = patches.permute(0, 2, 3, 1, 4, 5).reshape(3, 9, 32)
    expected = F.linear(flat, model.patches.weight.flatten(1), model.patches.bias)
    actual = model.patches(images).flatten(2).transpose(1, 2)
    assert torch.allclose(actual, expected, atol=1e-12)


def test_convnet_matches_in_size() -> None:
    vit = ViT(ViTConfig(classes=10, width=96, layers=4))
    settings = matched_convnet(vit.parameter_count(), classes=10, channels=3)
    model = ConvNet(settings)
    assert abs(model.parameter_count() / vit.parameter_count() - 1) < 0.05
    assert model(torch.randn(2, 3, 32, 32)).shape == (2, 10)


# Folders


def every_model() -> list[Any]:
    return [
        Decoder(config(tie=True, attention=["favor:features=8", "2*window+4*softmax"])),
        Encoder(EncoderConfig(**vars(config(attention="linformer:rank=3")))),
        Seq2Seq(Seq2SeqConfig(config(), config(layers=1), share=True)),
        ViT(ViTConfig(classes=3, width=24, heads=6, layers=1)),
        ConvNet(ConvNetConfig(classes=3, width=8)),
    ]


@pytest.mark.parametrize("index", range(5))
def test_save_and_load(index: int, tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = every_model()[index].eval()
    model.save_pretrained(tmp_path / "model")
    for loaded in (
        type(model).from_pretrained(tmp_path / "model"),
        models.load(tmp_path / "model"),
    ):
        assert type(loaded) is type(model)
        assert loaded.config == model.config
        assert loaded.parameter_count() == model.parameter_count()
        for (name, one), (_, other) in zip(
            model.state_dict().items(), loaded.state_dict().items(), strict=True
        ):
            assert torch.equal(one, other), name


def test_bad_folders(tmp_path: Path) -> None:
    def fails(word: str) -> None:
        with pytest.raises(ValueError, match=word) as caught:
            models.load(tmp_path)
        assert "\n" not in str(caught.value)

    fails("config.json is missing")
    (tmp_path / "config.json").write_text("{")
    fails("not JSON")
    (tmp_path / "config.json").write_text('{"model": "gpt5"}')
    fails("no model 'gpt5'")
    described = Decoder(config()).description()
    (tmp_path / "config.json").write_text(json.dumps({**described, "color": 1}))
    fails("unknown color")
    (tmp_path / "config.json").write_text(json.dumps({"model": "decoder", "context": 3}))
    fails("missing vocabulary")
    (tmp_path / "config.json").write_text(json.dumps(described))
    fails("model.safetensors is missing")
    (tmp_path / "model.safetensors").write_bytes(b"nonsense")
    fails("model.safetensors: these weights cannot be read")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"width": 12},
            "stack.embedding.weight has shape (11, 12) in the file, but (11, 24) as configured",
        ),
        ({"layers": 1}, "stack.blocks.1.attention.project.weight is not in the file"),
        ({"layers": 3}, "the file has stack.blocks.2.attention.out.bias, which is not configured"),
    ],
)
def test_weights_of_another_configuration(
    changes: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    """Reports only the first difference, in one sentence."""
    Decoder(config(**changes)).save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(Decoder(config()).description()))
    with pytest.raises(ValueError, match="do not fit") as caught:
        models.load(tmp_path)
    message = f"these weights do not fit the configuration in config.json: {problem}"
    assert str(caught.value) == f"{tmp_path / 'model.safetensors'}: {message}"


def test_flops_count_the_weights_that_multiply() -> None:
    model = Decoder.preset("course")
    matrices = 4 * (4 * 256 * 256 + 8 * 256 * 256) + 256 * 256
    vectors = sum(p.numel() for p in model.parameters() if p.dim() == 1)
    expected = 6 * (matrices + vectors) + 12 * 4 * 256 * 100
    assert model.flops_per_token(100) == expected


@pytest.mark.parametrize("copy", [False, True])
def test_flops_of_a_reader_and_writer_are_those_that_pytorch_counts(copy: bool) -> None:
    """The encoder's weights multiply only source tokens, the decoder's only target tokens."""
    sizes: dict[str, Any] = {
        "vocabulary": 31, "context": 40, "width": 24, "heads": 3, "bias": False,
    }  # fmt: skip
    model = Seq2Seq(
        Seq2SeqConfig(
            StackConfig(**sizes, layers=1, position="none"),
            StackConfig(**sizes, layers=2, position="none", tie=True),
            share=True,
            copy=copy,
        )
    )
    B, S, T = 2, 37, 11
    source, target = torch.randint(0, 31, (B, S)), torch.randint(0, 31, (B, T))
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(source, target, labels=target).sum().backward()
    counted = model.flops(B * S, B * T, S, T)
    assert counted == pytest.approx(counter.get_total_flops(), rel=0.02)


def test_a_saved_model_has_the_modes_of_the_umask(tmp_path: Path) -> None:
    model = Decoder(StackConfig(vocabulary=5, context=8, width=8, layers=1, heads=1))
    before = os.umask(0o027)
    try:
        model.save_pretrained(tmp_path / "model")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()}
    assert modes == {"config.json": 0o640, "model.safetensors": 0o640}
