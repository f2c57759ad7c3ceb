"""The perceiver: nothing later than a token reaches it, through the latents or otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from attnlab import models
from attnlab.generate import generate
from attnlab.interpret import look
from attnlab.models import Perceiver, PerceiverConfig
from attnlab.models import perceiver as module
from attnlab.tasks.knowledge._load import make_model
from attnlab.tokenizer import Bytes

CONTEXT = 17


def small(**changes: object) -> Perceiver:
    torch.manual_seed(0)
    settings = {"context": CONTEXT, "width": 12, "layers": 4, "heads": 3, "latents": 5}
    model = Perceiver(PerceiverConfig(vocabulary=23, **{**settings, **changes}))  # type: ignore[arg-type]
    for parameter in model.parameters():  # at their first size, attention hardly changes anything
        torch.nn.init.normal_(parameter, std=0.5)
    return model.eval()


def influence(model: Perceiver, length: int) -> Tensor:
    """(output, input) True where the gradient of an output with respect to an input is not 0."""
    vectors: list[Tensor] = []

    def keep(_: object, __: object, out: Tensor) -> None:
        out.retain_grad()
        vectors.append(out)

    handle = model.stack.embedding.register_forward_hook(keep)
    logits = model(torch.randint(23, (1, length)))
    handle.remove()
    rows = []
    for token in range(length):
        (gradient,) = torch.autograd.grad(
            logits[0, token].square().sum(), vectors[0], retain_graph=True
        )
        rows.append(gradient[0].abs().sum(-1) > 0)
    return torch.stack(rows)


@pytest.mark.parametrize("attention", ["softmax", "elu", "window:window=2"])
@pytest.mark.parametrize("stride", [None, 1, 2])
@pytest.mark.parametrize("length", [1, 3, 11, CONTEXT])
def test_no_token_sees_the_future(attention: str, stride: int | None, length: int) -> None:
    seen = influence(small(attention=attention, latent_stride=stride), length)
    assert not seen.triu(1).any()
    assert seen.diagonal().all()


def test_what_a_token_sees_of_the_past() -> None:
    """Latents stand at the ends of stretches of 4 tokens: with exact attention a token sees every
    token of the stretches that are complete, and itself."""
    seen = influence(small(latents=4, context=16), 16)
    for token in range(16):
        complete = 4 * ((token + 1) // 4)
        expected = [other < complete or other == token for other in range(16)]
        assert seen[token].tolist() == expected, token


def test_the_mask_of_the_classic_assignment_leaves_late_tokens_unread() -> None:
    seen = influence(small(latent_stride=1), CONTEXT)
    assert seen[-1].tolist() == [other < 5 or other == CONTEXT - 1 for other in range(CONTEXT)]


def test_without_the_mask_the_future_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the tests above: they notice latents that read the whole text."""
    monkeypatch.setattr(module.LatentMask, "allowed", lambda *_: None)
    assert influence(small(), 11).triu(1).any()


def test_padding_and_decoding_agree_with_whole_texts() -> None:
    model = small()
    prompts = [[3, 1, 4, 1, 5, 9], [2, 6]]
    texts = generate(model, prompts, new_tokens=9)
    for prompt, samples in zip(prompts, texts, strict=True):
        whole = [*prompt, *samples[0].ids]
        logits = model(torch.tensor([whole]))[0]
        assert logits.argmax(-1).tolist()[len(prompt) - 1 : -1] == samples[0].ids
    ids = torch.randint(23, (2, 11))
    keys = torch.arange(11) < torch.tensor([[11], [7]])
    padded = model(ids, keys)
    assert torch.allclose(padded[1, :7], model(ids[1:, :7])[0], atol=1e-5)


def test_course_parameter_counts() -> None:
    assert Perceiver.preset("course", latents=64).parameter_count() == 3_339_776
    assert models.Decoder.preset("course", position="rotary").parameter_count() == 3_290_624


def test_flops_are_about_those_that_pytorch_counts() -> None:
    config = PerceiverConfig(vocabulary=31, context=64, width=48, layers=4, heads=3, latents=16)
    model = Perceiver(config)
    ids = torch.randint(0, 31, (2, 64))
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(ids).sum().backward()
    counted = model.flops_per_token(64) * ids.numel()
    assert counted == pytest.approx(counter.get_total_flops(), rel=0.03)


def test_save_and_load(tmp_path: Path) -> None:
    model = small(latent_stride=2)
    model.save_pretrained(tmp_path / "model")
    again = models.load(tmp_path / "model")
    assert isinstance(again, Perceiver)
    ids = torch.randint(23, (1, 9))
    assert torch.equal(again(ids), model(ids))
    with pytest.raises(ValueError, match="attends to latents"):
        look(again, "a", tokenizer=Bytes())


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"latents": 18}, "at most one latent for each token"),
        ({"latents": 0}, "latents is 0"),
        ({"latent_stride": 0}, "latent_stride is 0"),
        ({"layers": 2}, "needs 3 or more"),
        ({"position": "rotary"}, "learned or sinusoidal"),
    ],
)
def test_settings_that_make_no_perceiver(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        small(**settings)


def test_documents_in_one_row_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot pack"):
        small()(torch.zeros(1, 4, dtype=torch.long), segments=torch.tensor([[0, 0, 1, 1]]))


def test_a_stride_needs_latents() -> None:
    with pytest.raises(ValueError, match="only works with latents"):
        make_model("small", Bytes(), "softmax", {"latent_stride": 2})
