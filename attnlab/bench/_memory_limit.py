"""Estimates whether a pass fits into memory before it runs.

A card says how memory grows with the length, not how many copies a pass holds. So memory is
measured at two short lengths and extrapolated with the card's formula.
"""

from __future__ import annotations

from functools import lru_cache

from attnlab.bench._attention_pass import create_pass
from attnlab.bench._contenders import AttnlabMechanism, Contender, Sizes
from attnlab.bench._measure_costs import peak_tensor_bytes

MAX_BYTES = 8e8  # of one pass
MAX_COPIES = 12  # of what the card's formula counts: more than any pass holds
SHORT_LENGTHS = (256, 512)  # tokens


def too_large_reason(where: str) -> str:
    """The reason for skipping a contender, for the report."""
    return f"from {where} on, where it would take more than {MAX_BYTES / 1e9:g} GB"


def fits(contender: Contender, causal: bool, backward: bool, sizes: Sizes, tokens: int) -> bool:
    """Whether a pass with its inputs takes at most MAX_BYTES. It runs a short pass only if the
    formula alone cannot decide."""
    input_bytes = 4 * sizes.heads * 4 * tokens * sizes.head_dim
    extra_bytes = 4 * sizes.heads * contender.floats(sizes, tokens, causal, backward)
    if input_bytes > MAX_BYTES:
        return False
    if input_bytes + MAX_COPIES * (input_bytes + extra_bytes) <= MAX_BYTES:
        return True
    return input_bytes + estimate_bytes(contender, causal, backward, sizes, tokens) <= MAX_BYTES


def estimate_bytes(
    contender: Contender, causal: bool, backward: bool, sizes: Sizes, tokens: int
) -> float:
    """The most bytes that tensors besides the inputs hold at once, in all heads."""
    one_head = Sizes(1, sizes.head_dim)
    short, long = (
        _measure_bytes(contender, causal, backward, one_head, length) for length in SHORT_LENGTHS
    )
    lengths = (*SHORT_LENGTHS, tokens)
    floats = [contender.floats(one_head, length, causal, backward) for length in lengths]
    growth = (floats[2] - floats[1]) / (floats[1] - floats[0])
    return sizes.heads * (long + growth * max(0, long - short))


@lru_cache(maxsize=256)  # every longer length needs the same values
def _measure_bytes(
    contender: Contender, causal: bool, backward: bool, sizes: Sizes, tokens: int
) -> int:
    module, attend = contender.create(sizes, tokens)
    leaves = [weight for weight in module.parameters() if weight.requires_grad]
    weight_bytes = sum(weight.numel() * weight.element_size() for weight in leaves)
    call = create_pass(attend, sizes.inputs(tokens), leaves, causal, backward)
    call()  # tensors that only the first call creates do not count
    return weight_bytes + peak_tensor_bytes(call)


def decoder_fits(contender: AttnlabMechanism, sizes: Sizes, tokens: int) -> bool:
    """Whether keys and values (random inputs, then a state with spare capacity) and parameters that
    depend on the length take at most MAX_BYTES."""
    floats = 6.0 * tokens * sizes.head_dim
    if contender.kind.card.needs_length:
        floats += contender.floats(sizes, tokens, causal=True, backward=False)
    return 4 * sizes.heads * floats <= MAX_BYTES
