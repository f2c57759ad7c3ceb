"""The settings of each benchmark. Their sentences are also the help of the command line.

`quick` has the values for --quick, with which a benchmark takes seconds. No slow imports: help must
come at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

from attnlab._help_groups import COMMON, MEASUREMENT

Numbers = tuple[int, ...]
MAX_BYTES = 4e9  # of whole matrices of weights


@dataclass(frozen=True)
class ErrorSettings:
    """Settings of the error benchmark.

    Queries and keys have random directions and the same norm. Values are N(0, 1). Head sizes and
    numbers of features are also varied together, at one norm and with q, k ~ N(0, I).
    """

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
        "Number of repeats with different random inputs. Confidence intervals need 2 or more.",
        MEASUREMENT,
        COMMON,
    ] = 5

    def __post_init__(self) -> None:
        check_numbers(self, tokens=2, head_dim=1, head_dims=1, features=2, norms=0, seeds=1)
        check_even(self.features)
        # exact weights at every norm and for N(0, I), and a few matrices more; in float64
        max_tokens = math.isqrt(int(MAX_BYTES / 8 / (len(self.norms) + 5)))
        if self.tokens > max_tokens:
            raise ValueError(
                f"--tokens {self.tokens:,}: the matrices of weights at {len(self.norms)} norms "
                f"would take more than {MAX_BYTES / 1e9:g} GB; give {max_tokens:,} or fewer"
            )
        if 8 * max(self.features) * max(self.tokens, self.head_dim, *self.head_dims) > MAX_BYTES:
            raise ValueError(
                f"--features {_listed(self.features)}: the features of {self.tokens:,} tokens "
                f"with head size {max(self.head_dim, *self.head_dims)} would take more than "
                f"{MAX_BYTES / 1e9:g} GB; give fewer features or tokens"
            )

    @property
    def grid_norm(self) -> float:
        """The norm at which head sizes and numbers of features are varied together: nearest to 2,
        so that scores are neither all equal nor far apart."""
        return min(self.norms, key=lambda norm: abs(math.log(norm / 2)))

    @property
    def has_grid(self) -> bool:
        return len(self.head_dims) > 1 and len(self.features) > 1


@dataclass(frozen=True)
class CostSettings:
    """Settings of the speed and memory benchmarks."""

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
                f"--lengths {_listed(self.lengths)}: an exponent needs 2 or more lengths"
            )


@dataclass(frozen=True)
class DecodeSettings:
    """Settings of the benchmark of decoding, token by token."""

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
                f"--positions {_listed(self.positions)}: an exponent needs 2 or more positions"
            )


def create_settings(settings_class: type[Any], quick: bool, options: dict[str, Any]) -> Any:
    """The options, then with `quick` the quick values, then the defaults. Ignores other options."""
    names = {field.name for field in fields(settings_class)}
    values = {**(settings_class.quick if quick else {}), **options}
    return settings_class(**{name: value for name, value in values.items() if name in names})


def check_numbers(settings: Any, **least: int) -> None:
    """Raises an error for numbers below these limits; sorts lists and removes repeats."""
    for name, limit in least.items():
        value = getattr(settings, name)
        if value is None:
            continue
        values: Sequence[float] = value if isinstance(value, tuple) else (value,)
        option = f"--{name.replace('_', '-')} {_listed(values)}"
        if not values or not all(map(math.isfinite, values)):
            raise ValueError(f"{option}: give one or more finite numbers")
        if any(number < limit or number == 0 for number in values):
            raise ValueError(f"{option}: give {f'{limit} or more' if limit else 'numbers above 0'}")
        if isinstance(value, tuple):
            object.__setattr__(settings, name, tuple(sorted(set(value))))


def check_even(features: Numbers) -> None:
    if any(count % 2 for count in features):
        raise ValueError(f"--features {_listed(features)}: give even numbers")


def _listed(values: Sequence[float]) -> str:
    return " ".join(f"{x:,}" if isinstance(x, int) else f"{x:g}" for x in values)
