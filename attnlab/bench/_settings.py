"""What each bench measures: documented here, and the command line's help is made from it.

`quick` of each holds what --quick replaces: a try that ends in seconds. Nothing is imported that
takes time: help must come at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

from attnlab._help_groups import COMMON, MEASUREMENT

Numbers = tuple[int, ...]
ROOM = 4e9  # bytes that whole matrices of weights may take


@dataclass(frozen=True)
class ErrorSettings:
    """Queries and keys have random directions and one norm, values are N(0, 1)."""

    quick: ClassVar[dict[str, Any]] = {
        "tokens": 64, "head_dims": (16, 64), "features": (16, 64, 256), "norms": (1, 2, 4, 8),
        "seeds": 3,
    }  # fmt: skip

    tokens: Annotated[int, "Number of queries and of keys.", MEASUREMENT, COMMON] = 256
    head_dim: Annotated[int, "Head size at which features and norms are varied.", MEASUREMENT] = 64
    head_dims: Annotated[Numbers, "Head sizes to compare.", MEASUREMENT, COMMON] = (16, 32, 64, 128)
    features: Annotated[
        Numbers, "Numbers of features to try, for mechanisms that have them.", MEASUREMENT, COMMON
    ] = (16, 32, 64, 128, 256, 512, 1024)
    norms: Annotated[
        tuple[float, ...], "Norms of queries and keys to try.", MEASUREMENT, COMMON
    ] = (0.5, 1, 1.5, 2, 3, 4, 6, 8, 12)
    causal: Annotated[bool, "Hide later keys from each query.", MEASUREMENT, COMMON] = False
    seeds: Annotated[
        int,
        "Number of repeats with other random inputs. Confidence intervals need 2 or more.",
        MEASUREMENT,
        COMMON,
    ] = 5

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

    lengths: Annotated[Numbers, "Sequence lengths to measure, in tokens.", MEASUREMENT, COMMON] = (
        512,
        1024,
        2048,
        4096,
        8192,
    )
    heads: Annotated[int, "Number of attention heads.", MEASUREMENT, COMMON] = 2
    head_dim: Annotated[int, "Size of each head.", MEASUREMENT, COMMON] = 64
    threads: Annotated[
        int,
        "Number of PyTorch threads. With 1, CPU time is measured; with more, wall time.",
        MEASUREMENT,
        COMMON,
    ] = 1
    rounds: Annotated[
        int,
        "Number of rounds in which everything is measured. The report has medians.",
        MEASUREMENT,
        COMMON,
    ] = 3

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

    positions: Annotated[
        Numbers,
        "Positions to decode at: the number of tokens before the new one.",
        MEASUREMENT,
        COMMON,
    ] = (64, 512, 4096, 32768)
    heads: Annotated[int, "Number of attention heads.", MEASUREMENT, COMMON] = 8
    head_dim: Annotated[int, "Size of each head.", MEASUREMENT, COMMON] = 64
    threads: Annotated[
        int,
        "Number of PyTorch threads. With 1, CPU time is measured; with more, wall time.",
        MEASUREMENT,
        COMMON,
    ] = 1
    rounds: Annotated[
        int,
        "Number of rounds in which everything is measured. The report has medians.",
        MEASUREMENT,
        COMMON,
    ] = 9

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
