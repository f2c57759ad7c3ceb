"""The tokenizer of a Hugging Face model as a tokenizer of attnlab."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from attnlab._safe_files import read_json
from attnlab._short_repr import one_line
from attnlab.huggingface._import_model import read_fields
from attnlab.huggingface._load_model import find_folder
from attnlab.run_folder._config import CONFIG_BYTES
from attnlab.run_folder._file_names import TOKENIZER
from attnlab.tokenizer import MAX_FILE_BYTES
from attnlab.tokenizer._pretrained import Pretrained, open_pretrained

NAMES = ("special_tokens_map.json", "tokenizer_config.json")
ROLES = {"end": ("eos_token", "sep_token"), "pad": ("pad_token",), "mask": ("mask_token",)}
"""The tokens that attnlab needs, and what Hugging Face calls them, the first that there is."""


def import_tokenizer(folder: str | Path) -> Pretrained:
    """The tokenizer in a folder of a Hugging Face model, or of a .gguf file.

    A folder without tokenizer.json is converted by transformers.

    >>> from attnlab.huggingface import import_tokenizer
    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> words = Tokenizer(models.WordLevel({"<end>": 0, "the": 1, "cat": 2}, "<end>"))
    >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
    >>> from pathlib import Path
    >>> folder = Path("words")
    >>> folder.mkdir()
    >>> words.save("words/tokenizer.json")
    >>> _ = (folder / "config.json").write_text('{"model_type": "gpt2", "eos_token_id": 0}')
    >>> _ = (folder / "model.safetensors").write_text("")
    >>> import_tokenizer("words").encode("the cat")
    [1, 2]
    """
    path = find_folder(Path(folder))
    content = _content(path)
    try:
        ids = _special_ids(path, content)
        return open_pretrained(content, **ids)
    except ValueError as error:
        raise ValueError(f"{path / TOKENIZER}: {one_line(error)}") from None


def _content(folder: Path) -> dict[str, Any]:
    """The content of tokenizer.json."""
    if not (folder / TOKENIZER).exists():
        return _converted(folder)
    try:
        content = read_json(folder / TOKENIZER, MAX_FILE_BYTES, follow_links=True)
    except ValueError as error:
        raise ValueError(f"{folder / TOKENIZER}: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{folder / TOKENIZER}: does not describe a tokenizer")
    return content


def _converted(folder: Path) -> dict[str, Any]:
    try:
        tokenizer = import_module("transformers").AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        return dict(json.loads(tokenizer.backend_tokenizer.to_str()))
    except Exception as error:
        reason = one_line(error, 200)
        raise ValueError(
            f"{folder}: has no {TOKENIZER}, and transformers could not make one ({reason})"
        ) from None


def _special_ids(folder: Path, content: dict[str, Any]) -> dict[str, Any]:
    """The ids of the end, of padding and of masked tokens."""
    names: dict[str, Any] = {}
    for file in NAMES:
        try:
            read = read_json(folder / file, CONFIG_BYTES, follow_links=True)
        except ValueError:
            continue
        names |= read if isinstance(read, dict) else {}
    ids = _ids_by_text(content)
    special: dict[str, Any] = {}
    for role, keys in ROLES.items():
        texts = [_text_of(names.get(key)) for key in keys]
        known = [ids[text] for text in texts if text in ids]
        special[role] = known[0] if known else None
    if special["end"] is None:
        end = read_fields(folder).values.get("eos_token_id")
        end = end[0] if isinstance(end, list) and end else end
        if type(end) is not int:
            raise ValueError("no token ends a text; name it as eos_token in tokenizer_config.json")
        special["end"] = end
    return special


def _text_of(token: Any) -> Any:
    """A special token is its text, or an object with it."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None


def _ids_by_text(content: dict[str, Any]) -> dict[str, int]:
    model, added = content.get("model"), content.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    ids = dict(vocabulary) if isinstance(vocabulary, dict) else {}
    for token in added if isinstance(added, list) else []:
        if isinstance(token, dict) and isinstance(token.get("content"), str):
            ids[token["content"]] = token.get("id")
    return {text: number for text, number in ids.items() if type(number) is int}
