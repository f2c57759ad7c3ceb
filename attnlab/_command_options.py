"""Command-line options made from the settings that a dataclass declares and documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from cyclopts import Parameter

from attnlab.run_folder._start_mode import StartMode

Command = TypeVar("Command", bound=Callable[..., None])
# what several commands take
RunFolder = Annotated[Path, Parameter(help="A run folder.")]
Out = Annotated[Path, Parameter(help="The run folder.")]
Resume = Annotated[bool, Parameter(negative="", help="Go on with the run in --out.")]
Overwrite = Annotated[bool, Parameter(negative="", help="Replace the run in --out.")]
Json = Annotated[bool, Parameter(negative="", help="Print JSON.")]


def spaced(values: Iterable[Any]) -> str:
    """Values as they are given on the command line."""
    return " ".join(map(str, values))


def start_mode(resume: bool, overwrite: bool) -> StartMode:
    """--resume and --overwrite exclude each other."""
    if resume and overwrite:
        raise ValueError("--resume and --overwrite; give one of them")
    return StartMode.RESUME if resume else StartMode.OVERWRITE if overwrite else StartMode.NEW


def several(text: str) -> Parameter:
    """--name ONE TWO THREE."""
    return Parameter(help=text, consume_multiple=True, negative="", show_default=False)


def options_of(
    settings: type[Any],
    *,
    without: tuple[str, ...] = (),
    unset: bool = False,
    told: bool = False,
    **types: Any,
) -> type[Any]:
    """A dataclass of the same fields, with the help that the command line shows.

    `types` replaces the type of a field where the command line takes another form, or None.
    `unset`: every field may be left out, because a preset decides what it then is. `told`: the
    help says what it is without one.
    """
    hints = get_type_hints(settings, include_extras=True)
    made: list[tuple[str, Any, Field[Any]]] = []
    for each in fields(settings):
        if each.name in without:
            continue
        kind, text = get_args(hints[each.name])  # Annotated[type, "help"]
        kind = types.get(each.name, kind)
        default: Any = None if each.name in types or unset else each.default
        if default is MISSING:
            raise TypeError(f"{settings.__name__}.{each.name} has no default; leave it out")
        # only a switch that is on, or may be, needs a twin that turns it off
        switch = default is True or (default is None and bool in (kind, *get_args(kind)))
        hint, kind = kind, kind | None if unset else kind
        usual = f" [{_shown(each.default)}]" if told else ""
        shown = Parameter(
            help=text + usual,
            negative=None if switch else "",
            # --attention softmax favor
            consume_multiple=each.name in types or get_origin(hint) is tuple,
            show_default=spaced if isinstance(default, tuple) else None,
        )
        made.append((each.name, Annotated[kind, shown], field(default=default)))
    options = make_dataclass(f"{settings.__name__}Options", made, frozen=True)
    options.__module__ = __name__  # cyclopts takes a class of the standard library for one value
    return options


def joined_options(*groups: type[Any]) -> type[Any]:
    """One group of options out of several, whose names differ."""
    made = [
        (
            each.name,
            get_type_hints(group, include_extras=True)[each.name],
            field(default=each.default),
        )
        for group in groups
        for each in fields(group)
    ]
    options = make_dataclass("Options", made, frozen=True)
    options.__module__ = __name__  # cyclopts takes a class of the standard library for one value
    return options


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    return spaced(default) if isinstance(default, tuple) else str(default)


def given(options: Any, *, unset: bool = False) -> dict[str, Any]:
    """The values as keyword arguments of the dataclass that they were made from.

    `unset`: without those that were left out.
    """
    values = {each.name: getattr(options, each.name) for each in fields(options)}
    return {name: v for name, v in values.items() if v is not None} if unset else values


def grouped(**kinds: Any) -> Callable[[Command], Command]:
    """A command whose parameters of these names are whole groups of options.

    Their types are made by `options_of`, so they cannot be written in place.
    """

    def typed(command: Command) -> Command:
        for name, kind in kinds.items():
            command.__annotations__[name] = Annotated[kind, Parameter(name="*")]
        return command

    return typed


def told(out: Path, metrics: dict[str, float], of: str = "") -> None:
    """The last line of a training; several processes say it once."""
    from attnlab.training import speaks

    if speaks():
        facts = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        print(f"{out}: trained; {of}{facts}")


def one_or_each(names: list[str] | None) -> str | list[str]:
    """--attention NAME for all layers, or one for each; softmax if none was named."""
    names = names or ["softmax"]
    return names[0] if len(names) == 1 else names
