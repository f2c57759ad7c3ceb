"""How much memory a capture may take: refused at the first layer, before it is taken."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

GIBIBYTES = 4.0  # weights alone are then as many as a capture file holds at most
NUMBER = 4  # bytes


class Budget:
    """What each layer takes, and those like it that are still to come.

    Layers are alike if their names differ in numbers alone: "h.0.attn", "h.1.attn".
    """

    def __init__(self, gibibytes: float, *, gradients: bool, maps: int = 0, taken: int = 0) -> None:
        """`maps` of (T, S) are made of each layer beside its heads; `taken` bytes are gone."""
        if not gibibytes > 0:
            raise ValueError(f"capture: memory={gibibytes:g}; give GiB above 0")
        self.gibibytes, self.taken = gibibytes, taken
        self.gradients, self.maps = gradients, maps
        self.coming: Counter[str] = Counter()
        self.sizes: dict[str, dict[str, int]] = {}

    def expect(self, names: Sequence[str]) -> None:
        """These layers will run, if all are asked for."""
        self.coming = Counter(map(_kind, names))

    def ask(
        self, name: str, *, heads: int, queries: int, keys: int, kept_twice: bool = False
    ) -> None:
        """Refuse a layer if it takes too much with those heard so far and those like it.

        `kept_twice`: the model keeps its own weights until it has run.
        """
        matrices = heads * (1 + self.gradients + kept_twice) + self.maps
        self.sizes.setdefault(_kind(name), {})[name] = NUMBER * queries * keys * matrices
        needed = sum(
            sum(found.values()) * max(self.coming[kind], len(found)) // len(found)
            for kind, found in self.sizes.items()
        )
        room = self.gibibytes * 2**30 - self.taken
        if needed <= room:
            return
        layers = sum(max(self.coming[kind], len(found)) for kind, found in self.sizes.items())
        beside = f" beside the {_shown(self.taken)} that are taken" if self.taken else ""
        fits = self._fits(room / needed, layers, heads, max(queries, keys), kept_twice)
        raise ValueError(
            f"capture: {layers} layers ({heads} heads, {queries} queries, {keys} keys), weights"
            f"{' and gradients' if self.gradients else ''}, would take {_shown(needed)}{beside}; "
            f"memory={self.gibibytes:g} GiB is the most: {fits}"
        )

    def _fits(self, share: float, layers: int, heads: int, tokens: int, kept_twice: bool) -> str:
        """What would do, each by itself, of this share of what was asked for."""
        each = 1 + self.gradients + kept_twice
        whole = heads * each + self.maps
        fewer = {
            "layers": math.floor(layers * share),
            "heads": math.floor((whole * share - self.maps) / each),
            "tokens": math.floor(tokens * math.sqrt(max(0.0, share))),
        }
        if kept_twice:  # whatever is chosen, the model gives all of its own
            del fewer["layers"], fewer["heads"]
        found = [f"{count} {what}" for what, count in fewer.items() if count > 0]
        if self.gradients and whole - heads <= whole * share:
            found.append("no gradients")
        return f"{', '.join(found)}{' or ' * bool(found)}more memory would do"


def _kind(name: str) -> str:
    return re.sub("[0-9]+", "0", name)


def _shown(size: float) -> str:
    return f"{size / 2**30:.3g} GiB"
