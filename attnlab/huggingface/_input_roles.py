"""What a Hugging Face model reads, and whether an input of `look` gives it that."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from attnlab.interpret._arrangement import Role
from attnlab.interpret._options import LookInput
from attnlab.interpret._records import ModelKind

if TYPE_CHECKING:
    from attnlab.huggingface._inspected_models import InspectedHuggingFaceModel

ARGUMENTS: dict[str, Role] = {
    "input_ids": "text",
    "decoder_input_ids": "text",
    "pixel_values": "image",
    "input_features": "sound",
    "input_values": "sound",
}
OTHERS = {"pixel_values_videos": "videos", "past_values": "time series"}
OPTIONS = {"text": "--text", "image": "--image FILE", "sound": "--sound FILE.wav"}


def roles_of(model: Any) -> set[Role]:
    """What the model can read."""
    accepted = inspect.signature(model.forward).parameters
    return {role for name, role in ARGUMENTS.items() if name in accepted}


def model_kind(model: Any) -> ModelKind:
    accepted = inspect.signature(model.forward).parameters
    reads_text = "input_ids" in accepted or "decoder_input_ids" in accepted
    if model.main_input_name == "pixel_values" and not reads_text:
        return "vision"
    if model.config.is_encoder_decoder and (
        "decoder_input_ids" in accepted or model.main_input_name == "input_ids"
    ):
        return "encoder-decoder"
    if not reads_text and model.main_input_name != "input_ids":
        return "encoder"
    causal = any(getattr(module, "is_causal", False) is True for module in model.modules())
    return "decoder" if causal or model.can_generate() else "encoder"


def required_roles(model: Any) -> list[Role]:
    """What the model does not run without."""
    main = ARGUMENTS.get(str(model.main_input_name))
    towers = [getattr(model, name, None) for name in ("text_model", "vision_model")]
    if all(towers) and not model.can_generate():
        return ["text", "image"]
    return [] if main is None else [main]


def check_roles(inspected: InspectedHuggingFaceModel, look_input: LookInput) -> None:
    """Raise if the model cannot read the input, or needs another one."""
    model, label = inspected.model, inspected.label
    given: dict[Role, object] = {
        "text": look_input.text,
        "image": look_input.image,
        "sound": look_input.sound,
    }
    if look_input.inputs is not None:
        if any(x is not None for x in (*given.values(), look_input.pair)) or look_input.generate:
            raise ValueError(
                "--inputs holds all that the model reads; omit --text, --pair, --image, --sound "
                "and --generate"
            )
        return
    main = str(model.main_input_name)
    if main not in ARGUMENTS:
        what = OTHERS.get(main, "neither text nor image nor sound")
        raise ValueError(
            f"{label}: a {type(model).__name__} reads {what} ({main}); give its tensors: --inputs "
            "FILE.safetensors"
        )
    if look_input.sound is not None and "sound" not in inspected.roles:
        raise ValueError(f"{label}: a {type(model).__name__} reads no sound; omit --sound")
    if look_input.image is not None and "image" not in inspected.roles:
        return  # reported with what it reads instead
    missing = [role for role in required_roles(model) if given[role] is None]
    has_medium = look_input.image is not None or look_input.sound is not None
    if missing == ["text"] and not has_medium:
        return  # reported as for any model that reads a text
    if has_medium and inspected.kind in ("encoder", "decoder") and look_input.text is None:
        missing += ["text"] * ("text" in inspected.roles and "text" not in missing)
    if missing and inspected.kind != "vision":
        options = " and ".join(OPTIONS[role] for role in missing)
        what = {"image": "an image", "sound": "sound", "text": "a text"}[missing[-1]]
        raise ValueError(f"{label}: a {type(model).__name__} reads {what} ({main}); give {options}")
