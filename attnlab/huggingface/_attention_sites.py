"""The attention layers of a Hugging Face model, as interventions change them.

A layer that gets its attention function from transformers' AttentionInterface is changed at that
function, as a capture observes it: no family needs an adapter. The other layers are changed at the
input of their output projection, which is found by its name.

Letters: B batch, T queries, S keys, H heads, M value size.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab._short_repr import one_line
from attnlab.huggingface._attention_modules import (
    attention_like,
    is_huggingface,
    kind_of,
    stack_of,
    uses_interface,
)
from attnlab.huggingface._mask_arguments import read_row_mask, without_free_slots
from attnlab.huggingface._observe_attention import Editor, editing
from attnlab.huggingface._record_call import CallArguments, fill_call
from attnlab.interpret._attention_call import AttentionCall
from attnlab.interpret._attention_sites import (
    AttentionSite,
    HeadEdit,
    WeightEdit,
    checked_edit,
    same_type,
)
from attnlab.interpret._inspected_model import BatchOutput

HEAD_COUNTS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nh")
TIME_FIRST = re.compile(r"\b\w*_len, (bsz|batch_size), \w+ = \w+\.(size\(\)|shape)")
PROJECTION = re.compile(r"(^|\.)(o|o_proj|out_proj|out|wo|c_proj|dense|out_lin|proj|fc_out)$")


def huggingface_sites(model: nn.Module) -> list[AttentionSite]:
    """The layers that run transformers' attention, in the order of the modules."""
    if not any(is_huggingface(module) for module in model.modules()):
        return []
    sites: list[AttentionSite] = []
    for name, module in model.named_modules():
        if uses_interface(module):
            sites.append(InterfaceSite(name, module, model))
        elif attention_like(module):
            sites.append(ProjectionSite(name, module, model))
    return sites


class HuggingFaceSite(AttentionSite):
    def __init__(self, name: str, module: nn.Module, model: nn.Module) -> None:
        self.name, self.module = name or type(module).__name__, module
        causal = bool(getattr(module, "is_causal", False))
        self.kind = kind_of(name, module, {}, 1, 1, causal)
        self.stack = stack_of(name, module, self.kind, causal)
        self.heads = _head_count(module, model)


