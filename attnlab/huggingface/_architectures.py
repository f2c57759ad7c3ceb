"""The architectures of Hugging Face that attnlab's models have: settings and names of tensors.

Each is declared once, for import and export. `read` turns a config.json into attnlab's settings,
and `write` the other way. A model has an equivalent where reading what was written returns its
settings: no list of exceptions is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from attnlab._create_mechanism import parse_groups
from attnlab.feed_forward import GATED
from attnlab.huggingface._config_fields import ConfigFields
from attnlab.huggingface._rotary_settings import read_rotary, write_rotary
from attnlab.layers import attention_per_layer
from attnlab.models import Decoder, Encoder, Model, StackConfig
from attnlab.position import parse_scaling

GELU_TANH = ("gelu_new", "gelu_pytorch_tanh", "gelu_fast")
PLAIN = {
    "gelu": "gelu",
    **dict.fromkeys(GELU_TANH, "gelu_tanh"),
    "relu": "relu",
    "relu2": "relu2",
}
GATES = {
    "silu": "swiglu",
    "swish": "swiglu",
    "gelu": "geglu",
    "gelu_pytorch_tanh": "geglu_tanh",
    "gelu_new": "geglu_tanh",
}


@dataclass(frozen=True)
class Stored:
    """Where the file has a tensor of attnlab: in one tensor, or in several below each other."""

    names: tuple[str, ...]
    transposed: bool = False
    """Stored as (inputs, outputs), as in GPT-2."""
    less_one: bool = False
    """Stored without 1, as the norms of Gemma."""
    required: bool = True
    """False: a file without it is complete, and the tensor is new."""


@dataclass(frozen=True)
class Architecture:
    model_type: str
    class_name: str
    """The class of transformers that loads an exported model."""
    kind: type[Model]
    prefix: str
    """Begins the names in the file, unless the file has the model without its head."""
    read: Callable[[ConfigFields], dict[str, Any]]
    write: Callable[[Any], dict[str, Any]]
    outer: dict[str, Stored]
    block: dict[str, Stored]
    """Names inside a block, and below `blocks` in the file."""
    blocks: str
    ignored: tuple[str, ...] = field(default=())
    """Ends of names that hold nothing which was learned."""
    copies: dict[str, str] = field(default_factory=dict)
    """Names of the file that hold the same as others."""
    fillers: Callable[[Any], dict[str, torch.Tensor]] = lambda _: {}
    """Tensors of the file that attnlab's model does without."""

    def tensors(self, config: Any) -> dict[str, Stored]:
        """Where each tensor of a model with these settings is."""
        block = {name: place for name, place in self.block.items() if _has(config, name)}
        places = {name: place for name, place in self.outer.items() if _has(config, name)}
        for number in range(config.layers):
            for name, place in block.items():
                names = tuple(f"{self.blocks}{number}.{each}" for each in place.names)
                places[f"stack.blocks.{number}.{name}"] = Stored(
                    names, place.transposed, place.less_one, place.required
                )
        return places


def _has(config: StackConfig, name: str) -> bool:
    """Whether a model with these settings has this tensor; those of unknown names, always."""
    settings = comparable(config)
    conditions = {
        "attention.project.bias": settings["qkv_bias"],
        "attention.out.bias": settings["out_bias"],
        "feed_forward.rise.bias": config.bias,
        "feed_forward.fall.bias": config.bias,
        "attention.query_norm.weight": config.normalize_queries,
        "attention.key_norm.weight": config.normalize_queries,
        "head.weight": not config.tie,
        "stack.types.weight": getattr(config, "token_types", None) is not None,
    }
    return bool(conditions.get(name, True))


def comparable(config: Any) -> dict[str, Any]:
    """The settings with every default resolved, without those that change no output."""
    settings = asdict(config)
    heads, width = config.heads, config.width
    epsilon = {"layer": 1e-5, "rms": torch.finfo(torch.float32).eps}[config.norm]
    inner = 8 * width // 3 if config.feed_forward in GATED else 4 * width
    resolved = {
        "key_heads": heads,
        "head_dim": width // heads,
        "feed_width": inner,
        "norm_epsilon": epsilon,
        "qkv_bias": config.bias,
        "out_bias": config.bias,
        "embedding_scale": 1.0,
    }
    for name, value in resolved.items():
        settings[name] = value if settings[name] is None else settings[name]
    settings["attention"] = attention_per_layer(config.attention, config.layers)
    settings["convolution"] = settings["convolution"] or None
    if config.position != "rotary":
        settings["rotary_base"] = settings["rotary_scaling"] = None
    elif config.rotary_scaling is not None:
        settings["rotary_scaling"] = parse_scaling(config.rotary_scaling)
    del settings["dropout"]
    if "token_types" in settings:  # one type of zeros is none
        settings["token_types"] = settings["token_types"] or 1
    return settings


