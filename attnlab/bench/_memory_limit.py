"""Whether a pass fits into memory, told before it runs.

A card says how memory grows, not how many copies a pass holds: that is counted on two short texts,
and grows from there as the card says.
"""

from __future__ import annotations

from functools import lru_cache

from attnlab.bench._attention_pass import pass_of
from attnlab.bench._contenders import Contender, Ours, Sizes
from attnlab.bench._measure_costs import most_alive

ROOM = 8e8  # bytes that one pass may take
MANY = 12  # copies of what a card says: more than any pass holds
SHORT = (256, 512)  # tokens of the two texts


def too_large(where: str) -> str:
    """Why something was left out."""
    return f"from {where} on, where it would take more than {ROOM / 1e9:g} GB"


def fits(party: Contender, causal: bool, backward: bool, sizes: Sizes, tokens: int) -> bool:
    """Inputs count too. What surely fits, or surely does not, is not tried."""
    given = 4 * sizes.heads * 4 * tokens * sizes.head_dim
    kept = 4 * sizes.heads * party.floats(sizes, tokens, causal, backward)
    if given > ROOM:
        return False
    if given + MANY * (given + kept) <= ROOM:
        return True
    return given + estimated_bytes(party, causal, backward, sizes, tokens) <= ROOM


def estimated_bytes(
    party: Contender, causal: bool, backward: bool, sizes: Sizes, tokens: int
) -> float:
    """The most that tensors beside the inputs hold at once, all heads; heads do not share."""
    one = Sizes(1, sizes.head_dim)
    short, long = (_counted(party, causal, backward, one, length) for length in SHORT)
    shape = [party.floats(one, length, causal, backward) for length in (*SHORT, tokens)]
    growth = (shape[2] - shape[1]) / (shape[1] - shape[0])
    return sizes.heads * (long + growth * max(0, long - short))


@lru_cache(maxsize=256)  # asked again at every longer length
def _counted(party: Contender, causal: bool, backward: bool, sizes: Sizes, tokens: int) -> int:
    module, attend = party.create(sizes, tokens)
    leaves = [each for each in module.parameters() if each.requires_grad]
    held = sum(each.numel() * each.element_size() for each in leaves)
    call = pass_of(attend, sizes.inputs(tokens), leaves, causal, backward)
    call()  # what only the first call makes does not count
    return held + most_alive(call)


def decoder_fits(party: Ours, sizes: Sizes, tokens: int) -> bool:
    """Keys and values twice (drawn, then kept with room to grow), and parameters by length."""
    kept = 6.0 * tokens * sizes.head_dim
    if party.kind.card.needs_length:
        kept += party.floats(sizes, tokens, causal=True, backward=False)
    return 4 * sizes.heads * kept <= ROOM