class InterfaceSite(HuggingFaceSite):
    """A layer whose attention function comes from the interface."""

    def edit_heads(self, edit: HeadEdit) -> AbstractContextManager[object]:
        def change(arguments: CallArguments, result: Any) -> Any:
            output = result[0] if isinstance(result, tuple) else result
            B, H, T, _ = arguments.query.shape
            if not isinstance(output, Tensor) or output.numel() % (B * T * H):
                raise ValueError(
                    f"{self.name}: its attention function does not return an output for each head, "
                    "so its heads cannot be changed"
                )
            changed = edit(output.reshape(B, T, H, -1)).reshape(output.shape)
            return (changed, *result[1:]) if isinstance(result, tuple) else changed

        return editing(self.module, Editor("heads", change))

    def edit_weights(
        self, heads: Sequence[int], edit: WeightEdit
    ) -> AbstractContextManager[object]:
        def change(arguments: CallArguments, result: Any) -> Any:
            output, given = (*result, None)[:2] if isinstance(result, tuple) else (result, None)
            B, H, T, _ = arguments.query.shape
            self.check_heads(heads, H)
            A, allowed = self._weights(arguments, result)  # (B, H, T, S), (B, T, S)
            G = arguments.value.shape[1]
            rows, outputs = list(A.unbind(1)), list(output.reshape(B, T, H, -1).unbind(2))
            for head in heads:  # nothing is written in place: A is needed for gradients
                rows[head] = checked_edit(edit, rows[head], allowed).to(A.dtype)  # (B, T, S)
                values = arguments.value[:, head * G // H]  # (B, S, M)
                outputs[head] = (rows[head].to(values.dtype) @ values).to(output.dtype)
            weights = torch.stack(rows, 1)
            changed = torch.stack(outputs, 2).reshape(output.shape)
            return changed, weights if given is None else weights.to(given.dtype)

        return editing(self.module, Editor("weights", change))

    def _weights(self, arguments: CallArguments, result: Any) -> tuple[Tensor, Tensor]:
        """The weights of all rows and heads (B, H, T, S), and the keys that are allowed."""
        q, S = arguments.query, arguments.key.shape[2]
        B, H, T, _ = q.shape
        every_row, every_mask = [], []
        for row in range(B):
            mask = read_row_mask(
                arguments.implementation, self.module, q, arguments.key, arguments.mask,
                arguments.options, row,
            )  # fmt: skip
            mask = without_free_slots(mask, S, cross=self.kind == "cross")
            call = AttentionCall(self.name, self.stack, self.kind, list(range(H)), H, 0)
            fill_call(call, self.module, arguments, mask, result, row, wants_weights=True)
            assert call.weights is not None
            every_row.append(F.pad(call.weights, (0, S - call.weights.shape[-1])))
            real = torch.ones(T, mask.length, dtype=torch.bool, device=q.device)
            allowed = real if call.allowed is None else call.allowed
            every_mask.append(F.pad(allowed, (0, S - allowed.shape[-1])))
        return torch.stack(every_row), torch.stack(every_mask)


class ProjectionSite(HuggingFaceSite):
    """A layer without the interface. Its heads' outputs are the input of its output projection, or
    its own output if the projection is in another module (as in BERT's layers)."""

    def edit_heads(self, edit: HeadEdit) -> AbstractContextManager[object]:
        names = [name for name, _ in self.module.named_modules() if PROJECTION.search(name)]
        if not names and self.heads and "SelfAttention" in type(self.module).__name__:
            return _removed(self.module.register_forward_hook(self._output_hook(edit)))
        if not names or self.heads is None:
            raise ValueError(
                f"{self.name}: a {type(self.module).__name__} does not use transformers' attention "
                "interface and has no output projection that attnlab knows, so its heads cannot be "
                "changed"
            )
        H, time_first = self.heads, _is_time_first(self.module)

        def change(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            del module
            joined, *rest = args  # (B, T, H M)
            if joined.dim() != 3 or joined.shape[-1] % H:
                raise ValueError(
                    f"{self.name}: its outputs {tuple(joined.shape)} are not those of {H} heads "
                    "for each token, so its heads cannot be changed"
                )
            joined = joined.transpose(0, 1) if time_first else joined
            changed = edit(joined.unflatten(-1, (H, -1))).flatten(-2)
            return (changed.transpose(0, 1) if time_first else changed, *rest)

        projection = self.module.get_submodule(names[-1])
        return _removed(projection.register_forward_pre_hook(change))

    def _output_hook(self, edit: HeadEdit) -> Any:
        def change(module: Any, args: Any, output: Any) -> Any:
            del args
            joined = output[0] if isinstance(output, tuple) else output  # (B, T, H M)
            if joined.dim() != 3 or joined.shape[-1] != getattr(module, "all_head_size", None):
                raise ValueError(f"{self.name}: its output is not one vector for each head")
            changed = edit(joined.unflatten(-1, (self.heads, -1))).flatten(-2)
            return (
                same_type(output, (changed, *output[1:])) if isinstance(output, tuple) else changed
            )

        return change

    def edit_weights(
        self, heads: Sequence[int], edit: WeightEdit
    ) -> AbstractContextManager[object]:
        del heads, edit
        raise ValueError(
            f"{self.name}: does not use transformers' attention interface, so its weights cannot "
            'be changed; ablate its heads with how="zero", "mean" or "resample"'
        )


def _is_time_first(module: nn.Module) -> bool:
    """Whether a layer computes with (T, B, W), as FSMT's do. Its code says so; shapes cannot."""
    try:
        return bool(TIME_FIRST.search(inspect.getsource(type(module).forward)))
    except (OSError, TypeError):  # without source
        return False


def _head_count(module: nn.Module, model: nn.Module) -> int | None:
    owners: list[Any] = [module, getattr(module, "config", None), getattr(model, "config", None)]
    counts = (getattr(owner, name, None) for owner in owners for name in HEAD_COUNTS)
    return next((count for count in counts if isinstance(count, int) and count > 0), None)


@contextmanager
def _removed(handle: torch.utils.hooks.RemovableHandle) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()


def run_options(model: Any, kind: str) -> dict[str, bool]:
    """Arguments of a forward besides its inputs, as far as it takes them."""
    options = {"return_dict": True}
    if kind not in ("encoder", "vision"):
        options["use_cache"] = False
    accepted = inspect.signature(model.forward).parameters
    if any(each.kind is each.VAR_KEYWORD for each in accepted.values()):
        return options
    return {name: value for name, value in options.items() if name in accepted}


def predict(model: Any, inputs: dict[str, Tensor], kind: str) -> BatchOutput:
    """Run a model on the inputs of a `PreparedInput`, of any batch size."""
    inputs = {"input_ids" if name == "ids" else name: x for name, x in inputs.items()}
    try:
        out = model(**inputs, **run_options(model, kind))
    except ValueError as error:
        if "\n" not in str(error):
            raise
        raise ValueError(f"{type(model).__name__}: {one_line(error, 300)}") from error
    logits = getattr(out, "logits", None)
    if logits is not None and logits.dim() == 2:
        return BatchOutput(logits, "classes")
    if logits is not None and logits.dim() == 3:
        if kind in ("decoder", "encoder-decoder"):
            return BatchOutput(logits, "next")
        if logits.shape[2] == getattr(model.config, "vocab_size", None):
            return BatchOutput(logits, "masked")
    vectors = getattr(out, "last_hidden_state", logits)
    if vectors is None:
        vectors = next(x for x in out.values() if torch.is_tensor(x))
    return BatchOutput(vectors.reshape(len(vectors), -1, vectors.shape[-1]), "vectors")
