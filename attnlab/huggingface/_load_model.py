"""Loads a Hugging Face model from a folder: no hub, no pickle, no code from the model's folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from attnlab._safe_files import read_json
from attnlab._short_repr import one_line, short_repr
from attnlab._tensor_files import read_header
from attnlab.huggingface._convert_gguf import CONFIG, convert, converted_folder
from attnlab.interpret._local_models import resolve_model
from attnlab.run_folder._config import CONFIG_BYTES

TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "spiece.model")
VOCABULARIES = ("vocab.txt", "vocab.json")
OTHERS = ("preprocessor_config.json", "processor_config.json")
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")


def load_model(path: str | Path, *, dtype: torch.dtype = torch.float32) -> tuple[Any, Any]:
    """The model in this folder, or of this machine by its name, in evaluation mode, and its
    tokenizer, image processor or None.

    Its class is the one that config.json names, so a language model has its head. A GGUF file is
    converted once and kept in the cache folder. The default is float32, because a CPU is slow and
    inexact in the half precision that most models are saved in.

    >>> from attnlab.huggingface import load_model
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> config = GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=50, n_positions=32,
    ...                     bos_token_id=0, eos_token_id=0)
    >>> model = GPT2LMHeadModel(config).eval()
    >>> model.save_pretrained("small-gpt2")
    >>> loaded, tokenizer = load_model("small-gpt2")
    >>> loaded.num_parameters() == model.num_parameters(), tokenizer
    (True, None)
    """
    model, processor, notes = load_with_notes(path, dtype=dtype)
    for note in notes:
        warnings.warn(f"{path}: {note}", stacklevel=2)
    return model, processor


def load_with_notes(
    path: str | Path, *, dtype: torch.dtype = torch.float32
) -> tuple[Any, Any, list[str]]:
    """As `load_model`, with the warnings as a list of notes."""
    library = _transformers(path)
    folder = find_folder(Path(path))
    kind = _model_class(folder, library)
    with _quiet(library), one_line_errors(folder), bounded_by_weights(folder):
        model, info = kind.from_pretrained(
            folder,
            dtype=dtype,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
        processor = _load_processor(folder, model, library)
    missing, notes = sorted(info["missing_keys"]), []
    if missing:
        count = f"{missing[0]} ({len(missing)} in all)"
        notes.append(f"has no weights for {count}; they are random")
    return model.eval(), processor, notes


def find_folder(path: Path) -> Path:
    """The folder with config.json and safetensors: the path itself, that of a converted file, or
    that of a model of this machine with this name."""
    path = resolve_model(path)
    if path.is_file():
        if path.suffix != ".gguf":
            raise ValueError(f"{path}: is a file; give a folder with a model, or a .gguf file")
        return _converted_folder(path)
    if not (path / CONFIG).exists():
        files = sorted(path.glob("*.gguf"))
        if len(files) == 1:
            return _converted_folder(files[0])
        problem = f"{len(files)} .gguf files; give one of them" if files else f"no {CONFIG}"
        raise ValueError(f"{path}: is not a Hugging Face model: {problem}")
    if not any((path / name).exists() for name in WEIGHTS):
        pickled = sorted(path.glob("*.bin")) + sorted(path.glob("*.pt"))
        if pickled:
            raise ValueError(
                f"{path}: its weights are pickled ({pickled[0].name}), and loading a pickle runs "
                "code; save the model as safetensors: model.save_pretrained(folder)"
            )
        raise ValueError(f"{path}: has no weights; {WEIGHTS[0]} is missing")
    return path


def _model_class(folder: Path, library: Any) -> Any:
    """The class that config.json names."""
    path = folder / CONFIG
    try:
        description = read_json(path, CONFIG_BYTES, follow_links=True)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(description, dict) or "model_type" not in description:
        raise ValueError(f"{path}: does not describe a Hugging Face model; model_type is missing")
    names = description.get("architectures") or []
    if not names:
        return library.AutoModel
    name = names[0] if isinstance(names, list) else names
    kind = getattr(library, name, None) if isinstance(name, str) else None
    if not isinstance(kind, type) or not issubclass(kind, library.PreTrainedModel):
        raise ValueError(
            f"{path}: {short_repr(name)} is not a model of transformers {library.__version__}; "
            "attnlab runs no code that comes with a model"
        )
    return kind


def _load_processor(folder: Path, model: Any, library: Any) -> Any:
    """The tokenizer, the image processor or feature extractor, one processor of both, or None."""
    has_tokenizer = any((folder / name).exists() for name in (*TOKENIZERS, *VOCABULARIES))
    has_others = any((folder / name).exists() for name in OTHERS)
    local = {"local_files_only": True, "trust_remote_code": False}
    if has_others and not has_tokenizer:
        reads_images = model.main_input_name == "pixel_values"
        kind = library.AutoImageProcessor if reads_images else library.AutoFeatureExtractor
        return kind.from_pretrained(folder, **local)
    if has_others:
        try:
            return library.AutoProcessor.from_pretrained(folder, **local)
        except (ImportError, AttributeError):  # a part that this machine lacks, such as videos
            pass
    return library.AutoTokenizer.from_pretrained(folder, **local) if has_tokenizer else None


def _converted_folder(file: Path) -> Path:
    def write(folder: Path) -> None:
        library = _transformers(file)
        with _quiet(library), one_line_errors(file):
            convert(file, folder, library)

    return converted_folder(file, write)


def _transformers(path: str | Path) -> Any:
    try:
        return import_module("transformers")
    except ImportError:
        raise ValueError(
            f"{path}: a Hugging Face model needs the transformers package: pip install transformers"
        ) from None


@contextmanager
def _quiet(library: Any) -> Iterator[None]:
    """No progress bars and log messages of transformers inside the `with`."""
    logging = library.utils.logging
    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def one_line_errors(path: Path) -> Iterator[None]:
    """Turn any error of transformers into a ValueError of one line."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        reason = one_line(error, 300)
        raise ValueError(f"{path}: transformers cannot load it ({reason})") from error


def is_panic(error: BaseException) -> bool:
    """Whether a Rust library failed. Such an error is no Exception, and its class has no name to
    import."""
    return type(error).__name__ == "PanicException"


@contextmanager
def bounded_by_weights(folder: Path) -> Iterator[None]:
    """Inside the `with`, a model that is far larger than its weights is not built."""
    headers = [read_header(path) for path in folder.glob("*.safetensors")]
    shapes = [info.shape for header in headers for info in header.values()]
    remaining = {"tensors": 1000 + 4 * len(shapes), "numbers": 2**26 + 4 * sum(map(prod, shapes))}

    def count(_: nn.Module, __: str, tensor: Tensor | None) -> None:
        remaining["tensors"] -= 1
        remaining["numbers"] -= 0 if tensor is None else tensor.numel()
        if min(remaining.values()) < 0:
            raise ValueError(f"{CONFIG} describes a model that is larger than its weights")

    hooks = [
        register_module_parameter_registration_hook(count),
        register_module_buffer_registration_hook(count),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
