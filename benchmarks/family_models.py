"""A tiny model of every family of transformers, from its configuration classes alone.

Sizes are shrunk by the names of the fields. Weights are drawn again, so large that attention is far
from uniform; windows are shorter than the text.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

WIDTH, HEADS, KEY_HEADS, HEAD_DIM, LAYERS, FEED_FORWARD = 32, 4, 2, 8, 2, 48
VOCABULARY, FIRST_WORD, LAST_WORD = 99, 5, 50
B, T, TARGET = 2, 11, 5  # rows, tokens, tokens of a decoder
IMAGE, PATCH, WINDOW = 32, 8, 4
MAX_LAYERS, MAX_CLASSES = 8, 3

# the class of a family: the first of these lists that has it
LISTS = (
    "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "MASKED_LM", "CAUSAL_LM", "IMAGE_TEXT_TO_TEXT",
    "MULTIMODAL_LM", "IMAGE_CLASSIFICATION", "", "PRETRAINING", "TEXT_ENCODING",
    "AUDIO_CLASSIFICATION", "CTC", "OBJECT_DETECTION", "ZERO_SHOT_OBJECT_DETECTION",
    "UNIVERSAL_SEGMENTATION", "SEMANTIC_SEGMENTATION", "DEPTH_ESTIMATION", "VIDEO_CLASSIFICATION",
    "MASK_GENERATION", "TEXT_TO_WAVEFORM", "TEXT_TO_SPECTROGRAM", "KEYPOINT_DETECTION",
    "KEYPOINT_MATCHING", "IMAGE_TO_IMAGE", "TIME_SERIES_PREDICTION", "TEXT_RECOGNITION",
    "TABLE_RECOGNITION", "POSE_ESTIMATION", "RNNT", "TDT", "RETRIEVAL", "IMAGE_MATTING",
    "ZERO_SHOT_IMAGE_CLASSIFICATION", "BACKBONE",
)  # fmt: skip

Rule = tuple[str, int]
RULES: tuple[Rule, ...] = (  # the first pattern that fits a field's name; numbers only shrink
    (r"vocab_size.*|.*_vocab(ulary)?_size|n_tokens|num_tokens", VOCABULARY),
    (r"codebook_size", 64),
    (r"num_kv_shared_layers|num_nextn_predict_layers|num_mtp_layers|num_conv_layers", 0),
    (r"first_k_dense_replace|num_dense_layers|first_last_k|num_mem_blocks", 1),
    (r"mamba_d_head|mamba_head_dim", 2 * WIDTH // HEADS),  # its inner width is twice the width
    (r".*head_dim|.*head_size|d_kv|dim_head|d_head|kv_channels|.*dim_per_head", HEAD_DIM),
    (r"(.*_)?(num_)?(key_value|kv)_heads|n_head_kv|n_kv_heads|num_key_value_groups", KEY_HEADS),
    (r".*multi_query_group_num|.*attention_groups", KEY_HEADS),
    (r".*num_query_heads|(.*_)?(num_|n_)?(attention_|attn_|self_)?heads?|n_head|.*n_heads", HEADS),
    (r".*linear_num_(key|value)_heads|.*attention_heads.*|.*num_heads.*", HEADS),
    (r"rotary_dim|partial_rotary_dim", 4),
    (r".*lora_rank|.*low_rank.*", 16),
    (r"(num_|n_)?(.*_)?(layers|layer|depth|blocks)", LAYERS),
    (r".*num_hidden_layers.*|n_layer|.*num_encoder_blocks", LAYERS),
    (r".*experts_per_tok.*|.*moe_topk|.*top_k_experts|.*experts_top_k", 2),
    (r".*shared_experts|moe_num_shared_experts", 1),
    (r"(num_|n_)?(.*_)?experts", 4),
    (r"n_group|num_expert_group", 2),
    (r"topk_group", 1),
    (r"index_topk", 4),
    (r".*(intermediate_size|ffn_dim|ffn_size|d_ff|n_inner|mlp_dim|d_inner|feed_?forward.*)",
     FEED_FORWARD),
    (r".*dim_feedforward|.*ffn_hidden_size|.*intermediate_dim", FEED_FORWARD),
    (r".*(sliding_window|attention_window|local_attention|attention_chunk_size|local_window)",
     WINDOW),
    (r"sliding_window_size|attention_window_size|block_length|window", WINDOW),
    (r"max_source_positions", 24),
    (r".*(max_position|max_.*positions|n_positions|n_ctx|max_length|max_seq_len|context_length).*",
     128),
    (r"image_size|.*_image_size|img_size", IMAGE),
    (r"num_queries|num_query_tokens|num_latents|resampler_n_latents", 7),
    (r"num_mel_bins|n_mels", 16),
    (r"num_frames", 4),
    (r"(.*_)?num_labels|num_buckets|type_vocab_size", 8),
    (r"num_channels|in_channels|in_chans|.*num_input_channels|input_channels", 3),
    (r".*(hidden_size|d_model|n_embd|embed_dim|embedding_size|projection_dim|hidden_dim|"
     r"embedding_dim|emb_dim|output_dim|latent_dim|d_latents|width|conv_dim|d_embed|embed_dims"
     r"|hidden_channels|out_channels|_channels|_dim|dim|_width|_hidden_size.*|_size_per_layer_input"
     r"|fpn_.*|pool_size|output_size)", WIDTH),
)  # fmt: skip
KEPT = re.compile(
    r".*(kernel|stride|patch_size|ratio|merge_size|group_size|dilation|label|_id|_ids|_index|seed|"
    r"resolution|scale|factor|sampling|bins|temporal|interval|period|offset|rel_pos|max_distance|"
    r"relative_attention|layer_idx|_layer_id|points|num_feature_levels|state|chunk_size)$"
)
UNSET = {  # some configurations leave these to the user
    "head_dim": HEAD_DIM,
    "num_key_value_heads": KEY_HEADS,
    "num_experts_per_tok": 2,
    "vocab_size": VOCABULARY,
    "prediction_length": 4,
}
SAME = re.compile(r".*_token_ids?$|.*_token_index$|.*_id$")

FOUR_STAGES = {
    "num_hidden_layers": 4, "out_indices": [1, 2, 3, 4],
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}  # fmt: skip
MAMBA2 = {"n_groups": 2, "mamba_num_heads": 4, "mamba_head_dim": 16}
OVERRIDES: dict[str, dict[str, Any]] = {  # what no rule can know
    "blip-2": {"image_token_index": 60, "image_token_id": 60},
    "instructblip": {"image_token_index": 60, "image_token_id": 60},
    "instructblipvideo": {"video_token_index": 60, "video_token_id": 60},
    "esm": {"pad_token_id": 1, "mask_token_id": 4},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": WINDOW},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "bamba": {"attn_layer_indices": [1], "num_hidden_layers": 2},
    "chameleon": {"vocabulary_map": {"<image>": 60, "IMGIMGBS": 61}},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2},
    "t5": {"feed_forward_proj": "gated-gelu"},
    "mamba2": {"num_heads": 4, "head_dim": 16, "n_groups": 2, "state_size": 16},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "nemotron_h": MAMBA2,
    "nemo_speechlm": {"text_config": MAMBA2},
    "ernie4_5_moe": {"moe_k": 2},
    "glm4v_moe": {"text_config": {"head_dim": 2 * HEAD_DIM}},
    "dots1": {"n_routed_experts": 4, "num_experts": 4, "n_shared_experts": 1},
    "zamba": {
        "layers_block_type": ["linear_attention", "linear_attention", "hybrid", "hybrid"],
        "num_hidden_layers": 4,
        "attention_hidden_size": 2 * WIDTH,
        "attention_head_dim": 2 * WIDTH // HEADS,
    },
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "clip_qkv": 8.0}},
    "kosmos-2": {"latent_query_num": 5},
    "moonshine_streaming": {"num_key_value_heads": 4, "num_attention_heads": 4},
    "nemotron_h_omni": {"text_config": MAMBA2},
    "blt": {"encoder_hash_byte_group_vocab": 50},
    "emu3": {"vocabulary_map": {"<image>": 60}},
    "dia": {"decoder_config": {"num_channels": 9}},
    "diffusion_gemma": {
        "text_config": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 16}
    },
    "fun_asr_nano": {"adaptor_config": {"intermediate_size": WIDTH // 4, "hidden_size": WIDTH}},
    "glm5_next": {"text_config": {"index_topk": 16}},
    "longcat_flash": {"qk_head_dim": 2 * HEAD_DIM, "qk_nope_head_dim": HEAD_DIM},
    "mistral_large4": {"text_config": {"kv_source_layers": [0, 1]}},
    "molmo2": {"adapter_config": {"vision_feature_layer": [1, 0]}},
    "speech_to_text": {"num_conv_layers": 2, "conv_kernel_sizes": [3, 3]},
    "step3p7": {"text_config": {"sliding_window": WINDOW}},
    "vits": {"vocab_size": VOCABULARY},
    "xmod": {"default_language": "en_XX"},
    "depth_anything": {"backbone_config": FOUR_STAGES},
    "prompt_depth_anything": {"backbone_config": FOUR_STAGES},
    "zoedepth": {"backbone_config": FOUR_STAGES},
    "tipsv2_dpt": {"backbone_config": FOUR_STAGES},
    "chmv2": {"backbone_config": FOUR_STAGES},
    "sam": {"vision_config": {"num_pos_feats": WIDTH // 2}},
    "sam_hq": {"vision_config": {"num_pos_feats": WIDTH // 2}},
    "tvp": {"visual_prompter_apply": "remove"},
    "autoformer": {"context_length": 8, "label_length": 2, "lags_sequence": [1, 2]},
    "informer": {"context_length": 8, "lags_sequence": [1, 2]},
    "time_series_transformer": {"context_length": 8, "lags_sequence": [1, 2]},
    "qwen3_omni_moe": {"thinker_config": {}},
    "lw_detr": {"backbone_config": {"image_size": 64, "num_windows": 4}},
}


def families() -> dict[str, list[str]]:
    """The names of the classes to try for each family: a folder of transformers by its main model
    type, or each of its types if none has the name of the folder."""
    from transformers.models.auto import modeling_auto

    configuration_auto: Any = import_module("transformers.models.auto.configuration_auto")
    classes: dict[str, list[str]] = {}
    for name in LISTS:
        variable = f"MODEL_FOR_{name}_MAPPING_NAMES" if name else "MODEL_MAPPING_NAMES"
        for family, kinds in getattr(modeling_auto, variable, {}).items():
            if family in configuration_auto.CONFIG_MAPPING_NAMES:
                listed = classes.setdefault(family, [])
                names = [kinds] if isinstance(kinds, str) else list(kinds)
                listed += [name for name in names if name not in listed]
    folder = configuration_auto.model_type_to_module_name
    main = {folder(family) for family in classes if family.replace("-", "_") == folder(family)}
    return {
        family: kinds[:MAX_CLASSES]
        for family, kinds in sorted(classes.items())
        if family.replace("-", "_") == folder(family) or folder(family) not in main
    }


def config_of(family: str, strategy: int = 0) -> Any:
    """The family's configuration with small sizes; higher strategies shrink less."""
    from transformers import CONFIG_MAPPING

    kind = CONFIG_MAPPING[family]
    changes = _merged(shrunk(_default(kind), strategy), OVERRIDES.get(family, {}))
    return kind(**changes)


