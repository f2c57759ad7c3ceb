"""Inputs with which the tiny model of a family may run, the likeliest first."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import torch
from family_models import FIRST_WORD, IMAGE, LAST_WORD, TARGET, WIDTH, B, T
from torch import Tensor


def words(rows: int, count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(FIRST_WORD, LAST_WORD, (rows, count), generator=generator)


def _image(size: int = IMAGE, *shape: int) -> Tensor:
    return torch.randn(*(shape or (B, 3)), size, size, generator=torch.Generator().manual_seed(2))


def _with_image_tokens(model: Any, count: int) -> dict[str, Tensor]:
    """A text with this number of tokens for parts of an image, and the image."""
    names = ("image_token_id", "image_token_index")
    index = next(getattr(model.config, n) for n in names if hasattr(model.config, n))
    ids = torch.cat([torch.full((B, count), index), words(B, T)], 1)
    return {"pixel_values": _image(), "input_ids": ids}


def _queries(model: Any) -> dict[str, Tensor]:
    return _with_image_tokens(model, model.config.num_query_tokens)


def _instructed(model: Any) -> dict[str, Tensor]:
    return {**_queries(model), "qformer_input_ids": words(B, 5, 1)}


def _instructed_video(model: Any) -> dict[str, Tensor]:
    frames, count = 2, model.config.num_query_tokens
    ids = torch.cat([torch.full((B, frames * count), model.config.video_token_id), words(B, T)], 1)
    return {
        "pixel_values": _image(IMAGE, B, frames, 3), "input_ids": ids,
        "qformer_input_ids": words(B, 5, 1),
    }  # fmt: skip


def _flat_patches(model: Any) -> dict[str, Tensor]:
    size = model.config.vision_config.patch_embed_hidden_size
    place = torch.cartesian_prod(torch.arange(1.0, 4), torch.arange(1.0, 5)).expand(B, 12, 2)
    patches = torch.cat([place, torch.randn(B, 12, size)], 2)
    return {"flattened_patches": patches, "decoder_input_ids": words(B, TARGET, 1)}


def _siglip2(model: Any) -> dict[str, Tensor]:
    config = getattr(model.config, "vision_config", model.config)
    values = torch.randn(B, 12, 3 * config.patch_size**2)
    mask, shapes = torch.ones(B, 12, dtype=torch.long), torch.tensor([[3, 4]] * B)
    return {"pixel_values": values, "pixel_attention_mask": mask, "spatial_shapes": shapes}


def _decisions(model: Any) -> dict[str, Tensor]:
    config = model.config
    return {
        "states": torch.randn(B, T, config.state_dim), "actions": torch.randn(B, T, config.act_dim),
        "rewards": torch.randn(B, T, 1), "returns_to_go": torch.randn(B, T, 1),
        "timesteps": torch.arange(T).expand(B, T),
    }  # fmt: skip


def _detector_with_tasks(_: Any) -> dict[str, Tensor]:
    ones = torch.ones(2 * B, 5, dtype=torch.long)
    return {
        "pixel_values": _image(64), "classes_input_ids": words(2 * B, 5),
        "classes_attention_mask": ones, "tasks_input_ids": words(B, 5),
        "tasks_attention_mask": ones[:B], "classes_structure": torch.tensor([2] * B),
    }  # fmt: skip


def _idefics(_: Any) -> dict[str, Tensor]:
    mask = torch.ones(B, T, 1, dtype=torch.long)
    return {"input_ids": words(B, T), "pixel_values": _image(IMAGE, B, 1, 3),
            "image_attention_mask": mask}  # fmt: skip


def _two_sounds(_: Any) -> dict[str, Tensor]:
    return {"input_values": torch.randn(B, 1, 3200), "input_features": torch.randn(B, 10, WIDTH)}


def _prompted_image(model: Any) -> dict[str, Tensor]:
    height, width = model.config.image_size
    one = torch.randn(B, 3, height // 2, width)
    return {"pixel_values": one, "prompt_pixel_values": one + 1, "prompt_masks": one.sign()}


def _tasks(model: Any) -> dict[str, Tensor]:
    count = model.config.task_seq_len
    return {"pixel_values": _image(64), "task_inputs": words(B, count)}


def _robot(model: Any) -> dict[str, Tensor]:
    config = model.config
    return {
        "input_ids": words(B, T), "state": torch.randn(B, config.max_state_dim),
        "pixel_values": _image(IMAGE, B, 1, 3),
        "actions": torch.randn(B, config.chunk_size, config.max_action_dim),
    }  # fmt: skip


def _video_and_text(_: Any) -> dict[str, Tensor]:
    return {"pixel_values_videos": _image(IMAGE, B, 4, 3), "input_ids": words(B, T)}


def _text_and_image_prompt(model: Any) -> dict[str, Tensor]:
    return {"input_ids": words(B, T), "pixel_values": _image(model.config.max_img_size, B, 2, 3)}


def _grounded_text(model: Any) -> dict[str, Tensor]:
    mask = torch.zeros(B, T, dtype=torch.long)
    mask[:, : model.config.latent_query_num] = 1
    return {"pixel_values": _image(), "input_ids": words(B, T), "image_embeds_position_mask": mask}


def _streamed_sound(_: Any) -> dict[str, Tensor]:
    return {"input_ids": words(B, T), "input_features": torch.randn(B, 128, 8 * T)}


def _channels(model: Any) -> dict[str, Tensor]:
    C = model.config.decoder_config.num_channels
    return {"input_ids": words(B, T), "decoder_input_ids": words(B * TARGET, C).view(B, TARGET, C)}


def _codebooks(model: Any) -> dict[str, Tensor]:
    count = B * model.config.decoder.num_codebooks
    return {"input_ids": words(B, T), "decoder_input_ids": words(count, TARGET)}


def _image_and_text(_: Any) -> dict[str, Tensor]:
    """So large that the last feature map of one image has several pixels, which a norm needs."""
    return {"input_ids": words(B, T), "pixel_values": _image(128)}


def _stacked_sound(_: Any) -> dict[str, Tensor]:
    return {"input_features": torch.randn(B, 40, 320)}


def _long_series(model: Any) -> dict[str, Tensor]:
    config = model.config
    length = config.context_length + max(config.lags_sequence)
    ahead = config.prediction_length
    return {
        "past_values": torch.randn(B, length),
        "past_time_features": torch.randn(B, length, config.num_time_features),
        "past_observed_mask": torch.ones(B, length),
        "future_values": torch.randn(B, ahead),
        "future_time_features": torch.randn(B, ahead, config.num_time_features),
    }


RECIPES: dict[str, Callable[[Any], dict[str, Tensor]]] = {  # by model type, what no rule can know
    "blip-2": _queries, "instructblip": _instructed, "instructblipvideo": _instructed_video,
    "paligemma": lambda model: _with_image_tokens(model, 16),
    "pix2struct": _flat_patches, "siglip2_vision_model": _siglip2, "siglip2": _siglip2,
    "decision_transformer": _decisions, "omdet-turbo": _detector_with_tasks, "idefics": _idefics,
    "neucodec": _two_sounds, "xcodec2": _two_sounds, "seggpt": _prompted_image,
    "kosmos-2": _grounded_text, "voxtral_realtime": _streamed_sound, "dia": _channels,
    "musicgen": _codebooks, "musicgen_melody": _codebooks,
    "depth_pro": lambda _: {"pixel_values": _image(64)},
    "oneformer": _tasks, "pi0": _robot, "videoprism": _video_and_text,
    "tvp": _text_and_image_prompt, "granite_speech5_ctc": _stacked_sound,
    "granite_speech5_encoder": _stacked_sound, "autoformer": _long_series,
    "informer": _long_series, "time_series_transformer": _long_series,
    "deformable_detr": lambda _: {"pixel_values": _image(128)},
    "maskformer": lambda _: {"pixel_values": _image(128)},
    "grounding-dino": _image_and_text, "mm-grounding-dino": _image_and_text,
}  # fmt: skip


def _setting(config: Any, names: tuple[str, ...], default: Any) -> Any:
    """The first of these fields in the configuration or in one inside it."""
    inner = [value for value in vars(config).values() if hasattr(value, "sub_configs")]
    for name in names:
        if isinstance(getattr(config, name, None), int | list | tuple):
            return getattr(config, name)
    for part in inner:
        collected = _setting(part, names, None)
        if collected is not None:
            return collected
    return default


def candidate_inputs(model: Any) -> Iterator[dict[str, Tensor]]:
    """Inputs to try, the likeliest first."""
    recipe = RECIPES.get(str(model.config.model_type))
    if recipe is not None:
        with suppress(Exception):  # it was written for another class of the family
            yield recipe(model)
    accepted = inspect.signature(model.forward).parameters
    main, config = model.main_input_name, model.config
    required = [
        name for name, p in accepted.items()
        if p.default is inspect.Parameter.empty and p.kind.name == "POSITIONAL_OR_KEYWORD"
    ]  # fmt: skip
    text = _text_inputs(model, accepted)
    images = list(_images(model))
    sounds = list(_sounds(config))
    if main == "pixel_values":
        yield from ({"pixel_values": x} for x in images)
        yield from ({**text, "pixel_values": x} for x in images)
        if "decoder_input_ids" in accepted:
            yield from ({"pixel_values": x, "decoder_input_ids": words(B, TARGET)} for x in images)
    elif main == "pixel_values_videos":
        yield from ({main: x} for x in images)
    elif main in ("input_features", "input_values", "input_ids_audio", "audio_values"):
        for sound in sounds:
            yield {main: sound}
        for sound in sounds:
            if "decoder_input_ids" in accepted:
                yield {main: sound, "decoder_input_ids": words(B, TARGET)}
            if "input_ids" in accepted:
                yield {main: sound, **text}
    else:
        yield text
        if "bbox" in accepted:
            box = torch.tensor([1, 2, 3, 4]).expand(B, T, 4)
            yield {**text, "bbox": box}
            for x in images:
                yield {**text, "bbox": box, "pixel_values": x}
                yield {**text, "bbox": box, "image": x}
        if "visual_feats" in accepted:
            F = int(_setting(config, ("visual_feat_dim",), WIDTH))
            feats = {"visual_feats": torch.randn(B, 5, F), "visual_pos": torch.rand(B, 5, 4)}
            yield {**text, **feats}
        yield from ({**text, "pixel_values": x} for x in images if "pixel_values" in accepted)
        for name in ("input_features", "input_values"):
            yield from ({**text, name: x} for x in sounds if name in accepted)
            if "decoder_input_ids" in accepted and name in accepted:
                yield from ({name: x, "decoder_input_ids": words(B, TARGET)} for x in sounds)
    for name in required:
        if name in ("past_values", "past_observed_mask"):
            yield from _series(model, accepted)
            break
    yield from ({"pixel_values": x} for x in images if "pixel_values" in accepted)
    yield from ({"input_features": x} for x in sounds if "input_features" in accepted)
    yield from ({"input_values": x} for x in sounds if "input_values" in accepted)
    if "inputs" in accepted:
        yield {"inputs": words(B, T)}
        yield from ({"inputs": x} for x in images)


def _text_inputs(model: Any, accepted: Any) -> dict[str, Tensor]:
    text: dict[str, Tensor] = {"input_ids": words(B, T)}
    if getattr(model.config, "is_encoder_decoder", False) and "decoder_input_ids" in accepted:
        text["decoder_input_ids"] = words(B, TARGET, 1)
    return text


def _images(model: Any) -> Iterator[Tensor]:
    config = model.config
    size = _setting(config, ("image_size", "img_size", "pretrain_image_size"), IMAGE)
    height, width = (size, size) if isinstance(size, int) else (*size, *size)[:2]
    C = _setting(config, ("num_channels", "in_channels", "in_chans"), 3)
    C = C if isinstance(C, int) else 3
    frames = int(_setting(config, ("num_frames", "frames_per_clip"), 4))
    generator = torch.Generator().manual_seed(2)
    for channels in dict.fromkeys((C, 3, 1)):
        yield torch.randn(B, channels, height, width, generator=generator)
    yield torch.randn(B, frames, C, height, width, generator=generator)
    yield torch.randn(B, 3, 2 * height, 2 * width, generator=generator)
    yield torch.randn(B, 3, 64, 64, generator=generator)
    yield torch.randn(B, 2, 3, height, width, generator=generator)
    yield torch.randn(B, 3, 224, 224, generator=generator)


def _sounds(config: Any) -> Iterator[Tensor]:
    names = ("num_mel_bins", "n_mels", "feature_size", "input_feat_per_channel", "mel_bins")
    bins = int(_setting(config, (*names, "input_dim", "feature_projection_input_dim"), 16))
    positions = int(_setting(config, ("max_source_positions",), 24))
    length = int(_setting(config, ("max_length",), 48))
    generator = torch.Generator().manual_seed(3)
    for shape in (
        (B, bins, 2 * positions), (B, 2 * positions, bins), (B, 40, bins), (B, bins, 40),
        (B, length, bins), (B, 1, length, bins), (B, 4000), (B, 1, 4000), (B, 16000),
        (B, 1, 16000), (B, 80, 100), (B, 100, 80), (B, 160, 100), (B, 100, 160),
    ):  # fmt: skip
        yield torch.randn(*shape, generator=generator)


def _series(model: Any, accepted: Any) -> Iterator[dict[str, Tensor]]:
    config = model.config
    context = int(_setting(config, ("context_length",), 32))
    lags = max(getattr(config, "lags_sequence", None) or [0])
    ahead = int(_setting(config, ("prediction_length",), 8) or 8)
    channels = int(_setting(config, ("num_input_channels",), 1))
    for length in (context, context + lags):
        for shape in ((B, length), (B, length, channels), (B, length, 1)):
            past = torch.randn(*shape)
            series = {"past_values": past}
            yield series
            features = int(getattr(config, "num_time_features", 0) or 0)
            series |= {
                "past_time_features": torch.randn(B, length, features),
                "past_observed_mask": torch.ones(shape),
                "future_time_features": torch.randn(B, ahead, features),
                "future_values": torch.randn(B, ahead, *shape[2:]),
            }
            yield {name: x for name, x in series.items() if name in accepted}
