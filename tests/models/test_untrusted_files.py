"""config.json and model.safetensors from a stranger: one line says what is wrong, and nothing large
is allocated before."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import attnlab
from attnlab import models
from attnlab.mask import Mask
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
from attnlab.position import RotaryPositions
from attnlab.tasks.language import load_language
from attnlab.tokenizer import Characters
from attnlab.training import Run
from tests.support.memory_limit import extra_memory
from tests.support.registries import restored_registries

SIZES: dict[str, Any] = {"vocabulary": 11, "context": 13, "width": 12, "layers": 2, "heads": 3}
MODELS: dict[str, Callable[[], models.Model]] = {
    "decoder": lambda: Decoder(StackConfig(**SIZES, attention="favor:features=5")),
    "rotary": lambda: Decoder(StackConfig(**SIZES, position="rotary")),
    "encoder": lambda: Encoder(EncoderConfig(**SIZES, attention="linformer:rank=3")),
    "seq2seq": lambda: Seq2Seq(Seq2SeqConfig(StackConfig(**SIZES), StackConfig(**SIZES))),
    "vit": lambda: ViT(ViTConfig(classes=3, image_size=8, width=12, heads=3, layers=1)),
    "waves": lambda: ViT(
        ViTConfig(classes=3, image_size=8, width=12, heads=3, layers=1, position="sinusoidal-2d")
    ),
    "convnet": lambda: ConvNet(ConvNetConfig(classes=3, width=4, blocks=1)),
}
LARGE = 2**30


def save_run(folder: Path, model: models.Model) -> dict[str, Any]:
    """A finished run with this model, and its config."""
    model.save_pretrained(folder)
    config = {
        "format": "attnlab-run", "version": 3, "task": {"name": "language"},
        "model": model.description(), "training": {"steps": 1},
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return config


def fails(folder: Path, config: Any) -> str:
    """The error that every way to open the run gives, in bounded memory."""
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    messages = set()
    openers: list[Callable[[], object]] = [
        lambda: Run(folder).model(),
        lambda: models.load(folder),
    ]
    for opener in openers:
        with extra_memory(LARGE), pytest.raises(ValueError) as caught:  # noqa: PT011 (returned)
            opener()
        messages.add(str(caught.value))
    (message,) = messages
    assert "\n" not in message
    assert len(message) < 1000
    return message


@pytest.mark.parametrize(
    ("model", "changes", "problem"),
    [
        ("decoder", {"layers": 10**9}, "layers is 1,000,000,000; give at most 2,048"),
        ("decoder", {"layers": 2000}, "it has 33 tensors, too few for 2,000 blocks"),
        ("decoder", {"width": 10**6}, "a model with"),
        ("decoder", {"width": 3000}, "the configured model is larger than the file"),
        ("decoder", {"width": "x"}, "width is 'x'; give a whole number"),
        ("decoder", {"width": None}, "width is None; give a whole number"),
        ("decoder", {"width": True}, "width is True; give a whole number"),
        ("decoder", {"width": 12.0}, "width is 12.0; give a whole number"),
        ("decoder", {"width": [12]}, "width is [12]; give a whole number"),
        ("decoder", {"width": -12}, "width is -12; give 1 or more"),
        ("decoder", {"width": 13}, "width must be a multiple of heads"),
        ("decoder", {"vocabulary": 10**10}, "vocabulary is 10,000,000,000; give at most"),
        ("decoder", {"vocabulary": 2**23}, "the configured model is larger than the file"),
        ("decoder", {"context": 10**7}, "the configured model is larger than the file"),
        ("decoder", {"dropout": float("nan")}, "dropout is nan"),
        ("decoder", {"rotary_base": float("inf")}, "rotary_base is inf"),
        ("decoder", {"bias": 1}, "bias is 1; give true or false"),
        ("decoder", {"norm": 3}, "norm is 3; give a text"),
        ("decoder", {"norm": "x"}, "norm is 'x'"),
        ("decoder", {"key_heads": 0}, "key_heads is 0; give 1 or more"),
        ("decoder", {"attention": None}, "attention is None; give a text or a list of texts"),
        ("decoder", {"attention": [["softmax"]]}, "give a text or a list of texts"),
        ("decoder", {"attention": "x" * 10**6}, "attention has more than 10,000 characters"),
        ("decoder", {"attention": "y" * 9999}, "no mechanism 'yyy"),
        ("decoder", {"attention": "favor:features=1000000000"}, "features is 1,000,000,000"),
        ("decoder", {"attention": "favor:features=1000000"}, "larger than the file"),
        ("decoder", {"attention": "favor:features=null"}, "features is None; give a whole number"),
        ("decoder", {"attention": "favor:features=[[1]]"}, "features is [[1]]"),
        ("decoder", {"attention": "favor:orthogonal=3"}, "orthogonal is 3; give true or false"),
        ("decoder", {"attention": "favor:seed=-1"}, "seed is -1"),
        ("decoder", {"attention": "synthesizer_random"}, "do not fit the configuration"),
        ("decoder", {"attention": "synthesizer_random:max_length=100000"}, "larger than the file"),
        ("encoder", {"attention": "linformer:rank=10000000"}, "larger than the file"),
        ("encoder", {"attention": "bigbird:window_blocks=null"}, "window_blocks is None"),
        ("seq2seq", {"encoder": None}, "None is not an object with settings"),
        ("seq2seq", {"encoder": {**SIZES, "layers": 10**9}}, "layers is 1,000,000,000"),
        ("seq2seq", {"decoder": {**SIZES, "width": "x"}}, "width is 'x'; give a whole number"),
        ("seq2seq", {"cross_attention": 3}, "cross_attention is 3; give a text"),
        ("vit", {"image_size": 10**6}, "give at most 16,384 patches"),
        ("vit", {"image_size": 400}, "do not fit the configuration"),
        ("vit", {"classes": 10**8}, "classes is 100,000,000; give at most"),
        ("vit", {"mean": "x"}, "mean is 'x'; give a number"),
        ("waves", {"width": 6000, "image_size": 512}, "patches of width 6000 are too many"),
        ("convnet", {"stages": 64}, "stages is 64; give at most 16"),
        ("convnet", {"stages": 10}, "do not fit the configuration"),
        ("convnet", {"blocks": 10**9}, "blocks is 1,000,000,000; give at most"),
        ("convnet", {"width": 2**20}, "a model with width 1,048,576"),
        ("decoder", {"model": ["decoder"]}, "no model ['decoder']"),
        ("decoder", {"x" * 10**6: 1}, "unknown xxx"),
    ],
)
def test_a_configuration_that_does_not_fit_the_weights(
    model: str, changes: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    config = save_run(tmp_path, MODELS[model]())
    config["model"] |= changes
    assert problem in fails(tmp_path, config)


@pytest.mark.parametrize("model", MODELS)
def test_a_good_model_loads(model: str, tmp_path: Path) -> None:
    saved = MODELS[model]()
    save_run(tmp_path, saved)
    loaded = Run(tmp_path).model()
    for (name, one), (_, other) in zip(
        saved.state_dict().items(), loaded.state_dict().items(), strict=True
    ):
        assert torch.equal(one, other), name


def test_a_long_context_allocates_no_table(tmp_path: Path) -> None:
    """No weight depends on the context of rotary positions, so only use makes their table grow."""
    config = save_run(tmp_path, MODELS["rotary"]())
    config["model"]["context"] = 2**24
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with extra_memory(LARGE):
        model = Run(tmp_path).model()
    assert isinstance(model, Decoder)
    assert model(torch.zeros(1, 5, dtype=torch.int64)).shape == (1, 5, 11)


def test_rotary_table_grows_to_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    x, position = torch.randn(1, 2, 7, 4), torch.arange(7)[None] + 20
    whole = RotaryPositions(4, length=40)
    monkeypatch.setattr("attnlab.position.FIRST_NUMBERS", 8)
    short = RotaryPositions(4, length=40)
    assert len(short.cosines) < 20 < len(whole.cosines)
    assert torch.equal(short(x, position), whole(x, position))


def test_a_compiled_model_needs_no_long_rotary_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its table cannot grow."""
    x, position = torch.randn(1, 2, 7, 4), torch.arange(7)[None]
    whole = RotaryPositions(4, length=40)(x, position)
    monkeypatch.setattr("attnlab.position.FIRST_NUMBERS", 8)
    short = RotaryPositions(4, length=40)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert torch.equal(short(x, position), whole)
    assert len(short.cosines) == 3


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "cannot be read"),
        (struct.pack("<Q", 2**63), "the header has"),
        (struct.pack("<Q", 2**25) + b" " * 100, "the header has 33,554,432 bytes; at most"),
        (struct.pack("<Q", 4) + b"[{}]", "cannot be read"),
        (struct.pack("<Q", 2000) + b"[" * 2000, "cannot be read"),
        (struct.pack("<Q", 2) + b"{}", "it has 0 tensors, too few for 2 blocks"),
    ],
)
def test_broken_weights(content: bytes, problem: str, tmp_path: Path) -> None:
    config = save_run(tmp_path, MODELS["decoder"]())
    (tmp_path / "model.safetensors").write_bytes(content)
    assert problem in fails(tmp_path, config)