def equivalent_of(model: Model) -> tuple[Architecture, dict[str, Any]] | None:
    """An architecture of transformers that computes the same, and its config.json; None if there
    is none."""
    for architecture in ARCHITECTURES.values():
        if type(model) is not architecture.kind:
            continue
        written = architecture.write(model.config)
        try:
            fields = ConfigFields(written, architecture.model_type)
            again = architecture.kind.config_class(**architecture.read(fields))
        except ValueError:
            continue
        if comparable(again) == comparable(model.config):
            return architecture, written
    return None


# GPT-2


def _read_gpt2(fields: ConfigFields) -> dict[str, Any]:
    fields.require("scale_attn_weights", True, "scale their scores")
    fields.require("scale_attn_by_inverse_layer_idx", False, "scale all layers' scores equally")
    fields.require("add_cross_attention", False, "have cross-attention only in an encoder-decoder")
    return {
        "vocabulary": fields.count("vocab_size", 50257),
        "context": fields.count("n_positions", 1024),
        "width": fields.count("n_embd", 768),
        "layers": fields.count("n_layer", 12),
        "heads": fields.count("n_head", 12),
        "feed_forward": fields.choice("activation_function", PLAIN, "gelu_new"),
        "feed_width": fields.optional_count("n_inner"),
        "norm_epsilon": fields.number("layer_norm_epsilon", 1e-5),
        "dropout": fields.number("resid_pdrop", 0.1),
        "tie": fields.flag("tie_word_embeddings", True),
    }


def _write_gpt2(config: StackConfig) -> dict[str, Any]:
    settings = comparable(config)
    return {
        "model_type": "gpt2",
        "vocab_size": config.vocabulary,
        "n_positions": config.context,
        "n_embd": config.width,
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_inner": settings["feed_width"],
        "activation_function": _activation(PLAIN, config),
        "layer_norm_epsilon": settings["norm_epsilon"],
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), config.dropout),
        "tie_word_embeddings": config.tie,
    }


GPT2 = Architecture(
    "gpt2",
    "GPT2LMHeadModel",
    Decoder,
    "transformer.",
    _read_gpt2,
    _write_gpt2,
    {
        "stack.embedding.weight": Stored(("transformer.wte.weight",)),
        "stack.position.table": Stored(("transformer.wpe.weight",)),
        "stack.norm.weight": Stored(("transformer.ln_f.weight",)),
        "stack.norm.bias": Stored(("transformer.ln_f.bias",)),
        "head.weight": Stored(("lm_head.weight",)),
    },
    {
        "attention_norm.weight": Stored(("ln_1.weight",)),
        "attention_norm.bias": Stored(("ln_1.bias",)),
        "attention.project.weight": Stored(("attn.c_attn.weight",), transposed=True),
        "attention.project.bias": Stored(("attn.c_attn.bias",)),
        "attention.out.weight": Stored(("attn.c_proj.weight",), transposed=True),
        "attention.out.bias": Stored(("attn.c_proj.bias",)),
        "feed_norm.weight": Stored(("ln_2.weight",)),
        "feed_norm.bias": Stored(("ln_2.bias",)),
        "feed_forward.rise.weight": Stored(("mlp.c_fc.weight",), transposed=True),
        "feed_forward.rise.bias": Stored(("mlp.c_fc.bias",)),
        "feed_forward.fall.weight": Stored(("mlp.c_proj.weight",), transposed=True),
        "feed_forward.fall.bias": Stored(("mlp.c_proj.bias",)),
    },
    blocks="transformer.h.",
    ignored=(".attn.bias", ".attn.masked_bias"),
)


# Llama and the models of its shape


@dataclass(frozen=True)
class LlamaShape:
    """How a model of Llama's shape differs from Llama."""

    qkv_bias: bool | None = None
    """None: config.json says whether all of attention has biases."""
    normalized: bool = False
    scaled: bool = False
    """Embeddings are multiplied by the square root of the width; norms are stored less one."""
    windows: bool = False
    window_layers: bool = False
    """Windows can be those of some layers only."""
    tie: bool = False
    head_dim: int | None = None
    activation: str = "silu"


