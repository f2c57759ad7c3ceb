"""GGUF files: the tokens that a file adds to a text, progress, and the cache."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.huggingface import _convert_gguf, load_model
from attnlab.huggingface._convert_gguf import add_special_tokens, added_tokens
from tests.support.transformers_with_tokenizers import byte_pairs, llama

gguf: Any = pytest.importorskip("gguf", reason="GGUF files need the gguf package")
TEXT = "I wanted to have a party"


def write_llama(path: Path, add_bos: bool | None) -> None:
    """A tiny Llama with a byte-pair tokenizer."""
    model, tokenizer = llama(), byte_pairs()
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(64)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    description = tokenizer.backend_tokenizer
    vocabulary = json.loads(description.to_str())["model"]
    tokens = sorted(vocabulary["vocab"], key=vocabulary["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * len(tokens))
    writer.add_token_merges([" ".join(pair) for pair in vocabulary["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(1)
    writer.add_pad_token_id(1)
    if add_bos is not None:
        writer.add_add_bos_token(add_bos)
    names = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    parts = {
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }  # fmt: skip
    for i in range(config.num_hidden_layers):
        for name, other in parts.items():
            names[f"model.layers.{i}.{name}.weight"] = f"blk.{i}.{other}.weight"
    for name, other in names.items():
        writer.add_tensor(other, model.state_dict()[name].numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "attnlab" / "models"


@pytest.mark.parametrize("add_bos", [True, False, None])
def test_first_token_is_that_of_the_file(
    add_bos: bool | None, tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tiny.gguf"
    write_llama(file, add_bos)
    assert added_tokens(file) == ({} if add_bos is None else {"bos": add_bos})
    model, tokenizer = load_model(file)
    assert "1 of 4: reading" in capsys.readouterr().err
    ids = tokenizer(TEXT)["input_ids"]
    assert (ids[0] == tokenizer.bos_token_id) == bool(add_bos)
    assert tokenizer.decode(ids, skip_special_tokens=True).strip() == TEXT
    assert torch.isfinite(model(torch.tensor([ids])).logits).all()
    (folder,) = cache.iterdir()
    before = (folder / "config.json").stat().st_mtime_ns
    _, again = load_model(file)  # from the cache
    assert again(TEXT)["input_ids"] == ids
    assert capsys.readouterr().err == ""
    assert (folder / "config.json").stat().st_mtime_ns == before


def test_tokens_that_the_file_does_not_add_are_removed(tmp_path: Path) -> None:
    """A tokenizer that adds <bos> by itself kept it."""
    tokenizer = byte_pairs()
    plain = tokenizer(TEXT)["input_ids"]
    add_special_tokens(tokenizer, {"bos": True, "eos": True})
    first, last = tokenizer.bos_token_id, tokenizer.eos_token_id
    assert tokenizer(TEXT)["input_ids"] == [first, *plain, last]
    add_special_tokens(tokenizer, {})  # no word about them
    assert tokenizer(TEXT)["input_ids"] == [first, *plain, last]
    add_special_tokens(tokenizer, {"bos": False})
    assert tokenizer(TEXT)["input_ids"] == [*plain, last]
    tokenizer.save_pretrained(tmp_path)
    assert type(tokenizer).from_pretrained(tmp_path)(TEXT)["input_ids"] == [*plain, last]
    add_special_tokens(tokenizer, {"eos": False})
    assert tokenizer(TEXT)["input_ids"] == plain


def test_two_processes_convert_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of two threads exclude each other as those of two processes do."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    writes: list[Path] = []
    waits = threading.Event()

    def report(sentence: str) -> None:
        if sentence.startswith("Waiting"):
            waits.set()

    def write(folder: Path) -> None:
        writes.append(folder)
        assert waits.wait(60), "the other one does not wait"
        folder.mkdir()
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(_convert_gguf, "_report", report)
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(_convert_gguf.converted_folder, file, write) for _ in range(2)]
        first, second = (call.result() for call in calls)
    assert first == second
    assert (first / "config.json").exists()
    assert len(writes) == 1