def test_weights_of_another_type(tmp_path: Path) -> None:
    config = save_run(tmp_path, MODELS["decoder"]())
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    save_file({**tensors, "stack.norm.bias": torch.zeros(12, dtype=torch.int64)}, path)
    message = "stack.norm.bias is I64 in the file, but torch.float32 as configured"
    assert message in fails(tmp_path, config)
    path.unlink()
    path.mkdir()
    assert "cannot be read" in fails(tmp_path, config)


@pytest.mark.parametrize("config", [[], 3, {"format": "attnlab-run"}, {"version": [], "format": 1}])
def test_other_json(config: Any, tmp_path: Path) -> None:
    save_run(tmp_path, MODELS["decoder"]())
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for opener in (lambda: Run(tmp_path).model(), lambda: models.load(tmp_path)):
        with pytest.raises(ValueError, match=r"config\.json"):
            opener()


def test_a_mechanism_of_an_extension_is_bounded_too(tmp_path: Path) -> None:
    """Its constructor allocates as it likes, and may compute with numbers."""
    with restored_registries():

        @attnlab.register_mechanism
        class Table(attnlab.Mechanism):
            name = "stranger_table"
            card = attnlab.Card("a table", "none", "none", time="N^2 D", memory="N^2")

            def __init__(
                self,
                *,
                head_dim: int,
                heads: int,
                max_length: int | None = None,
                rows: Annotated[int, "number of rows"] = 4,
            ) -> None:
                super().__init__(head_dim=head_dim, heads=heads, max_length=max_length)
                table = torch.ones(rows, head_dim)
                self.register_buffer("table", table)
                self.total = float(table.sum())

            def weights(self, q: torch.Tensor, k: torch.Tensor, mask: Mask) -> torch.Tensor:
                del mask
                return q @ k.mT

        config = save_run(tmp_path, Decoder(StackConfig(**SIZES, attention="stranger_table")))
        tables = [layer for layer in Run(tmp_path).model().modules() if isinstance(layer, Table)]
        assert [table.total for table in tables] == [16.0, 16.0]
        config["model"]["attention"] = "stranger_table:rows=1000000000"
        assert "larger than the file" in fails(tmp_path, config)
        config["model"]["attention"] = "stranger_table:rows=x"
        assert "rows is 'x'; give a whole number" in fails(tmp_path, config)
        config["model"]["attention"] = "stranger_table:rows=-3"
        assert "this model cannot be built" in fails(tmp_path, config)


