"""A trained run as a folder that transformers loads.

Where transformers has the architecture, the folder needs nothing of attnlab. Any other model comes
with a model file of its own, which needs attnlab and `trust_remote_code=True`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from attnlab._safe_files import check_writable, read_json, write_atomically, write_json, write_text
from attnlab._tensor_files import save_tensors, unique_tensors
from attnlab.huggingface._architectures import Architecture, Stored, equivalent_of
from attnlab.huggingface._export_tokenizer import export_tokenizer
from attnlab.layers import MultiHead
from attnlab.models import ConvNet, Decoder, Encoder, Model, Perceiver, Seq2Seq, ViT
from attnlab.run_folder._config import CONFIG_BYTES
from attnlab.run_folder._file_names import CONFIG, FORMAT, TOKENIZER, WEIGHTS
from attnlab.tokenizer import Tokenizer
from attnlab.training import Run

MODULE = "modeling_attnlab"
OWN_CLASSES: dict[type[Model], str] = {
    Decoder: "ForCausalLM",
    Perceiver: "ForCausalLM",
    Encoder: "ForMaskedLM",
    Seq2Seq: "ForSeq2SeqLM",
    ViT: "ForImageClassification",
    ConvNet: "ForImageClassification",
}


class Exported(NamedTuple):
    """What was written."""

    class_name: str
    """The class that loads it."""
    needs_attnlab: bool


def export_run(run: str | Path, out: str | Path, *, overwrite: bool = False) -> Exported:
    """Write the model of a run as a folder of Hugging Face.

    >>> from attnlab.huggingface import export_run
    >>> from attnlab.tasks.vision import train_vision
    >>> sizes = {"width": 16, "layers": 1, "heads": 2}
    >>> _ = train_vision("digits", out="run", sizes=sizes, training={"steps": 1}, quiet=True)
    >>> export_run("run", "exported").class_name
    'AttnlabForImageClassification'
    """
    opened, folder = Run(run), Path(out)
    config = opened.config()
    check_export_folder(folder, overwrite)
    model = opened.model()
    has_tokenizer = model.vocabulary is not None and (opened.folder / TOKENIZER).exists()
    tokenizer = opened.tokenizer(model) if has_tokenizer else None
    equivalent = equivalent_of(model)
    if equivalent is None:
        description, tensors = _own_description(model), _own_tensors(model)
        class_name = description["architectures"][0]
    else:
        architecture, settings = equivalent
        class_name = architecture.class_name
        description = {"architectures": [class_name], **settings, "dtype": "float32"}
        tensors = stored_tensors(model, architecture)
    description |= _token_ids(model, tokenizer) | _classes(config)

    def write(part: Path) -> None:
        part.mkdir()
        save_tensors(tensors, part / WEIGHTS, {"format": "pt"})
        if tokenizer is not None:
            begins = config["task"].get("objective") == "causal"
            content, settings = export_tokenizer(tokenizer, begins=begins)
            write_text(part / TOKENIZER, content)
            write_json(part / "tokenizer_config.json", settings)
        if equivalent is None:
            source = Path(__file__).with_name(f"_{MODULE}.py")
            write_text(part / f"{MODULE}.py", source.read_text(encoding="utf-8"))
        if isinstance(model, ViT):
            write_json(part / "preprocessor_config.json", _image_settings(model))
        write_json(part / CONFIG, description)

    write_atomically(folder, write)
    return Exported(class_name, equivalent is None)


def check_export_folder(folder: Path, overwrite: bool) -> None:
    """Refuse a folder that cannot be written, or that holds something else than a model."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise ValueError(f"{folder}: is not a folder; give another name")
    if not folder.parent.is_dir():
        raise ValueError(f"{folder}: there is no folder {folder.parent}; make it first")
    check_writable(folder)
    if not folder.exists() or not any(folder.iterdir()):
        return
    try:
        content = read_json(folder / CONFIG, CONFIG_BYTES)
    except ValueError:
        content = None
    if not isinstance(content, dict) or "model_type" not in content or "format" in content:
        kind = "a run" if isinstance(content, dict) and content.get("format") == FORMAT else "files"
        raise ValueError(f"{folder}: holds {kind} that --overwrite would remove; give a new folder")
    if not overwrite:
        raise ValueError(f"{folder}: already holds a model; give --overwrite or another folder")


def stored_tensors(model: Model, architecture: Architecture) -> dict[str, Tensor]:
    """The tensors as transformers names and stores them."""
    own, stored = model.state_dict(), architecture.fillers(model.config)
    for name, place in architecture.tensors(model.config).items():
        for part, tensor in zip(place.names, _split(own[name], place, model), strict=True):
            stored[part] = tensor.contiguous().clone()
    for copied, original in architecture.copies.items():
        stored[copied] = stored[original].clone()
    return stored


def _split(tensor: Tensor, place: Stored, model: Model) -> tuple[Tensor, ...]:
    tensor = tensor - 1 if place.less_one else tensor
    tensor = tensor.T if place.transposed else tensor
    if len(place.names) == 3:  # queries, keys, values
        first = next(layer for layer in model.modules() if isinstance(layer, MultiHead))
        return tensor.split(list(first.sizes))
    return tensor.chunk(len(place.names))


def _own_description(model: Model) -> dict[str, Any]:
    ending = OWN_CLASSES[type(model)]
    return {
        "model_type": "attnlab",
        "architectures": [f"Attnlab{ending}"],
        "auto_map": {
            "AutoConfig": f"{MODULE}.AttnlabConfig",
            "AutoModel": f"{MODULE}.Attnlab{ending}",
            f"AutoModel{ending}": f"{MODULE}.Attnlab{ending}",
        },
        "attnlab": model.description(),
        "use_cache": False,
        "tie_word_embeddings": True,  # as far as tensors are shared
        "is_encoder_decoder": isinstance(model, Seq2Seq),
        "dtype": "float32",
    }


def _own_tensors(model: Model) -> dict[str, Tensor]:
    tensors = unique_tensors(model).items()
    return {f"model.{name}": tensor.detach().cpu().contiguous() for name, tensor in tensors}


def _token_ids(model: Model, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """Without these, transformers has the ids of the family's first model."""
    if model.vocabulary is None:
        return {}
    ids = (None, None, None)
    if tokenizer is not None:
        ids = (tokenizer.begin, tokenizer.end, tokenizer.pad)  # type: ignore[assignment]
    return dict(zip(("bos_token_id", "eos_token_id", "pad_token_id"), ids, strict=True))


def _classes(config: dict[str, Any]) -> dict[str, Any]:
    names = config["task"].get("classes")
    if not isinstance(names, list):
        return {}
    labels = [str(name) for name in names]
    return {
        "id2label": {str(number): name for number, name in enumerate(labels)},
        "label2id": {name: number for number, name in enumerate(labels)},
    }


def _image_settings(model: ViT) -> dict[str, Any]:
    """The model subtracts the mean itself."""
    size = model.config.image_size
    return {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": size, "width": size},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": False,
    }
