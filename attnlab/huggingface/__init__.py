"""Load Hugging Face models, record their attention, and run them with attnlab's mechanisms.

Nothing here imports transformers before it is needed.
"""

from __future__ import annotations

from attnlab.huggingface._attention_modules import is_huggingface
from attnlab.huggingface._load_model import load_model
from attnlab.huggingface._observe_attention import listen as listen
from attnlab.huggingface._register import attend_with, register

__all__ = ["attend_with", "is_huggingface", "load_model", "register"]
