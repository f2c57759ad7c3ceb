"""Skips tests of the C kernels where they cannot be built."""

from __future__ import annotations

import pytest

from attnlab.mechanisms import _compiled as compiled

needs_compiler = pytest.mark.skipif(
    not compiled.status().active, reason=f"no C kernels: {compiled.status().reason}"
)
