"""`attnlab.intervene`: change heads, weights and the residual stream of a model while it runs.

Letters: B batch, T tokens, S keys, H heads, M value size, W width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from attnlab.interpret._adapters import attention_sites
from attnlab.interpret._attention_sites import (
    AttentionSite,
    block_of,
    find_blocks,
    stream_of,
    with_stream,
)
from attnlab.interpret._inspected_model import InspectedModel
from attnlab.interpret._layer_numbers import layer_numbers, list_numbers
from attnlab.interpret._record import LayerRecord, Record, repeat_name

Ablation = Literal["zero", "mean", "uniform", "resample"]
Heads = int | Sequence[int] | None
Positions = int | Sequence[int] | None
STREAMS = ("stream", "input")


class Intervention:
    """Changes of a model, active inside a `with`. Each method returns a longer list of changes."""

    def __init__(
        self,
        model: nn.Module,
        changes: tuple[Callable[[], AbstractContextManager[object]], ...] = (),
        sites: list[AttentionSite] | None = None,
    ) -> None:
        self.model, self._changes = model, changes
        self._entered: list[ExitStack] = []
        self.sites = attention_sites(model) if sites is None else sites
        if not self.sites:
            raise ValueError(
                f"intervene: {type(model).__name__} has no attention layer that attnlab can "
                "change; give an attnlab model or a Hugging Face model with attention"
            )

    def ablate(
        self,
        layer: int | str,
        head: Heads = None,
        how: Ablation = "zero",
        *,
        source: Record | None = None,
        seed: int = 0,
    ) -> Intervention:
        """Take away what heads contribute; without `head`, all heads of the layer.

        `zero`: their outputs become 0. `mean`: the mean of their outputs over all tokens of the
        same text, or of `source`. `resample`: outputs of random tokens of the same text, or of
        `source`. Padding counts as tokens. `uniform`: they attend equally to every key that they
        may attend to.
        """
        if how not in get_args(Ablation):
            raise ValueError(f"how is {how!r}; give one of {', '.join(get_args(Ablation))}")
        site = self._site(layer)
        heads = self._heads(site, head)
        if how == "uniform":
            if source is not None:
                raise ValueError('how="uniform" takes no source; it uses the values of the input')
            return self._with(lambda: site.edit_weights(self._all(site, heads), _uniform))
        recorded = None if source is None else self._recorded_heads(source, site)  # (T, H, M)
        edit = _HeadAblation(site, heads, how, recorded, seed)
        return self._with(lambda: site.edit_heads(edit))

    def weights(
        self, layer: int | str, head: Heads, edit: Callable[[Tensor], Tensor]
    ) -> Intervention:
        """Change the attention weights of heads, or of all with `head=None`: `edit` gets those of
        one, (batch, queries, keys), and returns as many. It has to make rows sum to 1 itself if
        they should."""
        if not callable(edit):
            raise ValueError(f"edit is {edit!r}; give a function of the weights of a head")
        site = self._site(layer)
        heads = self._heads(site, head)
        return self._with(lambda: site.edit_weights(self._all(site, heads), lambda A, _: edit(A)))

    def patch(
        self,
        layer: int | str,
        part: int | Sequence[int] | str,
        source: Record,
        positions: Positions = None,
    ) -> Intervention:
        """Replace a part of the model by what `source`, a record of another input, has there.

        `part` is a head or several, "stream" (the residual stream after the layer's block) or
        "input" (the stream before it). `positions` are tokens from 0; without them all, and then
        both inputs need the same number of tokens.
        """
        if not isinstance(source, Record):
            raise ValueError(
                f"source is a {type(source).__name__}; give a result of attnlab.record"
            )
        site = self._site(layer)
        chosen = _position_list(positions)
        if isinstance(part, str):
            return self._patch_stream(site, part, source, chosen)
        heads = self._heads(site, part)
        recorded = self._recorded_heads(source, site)  # (T, H, M)

        def edit(z: Tensor) -> Tensor:
            given = _all_heads(site, heads, z.shape[2])
            rows = _check_positions(chosen, z.shape[1], len(recorded), site.name)
            changed, new = z.clone(), recorded.to(z)
            for head in given:
                changed[:, rows, head] = new[rows, head]
            return changed

        return self._with(lambda: site.edit_heads(edit))

    def _patch_stream(
        self, site: AttentionSite, part: str, source: Record, chosen: list[int] | None
    ) -> Intervention:
        if part not in STREAMS:
            raise ValueError(f"cannot patch {part!r}; give a head, stream or input")
        blocks = find_blocks(self.model, self.sites)
        index = block_of(site, blocks)
        recorded = getattr(self._record_of(source, site), part)  # (T, W)
        if index is None or recorded is None:
            raise ValueError(
                f"{site.name}: its residual stream was not found, because the model has no list of "
                "blocks around it; patch heads instead"
            )
        module = blocks[index].module

        def changed(stream: Tensor) -> Tensor:
            rows = _check_positions(chosen, stream.shape[1], len(recorded), site.name)
            new = stream.clone()
            new[:, rows] = recorded[rows].to(stream)
            return new

        return self._with(
            lambda: (
                edited_output(module, changed)
                if part == "stream"
                else edited_input(module, changed)
            )
        )

    # Sites and their heads

    def _with(self, change: Callable[[], AbstractContextManager[object]]) -> Intervention:
        return Intervention(self.model, (*self._changes, change), self.sites)

    def _site(self, layer: int | str) -> AttentionSite:
        names = [site.name for site in self.sites]
        if isinstance(layer, str) and layer in names:
            return self.sites[names.index(layer)]
        numbers = layer_numbers(names)
        if isinstance(layer, bool) or not isinstance(layer, int) or layer not in numbers:
            listed = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
            raise ValueError(
                f"no layer {layer!r}; give {list_numbers(numbers)} or a name: {listed}"
            )
        return self.sites[numbers.index(layer)]

    def _heads(self, site: AttentionSite, head: Heads) -> list[int] | None:
        if head is None:
            return None
        heads = list(head) if isinstance(head, Iterable) else [head]
        if not heads or any(isinstance(h, bool) or not isinstance(h, int) for h in heads):
            raise ValueError(f"head is {head!r}; give a number or a list of numbers")
        site.check_heads(heads)
        if any(h < 0 for h in heads):
            raise ValueError(f"head is {head!r}; give numbers from 0")
        return heads

    def _all(self, site: AttentionSite, heads: list[int] | None) -> list[int]:
        if heads is None and site.heads is None:
            raise ValueError(f"{site.name}: its number of heads is unknown; give head=...")
        return _all_heads(site, heads, site.heads or 0)

    def _record_of(self, source: Record, site: AttentionSite) -> LayerRecord:
        matching = [layer for layer in source.layers if layer.name == site.name]
        if not matching:
            raise ValueError(
                f"the source has no layer {site.name}; record it with the same model "
                f"(it is of {source.label})"
            )
        if any(layer.name == repeat_name(site.name, 2) for layer in source.layers):
            raise ValueError(
                f"{site.name}: it runs several times with the same weights, so its record is of "
                "several layers; change it without a source"
            )
        return matching[0]

    def _recorded_heads(self, source: Record, site: AttentionSite) -> Tensor:
        heads = self._record_of(source, site).heads
        if heads is None:
            raise ValueError(f"{site.name}: the source has no outputs of its heads")
        return heads.transpose(0, 1)  # (T, H, M)

    # The context manager

    def __enter__(self) -> nn.Module:
        if not self._changes:
            raise ValueError("intervene: no change; call ablate, weights or patch first")
        with ExitStack() as stack:  # undoes the first changes if a later one fails
            for change in self._changes:
                stack.enter_context(change())
            self._entered.append(stack.pop_all())
        return self.model

    def __exit__(self, *problem: Any) -> None:
        self._entered.pop().close()

    def __repr__(self) -> str:
        return f"Intervention({type(self.model).__name__}, {len(self._changes)} changes)"


def intervene(model: nn.Module) -> Intervention:
    """Change a model while it runs: ablate heads, edit attention weights, patch activations.

    Add changes with `ablate`, `weights` and `patch`, one after another, and use the result in a
    `with`. The model gets hooks from outside. They are gone afterwards, also after an error, and
    the model's outputs are what they were. Layers have the numbers of their modules' names; where
    these do not tell them apart (an encoder and a decoder), they are counted from 0 in the order of
    the modules. Names as in `capture` work too. Fused attention stays on, except in layers whose
    weights change.

    >>> import torch, attnlab
    >>> from attnlab.models import Decoder, StackConfig
    >>> model = Decoder(StackConfig(vocabulary=50, context=16, width=24, layers=2, heads=3)).eval()
    >>> ids = torch.tensor([[5, 6, 7, 5]])
    >>> before = model(ids)
    >>> def forbid_the_first_token(A):
    ...     A[:, 1:, 0] = 0
    ...     return A / A.sum(-1, keepdim=True)
    >>> change = attnlab.intervene(model).ablate(0, head=1).weights(1, 2, forbid_the_first_token)
    >>> with change:
    ...     after = model(ids)
    >>> torch.equal(before, after), torch.equal(before, model(ids))
    (False, True)
    """
    if isinstance(model, InspectedModel):
        model = model.model
    if not isinstance(model, nn.Module):
        raise ValueError(f"intervene: a {type(model).__name__} is not a torch.nn.Module")
    if hasattr(model, "_orig_mod"):
        raise ValueError(
            "intervene: a compiled model cannot be changed; use the original, model._orig_mod"
        )
    return Intervention(model)


class _HeadAblation:
    """Replaces the outputs (B, T, H, M) of some heads."""

    def __init__(
        self,
        site: AttentionSite,
        heads: list[int] | None,
        how: Ablation,
        recorded: Tensor | None,
        seed: int,
    ) -> None:
        self.site, self.heads, self.how, self.recorded = site, heads, how, recorded
        self.seed = seed

    def __call__(self, z: Tensor) -> Tensor:
        heads = _all_heads(self.site, self.heads, z.shape[2])
        changed = z.clone()
        if self.how == "zero":
            changed[:, :, heads] = 0
            return changed
        if self.recorded is None and z.shape[1] == 1:
            raise ValueError(
                f'{self.site.name}: how="{self.how}" takes other tokens of the text, and there is '
                'one token only, as in decoding with a cache; give source= or how="zero"'
            )
        # per row, so that a text's result does not depend on the other texts of its batch
        known = z if self.recorded is None else self.recorded.to(z)[None]  # (B or 1, n, H, M)
        if self.how == "mean":
            changed[:, :, heads] = known[:, :, heads].mean(1, keepdim=True)
            return changed
        random = torch.Generator().manual_seed(self.seed)
        rows = torch.randint(known.shape[1], z.shape[1:2], generator=random).to(z.device)  # (T,)
        changed[:, :, heads] = known[:, rows][:, :, heads]
        return changed


def _all_heads(site: AttentionSite, heads: list[int] | None, count: int) -> list[int]:
    if heads is None:
        return list(range(count))
    site.check_heads(heads, count)
    return heads


def _uniform(weights: Tensor, allowed: Tensor) -> Tensor:
    """Equal weights for all keys that are allowed; zeros for a query without any."""
    return (allowed / allowed.sum(-1, keepdim=True).clamp(min=1)).to(weights.dtype)


def _position_list(positions: Positions) -> list[int] | None:
    if positions is None:
        return None
    chosen = list(positions) if isinstance(positions, Iterable) else [positions]
    if not chosen or any(isinstance(p, bool) or not isinstance(p, int) or p < 0 for p in chosen):
        raise ValueError(f"positions is {positions!r}; give numbers of tokens, from 0")
    return chosen


def _check_positions(chosen: list[int] | None, T: int, recorded: int, name: str) -> list[int]:
    if chosen is None:
        if recorded != T:
            raise ValueError(
                f"{name}: the input has {T} tokens and the source {recorded}; give positions=[...] "
                "that both have"
            )
        return list(range(T))
    if max(chosen) >= min(T, recorded):
        raise ValueError(
            f"{name}: no position {max(chosen)}; the input has {T} tokens and the source "
            f"{recorded}: give 0 to {min(T, recorded) - 1}"
        )
    return chosen


@contextmanager
def edited_output(module: nn.Module, edit: Callable[[Tensor], Tensor]) -> Iterator[None]:
    def hook(_: nn.Module, __: Any, output: Any) -> Any:
        stream = stream_of(output)
        if stream is None:
            raise ValueError("the block returns no residual stream (batch, tokens, width)")
        return with_stream(output, edit(stream))

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def edited_input(module: nn.Module, edit: Callable[[Tensor], Tensor]) -> Iterator[None]:
    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args and isinstance(args[0], Tensor):
            return (edit(args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": edit(kwargs["hidden_states"])}

    handle = module.register_forward_pre_hook(hook, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()
