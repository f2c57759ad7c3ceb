"""Tokenizers of attnlab in the format of Hugging Face."""

from __future__ import annotations

import json
from typing import Any

from attnlab.tokenizer import (
    BPE,
    SPECIAL_TOKENS,
    Bytes,
    Characters,
    Tokenizer,
    byte_letters,
)
from attnlab.tokenizer._pretrained import Pretrained


def export_tokenizer(tokenizer: Tokenizer, *, begins: bool) -> tuple[str, dict[str, Any]]:
    """The contents of tokenizer.json and tokenizer_config.json.

    `begins`: each text begins with `tokenizer.begin`, as the model has learned.
    """
    from tokenizers import Tokenizer as HuggingFace
    from tokenizers.processors import TemplateProcessing

    backend = HuggingFace.from_str(_backend_json(tokenizer))
    names = {number: text for text, number in backend.get_vocab(with_added_tokens=True).items()}
    begin = names[tokenizer.begin]
    if begins and not isinstance(tokenizer, Pretrained):
        backend.post_processor = TemplateProcessing(
            single=[begin, "$A"],
            pair=[begin, "$A", begin, "$B"],
            special_tokens=[(begin, tokenizer.begin)],
        )
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": names[tokenizer.end],
        "pad_token": names[tokenizer.pad],
        "padding_side": "right",
        "clean_up_tokenization_spaces": False,
    }
    if tokenizer.mask != tokenizer.pad:
        config["mask_token"] = names[tokenizer.mask]
    if begins:
        config["bos_token"] = begin
    return backend.to_str(pretty=True), config


def _backend_json(tokenizer: Tokenizer) -> str:
    if isinstance(tokenizer, Pretrained):
        return tokenizer.tokenizer.to_str()
    if isinstance(tokenizer, BPE):
        return tokenizer.to_json()
    if isinstance(tokenizer, Bytes):
        return _bytes_json()
    if isinstance(tokenizer, Characters):
        return _characters_json(tokenizer)
    raise ValueError(f"a {type(tokenizer).__name__} tokenizer has no form in Hugging Face's format")


def _bytes_json() -> str:
    from tokenizers import Tokenizer as HuggingFace
    from tokenizers import decoders, models, pre_tokenizers

    vocabulary = {text: number for number, text in enumerate((*SPECIAL_TOKENS, *byte_letters()))}
    backend = HuggingFace(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(SPECIAL_TOKENS))
    return backend.to_str()


def _characters_json(tokenizer: Characters) -> str:
    """Characters that the tokenizer does not know become what it has for them without an accent."""
    from tokenizers import Tokenizer as HuggingFace
    from tokenizers import decoders, models

    symbols = [tokenizer.decode([number]) for number in range(tokenizer.vocabulary)]
    unknown = tokenizer.decode(tokenizer.encode("\0" if "\0" not in symbols else "\x01"))
    vocabulary = {symbol: number for number, symbol in enumerate(symbols)}
    backend = HuggingFace(models.BPE(vocab=vocabulary, merges=[], unk_token=unknown))
    backend.decoder = decoders.Fuse()
    return json.dumps(json.loads(backend.to_str()))
