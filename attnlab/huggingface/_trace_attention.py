"""Recognizes softmax(scale q k^T + bias) v in the code of a layer while it runs.

Some models compute their attention themselves instead of asking transformers for a function. Their
layers run under a mode that sees every call of torch: a product of queries and keys, what is done
with these scores up to the softmax, and the product of the weights with the values.

Letters: B batch, H heads, N batch times heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from attnlab.huggingface._mask_arguments import MASKED

PRODUCTS = {"matmul", "bmm", "__matmul__"}
KEEPING = {  # what changes neither which scores these are, nor their factor
    "add", "__add__", "__radd__", "add_", "__iadd__", "sub", "__sub__", "__isub__", "sub_",
    "masked_fill", "masked_fill_", "where", "to", "float", "type", "type_as", "contiguous", "clone",
    "detach", "dropout", "clamp", "max", "maximum", "nan_to_num", "half", "bfloat16", "double",
    "__setitem__", "alias",
}  # fmt: skip
RESHAPING = {"view", "reshape", "unflatten", "flatten", "unsqueeze", "squeeze", "expand"}
SCALING = {"mul", "__mul__", "__rmul__", "mul_", "__imul__", "multiply"}
DIVIDING = {"div", "__truediv__", "div_", "__itruediv__", "true_divide", "divide"}


@dataclass(frozen=True)
class TracedScores:
    """A tensor that is factor * q k^T, plus something that does not matter here."""

    q: Tensor  # (..., T, D)
    k: Tensor  # (..., S, D)
    factor: float = 1.0


@dataclass(frozen=True)
class TracedWeights:
    """The softmax of scores, or a copy of it in another shape or precision."""

    source: TracedScores
    scores: Tensor  # (..., T, S)
    weights: Tensor  # (..., T, S)
    dropout: float = 0.0


@dataclass(frozen=True)
class TracedCall:
    """One attention, in the form of transformers' attention functions."""

    query: Tensor  # (B, H, T, D)
    key: Tensor  # (B, H, S, D)
    value: Tensor  # (B, H, S, M)
    mask: Tensor | None  # (B, H or 1, T, S), added to the scores
    scaling: float
    dropout: float
    weights: Tensor | None  # (B, H, T, S)
    output: Tensor  # (B, H, T, M)

    @property
    def is_causal(self) -> bool:
        if self.mask is None:
            return False
        T, S = self.mask.shape[-2:]
        return T > 1 and not bool((self.mask > MASKED).triu(1 + S - T).any())


