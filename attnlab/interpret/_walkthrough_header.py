"""The walkthrough of a panel in a capture file: its header, and its conversion from and to records.

Letters: H captured heads, S keys, D head size, M value size, W width, F inner width of the
feed-forward layer, P parts of the block, N heads whose keys and values are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from attnlab.interpret._array_header import CONFIG, ArrayHeader
from attnlab.interpret._records import (
    AnyText,
    Fraction,
    ItemList,
    NonNegativeInt,
    Number,
    StrictBool,
)
from attnlab.interpret._walkthrough import BlockPart, PartKind, Walkthrough, WalkthroughPart

ARRAYS = {
    "embedding": "W", "input": "W", "q": "HD", "dots": "HS", "bias": "BS", "k": "NSD", "v": "NSM",
    "outputs": "HO", "added": "PW", "hidden": "F", "stream": "W",
}  # fmt: skip
"""A letter for each axis; B is 1 or H, O the size of a head's output, which may differ from M."""
MAX_TOP = 100
Optional = ArrayHeader | None


@dataclass(kw_only=True, config=CONFIG)
class WalkthroughHeader:
    layer: NonNegativeInt
    query: NonNegativeInt
    head: NonNegativeInt
    block: NonNegativeInt
    blocks: NonNegativeInt
    rotary: StrictBool
    embedding: Optional
    input: Optional
    q: Optional
    dots: Optional
    bias: Optional
    key_heads: ItemList[NonNegativeInt]
    k: Optional
    v: Optional
    outputs: Optional
    parts: ItemList[PartKind]
    added: Optional
    """(P, W): what each part adds."""
    norm_first: StrictBool
    hidden: Optional
    stream: Optional
    top: Annotated[ItemList[tuple[AnyText, Number, Fraction]], Field(max_length=MAX_TOP)]
    reasons: dict[WalkthroughPart, AnyText]


def walkthrough_header(
    walk: Walkthrough, write: Callable[[Tensor, str], ArrayHeader]
) -> WalkthroughHeader:
    """The header of a walkthrough, whose arrays go through `write`."""
    added = torch.stack([part.values for part in walk.parts]) if walk.parts else None
    arrays = {name: added if name == "added" else getattr(walk, name) for name in ARRAYS}
    written = {
        name: None if x is None else write(x, f"walkthrough: {name}") for name, x in arrays.items()
    }
    return WalkthroughHeader(
        layer=walk.layer,
        query=walk.query,
        head=walk.head,
        block=walk.block,
        blocks=walk.blocks,
        rotary=walk.rotary,
        key_heads=walk.key_heads,
        parts=[part.kind for part in walk.parts],
        norm_first=walk.norm_first,
        top=[
            (text, float(f"{logit:.5g}"), min(1.0, float(f"{share:.4g}")))
            for text, logit, share in walk.top
        ],
        reasons=walk.reasons,
        **written,
    )


def read_walkthrough(
    header: WalkthroughHeader, read: Callable[[ArrayHeader], Tensor]
) -> Walkthrough:
    """The walkthrough that a checked header describes."""
    arrays = {name: None if (x := getattr(header, name)) is None else read(x) for name in ARRAYS}
    added = arrays.pop("added")
    rows = [] if added is None else list(added)
    return Walkthrough(
        layer=header.layer,
        query=header.query,
        head=header.head,
        block=header.block,
        blocks=header.blocks,
        rotary=header.rotary,
        key_heads=header.key_heads,
        parts=[BlockPart(kind, x) for kind, x in zip(header.parts, rows, strict=True)],
        norm_first=header.norm_first,
        top=header.top,
        reasons=header.reasons,
        **arrays,
    )
