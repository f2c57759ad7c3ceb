"""The content of a report, independent of what was measured and of how it is rendered.

A report is a list of sections, and a section is a list of blocks: tables, figures, pictures,
quotes, commands. The classes validate their values, and their fields are the JSON format.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator
from pydantic.dataclasses import dataclass

from attnlab._confidence_intervals import Estimate

MAX_TEXT = 4000  # characters
MAX_ITEMS = 200_000

CONFIG = ConfigDict(
    extra="forbid", ser_json_inf_nan="strings", ser_json_bytes="base64", val_json_bytes="base64"
)


def _clean_text(value: Any) -> Any:
    """Cuts a text that is too long, and replaces lone surrogates, which UTF-8 cannot encode."""
    if not isinstance(value, str):
        return value
    if len(value) > MAX_TEXT:
        value = value[: MAX_TEXT - 1] + "…"
    return value.encode("utf-8", "replace").decode("utf-8")


Text = Annotated[str, BeforeValidator(_clean_text), Field(max_length=MAX_TEXT)]
Texts = Annotated[Sequence[Text], Field(max_length=MAX_ITEMS)]
Point = tuple[float, float]
Points = Annotated[Sequence[Point], Field(max_length=MAX_ITEMS)]


def _parse_special(value: Any) -> Any:
    """JSON has no infinity and no NaN, so they are texts in JSON."""
    names = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
    return names.get(value, value) if isinstance(value, str) else value


def _parse_pairs(value: Any) -> Any:
    """A list of pairs becomes a dict; other values are left for the validation to refuse."""
    are_pairs = isinstance(value, list) and all(
        isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str)
        for item in value
    )
    return dict(value) if are_pairs else value


def _estimate_pairs(value: Mapping[str, Estimate]) -> list[tuple[str, Estimate]]:
    """A list keeps its order. JavaScript would reorder object keys that look like numbers."""
    return list(value.items())


def _number_pairs(value: Mapping[str, float]) -> list[tuple[str, float]]:
    return list(value.items())


Value = Annotated[bool | int | float | Text | None, BeforeValidator(_parse_special)]
Cell = Annotated[bool | int | float | Text | Estimate | None, BeforeValidator(_parse_special)]
"""A cell of a table: a text, a number, an estimate with its interval, or nothing."""


# Plots


@dataclass(frozen=True, config=CONFIG)
class Series:
    """One line of a plot."""

    name: Text
    points: Points
    band: Points = ()
    """Low and high of the interval around each point; empty without intervals."""
    error_bars: bool = False
    """Draw the band as an error bar at each point."""

    @model_validator(mode="after")
    def _check_band(self) -> Series:
        if self.band and len(self.band) != len(self.points):
            raise ValueError(
                f"{self.name}: {len(self.band)} bands for {len(self.points)} points; give one for "
                "each"
            )
        return self


@dataclass(frozen=True, config=CONFIG)
class Mark:
    """A labeled vertical line at x, horizontal line at y, or point at both."""

    label: Text
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True, config=CONFIG)
class Lines:
    """Several lines in one plot."""

    x: Text
    y: Text
    series: Annotated[Sequence[Series], Field(max_length=MAX_ITEMS)]
    x_log: bool = False
    y_log: bool = False
    marks: Sequence[Mark] = ()
    x_percent: bool = False
    y_percent: bool = False
    kind: Literal["lines"] = "lines"


@dataclass(frozen=True, config=CONFIG)
class Bars:
    """Named values as bars."""

    y: Text
    values: Annotated[
        Mapping[Text, Estimate], BeforeValidator(_parse_pairs), PlainSerializer(_estimate_pairs)
    ]
    marks: Sequence[Mark] = ()
    percent: bool = False
    beside: Annotated[
        Mapping[Text, float], BeforeValidator(_parse_pairs), PlainSerializer(_number_pairs)
    ] = Field(default_factory=dict)
    """A second, paler bar to compare with."""
    beside_name: Text = ""
    kind: Literal["bars"] = "bars"


@dataclass(frozen=True, config=CONFIG)
class Heatmap:
    """A value for each row and column, as colors; None where nothing was measured.

    `center`: values below and above it have different colors; use 1 for ratios. `names`: if given,
    values are indices into this list, and each name has its own color.
    """

    x: Text
    y: Text
    z: Text
    columns: Texts
    rows: Texts
    values: Annotated[Sequence[Sequence[float | None]], Field(max_length=MAX_ITEMS)]
    log: bool = False
    center: float | None = None
    names: Texts = ()
    texts: Sequence[Texts] = ()
    """Details of each cell, shown on demand."""
    written: bool = False
    """Write each value into its cell, as in a confusion matrix."""
    kind: Literal["heatmap"] = "heatmap"

    @model_validator(mode="after")
    def _check_grids(self) -> Heatmap:
        grids: dict[str, Sequence[Sequence[Any]]] = {"values": self.values}
        if self.texts:
            grids["texts"] = self.texts
        for name, grid in grids.items():
            if [len(row) for row in grid] != [len(self.columns)] * len(self.rows):
                raise ValueError(
                    f"{name} is not {len(self.rows)} rows of {len(self.columns)} columns"
                )
        for value in (value for row in self.values for value in row):
            if self.names and value is not None and value not in range(len(self.names)):
                raise ValueError(f"{value} is no index into names; give 0 to {len(self.names) - 1}")
        return self


Plot = Annotated[Lines | Bars | Heatmap, Field(discriminator="kind")]


# Blocks of a section


@dataclass(frozen=True, config=CONFIG)
class Table:
    title: Text
    header: Texts
    rows: Annotated[Sequence[Sequence[Cell]], Field(max_length=MAX_ITEMS)]
    note: Text = ""
    drop: Texts = ()
    """Columns to leave out in a narrow terminal, in this order; by default from the second on."""
    kind: Literal["table"] = "table"

    @model_validator(mode="after")
    def _check_rows(self) -> Table:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(
                    f"{self.title}: a row has {len(row)} cells, but the header has "
                    f"{len(self.header)}"
                )
        return self


@dataclass(frozen=True, config=CONFIG)
class Figure:
    """A plot with its title; `note` says how to read it."""

    title: Text
    plot: Plot
    note: Text = ""
    in_table: bool = False
    """A table of the section has the same numbers, so leave the figure out of Markdown."""
    kind: Literal["figure"] = "figure"


@dataclass(frozen=True, config=CONFIG)
class Picture:
    """A small image with a caption and a note."""

    png: bytes
    text: Text
    note: Text = ""


@dataclass(frozen=True, config=CONFIG)
class Gallery:
    title: Text
    pictures: Annotated[Sequence[Picture], Field(max_length=1000)]
    note: Text = ""
    kind: Literal["gallery"] = "gallery"


@dataclass(frozen=True, config=CONFIG)
class Quote:
    """A quoted text with one word highlighted."""

    title: Text
    text: Text
    marked: Text = ""
    kind: Literal["quote"] = "quote"


@dataclass(frozen=True, config=CONFIG)
class Strip:
    """Tokens in a row, colored by weight."""

    title: Text
    tokens: Texts
    weights: Annotated[Sequence[float], Field(max_length=MAX_ITEMS)]
    note: Text = ""
    kind: Literal["strip"] = "strip"


@dataclass(frozen=True, config=CONFIG)
class Command:
    """A command for the terminal, and what it does."""

    command: Text
    why: Text = ""
    kind: Literal["command"] = "command"


@dataclass(frozen=True, config=CONFIG)
class Link:
    """A link to a file next to the page."""

    href: Annotated[str, Field(max_length=MAX_TEXT, pattern=r"^[\w.-][\w./ -]*$")]
    text: Text
    kind: Literal["link"] = "link"


Block = Annotated[
    Table | Figure | Gallery | Quote | Strip | Command | Link, Field(discriminator="kind")
]


@dataclass(frozen=True, config=CONFIG)
class Tile:
    """One key number."""

    name: Text
    value: Text
    note: Text = ""


@dataclass(frozen=True, config=CONFIG)
class Section:
    name: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,40}$")]
    """Unique in a report; used in the address of the page and as a command option."""
    title: Text
    findings: Texts = ()
    """Sentences computed from the data."""
    advice: Texts = ()
    tiles: Sequence[Tile] = ()
    blocks: Annotated[Sequence[Block], Field(max_length=MAX_ITEMS)] = ()
    settings: Mapping[Text, Value | Sequence[Value]] = Field(default_factory=dict)
    measurements: Annotated[Sequence[Mapping[Text, Value]], Field(max_length=MAX_ITEMS)] = ()
    """Every measured number as a flat row, for programs to read."""


@dataclass(frozen=True, config=CONFIG)
class Report:
    # these come first, so that the first bytes of a file identify it
    format: Literal["attnlab-report"] = field(default="attnlab-report", kw_only=True)
    version: Literal[1] = field(default=1, kw_only=True)
    kind: Annotated[str, Field(pattern=r"^[a-z-]{1,40}$")]
    """What was measured: bench, heads, audit, comparison, ..."""
    title: Text
    sections: Annotated[Sequence[Section], Field(max_length=MAX_ITEMS)]
    machine: Mapping[Text, Value] = Field(default_factory=dict)
    versions: Mapping[Text, Text] = Field(default_factory=dict)
    seconds: float = 0.0

    @model_validator(mode="after")
    def _check_names(self) -> Report:
        names = [section.name for section in self.sections]
        if len(set(names)) < len(names):
            raise ValueError(f"two sections have the same name: {', '.join(names)[:200]}")
        return self
