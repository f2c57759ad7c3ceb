"""Load Hugging Face models, record their attention, run them with attnlab's mechanisms, and turn
them into attnlab's models and back.

Nothing here imports transformers before it is needed.
"""

from __future__ import annotations

from attnlab.huggingface._attention_modules import is_huggingface
from attnlab.huggingface._export_model import export_run
from attnlab.huggingface._import_tokenizer import import_tokenizer
from attnlab.huggingface._load_model import load_model
from attnlab.huggingface._observe_attention import listen as listen
from attnlab.huggingface._register import attend_with, register

__all__ = [
    "attend_with",
    "export_run",
    "import_tokenizer",
    "is_huggingface",
    "load_model",
    "register",
]
