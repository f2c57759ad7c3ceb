"""Converts a GGUF file to a folder that transformers loads, once, and keeps it in the cache."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from attnlab._cache import cache_folder, load_or_make

CONFIG = "config.json"
VERSION = 3  # of the conversion: 1 lost the tokens that the file adds to a text, 2 added too many
ADDED = {"bos": "tokenizer.ggml.add_bos_token", "eos": "tokenizer.ggml.add_eos_token"}


def converted_folder(file: Path, write: Callable[[Path], None]) -> Path:
    """The folder with the converted file; `write` fills it the first time."""
    with file.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()[:16]
    folder = cache_folder("models") / f"{file.stem}-{digest}-{VERSION}"

    def make(target: Path) -> None:
        try:
            import_module("gguf")
        except ImportError:
            raise ValueError(f"{file}: needs the gguf package: pip install gguf") from None
        size = file.stat().st_size / 2**20
        _report(f"Converting {file.name} ({size:,.0f} MiB), only this time, to {folder}")
        write(target)
        _report(f"Converted {file.name}.")

    return load_or_make(
        folder,
        lambda folder: folder if (folder / CONFIG).exists() else None,
        make,
        max_bytes=sys.maxsize,
        on_wait=lambda: _report(f"Waiting for another process, which converts {file.name}"),
    )


def _report(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def convert(file: Path, folder: Path, library: Any) -> None:
    """Write config, weights and tokenizer of a GGUF file."""
    options = {"gguf_file": file.name, "local_files_only": True}
    _report("  1 of 4: reading its description")
    config = library.AutoConfig.from_pretrained(file.parent, **options)
    causal = library.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    kind = library.AutoModel
    if config.is_encoder_decoder:
        kind = library.AutoModelForSeq2SeqLM
    elif config.model_type in causal:
        kind = library.AutoModelForCausalLM
    _report("  2 of 4: reading its weights")
    model = kind.from_pretrained(file.parent, dtype=torch.float32, **options)
    # the weights are not quantized any more, but the model is still marked so
    for name in ("hf_quantizer", "quantization_method"):
        vars(model).pop(name, None)
    vars(model.config).pop("quantization_config", None)
    model.is_quantized = False
    _report("  3 of 4: writing them")
    model.save_pretrained(folder)
    _report("  4 of 4: its tokenizer")
    tokenizer = library.AutoTokenizer.from_pretrained(file.parent, **options)
    add_special_tokens(tokenizer, added_tokens(file))
    tokenizer.save_pretrained(folder)


def added_tokens(file: Path) -> dict[str, bool]:
    """Which tokens the file says that its tokenizer adds to a text, or does not add."""
    fields = import_module("gguf").GGUFReader(file).fields
    return {
        name: bool(fields[key].parts[fields[key].data[0]][0])
        for name, key in ADDED.items()
        if key in fields
    }


def add_special_tokens(tokenizer: Any, added: dict[str, bool]) -> None:
    """Make the tokenizer add exactly these tokens to a text; transformers ignores the flags.

    A token that the file does not mention stays as the tokenizer has it.
    """
    tokens = {name: getattr(tokenizer, f"{name}_token", None) for name in ADDED}
    present = tokenizer("a")["input_ids"]
    has = {
        "bos": bool(present) and present[0] == tokenizer.bos_token_id,
        "eos": bool(present) and present[-1] == tokenizer.eos_token_id,
    }
    wanted = {name: added.get(name, has[name]) and tokens[name] is not None for name in ADDED}
    if wanted == has:
        return
    backend, processors = tokenizer.backend_tokenizer, import_module("tokenizers.processors")
    before, after = (f"{tokens[name]}:0" if wanted[name] else "" for name in ("bos", "eos"))
    used = [name for name in ADDED if wanted[name]]
    backend.post_processor = processors.TemplateProcessing(
        single=" ".join(filter(None, [before, "$A:0", after])),
        pair=" ".join(filter(None, [before, "$A:0", after, "$B:0", after])),
        special_tokens=[(tokens[n], getattr(tokenizer, f"{n}_token_id")) for n in used],
    )
    for name in ADDED:
        if wanted[name] or has[name]:
            setattr(tokenizer, f"add_{name}_token", wanted[name])
            tokenizer.init_kwargs[f"add_{name}_token"] = wanted[name]
