"""`attnlab.attribute`: which parts of a model add how much to the logit of a token.

The residual stream is a sum: of the embedding, of every head's and every feed-forward layer's
output. With the scale of each norm frozen at its value, the way from the stream to a logit is
linear, so the logit is a sum too. The model runs once with these changes: norms are linear, every
weight matrix inside a block sees its input as a constant, and autograd follows the residual path
alone. This covers norms before and after the layers, and norms of a layer's output.

Letters: B batch, T tokens, H heads, M value size, W width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from attnlab.interpret._adapters import attention_sites, predict
from attnlab.interpret._attention_sites import AttentionSite, stream_of
from attnlab.interpret._frozen_norms import ROUNDINGS, FrozenNorms
from attnlab.interpret._inspected_model import move_to_model
from attnlab.interpret._layer_numbers import layer_numbers
from attnlab.interpret._logit_lens import LensInput
from attnlab.interpret._model_input import ModelInput, Text, check_token, read_input, token_id
from attnlab.interpret._run_model import evaluating, frozen

if TYPE_CHECKING:
    from attnlab.report import Report

TOLERANCE = 1e-4  # of the logit: more is not rounding
ROUNDING = 1e-5


@dataclass(frozen=True)
class Term:
    """A part of a logit. `kind`: embedding, head, attention bias, feed-forward, norm bias, block
    (all that is left of a block with more than separable heads and a feed-forward layer), output
    bias, or output transform (not linear, what is left)."""

    kind: str
    value: float
    layer: int | None = None
    """Of a head and an attention bias the attention layer, numbered as in `intervene`; else the
    block, numbered as in `logit_lens`."""
    head: int | None = None
    name: str = ""
    """Name of the attention layer of a head or an attention bias."""


@dataclass(frozen=True, eq=False)
class Attribution:
    """The terms of one logit. They sum to it."""

    label: str
    tokens: list[str]
    token: str
    token_id: int
    position: int | None
    logit: float
    terms: list[Term]
    notes: list[str] = field(default_factory=list)

    @property
    def total(self) -> float:
        return sum(term.value for term in self.terms)

    def ranked(self) -> list[Term]:
        """The largest terms, of either sign, first."""
        return sorted(self.terms, key=lambda term: -abs(term.value))

    def report(self) -> Report:
        from attnlab.interpret._effect_reports import attribution_report

        return attribution_report(self)


def attribute(
    model: Any,
    text: Text | None = None,
    token: str | int | None = None,
    *,
    position: int | None = None,
    tokenizer: Any = None,
    pair: str | None = None,
    image: str | Path | None = None,
) -> Attribution:
    """Split the logit of a token into what the embedding, heads and feed-forward layers add to it.

    Without `token` it is the one that the model predicts, at the last position or at `position`.
    The scale of every norm is frozen at its value, biases are terms of their own, and the terms sum
    to the logit.

    >>> import attnlab
    >>> from attnlab.models import Decoder, StackConfig
    >>> model = Decoder(StackConfig(vocabulary=50, context=16, width=24, layers=2, heads=3)).eval()
    >>> result = attnlab.attribute(model, [5, 6, 7, 5], token=6)
    >>> abs(result.total - result.logit) < 1e-4
    True
    >>> len([term for term in result.terms if term.kind == "head"])
    6
    """
    source = read_input(model, text, tokenizer=tokenizer, pair=pair, image=image)
    sites = attention_sites(source.model)
    with evaluating(source.model), frozen(source.model):
        with torch.no_grad():
            lens = LensInput(source)  # refuses models without a residual stream and a logit
        output = lens.replay.output
        where = None if output.kind == "classes" else source.position(output, position)
        logits = output.values[0] if where is None else output.values[0, where]
        chosen = int(logits.argmax()) if token is None else token_id(source, token)
        check_token(chosen, output)
        path = ResidualPath(lens, sites)
        terms = path.terms(where, chosen)
    return Attribution(
        label=source.label,
        tokens=source.tokens,
        token=_token_name(source, chosen),
        token_id=chosen,
        position=where,
        logit=float(logits[chosen]),
        terms=terms,
        notes=path.notes,
    )


class ResidualPath:
    """One run of a model in which gradients follow the residual path alone."""

    def __init__(self, lens: LensInput, sites: Sequence[AttentionSite]) -> None:
        self.lens, self.model = lens, lens.source.model
        blocks = lens.replay.blocks
        self.blocks = [blocks[index].module for index in lens.indices]
        self.owner = {
            part: number for number, block in enumerate(self.blocks) for part in block.modules()
        }
        self.sites = [site for site in sites if site.module in self.owner]
        names = [site.name for site in sites]
        self.numbers = dict(zip(sites, layer_numbers(names), strict=True))
        self.refused: list[AttentionSite] = []
        self.norms = FrozenNorms(self.model)
        self.first: Tensor | None = None  # (B, T, W) the embedding
        self.streams: list[Tensor] = []  # after each block
        self.projected: dict[AttentionSite, tuple[Tensor, Tensor, int]] = {}
        """Inputs (B, T, H M) and outputs of the output projections, and the number of heads."""
        self.pending: dict[AttentionSite, tuple[int, int]] = {}  # H, H M
        self.claimed: dict[nn.Module, AttentionSite] = {}
        self.notes: list[str] = []

    def terms(self, where: int | None, chosen: int) -> list[Term]:
        source = self.lens.source
        with torch.enable_grad(), self._hooked():
            values = predict(self.model, move_to_model(self.model, source.inputs)).values
            logit = values[0, chosen] if where is None else values[0, where, chosen]
            connected = logit.requires_grad and len(self.streams) == len(self.blocks)
            if connected:
                logit.backward()
                bias = self._logit_of_zeros(where, chosen)
        if not connected or self.first is None or self.first.grad is None:
            raise ValueError(
                f"{source.label}: no residual path leads from its embedding to its output, so its "
                "logits cannot be attributed"
            )
        flows = [_product(x) for x in (self.first, *self.streams)]
        terms = [Term("embedding", flows[0])]
        for number in range(len(self.blocks)):
            own = self._block_terms(number)
            rest = flows[number + 1] - flows[number] - sum(term.value for term in own)
            separable = any(term.kind == "head" for term in own) and not self._holds_more(number)
            terms += [*own, Term("feed-forward" if separable else "block", rest, number)]
        terms.append(Term("output bias", bias))
        logit = logit.detach()
        remainder = float(logit) - flows[-1] - bias
        tolerance = max(TOLERANCE, ROUNDINGS * torch.finfo(logit.dtype).eps)
        if abs(remainder) > tolerance * max(1.0, abs(float(logit))):
            self.notes.append(
                "The output layer is not linear; what its linear part leaves is one term."
            )
            terms.append(Term("output transform", remainder))
        return terms

    def _holds_more(self, number: int) -> bool:
        """Whether a block has attention without separable heads, or a state space layer, which
        its convolution over time shows."""
        whole = (*self.refused, *self.pending)
        return any(self.owner[site.module] == number for site in whole) or any(
            isinstance(part, nn.Conv1d) for part in self.blocks[number].modules()
        )

    def _block_terms(self, number: int) -> list[Term]:
        """The heads of a block, the biases of its attention, and of norms on the residual path."""
        terms = []
        for site in self.sites:
            if self.owner[site.module] != number or site not in self.projected:
                continue
            z, out, H = self.projected[site]
            if out.grad is None or z.grad is None:
                continue
            heads = (z.grad * z.detach()).double().sum((0, 1)).view(H, -1).sum(1).tolist()
            layer = self.numbers[site]
            terms += [
                Term("head", value, layer, head, site.name) for head, value in enumerate(heads)
            ]
            bias = _product(out) - sum(heads)
            rounding = max(ROUNDING, ROUNDINGS * torch.finfo(z.dtype).eps)
            if abs(bias) > rounding * max(1.0, sum(map(abs, heads))):
                terms.append(Term("attention bias", bias, layer, name=site.name))
        bias = sum(
            self.norms.bias_term(norm)
            for norm in self.norms.frozen
            if self.owner.get(norm) == number
        )
        return [*terms, Term("norm bias", bias, number)] if bias else terms

    def _logit_of_zeros(self, where: int | None, chosen: int) -> float:
        """The logit of an empty stream, with the scales of the norms as they were: the biases."""
        with torch.no_grad(), self.norms.reused():
            output = self.lens.replay.run_with_streams(self.lens.last, torch.zeros_like, 1)
        values = output.values[0, chosen] if where is None else output.values[0, where, chosen]
        return float(values)

    @contextmanager
    def _hooked(self) -> Iterator[None]:
        with ExitStack() as stack:
            for site in self.sites:
                try:
                    context = site.edit_heads(self._announce(site))
                except ValueError as error:
                    self.notes.append(f"{error}.")
                    self.refused.append(site)
                    continue
                stack.enter_context(context)
            stack.enter_context(self.norms.active())
            handles = [self.blocks[0].register_forward_pre_hook(self._start, with_kwargs=True)]
            for block in self.blocks:
                handles.append(block.register_forward_hook(self._keep_stream))
            for module in self.owner:
                if has_matrix(module) and module not in self.norms.candidates:
                    handles.append(module.register_forward_pre_hook(self._cut, with_kwargs=True))
                    handles.append(module.register_forward_hook(self._keep_projected))
            for handle in handles:
                stack.callback(handle.remove)
            yield

    def _start(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The path starts at the input of the first block."""
        del module
        if self.first is not None:
            return None
        given = args[0] if args else kwargs["hidden_states"]
        self.first = given.detach().requires_grad_()
        start = self.first * 1.0  # no leaf, so that a block may change it in place
        if args:
            return (start, *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": start}

    def _keep_stream(self, module: nn.Module, args: Any, output: Any) -> None:
        del module, args
        stream = stream_of(output)
        if stream is not None and stream.requires_grad and len(self.streams) < len(self.blocks):
            stream.retain_grad()
            self.streams.append(stream)

    def _announce(self, site: AttentionSite) -> Any:
        def edit(z: Tensor) -> Tensor:
            self.pending[site] = (z.shape[2], z.shape[2] * z.shape[3])
            return z

        return edit

    def _cut(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A weight matrix sees a constant. The one after an attention function is its projection:
        its input becomes a leaf, so that its heads get gradients."""
        cut = tuple(_detached(x) for x in args)
        named = {name: _detached(x) for name, x in kwargs.items()}
        site = self._site_before(module, cut)
        if site is not None:
            H, _ = self.pending.pop(site)
            z = cut[0].requires_grad_()
            self.claimed[module] = site
            self.projected[site] = (z, z, H)
            return (z, *cut[1:]), named
        return cut, named

    def _site_before(self, module: nn.Module, args: tuple[Any, ...]) -> AttentionSite | None:
        if not args or not isinstance(args[0], Tensor):
            return None
        for site, (_, width) in self.pending.items():
            if self.owner[site.module] == self.owner[module] and args[0].shape[-1] == width:
                return site
        return None

    def _keep_projected(self, module: nn.Module, args: Any, output: Any) -> None:
        del args
        site = self.claimed.pop(module, None)
        if site is not None and isinstance(output, Tensor) and output.requires_grad:
            output.retain_grad()  # a reversible layer (Reformer's) computes without gradients
            z, _, H = self.projected[site]
            self.projected[site] = (z, output, H)


def has_matrix(module: nn.Module) -> bool:
    """Whether a module itself owns a weight matrix, as linear layers and experts do."""
    return any(parameter.dim() > 1 for parameter in module.parameters(recurse=False))


def _detached(x: Any) -> Any:
    return x.detach() if isinstance(x, Tensor) and x.is_floating_point() else x


def _product(x: Tensor) -> float:
    """What a tensor on the path adds to the logit."""
    return 0.0 if x.grad is None else float((x.grad * x.detach()).double().sum())


def _token_name(source: ModelInput, index: int) -> str:
    inspected = source.inspected
    if inspected is not None and inspected.kind == "vision":
        classes = list(inspected.classes)
        return classes[index] if index < len(classes) else str(index)
    return source.token(index)