@pytest.mark.parametrize(
    "attention",
    [
        "bigbird:block=16777216",
        "bigbird:block=1,window_blocks=16777215",
        "bigbird:block=2,global_blocks=16777216",
        "bigbird:block=1,random_blocks=16777216",
        "window:window=16777216",
    ],
)
@pytest.mark.parametrize("causal", [False, True])
def test_sizes_that_exceed_the_text_cost_no_memory(attention: str, causal: bool) -> None:
    """No weight depends on these options. Every key is visible then, as with softmax."""
    q, k, v = torch.randn(3, 2, 2, 7, 8).unbind()
    sparse = attnlab.create_mechanism(attention, head_dim=8, heads=2)
    expected = attnlab.create_mechanism("softmax", head_dim=8, heads=2)(q, k, v, Mask(causal))
    for compiled in (False, True):
        sparse.use_compiled = compiled
        with extra_memory(LARGE):
            out = sparse(q, k, v, Mask(causal))
        assert torch.allclose(out, expected, atol=1e-5)
    with extra_memory(LARGE):
        last = sparse.read(q[:, :, -1:], sparse.absorb(k, v), 6)
    softmax_last = expected[:, :, -1:]
    assert torch.allclose(last, softmax_last, atol=1e-5)


def test_a_tokenizer_of_another_model(tmp_path: Path) -> None:
    save_run(tmp_path, MODELS["decoder"]())
    Characters("abcdefghij").save(tmp_path)  # two ids more are reserved
    message = "its tokenizer has 12 ids, but its model knows 11; they do not belong together"
    with pytest.raises(ValueError, match=message):
        load_language(tmp_path)
    with pytest.raises(ValueError, match=message):
        attnlab.look(tmp_path, "abc")
