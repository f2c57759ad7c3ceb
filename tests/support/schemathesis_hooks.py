"""Loaded by schemathesis: real images among the bodies that it generates."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import strategies as st

from attnlab._image_files import encode_png
from tests.support.image_files import pixels

openapi: Any = schemathesis.openapi
openapi.media_type(
    "application/octet-stream",
    st.just(encode_png(pixels(2, 1, 6)[1])) | st.binary(min_size=1, max_size=50),
)