def _llama_shaped(model_type: str, class_name: str, shape: LlamaShape) -> Architecture:
    norm = {"less_one": shape.scaled}

    def read(fields: ConfigFields) -> dict[str, Any]:
        return _read_llama(fields, shape)

    def write(config: StackConfig) -> dict[str, Any]:
        return {"model_type": model_type, **_write_llama(config, shape)}

    def three(kind: str) -> Stored:
        return Stored(tuple(f"self_attn.{x}_proj.{kind}" for x in "qkv"))

    def two(kind: str) -> Stored:
        return Stored((f"mlp.gate_proj.{kind}", f"mlp.up_proj.{kind}"))

    return Architecture(
        model_type,
        class_name,
        Decoder,
        "model.",
        read,
        write,
        {
            "stack.embedding.weight": Stored(("model.embed_tokens.weight",)),
            "stack.norm.weight": Stored(("model.norm.weight",), **norm),
            "head.weight": Stored(("lm_head.weight",)),
        },
        {
            "attention_norm.weight": Stored(("input_layernorm.weight",), **norm),
            "attention.project.weight": three("weight"),
            "attention.project.bias": three("bias"),
            "attention.query_norm.weight": Stored(("self_attn.q_norm.weight",)),
            "attention.key_norm.weight": Stored(("self_attn.k_norm.weight",)),
            "attention.out.weight": Stored(("self_attn.o_proj.weight",)),
            "attention.out.bias": Stored(("self_attn.o_proj.bias",)),
            "feed_norm.weight": Stored(("post_attention_layernorm.weight",), **norm),
            "feed_forward.rise.weight": two("weight"),
            "feed_forward.rise.bias": two("bias"),
            "feed_forward.fall.weight": Stored(("mlp.down_proj.weight",)),
            "feed_forward.fall.bias": Stored(("mlp.down_proj.bias",)),
        },
        blocks="model.layers.",
        ignored=(".rotary_emb.inv_freq",),
    )


def _read_llama(fields: ConfigFields, shape: LlamaShape) -> dict[str, Any]:
    fields.require("use_bidirectional_attention", False, "read a decoder's text causally")
    width, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    layers, biased = fields.count("num_hidden_layers"), fields.flag("attention_bias")
    if shape.scaled and fields.values.get("hidden_act") == "gelu":
        # Gemma's first files say gelu and mean its tanh form
        fields = ConfigFields({**fields.values, "hidden_act": shape.activation}, fields.source)
    return {
        "vocabulary": fields.count("vocab_size"),
        "context": fields.count("max_position_embeddings", 2048),
        "width": width,
        "layers": layers,
        "heads": heads,
        "key_heads": fields.optional_count("num_key_value_heads"),
        "head_dim": fields.optional_count("head_dim") or shape.head_dim,
        "attention": list(_read_windows(fields, shape, layers)),
        "position": "rotary",
        **read_rotary(fields),
        "embedding_scale": width**0.5 if shape.scaled else None,
        "feed_forward": fields.choice("hidden_act", GATES, shape.activation),
        "feed_width": fields.count("intermediate_size"),
        "norm": "rms",
        "norm_epsilon": fields.number("rms_norm_eps", 1e-6),
        "normalize_queries": shape.normalized,
        "dropout": fields.number("attention_dropout", 0.0),
        "bias": fields.flag("mlp_bias"),
        "qkv_bias": biased if shape.qkv_bias is None else shape.qkv_bias,
        "out_bias": biased if shape.qkv_bias is None else False,
        "tie": fields.flag("tie_word_embeddings", shape.tie),
    }


def _read_windows(fields: ConfigFields, shape: LlamaShape, layers: int) -> Iterator[str]:
    """The mechanism of each layer."""
    window = fields.optional_count("sliding_window") if shape.windows else None
    if shape.window_layers and not fields.flag("use_sliding_window"):
        window = None
    first = fields.optional_count("max_window_layers") or 0 if shape.window_layers else 0
    kinds = fields.values.get("layer_types") if shape.windows else None
    if kinds is None:
        kinds = ["sliding_attention" if n >= first else "full_attention" for n in range(layers)]
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise fields.error("layer_types", f"give a list of {layers}, one for each layer")
    for kind in kinds:
        if kind not in ("sliding_attention", "full_attention"):
            raise fields.error("layer_types", "attnlab has full_attention and sliding_attention")
        yield "softmax" if window is None or kind == "full_attention" else f"window:window={window}"


def _write_llama(config: StackConfig, shape: LlamaShape) -> dict[str, Any]:
    settings = comparable(config)
    sizes = [_window_of(spec) for spec in settings["attention"]]
    window = max((size for size in sizes if size), default=None)
    written = {
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.context,
        "hidden_size": config.width,
        "intermediate_size": settings["feed_width"],
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": settings["key_heads"],
        "head_dim": settings["head_dim"],
        "hidden_act": _activation(GATES, config),
        "rms_norm_eps": settings["norm_epsilon"],
        "attention_bias": settings["out_bias"],
        "mlp_bias": config.bias,
        "attention_dropout": config.dropout,
        "tie_word_embeddings": config.tie,
        **write_rotary(config),
    }
    if shape.windows:
        written["sliding_window"] = window
    if shape.window_layers:
        kinds = ["sliding_attention" if size else "full_attention" for size in sizes]
        written |= {"use_sliding_window": window is not None, "layer_types": kinds}
    return written


