"""What each bench measures: documented here, and the command line's help is made from it.

`quick` of each holds what --quick replaces: a try that ends in seconds. Nothing is imported that
takes time: help must come at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

Numbers = tuple[int, ...]
ROOM = 4e9  # bytes that whole matrices of weights may take


@dataclass(frozen=True)
class ErrorSettings:
    """Queries and keys have random directions and one norm, values are N(0, 1)."""

    quick: ClassVar[dict[str, Any]] = {
        "tokens": 64, "head_dims": (16, 64), "features": (16, 64, 256), "norms": (1, 2, 4, 8),
        "seeds": 3,
    }  # fmt: skip

    tokens: Annotated[int, "queries and keys"] = 256
    head_dim: Annotated[int, "head size that features and norms are swept at"] = 64
    head_dims: Annotated[Numbers, "head sizes that are compared"] = (16, 32, 64, 128)
    features: Annotated[Numbers, "for those that have them"] = (
        16, 32, 64, 128, 256, 512, 1024,
    )  # fmt: skip
    norms: Annotated[tuple[float, ...], "norms |q| = |k|"] = (0.5, 1, 1.5, 2, 3, 4, 6, 8, 12)
    causal: Annotated[bool, "no query sees later keys"] = False
    seeds: Annotated[int, "repeats with other inputs and draws; intervals need 2 or more"] = 5

    def __post_init__(self) -> None:
        check_numbers(self, tokens=2, head_dim=1, head_dims=1, features=2, norms=0, seeds=1)
        check_even(self.features)
        # exact weights of every norm, and a few more while one mechanism's are compared; float64
        most = math.isqrt(int(ROOM / 8 / (len(self.norms) + 4)))
        if self.tokens > most:
            raise ValueError(
                f"--tokens {self.tokens:,}: whole matrices of weights at {len(self.norms)} norms "
                f"would take more than {ROOM / 1e9:g} GB; give {most:,} or fewer"
            )
        if 8 * max(self.features) * max(self.tokens, self.head_dim, *self.head_dims) > ROOM:
            raise ValueError(
                f"--features {_listed(self.features)}: of {self.tokens:,} tokens and head size "
                f"{max(self.head_dim, *self.head_dims)} they would take more than "
                f"{ROOM / 1e9:g} GB; give fewer"
            )


@dataclass(frozen=True)
class CostSettings:
    """Of speed and memory."""

    quick: ClassVar[dict[str, Any]] = {"lengths": (128, 256, 512), "rounds": 1}

    lengths: Annotated[Numbers, "tokens"] = (512, 1024, 2048, 4096, 8192)
    heads: Annotated[int, "heads"] = 2
    head_dim: Annotated[int, "head size"] = 64
    threads: Annotated[int, "of PyTorch; with 1 CPU time is measured, with more wall time"] = 1
    rounds: Annotated[int, "times that everything is measured in turn; medians count"] = 3

    def __post_init__(self) -> None:
        check_numbers(self, lengths=16, heads=1, head_dim=1, threads=1, rounds=1)
        if len(set(self.lengths)) < 2:
            raise ValueError(
                f"--lengths {_listed(self.lengths)}: give 2 or more lengths, for an exponent"
            )


@dataclass(frozen=True)
class DecodeSettings:
    """Of decoding, token by token."""

    quick: ClassVar[dict[str, Any]] = {"positions": (64, 512), "rounds": 3, "heads": 2}

    positions: Annotated[Numbers, "tokens that stand before the one that is decoded"] = (
        64, 512, 4096, 32768,
    )  # fmt: skip
    heads: Annotated[int, "heads"] = 8
    head_dim: Annotated[int, "head size"] = 64
    threads: Annotated[int, "of PyTorch; with 1 CPU time is measured, with more wall time"] = 1
    rounds: Annotated[int, "times that everything is measured in turn; medians count"] = 9

    def __post_init__(self) -> None:
        check_numbers(self, positions=1, heads=1, head_dim=1, threads=1, rounds=1)
        if len(set(self.positions)) < 2:
            raise ValueError(
                f"--positions {_listed(self.positions)}: give 2 or more positions, for an exponent"
            )


def settings_of(settings: type[Any], quick: bool, given: dict[str, Any]) -> Any:
    """Settings of this kind: what was given, then what is quick, then the defaults."""
    known = {each.name for each in fields(settings)}
    chosen = {**(settings.quick if quick else {}), **given}
    return settings(**{name: value for name, value in chosen.items() if name in known})


def check_numbers(settings: Any, **least: int) -> None:
    """Whole and large enough; numbers of a list once each, in order."""
    for each in fields(settings):
        if each.name not in least:
            continue
        given = getattr(settings, each.name)
        if given is None:
            continue
        values: Sequence[float] = given if isinstance(given, tuple) else (given,)
        small = least[each.name]
        shown = f"--{each.name.replace('_', '-')} {_listed(values)}"
        if not values or not all(map(math.isfinite, values)):
            raise ValueError(f"{shown}: give numbers")
        if any(value < small or value == 0 for value in values):
            raise ValueError(f"{shown}: give {f'{small} or more' if small else 'numbers above 0'}")
        if isinstance(given, tuple):
            object.__setattr__(settings, each.name, tuple(sorted(set(given))))


def check_even(features: Numbers) -> None:
    if any(each % 2 for each in features):
        raise ValueError(f"--features {_listed(features)}: give even numbers")


def _listed(values: Sequence[float]) -> str:
    return " ".join(f"{x:,}" if isinstance(x, int) else f"{x:g}" for x in values)
