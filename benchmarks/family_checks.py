"""Runs look, capture and a replacement on one tiny model, and compares them with eager attention.

Letters: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from family_inputs import candidate_inputs
from family_models import FIRST_WORD, LAST_WORD, VOCABULARY, B, build
from torch import Tensor, nn

import attnlab
from attnlab.huggingface import register
from attnlab.huggingface._attention_modules import uses_interface
from attnlab.huggingface._recurrent_layers import is_recurrent

Outcome = tuple[str, str]
"""equal, part, refused, wrong, crash or untested; and the reason."""
TOLERANCE = 1e-4
STRATEGIES = 3  # ways to shrink a configuration
SEARCH = 4.0  # CPU seconds for a model and inputs with which it runs


class NotBuiltError(Exception):
    """No small model of this family runs with the inputs that we know."""


def check_family(family: str, kinds: list[str]) -> dict[str, Any]:
    """The row of one family."""
    row: dict[str, Any] = {"family": family, "class": kinds[0]}
    try:
        model, inputs = running_model(family, kinds)
    except NotBuiltError as error:
        return {**row, "built": False, "reason": str(error)}
    row |= {"class": type(model).__name__, "built": True, "attention": has_attention(model)}
    row["inputs"] = {name: list(x.shape) for name, x in inputs.items()}
    if not row["attention"]:
        return row
    expected = eager_weights(model, inputs)
    row["capture"], row["layers"] = check_capture(model, inputs, expected)
    row["row"] = check_row(model, inputs)
    row["unchanged"] = check_unchanged(model, inputs)
    row["look"], row["reads"] = check_look(model, inputs)
    row["replace"] = check_replacement(model, inputs)
    return row


def running_model(family: str, kinds: list[str]) -> tuple[Any, dict[str, Tensor]]:
    """A model and inputs with which it runs."""
    reason, started = "", time.process_time()
    for strategy, kind in itertools.product(range(STRATEGIES), kinds):
        if reason and time.process_time() - started > SEARCH:
            break
        try:
            model = build(family, kind, strategy)
        except Exception as error:
            reason = reason or f"cannot be built small: {last_line(error)}"
            continue
        problem = "no input fits"
        for inputs in candidate_inputs(model):
            if time.process_time() - started > SEARCH:
                break
            try:
                outputs = run(model, inputs)
            except Exception as error:
                if not isinstance(error, TypeError) or problem == "no input fits":
                    problem = f"does not run: {last_line(error)}"
                continue
            if outputs and not any(bool(x.isnan().any()) for x in outputs):
                return model, inputs
            problem = "its outputs are not numbers"
        reason = reason or problem
    raise NotBuiltError(reason)


def has_attention(model: nn.Module) -> bool:
    names = [type(module).__name__.lower() for module in model.modules()]
    computes = any(uses_interface(m) or is_recurrent(m) for m in model.modules())
    return computes or any("attention" in name for name in names)


def last_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


@torch.no_grad()
def run(model: Any, inputs: dict[str, Tensor], **options: Any) -> list[Tensor]:
    """All floating-point outputs."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = model(**inputs, **options)
    return list(tensors(outputs))


def tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, dict):
        for name, part in value.items():
            if "attention" not in str(name) and "past_key_values" not in str(name):
                yield from tensors(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors(part)


def with_padding(inputs: dict[str, Tensor]) -> dict[str, Tensor] | None:
    """The second row has padding at the end."""
    if "input_ids" not in inputs:
        return None
    mask = torch.ones_like(inputs["input_ids"])
    mask[1, -3:] = 0
    return {**inputs, "attention_mask": mask}


@contextmanager
def eager(model: Any) -> Iterator[Any]:
    """A copy of the model with its eager attention."""
    other = copy.deepcopy(model)
    for module in other.modules():
        config: Any = getattr(module, "config", None)
        if hasattr(config, "_attn_implementation_internal"):
            config._attn_implementation = "eager"
    yield other


def eager_weights(model: Any, inputs: dict[str, Tensor], **options: Any) -> list[Tensor]:
    """The weights (B, H, T, S) that the model returns itself."""
    with eager(model) as other:
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.manual_seed(0)
                outputs = other(**inputs, output_attentions=True, **options)
        except Exception:
            return []
    collected: list[Tensor] = []

    def collect(value: Any) -> None:
        if isinstance(value, Tensor) and value.dim() == 4 and value.is_floating_point():
            collected.append(value)
        elif isinstance(value, list | tuple):
            for part in value:
                collect(part)
        elif isinstance(value, dict):
            for part in value.values():
                collect(part)

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            for name, part in value.items():
                if "attentions" in str(name):
                    collect(part)
                else:
                    visit(part)

    visit(outputs)
    return [x for x in collected if looks_like_weights(x)]


def looks_like_weights(x: Tensor) -> bool:
    """Some models return scores or offsets under this name."""
    sums = x.sum(-1)
    return bool((x >= 0).all() and (x <= 1 + 1e-5).all() and (sums <= 1 + 1e-3).all())


def attempt(function: Callable[[], Outcome]) -> Outcome:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function()
    except ValueError as error:
        return "refused", " ".join(str(error).split())[:300]
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return "crash", f"{last_line(error)} ({Path(frame.filename).name}:{frame.lineno})"


def judge(layers: list[Any], notes: list[str], expected: list[Tensor], row: int) -> Outcome:
    """Whether the weights of the layers are those of eager attention."""
    if not layers:
        return "refused", "; ".join(notes) or "no layer was captured"
    for layer in layers:
        if layer.doubtful:
            return "wrong", f"{layer.name}: differs by {layer.difference}"
    free = [layer for layer in layers if layer.weights is not None]
    unmatched = 0
    for weights in expected:
        index = min(row * len(weights) // B, len(weights) - 1)
        match = next((x for x in free if same(x.weights, weights[index])), None)
        if match is None:
            unmatched += 1
        else:
            free.remove(match)
    loose = [layer.name for layer in free if layer.difference is None]
    missed = [note for note in notes if note.startswith("Not captured")]
    if unmatched and loose:
        return "wrong", f"{loose[0]}: is not what eager attention returns"
    if missed:
        return "part", missed[0][:300]
    if unmatched and len(layers) < len(expected):
        return (
            "part",
            f"{unmatched} of {len(expected)} maps that eager attention returns are missing",
        )
    if unmatched:  # weights times values are the outputs, so a layer is missing, or eager differs
        return "part", f"{unmatched} of {len(expected)} maps of eager attention equal no layer's"
    if loose and not expected:
        return "equal", "nothing to compare with: the model returns no attention otherwise"
    return "equal", ""


def same(weights: Tensor, other: Tensor) -> bool:
    if weights.shape != other.shape:
        return False
    return bool(torch.allclose(weights, other.float(), atol=TOLERANCE))


def check_capture(
    model: Any, inputs: dict[str, Tensor], expected: list[Tensor]
) -> tuple[Outcome, int]:
    count = 0

    def act() -> Outcome:
        nonlocal count
        with torch.no_grad(), attnlab.capture(model) as captured:
            torch.manual_seed(0)
            model(**inputs)
        count = len(captured.layers)
        return judge(captured.layers, captured.notes, expected, 0)

    return attempt(act), count


def check_row(model: Any, inputs: dict[str, Tensor]) -> Outcome:
    """The second row of the batch."""

    def act() -> Outcome:
        with torch.no_grad(), attnlab.capture(model, row=1) as captured:
            torch.manual_seed(0)
            model(**inputs)
        return judge(captured.layers, captured.notes, [], 1)

    return attempt(act)


def implementations(model: nn.Module) -> list[Any]:
    collected: list[Any] = []

    def visit(config: Any) -> None:
        collected.append(config._attn_implementation_internal)
        for value in vars(config).values():
            if hasattr(value, "_attn_implementation_internal"):
                visit(value)

    for module in model.modules():
        if hasattr(getattr(module, "config", None), "_attn_implementation_internal"):
            visit(module.config)
    return collected


def check_unchanged(model: Any, inputs: dict[str, Tensor]) -> Outcome:
    """The model is the same after a capture: settings, and outputs to the bit."""

    def act() -> Outcome:
        before, settings = run(model, inputs), implementations(model)
        try:
            with attnlab.capture(model, memory=1.0):
                run(model, inputs)
        except Exception:
            pass  # judged elsewhere; the model must be the same all the more
        if implementations(model) != settings:
            return "wrong", "another attention implementation after a capture"
        after = run(model, inputs)
        if all(torch.equal(x, y) for x, y in zip(before, after, strict=True)):
            return "equal", ""
        again = run(model, inputs)
        if not all(torch.equal(x, y) for x, y in zip(after, again, strict=True)):
            return "untested", "two runs of the model itself differ"
        return "wrong", "other outputs after a capture"

    return attempt(act)


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
    names = [*special, *(f"w{i}" for i in range(FIRST_WORD, VOCABULARY))]
    made = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="$A", pair="$A $B", special_tokens=[]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        unk_token="<unk>", mask_token="<mask>",
    )  # fmt: skip


def text_of(ids: list[int]) -> str:
    assert all(FIRST_WORD <= i < LAST_WORD for i in ids)
    return " ".join(f"w{i}" for i in ids)


def check_look(model: Any, inputs: dict[str, Tensor]) -> tuple[Outcome, str]:
    """A page about the first row, and what it was given: a text or an image, if the model runs
    with that alone, or else its tensors. Its weights are compared with eager attention."""
    one = {name: x[: len(x) // B] for name, x in inputs.items()}
    names, outcome = set(inputs), None
    torch.manual_seed(0)  # some models choose patches at random
    is_text = all(x.dim() == 2 for x in one.values())  # others read several codebooks
    if is_text and names in ({"input_ids"}, {"input_ids", "decoder_input_ids"}):
        outcome = attempt(lambda: look_at_text(model, one)), "text"
    elif names == {"pixel_values"} and "decoder_input_ids" not in signature_of(model):
        outcome = attempt(lambda: look_at_image(model, one["pixel_values"])), "image"
    if outcome is None or outcome[0][0] == "refused":
        outcome = attempt(lambda: look_at_tensors(model, one)), "tensors"
    return outcome


def signature_of(model: Any) -> set[str]:
    return set(inspect.signature(model.forward).parameters)


def look_at_text(model: Any, one: dict[str, Tensor]) -> Outcome:
    pair = one.get("decoder_input_ids")
    given = None if pair is None else text_of(pair[0].tolist())
    text = text_of(one["input_ids"][0].tolist())
    result = attnlab.look(model, text, pair=given, tokenizer=tokenizer(), control=False)
    start = getattr(model.config, "decoder_start_token_id", None)
    if pair is not None:  # the decoder starts with a token of its own
        start = torch.tensor([[tokenizer().pad_token_id if start is None else start]])
        one = {**one, "decoder_input_ids": torch.cat([start, pair], 1)}
    without_cache = {"use_cache": False} if "use_cache" in signature_of(model) else {}
    return judge_page(result, eager_weights(model, one, **without_cache))


def look_at_image(model: Any, pixels: Tensor) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        path, processor = image_file(Path(folder), pixels), image_processor(pixels)
        result = attnlab.look(model, image=path, tokenizer=processor, control=False)
        from PIL import Image

        values = processor(images=Image.open(path), return_tensors="pt")["pixel_values"]
    return judge_page(result, eager_weights(model, {"pixel_values": values}))


def look_at_tensors(model: Any, one: dict[str, Tensor]) -> Outcome:
    torch.manual_seed(0)
    result = attnlab.look(model, inputs=one, control=False)
    return judge_page(result, eager_weights(model, one))


def judge_page(result: Any, expected: list[Tensor]) -> Outcome:
    result.packed  # noqa: B018  a page can be written
    return judge(result.panels[0].layers, result.capture.notes, expected, 0)


def image_file(folder: Path, pixels: Tensor) -> Path:
    from PIL import Image

    generator = torch.Generator().manual_seed(4)
    size = pixels.shape[-2:]
    image = torch.randint(0, 256, (*size, 3), generator=generator).to(torch.uint8)
    path = folder / "image.png"
    Image.fromarray(image.numpy()).save(path)
    return path


def image_processor(pixels: Tensor) -> Any:
    from transformers import ViTImageProcessor

    height, width = pixels.shape[-2:]
    return ViTImageProcessor(size={"height": height, "width": width})


def check_replacement(model: Any, inputs: dict[str, Tensor]) -> Outcome:
    """attnlab-softmax against eager, without padding and at the tokens before padding."""

    def act() -> Outcome:
        register()
        replaced = copy.deepcopy(model)
        replaced.set_attn_implementation("attnlab-softmax")
        with eager(model) as other:
            try:
                expected = run(other, inputs)
            except Exception:  # its eager attention fails: as it is by default
                other, expected = model, run(model, inputs)
            outcome = differ(expected, run(replaced, inputs))
            if outcome is not None and differ(run(model, inputs), run(replaced, inputs)) is None:
                # transformers' own implementations differ, and ours is the one by default
                other, outcome = model, None
            padded = with_padding(inputs)
            if outcome is None and padded is not None:
                try:
                    expected = run(other, padded)
                except Exception:
                    padded = None  # this model takes no mask
                if padded is not None:
                    real = padded["attention_mask"].bool()
                    outcome = differ(
                        [real_part(x, real) for x in expected],
                        [real_part(x, real) for x in run(replaced, padded)],
                    )
        return ("equal", "") if outcome is None else ("wrong", outcome)

    return attempt(act)


def real_part(x: Tensor, real: Tensor) -> Tensor:
    return x[real] if x.shape[:2] == real.shape else x[:1]


def differ(expected: list[Tensor], outputs: list[Tensor]) -> str | None:
    """How far two lists of outputs differ; None if not beyond rounding."""
    if [x.shape for x in expected] != [x.shape for x in outputs]:
        return "outputs of other shapes"
    worst = 0.0
    for x, y in zip(expected, outputs, strict=True):
        finite = x.isfinite()  # detectors fill up their outputs with -inf
        if bool(finite.any()):
            scale = max(1.0, float(x[finite].abs().amax()))
            worst = max(worst, float((x - y)[finite].abs().amax()) / scale)
    return f"outputs differ by {worst:.2g}" if not worst < 1e-3 else None
