"""What `attnlab heads` measures: documented here, and the command line's help is made from it.

Nothing is imported that takes time: help must come at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from attnlab.bench._settings import Numbers, check_even, check_numbers


@dataclass(frozen=True)
class HeadSettings:
    """Of a model's own queries, keys and values."""

    quick: ClassVar[dict[str, Any]] = {
        "tokens": 128, "windows": 2, "window": (16, 32), "block": (8,),
    }  # fmt: skip

    tokens: Annotated[int, "of a window of the text, if the model reads so many"] = 512
    windows: Annotated[
        int | None, "windows (4) or images (16) to choose on, and as many to check on"
    ] = None
    tolerance: Annotated[float, "error of a head's output that is good enough"] = 0.1
    features: Annotated[Numbers, "numbers of features, for those that have them"] = (64, 256)
    window: Annotated[Numbers, "keys in sight, for windows"] = (32, 64, 128)
    block: Annotated[Numbers, "tokens in a block, for BigBird"] = (8, 16)
    ranks: Annotated[Numbers, "ranks of the best possible projection"] = (16, 64)

    def __post_init__(self) -> None:
        least = {"tokens": 16, "windows": 1, "tolerance": 0}
        check_numbers(self, **least, features=2, window=1, block=1, ranks=1)
        check_even(self.features)

    @property
    def swept(self) -> dict[str, Numbers]:
        """The values to try of an option that a mechanism leaves open."""
        return {"features": self.features, "window": self.window, "block": self.block}

    def count(self, usual: int) -> int:
        """Of windows to choose on."""
        return usual if self.windows is None else self.windows