class AttentionTracer(TorchFunctionMode):
    """Calls `on_attention` for each attention; what it returns (or None) replaces the output."""

    def __init__(self, batch: int, on_attention: Callable[[TracedCall], Tensor | None]) -> None:
        super().__init__()
        self.batch, self.on_attention = batch, on_attention
        self.tags: dict[int, TracedScores | TracedWeights] = {}
        self.kept: list[Tensor] = []  # an id is unique only while its tensor lives
        self.count = 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        del types
        options, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if func is F.scaled_dot_product_attention:
            return self._fused(func, args, options)
        result = func(*args, **options)
        if name in PRODUCTS and len(args) == 2:
            return self._product(args[0], args[1], result)
        if name in ("baddbmm", "baddbmm_"):
            names = ("input", "batch1", "batch2")
            _, q, k = (*args, *(options[n] for n in names[len(args) :] if n in options))
            self._tag(result, TracedScores(q, k.mT, float(options.get("alpha", 1))))
        elif name == "einsum" and isinstance(result, Tensor):
            return self._einsum(args, result)
        elif name == "softmax" and isinstance(result, Tensor):
            self._softmax(args, options, result)
        else:
            self._follow(name, args, options, result)
        return result

    def _tag(self, x: Tensor, tag: TracedScores | TracedWeights) -> None:
        self.tags[id(x)] = tag
        self.kept.append(x)

    def _tag_of(self, x: Any) -> TracedScores | TracedWeights | None:
        return self.tags.get(id(x)) if isinstance(x, Tensor) else None

    def _follow(self, name: str, args: Sequence[Any], options: dict[str, Any], result: Any) -> None:
        tagged = [x for x in (*args, *options.values()) if self._tag_of(x) is not None]
        if not tagged:
            return
        if name == "__setitem__":
            result = args[0]
        if not isinstance(result, Tensor):
            return
        tag = self._tag_of(tagged[0])
        assert tag is not None
        if name in RESHAPING:
            if result.dim() > 1 and result.shape[-2:] == tagged[0].shape[-2:]:
                self._tag(result, tag)
                if result.dim() == 4 and tagged[0].dim() == 3:  # (N, T, S) -> (B, H, T, S)
                    self.batch = len(result)  # sure, also where the first axis is the tokens
        elif name in KEEPING:
            if isinstance(tag, TracedWeights) and name not in (
                "dropout",
                "to",
                "type_as",
                "float",
                "type",
                "contiguous",
                "clone",
                "half",
                "bfloat16",
                "detach",
                "alias",
            ):
                return
            if name == "dropout" and isinstance(tag, TracedWeights):
                training = options.get("training", args[2] if len(args) > 2 else True)
                rate = options.get("p", args[1] if len(args) > 1 else 0.5)
                tag = replace(tag, dropout=float(rate) if training else 0.0)
            if result.shape[-2:] == tagged[0].shape[-2:]:
                self._tag(result, tag)
        elif name in SCALING | DIVIDING and isinstance(tag, TracedScores) and len(args) == 2:
            other = args[1] if args[0] is tagged[0] else args[0]
            if isinstance(other, Tensor) and other.numel() != 1:
                if other.dim() > 2 and other.shape[-2:] == (1, 1):  # a scale for each head
                    q = tag.q * other if name in SCALING else tag.q / other
                    if q.shape == tag.q.shape:
                        self._tag(result, replace(tag, q=q))
                return
            number = float(other)
            factor = number if name in SCALING else 1 / number
            self._tag(result, replace(tag, factor=tag.factor * factor))

    def _product(self, left: Any, right: Any, result: Any) -> Any:
        if not isinstance(left, Tensor) or not isinstance(right, Tensor):
            return result
        tag = self._tag_of(left)
        if isinstance(tag, TracedWeights) and right.dim() == left.dim():
            return self._attend(tag, right, result)
        if result.dim() in (3, 4) and left.dim() == right.dim():
            self._tag(result, TracedScores(left, right.mT))
        return result

    def _einsum(self, args: Sequence[Any], result: Tensor) -> Any:
        operands = list(args[1]) if isinstance(args[1], list | tuple) else list(args[1:])
        equation = str(args[0]).replace(" ", "")
        if len(operands) != 2 or "->" not in equation or "." in equation:
            return result
        inputs, out = equation.split("->")
        left, right = inputs.split(",")
        x, y = operands
        tag = self._tag_of(x)
        shared = [letter for letter in left if letter in right and letter not in out]
        if len(shared) != 1 or len(out) not in (3, 4):
            return result
        inner = shared[0]
        batch = [letter for letter in out if letter in left and letter in right]
        own_left = [letter for letter in out if letter in left and letter not in right]
        own_right = [letter for letter in out if letter in right and letter not in left]
        if len(own_left) != 1 or len(own_right) != 1:
            return result

        def order(tensor: Tensor, letters: str, wanted: list[str]) -> Tensor:
            return tensor.permute([letters.index(letter) for letter in wanted])

        if isinstance(tag, TracedWeights) and left[-1] == inner:
            if list(left) != [*batch, own_left[0], inner]:
                return result
            values = order(y, right, [*batch, inner, own_right[0]])
            natural = [*batch, own_left[0], own_right[0]]
            attended = self._attend(tag, values, order(result, out, natural))
            return attended.permute([natural.index(letter) for letter in out])
        if list(out) == [*batch, own_left[0], own_right[0]]:
            q = order(x, left, [*batch, own_left[0], inner])
            k = order(y, right, [*batch, own_right[0], inner])
            self._tag(result, TracedScores(q, k))
        return result

    def _softmax(self, args: Sequence[Any], options: dict[str, Any], result: Tensor) -> None:
        scores = args[0] if args else options.get("input")
        tag = self._tag_of(scores)
        dim = options.get("dim", args[1] if len(args) > 1 else None)
        if (
            isinstance(tag, TracedScores)
            and isinstance(scores, Tensor)
            and dim in (-1, scores.dim() - 1)
        ):
            # a copy: some layers change their scores in place later
            self._tag(result, TracedWeights(tag, scores.clone(), result))

    def _fused(self, func: Any, args: Sequence[Any], options: dict[str, Any]) -> Any:
        output = func(*args, **options)
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale")
        given = {**dict(zip(names, args, strict=False)), **options}
        q, k, v, mask = given["query"], given["key"], given["value"], given.get("attn_mask")
        if q.dim() != 4:
            return output
        T, S = q.shape[2], k.shape[2]
        if given.get("is_causal") and T > 1:
            mask = torch.ones(T, S, dtype=torch.bool, device=q.device).tril()
        if mask is not None and mask.dtype == torch.bool:
            lowest = torch.finfo(q.dtype).min
            mask = torch.zeros(mask.shape, dtype=q.dtype, device=q.device).masked_fill(
                ~mask, lowest
            )
        if mask is not None:
            mask = mask.expand(len(q), *mask.shape[-3:-2], T, S) if mask.dim() > 3 else mask
            mask = mask[None, None] if mask.dim() == 2 else mask
            mask = mask[:, None] if mask.dim() == 3 else mask
        scale = given.get("scale")
        scaling = float(q.shape[3] ** -0.5 if scale is None else scale)
        dropout = float(given.get("dropout_p", 0.0))
        call = TracedCall(q, k, v, mask, scaling, dropout, None, output)
        return self._report(call, output)

    def _attend(self, tag: TracedWeights, values: Tensor, result: Tensor) -> Tensor:
        """The output (..., T, M) of an attention, which may be replaced."""
        shape = result.shape
        q, k = tag.source.q, tag.source.k
        if len(shape) not in (3, 4) or q.dim() not in (3, 4) or not self.batch:
            return result
        plain = (q @ k.mT) * tag.source.factor  # with its graph: gradients of `added` are right
        scores = tag.scores.reshape(plain.shape) if tag.scores.numel() == plain.numel() else None
        if scores is None:
            return result
        added = scores - plain.to(scores.dtype)
        visible = scores > MASKED
        noise = 1e-5 * (1 + float(plain.detach().abs().amax())) if plain.numel() else 0.0
        if bool((added.detach().masked_fill(~visible, 0).abs() <= noise).all()):
            added = torch.zeros_like(added)
        mask = None
        if not bool(visible.all()) or bool(added.detach().any()):
            mask = added.masked_fill(~visible, torch.finfo(added.dtype).min)
        dtype = torch.promote_types(q.dtype, values.dtype)  # GPT-J has q and k in float32
        inputs = (x.to(dtype) for x in (q, k, values))
        query, key, value, output = (self._four(x) for x in (*inputs, result))
        if query is None or key is None or value is None or output is None:
            return result
        weights = self._four(tag.weights.reshape(plain.shape))
        four_mask = None if mask is None else self._four(mask)
        if four_mask is not None and bool((four_mask == four_mask[:, :1]).all()):
            four_mask = four_mask[:, :1]  # one mask for all heads
        call = TracedCall(
            query, key, value, four_mask, tag.source.factor, tag.dropout, weights, output
        )
        return self._report(call, result)

    def _report(self, call: TracedCall, result: Tensor) -> Tensor:
        self.count += 1
        replaced = self.on_attention(call)  # (B, H, T, M)
        return result if replaced is None else replaced.reshape(result.shape).to(result.dtype)

    def _four(self, x: Tensor) -> Tensor | None:
        """(N, T, D) -> (B, H, T, D)"""
        if x.dim() == 4:
            return x
        if len(x) % self.batch:
            return None
        return x.reshape(self.batch, len(x) // self.batch, *x.shape[1:])


def batch_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """The batch size of a layer's first tensor."""
    inputs = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor) and x.dim() > 1]
    return len(inputs[0]) if inputs else 0


def plain_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
    scaling: float = 1.0, dropout: float = 0.0, **_: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The eager attention function of a traced layer: (B, T, H, M) and the weights (B, H, T, S)."""
    repeats = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(repeats, 1) if repeats > 1 else x for x in (key, value))
    scores = query @ key.mT * scaling  # (B, H, T, S)
    weights = (scores if mask is None else scores + mask).softmax(-1)
    out = F.dropout(weights, dropout, module.training) @ value
    return out.transpose(1, 2), weights