def _merged(changes: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """With the values of `more`, also inside the configurations of parts."""
    result = dict(changes)
    for name, value in more.items():
        inner: Any = result.get(name)
        if isinstance(value, dict) and isinstance(inner, dict):
            value = _merged(inner, value)
        elif isinstance(value, dict) and hasattr(inner, "to_dict"):
            value = type(inner)(**_merged(inner.to_dict(), value))
        result[name] = value
    return result


def _default(kind: Any) -> Any:
    try:
        return kind()
    except Exception:  # two models in one need their configurations
        from transformers import BertConfig, GPT2Config, ViTConfig

        if "text_config" in inspect.signature(kind.__init__).parameters or "Dual" in kind.__name__:
            return kind.from_vision_text_configs(ViTConfig(), BertConfig())
        encoder = ViTConfig() if "Vision" in kind.__name__ else BertConfig()
        decoder = GPT2Config() if "Vision" in kind.__name__ else BertConfig()
        return kind.from_encoder_decoder_configs(encoder, decoder)


def shrunk(config: Any, strategy: int = 0) -> dict[str, Any]:
    """The fields of a configuration that change, with their new values."""
    changes: dict[str, Any] = {}
    free_ids = iter(range(LAST_WORD + 1, VOCABULARY))
    types = _layer_types(config)
    for name, value in _fields(config):
        if getattr(value, "model_type", "") == "timm_backbone":  # needs the timm package
            changes[name] = small_resnet(value)
        elif hasattr(value, "sub_configs") or hasattr(value, "to_diff_dict"):
            inner = {**_own_scalars(value), **shrunk(value, strategy)}
            if value.model_type:
                inner["model_type"] = value.model_type
            changes[name] = inner if name in config.sub_configs else type(value)(**inner)
        elif SAME.match(name) and isinstance(value, int) and value >= FIRST_WORD:
            changes[name] = next(free_ids)
        elif SAME.match(name) and _ints(value) and max(value) >= FIRST_WORD:
            changes[name] = [next(free_ids) for _ in value]
        elif name == "num_key_value_heads" and value == getattr(config, "num_attention_heads", 0):
            changes[name] = HEADS
        elif value is None and name in UNSET:
            changes[name] = UNSET[name]
        elif isinstance(value, bool) or value is None:
            continue
        elif isinstance(value, dict) and name.startswith("rope"):
            changes[name] = _shrink_rope(value, _has_sections(config))
        elif KEPT.match(name) and name not in ("index_topk",):
            if name == "patch_size" and isinstance(value, int) and value > PATCH and strategy < 2:
                changes[name] = PATCH
        elif isinstance(value, int):
            new = _shrink_number(name, value, strategy)
            if new is not None and new < value:
                changes[name] = new
        elif _ints(value):
            new_list = _shrink_list(name, value, strategy)
            if new_list is not None:
                changes[name] = new_list
    for field, layer_types in types.items():
        changes[field] = layer_types
        for count in ("num_hidden_layers", "num_layers", "n_layer"):
            if hasattr(config, count):
                changes[count] = len(layer_types)
    return changes


def _own_scalars(config: Any) -> dict[str, Any]:
    """What the configuration around this one sets otherwise than its class does."""
    try:
        default = type(config)()
    except Exception:
        return {}
    result: dict[str, Any] = {
        name: value
        for name, value in _fields(config)
        if isinstance(value, int | float | str) and value != vars(default).get(name)
    }
    if hasattr(config, "depths") and getattr(config, "out_features", None):  # as many stages
        result["out_features"] = list(config.out_features)
    return result


def small_resnet(config: Any) -> dict[str, Any]:
    """In place of a backbone of timm, with as many feature maps."""
    indices = [i for i in getattr(config, "out_indices", None) or [4] if i > 0] or [4]
    return {
        "model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 8, 16, 16],
        "depths": [1, 1, 1, 1], "layer_type": "basic",
        "out_features": [f"stage{i}" for i in indices],
    }  # fmt: skip


def _shrink_rope(rope: dict[str, Any], has_sections: bool) -> dict[str, Any]:
    """The parts of a head for time, height and width sum to half of it."""
    inner = {k: _shrink_rope(v, has_sections) for k, v in rope.items() if isinstance(v, dict)}
    parts = rope.get("mrope_section")
    sections = {"mrope_section": [HEAD_DIM // 4, *[HEAD_DIM // 8] * (len(parts or "hw.") - 1)]}
    needed = parts or (has_sections and not inner and rope)
    return {**rope, **inner, **(sections if needed else {})}


def _has_sections(config: Any) -> bool:
    folder = Path(inspect.getfile(type(config))).parent
    return any("mrope_section" in file.read_text() for file in folder.glob("modeling_*.py"))


def _fields(config: Any) -> Iterator[tuple[str, Any]]:
    accepted = inspect.signature(type(config).__init__).parameters
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in accepted.values())
    for name, value in vars(config).items():
        if name.startswith("_") or name in ("transformers_version", "id2label", "label2id"):
            continue
        if name in accepted or takes_any:
            yield name, value


def _ints(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(isinstance(x, int) and not isinstance(x, bool) for x in value)
    )


def _layer_types(config: Any) -> dict[str, list[str]]:
    """The kinds of layers, if there are several: enough layers that each kind is there."""
    result = {}
    for name, value in vars(config).items():
        if not isinstance(value, list) or not value or not all(isinstance(x, str) for x in value):
            continue
        if not name.endswith(("layer_types", "layers_block_type", "block_types")):
            continue
        first = [value.index(kind) for kind in set(value)]
        result[name] = value[: max(LAYERS, min(MAX_LAYERS, max(first) + 1))]
    lengths = {len(value) for value in result.values()}
    return {name: getattr(config, name)[: max(lengths)] for name in result}


def _shrink_number(name: str, value: int, strategy: int) -> int | None:
    for pattern, number in RULES:
        if re.fullmatch(pattern, name):
            if number in (WIDTH, HEAD_DIM, FEED_FORWARD) and strategy >= 2:
                return None
            if number == WIDTH and strategy == 1:
                return WIDTH * 2 if value > WIDTH * 2 else None
            if number == KEY_HEADS and value >= 8 * KEY_HEADS:
                return HEADS if name == "num_key_value_heads" and value > 16 else KEY_HEADS
            return number
    return None


def _shrink_list(name: str, value: Any, strategy: int) -> Any:
    if re.search(r"depths|num_(conv|hidden_)?layers|_layers$|num_blocks|layers_per", name):
        return type(value)(min(x, 2) for x in value)
    if strategy >= 2:
        return None
    if re.search(r"heads", name):
        return type(value)(min(x, 2) for x in value)
    if re.search(r"hidden_sizes|channels|embed_dims?|dims|_sizes$|conv_dim|widths", name):
        if re.search(r"patch|kernel|stride|window|image|crop|pool|feature_sizes", name):
            return None
        return type(value)(min(x, WIDTH) for x in value)
    if re.search(r"image_size|img_size", name):
        return type(value)(min(x, IMAGE) for x in value)
    return None


def build(family: str, kind_name: str, strategy: int = 0) -> nn.Module:
    """The model in evaluation mode, with its default attention implementation."""
    import transformers

    config = config_of(family, strategy)
    kind = getattr(transformers, kind_name)
    torch.manual_seed(0)
    with torch.device("meta"):
        count = sum(p.numel() for p in kind(config_of(family, strategy)).parameters())
    if count > 3e8:
        raise ValueError(f"a small model still has {count:.1e} parameters")
    model = kind(config)
    draw_weights(model)
    return model.eval()


@torch.no_grad()
def draw_weights(model: nn.Module) -> None:
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        if not parameter.is_floating_point():
            continue
        if parameter.dim() > 1:
            fan_in = parameter.numel() // max(1, parameter.shape[0])
            noise = torch.randn(parameter.shape, generator=generator) / max(1, fan_in) ** 0.5
            parameter.copy_(noise)
        else:
            noise = 0.1 * torch.randn(parameter.shape, generator=generator)
            parameter.copy_(torch.nan_to_num(parameter.float()).clamp(-10, 10) + noise)
