"""The memory limit of a capture: raises at the first layer, before anything is allocated."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

GIBIBYTES = 4.0  # then the weights alone fill the largest capture file
BYTES_PER_NUMBER = 4


class MemoryBudget:
    """Adds up the memory of the layers so far, and of similar layers that are still to run.

    Layers are similar if only the numbers in their names differ: "h.0.attn", "h.1.attn".
    """

    def __init__(
        self, gibibytes: float, *, gradients: bool, maps: int = 0, used_bytes: int = 0
    ) -> None:
        """Each layer needs `maps` (T, S) arrays besides its heads; `used_bytes` are in use."""
        if not gibibytes > 0:
            raise ValueError(f"capture: memory={gibibytes:g}; give a number of GiB above 0")
        self.gibibytes, self.used_bytes = gibibytes, used_bytes
        self.gradients, self.maps = gradients, maps
        self.expected: Counter[str] = Counter()
        self.sizes: dict[str, dict[str, int]] = {}

    def expect(self, names: Sequence[str]) -> None:
        """Announce the names of all layers that will run."""
        self.expected = Counter(map(_numberless_name, names))

    def reserve(
        self, name: str, *, heads: int, queries: int, keys: int, model_keeps_weights: bool = False
    ) -> None:
        """Raise if this layer, the layers so far and the similar ones to come need too much.

        `model_keeps_weights`: the model keeps a second copy of its weights until it has run.
        """
        matrices = heads * (1 + self.gradients + model_keeps_weights) + self.maps
        self.sizes.setdefault(_numberless_name(name), {})[name] = (
            BYTES_PER_NUMBER * queries * keys * matrices
        )
        needed = sum(
            sum(sizes.values()) * max(self.expected[name], len(sizes)) // len(sizes)
            for name, sizes in self.sizes.items()
        )
        available = self.gibibytes * 2**30 - self.used_bytes
        if needed <= available:
            return
        layers = sum(max(self.expected[name], len(sizes)) for name, sizes in self.sizes.items())
        in_use = (
            f" besides the {_format_size(self.used_bytes)} already in use"
            if self.used_bytes
            else ""
        )
        fits = self._describe_what_fits(
            available / needed, layers, heads, max(queries, keys), model_keeps_weights
        )
        raise ValueError(
            f"capture: {layers} layers ({heads} heads, {queries} queries, {keys} keys), weights"
            f"{' and gradients' if self.gradients else ''}, would need {_format_size(needed)}"
            f"{in_use}; the limit is memory={self.gibibytes:g} GiB: {fits}"
        )

    def _describe_what_fits(
        self, fraction: float, layers: int, heads: int, tokens: int, model_keeps_weights: bool
    ) -> str:
        """Which single reduction to this fraction of the memory would be enough."""
        per_head = 1 + self.gradients + model_keeps_weights
        whole = heads * per_head + self.maps
        fewer = {
            "layers": math.floor(layers * fraction),
            "heads": math.floor((whole * fraction - self.maps) / per_head),
            "tokens": math.floor(tokens * math.sqrt(max(0.0, fraction))),
        }
        if model_keeps_weights:  # the model returns all of its own weights anyway
            del fewer["layers"], fewer["heads"]
        options = [f"{count} {what}" for what, count in fewer.items() if count > 0]
        if self.gradients and whole - heads <= whole * fraction:
            options.append("no gradients")
        return f"give {', '.join(options)}{' or ' * bool(options)}more memory"


def _numberless_name(name: str) -> str:
    return re.sub("[0-9]+", "0", name)


def _format_size(size: float) -> str:
    return f"{size / 2**30:.3g} GiB"
