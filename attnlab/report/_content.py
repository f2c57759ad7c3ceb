"""What a report holds. The classes check what they are given and are the JSON format themselves.

A report is a list of sections, and a section a list of blocks: tables, figures, pictures, quotes,
commands. Whoever measures something makes these values; nothing that renders them knows what was
measured.
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


def _text(value: Any) -> Any:
    """Cuts what is too long, and replaces halves of surrogate pairs, which UTF-8 cannot hold."""
    if not isinstance(value, str):
        return value
    if len(value) > MAX_TEXT:
        value = value[: MAX_TEXT - 1] + "…"
    return value.encode("utf-8", "replace").decode("utf-8")


Text = Annotated[str, BeforeValidator(_text), Field(max_length=MAX_TEXT)]
Texts = Annotated[Sequence[Text], Field(max_length=MAX_ITEMS)]
Point = tuple[float, float]
Points = Annotated[Sequence[Point], Field(max_length=MAX_ITEMS)]


def _special(value: Any) -> Any:
    """JSON has no infinity: it is written as a text and read back as a number."""
    names = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
    return names.get(value, value) if isinstance(value, str) else value


def _mapping(value: Any) -> Any:
    """Pairs of JSON; what else a list holds is left for the check to refuse."""
    pairs = isinstance(value, list) and all(
        isinstance(each, list | tuple) and len(each) == 2 and isinstance(each[0], str)
        for each in value
    )
    return dict(value) if pairs else value


def _estimate_pairs(value: Mapping[str, Estimate]) -> list[tuple[str, Estimate]]:
    """JavaScript reorders the keys of an object that look like numbers, but not a list."""
    return list(value.items())


def _number_pairs(value: Mapping[str, float]) -> list[tuple[str, float]]:
    return list(value.items())


Value = Annotated[bool | int | float | Text | None, BeforeValidator(_special)]
Cell = Annotated[bool | int | float | Text | Estimate | None, BeforeValidator(_special)]
"""Of a table: a text, a number, an estimate with its interval, or nothing."""


# Plots


@dataclass(frozen=True, config=CONFIG)
class Series:
    """One line of a plot."""

    name: Text
    points: Points
    band: Points = ()
    """Low and high around each point, or nothing."""
    error_bars: bool = False
    """Draw the band as an error bar at each point."""

    @model_validator(mode="after")
    def _band_fits(self) -> Series:
        if self.band and len(self.band) != len(self.points):
            raise ValueError(f"{self.name}: {len(self.band)} bands for {len(self.points)} points")
        return self


@dataclass(frozen=True, config=CONFIG)
class Mark:
    """A vertical line at x, a horizontal one at y, or with both a point and its guides."""

    label: Text
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True, config=CONFIG)
class Lines:
    """Lines over common axes."""

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
    """Named values side by side."""

    y: Text
    values: Annotated[
        Mapping[Text, Estimate], BeforeValidator(_mapping), PlainSerializer(_estimate_pairs)
    ]
    marks: Sequence[Mark] = ()
    percent: bool = False
    beside: Annotated[
        Mapping[Text, float], BeforeValidator(_mapping), PlainSerializer(_number_pairs)
    ] = Field(default_factory=dict)
    """A second, paler bar to compare with."""
    beside_name: Text = ""
    kind: Literal["bars"] = "bars"


@dataclass(frozen=True, config=CONFIG)
class Heatmap:
    """A value for each row and column, as colors; None where nothing was measured.

    `center`: values below it have one color, those above another (a ratio: 1). `names`: values are
    whole numbers, places in this list, and each has a color of its own.
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
    """More to say of each cell, where a reader asks for it."""
    written: bool = False
    """Write each value into its cell, as in a confusion matrix."""
    kind: Literal["heatmap"] = "heatmap"

    @model_validator(mode="after")
    def _grids_fit(self) -> Heatmap:
        grids: dict[str, Sequence[Sequence[Any]]] = {"values": self.values}
        if self.texts:
            grids["texts"] = self.texts
        for name, grid in grids.items():
            if [len(row) for row in grid] != [len(self.columns)] * len(self.rows):
                raise ValueError(
                    f"{name} is not {len(self.rows)} rows of {len(self.columns)} columns"
                )
        for value in (each for row in self.values for each in row):
            if self.names and value is not None and value not in range(len(self.names)):
                raise ValueError(f"{value} is no place in names")
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
    """Columns that a narrow terminal leaves out first, the least telling first; if none is named,
    those from the second on."""
    kind: Literal["table"] = "table"

    @model_validator(mode="after")
    def _rows_fit(self) -> Table:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(
                    f"{self.title}: a row of {len(row)} cells under a header of {len(self.header)}"
                )
        return self


@dataclass(frozen=True, config=CONFIG)
class Figure:
    """A plot with its title; `note` says how to read it."""

    title: Text
    plot: Plot
    note: Text = ""
    in_table: bool = False
    """A table of the section has the same numbers: leave the figure out where nothing is drawn."""
    kind: Literal["figure"] = "figure"


@dataclass(frozen=True, config=CONFIG)
class Picture:
    """A small image with a line and a note below it."""

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
    """A text as it is, with a word of it marked."""

    title: Text
    text: Text
    marked: Text = ""
    kind: Literal["quote"] = "quote"


@dataclass(frozen=True, config=CONFIG)
class Strip:
    """Tokens in a row, each colored by its weight."""

    title: Text
    tokens: Texts
    weights: Annotated[Sequence[float], Field(max_length=MAX_ITEMS)]
    note: Text = ""
    kind: Literal["strip"] = "strip"


@dataclass(frozen=True, config=CONFIG)
class Command:
    """Something to type into a terminal, and what for."""

    command: Text
    why: Text = ""
    kind: Literal["command"] = "command"


@dataclass(frozen=True, config=CONFIG)
class Link:
    """Another file beside the page."""

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
    """Unique in a report; the address of a page and the option of a command use it."""
    title: Text
    findings: Texts = ()
    """What was found, sentence by sentence, computed from the data."""
    advice: Texts = ()
    tiles: Sequence[Tile] = ()
    blocks: Annotated[Sequence[Block], Field(max_length=MAX_ITEMS)] = ()
    settings: Mapping[Text, Value | Sequence[Value]] = Field(default_factory=dict)
    measurements: Annotated[Sequence[Mapping[Text, Value]], Field(max_length=MAX_ITEMS)] = ()
    """Every number that was measured, one flat row each, for programs to read."""


@dataclass(frozen=True, config=CONFIG)
class Report:
    # first in a file, so that its first bytes say what it is
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
    def _names_differ(self) -> Report:
        names = [section.name for section in self.sections]
        if len(set(names)) < len(names):
            raise ValueError(f"two sections have one name: {', '.join(names)[:200]}")
        return self
