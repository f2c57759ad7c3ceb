"""How a header describes one array of a capture file."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, Strict
from pydantic.dataclasses import dataclass

from attnlab.interpret._number_codes import Code, byte_count
from attnlab.interpret._records import AxisLength, Fraction, NonEmptyList, NonNegativeInt

MAX_BYTES = 2**30  # of all decompressed blocks
CONFIG = ConfigDict(extra="forbid")


@dataclass(kw_only=True, config=CONFIG)
class ArrayHeader:
    block: NonNegativeInt
    offset: Annotated[int, Strict(), Field(ge=0, le=MAX_BYTES)]
    shape: NonEmptyList[AxisLength]
    code: Code
    error: Fraction

    @property
    def end(self) -> int:
        return self.offset + byte_count(self.shape, self.code)
