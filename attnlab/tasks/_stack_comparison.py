"""Comparisons of models made from a `StackConfig`: sweeps, and contenders of equal size."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Annotated, Any

from attnlab._help_groups import COMMON, MODEL
from attnlab.models import Decoder, Model, StackConfig
from attnlab.tasks._equal_sizes import (
    PARAMETER_TOLERANCE,
    STATE_TOLERANCE,
    Sizes,
    equal_feed_width,
    equal_state,
    has_constant_state,
    state_bytes,
)
from attnlab.tasks.comparison import Comparison, ComparisonTrial

EQUAL = ("parameters", "state", "width")
SET_BY_TASK = ("vocabulary", "context", "attention")
SIZES = tuple(setting.name for setting in fields(StackConfig) if setting.name not in SET_BY_TASK)


@dataclass(frozen=True)
class StackComparison(Comparison):
    """Contenders share the data, the width and the number of parameters."""

    widths: Annotated[
        tuple[int, ...], "Model widths to compare at, as in 32 64 128.", MODEL, COMMON
    ] = ()
    sweep: Annotated[
        tuple[str, ...],
        "An option of the task or the model, and the values to compare at, as in layers 1 2 4.",
        MODEL,
        COMMON,
    ] = ()
    equal: Annotated[
        str,
        "What contenders have in common: parameters (the same width, and feed-forward layers that "
        "make the numbers of parameters equal), state (also the bytes of the decoding state) or "
        "width (nothing else is changed).",
        MODEL,
        COMMON,
    ] = "parameters"
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.equal not in EQUAL:
            raise ValueError(f"--equal is {self.equal!r}; choose from {', '.join(EQUAL)}")
        if self.widths and self.sweep:
            raise ValueError("--widths and --sweep exclude each other; give one of them")
        self.sweep_values()

    @abstractmethod
    def build(self, variant: str, sizes: Sizes, place: float | None) -> Model:
        """An untrained model with changed sizes at this value of the sweep."""

    @abstractmethod
    def test_length(self, place: float | None) -> int:
        """Tokens after which the decoding state is measured."""

    def sweep_options(self) -> Sequence[str]:
        """The options of the task that --sweep can change."""
        return ()

    # sweeps

    @property
    def sweep_title(self) -> str:
        return self._sweep[0].replace("_", " ")

    def with_sweep_title(self, values: str) -> str:
        """As in: width 32."""
        return f"{self.sweep_title} {values}"

    @cached_property
    def _sweep(self) -> tuple[str, tuple[float, ...]]:
        name, *texts = ("width", *map(str, self.widths)) if self.widths else self.sweep or ("",)
        known = (*self.sweep_options(), *SIZES)
        if name and name not in known:
            close = get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
            raise ValueError(f"--sweep {name}: is no option of the task or the model; {hint}")
        values = []
        for text in texts:
            try:
                values.append(float(text))
            except ValueError:
                values.append(math.nan)
            if not math.isfinite(values[-1]):
                raise ValueError(f"--sweep {name}: {text!r} is not a number; give numbers")
        if name and not values:
            raise ValueError(f"--sweep {name}: has no values; give one or more, as in 4 8 16")
        return name, tuple(sorted(set(values)))

    def sweep_values(self) -> Sequence[float | None]:
        return self._sweep[1] or (None,)

    def swept(self, place: float | None, names: Sequence[str]) -> dict[str, Any]:
        """The swept option with its value, if it is one of these."""
        name = self._sweep[0]
        if place is None or name not in names:
            return {}
        return {name: int(place) if place.is_integer() else place}

    def sizes_at(self, place: float | None) -> dict[str, Any]:
        """The model settings at this value of the sweep."""
        return {**self.model, **self.swept(place, SIZES)}

    def sweep_plan(self) -> dict[str, Any]:
        """The part of `plan` that is about sweeps and equal sizes. Values may be added later."""
        plan = {"sweep": self._sweep[0]} if self._sweep[0] else {}
        return plan if self.equal == "width" else {**plan, "equal": self.equal}

    # equal sizes

    def with_equal_sizes(self, trials: Sequence[ComparisonTrial]) -> list[ComparisonTrial]:
        if self.equal == "width":
            return list(trials)
        known_sizes: dict[tuple[str, float | None], tuple[str, Sizes]] = {}
        first: dict[float | None, str] = {}
        for trial in trials:
            reference = first.setdefault(trial.place, trial.variant)
            key = trial.variant, trial.place
            if key not in known_sizes:
                known_sizes[key] = self._equal_sizes(trial.variant, reference, trial.place)
        changed = []
        for trial in trials:
            variant, sizes = known_sizes[trial.variant, trial.place]
            changed.append(replace(trial, variant=variant, model=tuple(sorted(sizes.items()))))
        return changed

    def _equal_sizes(self, variant: str, reference: str, place: float | None) -> tuple[str, Sizes]:
        def build(variant: str, sizes: Sizes) -> Model:
            return self.build(variant, sizes, place)

        original = build(reference, {})
        length = self.test_length(place)
        name, sizes = variant, dict[str, int]()
        if self.equal == "state" and variant == reference:
            if not has_constant_state(original, length):
                raise ValueError(
                    f"--equal state: the state of {name} grows over {length} tokens; name a "
                    "mechanism with a constant state first, or give --equal parameters"
                )
        elif self.equal == "state":
            assert isinstance(original, Decoder)
            target, config = state_bytes(original, length), original.config
            assert target is not None
            variant, sizes = equal_state(target, variant, config.width, config.heads, build, length)
            if not has_constant_state(build(variant, sizes), length):
                variant, sizes = name, {}  # only its parameters can be equal
        if variant == reference:
            return variant, {}
        feed_width = equal_feed_width(original.parameter_count(), variant, sizes, build)
        return variant, sizes if feed_width is None else {**sizes, "feed_width": feed_width}

    def notes(self, trials: Sequence[ComparisonTrial]) -> list[str]:
        """The parameters and the state of each contender."""
        lines = []
        for place in self.sweep_values():
            models: dict[str, Model] = {}
            for trial in trials:
                if trial.place == place and trial.contender not in models:
                    try:
                        model = self.build(trial.variant, dict(trial.model), place)
                    except ValueError:  # it cannot do the task
                        continue
                    models[trial.contender] = model
            lines += self._describe_sizes(models, place)
        return lines

    def _describe_sizes(self, models: Mapping[str, Model], place: float | None) -> list[str]:
        at = "" if place is None else f"{self.sweep_title} {place:g}: "
        length = self.test_length(place)
        parameters = {name: model.parameter_count() for name, model in models.items()}
        states = {name: state_bytes(model, length) for name, model in models.items()}
        sizes = {name: size for name, size in states.items() if size is not None}
        lines = [f"{at}parameters: {_list_counts(parameters)}"]
        if sizes:
            lines.append(f"{at}bytes of state after {length} tokens: {_list_counts(sizes)}")
        if self.equal != "width":
            lines += _unequal(at, "parameters", parameters, PARAMETER_TOLERANCE)
        if self.equal == "state":
            growing = [name for name in sizes if not has_constant_state(models[name], length)]
            constant = {name: size for name, size in sizes.items() if name not in growing}
            lines += _unequal(at, "bytes of state", constant, STATE_TOLERANCE)
            lines += [f"{at}{name} has a state that grows with the text" for name in growing]
        return lines


def _list_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _unequal(at: str, what: str, counts: Mapping[str, int], tolerance: float) -> list[str]:
    """A line for each contender that could not be made equal to the first."""
    (first, target), *others = counts.items()
    return [
        f"{at}{name} has {count / target - 1:+.1%} {what} compared with {first}; no sizes within "
        f"{tolerance:.0%} were found"
        for name, count in others
        if abs(count / target - 1) > tolerance
    ]