def _window_of(spec: str) -> int | None:
    """The window of a layer; None for full attention and any other mechanism."""
    groups = parse_groups(spec)
    name, options = groups[0][1:]
    return options.get("window", 128) if len(groups) == 1 and name == "window" else None


def _activation(choices: dict[str, str], config: StackConfig) -> str:
    return next((name for name, x in choices.items() if x == config.feed_forward), "none")


# BERT


def _read_bert(fields: ConfigFields) -> dict[str, Any]:
    fields.require("position_embedding_type", "absolute", "have absolute learned positions")
    fields.require("is_decoder", False, "are decoders only with the norm before each layer")
    return {
        "vocabulary": fields.count("vocab_size", 30522),
        "context": fields.count("max_position_embeddings", 512),
        "width": fields.count("hidden_size", 768),
        "layers": fields.count("num_hidden_layers", 12),
        "heads": fields.count("num_attention_heads", 12),
        "embedding_norm": "layer",
        # its head has the same activation, which in attnlab is gelu
        "feed_forward": fields.choice("hidden_act", {"gelu": "gelu"}, "gelu"),
        "feed_width": fields.count("intermediate_size", 3072),
        "norm_epsilon": fields.number("layer_norm_eps", 1e-12),
        "norm_first": False,
        "dropout": fields.number("hidden_dropout_prob", 0.1),
        "tie": fields.flag("tie_word_embeddings", True),
        "token_types": fields.count("type_vocab_size", 2),
    }


def _write_bert(config: Any) -> dict[str, Any]:
    settings = comparable(config)
    return {
        "model_type": "bert",
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.context,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": settings["feed_width"],
        "hidden_act": _activation(PLAIN, config),
        "layer_norm_eps": settings["norm_epsilon"],
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.dropout,
        "tie_word_embeddings": config.tie,
        "type_vocab_size": config.token_types or 1,
    }


def _both(name: str, stored: str, **options: Any) -> dict[str, Stored]:
    """Weight and bias."""
    kinds = ("weight", "bias")
    return {f"{name}.{kind}": Stored((f"{stored}.{kind}",), **options) for kind in kinds}


TYPES = "bert.embeddings.token_type_embeddings.weight"
BERT = Architecture(
    "bert",
    "BertForMaskedLM",
    Encoder,
    "bert.",
    _read_bert,
    _write_bert,
    {
        "stack.embedding.weight": Stored(("bert.embeddings.word_embeddings.weight",)),
        "stack.types.weight": Stored((TYPES,)),
        "stack.position.table": Stored(("bert.embeddings.position_embeddings.weight",)),
        **_both("stack.embedding_norm", "bert.embeddings.LayerNorm"),
        **_both("transform", "cls.predictions.transform.dense", required=False),
        **_both("transform_norm", "cls.predictions.transform.LayerNorm", required=False),
        "head.weight": Stored(("cls.predictions.decoder.weight",), required=False),
        "head.bias": Stored(("cls.predictions.bias",), required=False),
        **_both("pooler", "bert.pooler.dense", required=False),
    },
    {
        "attention.project.weight": Stored(
            tuple(f"attention.self.{x}.weight" for x in ("query", "key", "value"))
        ),
        "attention.project.bias": Stored(
            tuple(f"attention.self.{x}.bias" for x in ("query", "key", "value"))
        ),
        **_both("attention.out", "attention.output.dense"),
        **_both("attention_norm", "attention.output.LayerNorm"),
        **_both("feed_forward.rise", "intermediate.dense"),
        **_both("feed_forward.fall", "output.dense"),
        **_both("feed_norm", "output.LayerNorm"),
    },
    blocks="bert.encoder.layer.",
    ignored=("position_ids", "cls.predictions.decoder.bias"),
    copies={"cls.predictions.decoder.bias": "cls.predictions.bias"},
    fillers=lambda config: {} if config.token_types else {TYPES: torch.zeros(1, config.width)},
)

GEMMA = LlamaShape(scaled=True, tie=True, head_dim=256, activation="gelu_pytorch_tanh")
QWEN2 = LlamaShape(qkv_bias=True, windows=True, window_layers=True)
QWEN3 = LlamaShape(normalized=True, windows=True, window_layers=True, head_dim=128)
ARCHITECTURES = {
    each.model_type: each
    for each in (
        GPT2,
        _llama_shaped("llama", "LlamaForCausalLM", LlamaShape()),
        _llama_shaped("mistral", "MistralForCausalLM", LlamaShape(qkv_bias=False, windows=True)),
        _llama_shaped("qwen2", "Qwen2ForCausalLM", QWEN2),
        _llama_shaped("qwen3", "Qwen3ForCausalLM", QWEN3),
        _llama_shaped("gemma", "GemmaForCausalLM", GEMMA),
        BERT,
    )
}
