"""A sample of the families in docs/families.md, chosen for the paths through the code."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="Hugging Face models need the transformers package")

ROOT = Path(__file__).parents[2]
SAMPLE = {  # how capture, look and attnlab-softmax end, where not all are equal to eager attention
}
