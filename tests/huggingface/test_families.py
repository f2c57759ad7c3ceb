"""A sample of the families in docs/reference/families.md, chosen for the paths through the code."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="Hugging Face models need the transformers package")

CHECKS = ("capture", "look", "replace")
EQUAL = [
    "albert", "bamba", "bart", "beit", "bert", "bloom", "canine", "clip", "codegen", "ctrl",
    "cvt", "data2vec-vision", "deberta", "deberta-v2", "deepseek_v3", "deepseek_v4", "detr",
    "esm", "falcon", "funnel", "gemma2", "gemma3", "git", "gpt2", "gpt_neo", "gpt_oss", "gptj",
    "jamba", "lfm2", "llama", "llava", "mamba2", "mistral", "mixtral", "mpnet", "mvp",
    "perceiver", "phi3", "qwen2_vl", "qwen3_next", "roberta", "swin", "t5", "vit", "wav2vec2",
    "whisper", "xlm", "xlnet", "zamba2",
]  # fmt: skip
OTHERS = {  # how capture, look and attnlab-softmax end
    "big_bird": "equal equal refused",
    "deformable_detr": "part part equal",
    "fsmt": "equal equal refused",
    "granite_swa": "part part equal",  # eager attention returns other weights than the default
    "grounding-dino": "part part equal",  # the same
    "lxmert": "part part equal",  # its visual attention runs twice, and is captured once
    "mm-grounding-dino": "part part equal",
    "nystromformer": "equal equal refused",
    "reformer": "equal equal refused",
    "rwkv": "equal equal refused",
}
SAMPLE = {**dict.fromkeys(EQUAL, "equal equal equal"), **OTHERS}


@pytest.fixture(scope="module")
def checks() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
        yield import_module("family_checks"), import_module("family_models").families()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", sorted(SAMPLE))
def test_family(family: str, checks: Any) -> None:
    """Nothing is wrong, nothing crashes, and no capture leaves a model changed."""
    module, classes = checks
    row = module.check_family(family, classes[family])
    assert row["built"], row["reason"]
    assert " ".join(row[name][0] for name in CHECKS) == SAMPLE[family], row
    assert row["unchanged"][0] == "equal", row
    assert row["row"][0] in ("equal", "part", "refused"), row


def test_a_map_that_equals_no_layer_is_not_equal(checks: Any) -> None:
    """It was equal if weights times values gave the output of every layer."""
    judge = checks[0].judge
    first, second = torch.rand(2, 1, 3, 5, 7)  # (B, H, T, S) of two layers
    layers = [
        SimpleNamespace(name=name, doubtful=False, difference=1e-7, weights=x[0])
        for name, x in (("a", first), ("b", second))
    ]
    assert judge(layers, [], [first, second], 0) == ("equal", "")
    assert judge(layers, [], [first, second / 2], 0)[0] == "part"
    assert judge(layers, [], [first / 2, second / 2], 0)[0] == "part"
    assert judge(layers[:1], [], [first, second], 0)[0] == "part"
