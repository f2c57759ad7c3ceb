"""The settings of `attnlab heads`. Their sentences are also the help of the command line.

No slow imports: help must come at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from attnlab._help_groups import COMMON, DATA, MEASUREMENT
from attnlab.bench._settings import Numbers, check_even, check_numbers


@dataclass(frozen=True)
class HeadSettings:
    """How to measure mechanisms on a model's own queries, keys and values."""

    quick: ClassVar[dict[str, Any]] = {
        "tokens": 128, "windows": 2, "window": (16, 32), "block": (8,),
    }  # fmt: skip

    tokens: Annotated[
        int,
        "Number of tokens in each window of the text, up to the limit of the model.",
        DATA,
        COMMON,
    ] = 512
    windows: Annotated[
        int | None,
        "Number of windows or images to choose mechanisms on. The same number is used to check "
        "the choice. Without it, 4 windows or 16 images.",
        DATA,
    ] = None
    tolerance: Annotated[
        float, "Largest accepted relative error of a head's output.", MEASUREMENT, COMMON
    ] = 0.1
    features: Annotated[
        Numbers, "Numbers of features to try, for mechanisms that have them.", MEASUREMENT
    ] = (64, 256)
    window: Annotated[Numbers, "Window sizes to try, in keys.", MEASUREMENT] = (32, 64, 128)
    block: Annotated[Numbers, "Block sizes of BigBird to try, in tokens.", MEASUREMENT] = (8, 16)
    ranks: Annotated[Numbers, "Ranks of the optimal low-rank projection to try.", MEASUREMENT] = (
        16,
        64,
    )

    def __post_init__(self) -> None:
        least = {"tokens": 16, "windows": 1, "tolerance": 0}
        check_numbers(self, **least, features=2, window=1, block=1, ranks=1)
        check_even(self.features)

    @property
    def swept(self) -> dict[str, Numbers]:
        """The values to try for each option that a mechanism does not fix."""
        return {"features": self.features, "window": self.window, "block": self.block}

    def count(self, usual: int) -> int:
        """The number of windows to choose mechanisms on."""
        return usual if self.windows is None else self.windows
