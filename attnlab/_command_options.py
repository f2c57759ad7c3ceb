"""Command-line options built from the settings that a dataclass declares and documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from cyclopts import App, Group, Parameter

from attnlab._help_groups import ATTENTION_HELP, COMMON, HelpGroup
from attnlab.run_folder._start_mode import StartMode

Command = TypeVar("Command", bound=Callable[..., None])
# Options without one of these are in the group of their app, which comes first.
GROUPS = {
    group: Group(group.value, sort_key=position)
    for position, group in enumerate(HelpGroup)
    if group is not COMMON
}


def create_app(name: str, text: str, **settings: Any) -> App:
    """A command of attnlab, or a group of commands. `text` is its help."""
    options = Group.create_default_parameters(COMMON.value)
    return App(name=name, help=text, help_format="plaintext", group_parameters=options, **settings)


def option(text: str, group: HelpGroup = COMMON, **settings: Any) -> Parameter:
    """--name VALUE, with its help."""
    if group is not COMMON:
        settings["group"] = GROUPS[group]
    return Parameter(help=text, **settings)


def flag(text: str, group: HelpGroup = COMMON) -> Parameter:
    """--name, which is off without it."""
    return option(text, group, negative="", show_default=False)


def list_option(text: str, group: HelpGroup = COMMON) -> Parameter:
    """--name ONE TWO THREE."""
    return option(text, group, consume_multiple=True, negative="", show_default=False)


# Options of several commands
RunFolder = Annotated[Path, option("Folder of a training run.")]
Out = Annotated[Path, option("Folder for the run: its settings, weights and metrics.")]
Resume = Annotated[bool, flag("Continue the run in --out from its last checkpoint.")]
Overwrite = Annotated[bool, flag("Replace the run in --out.")]
Json = Annotated[bool, flag("Print JSON instead of text.")]
Attention = Annotated[list[str] | None, list_option(ATTENTION_HELP)]


def format_values(values: Iterable[Any]) -> str:
    """Values as you give them on the command line."""
    return " ".join(map(str, values))


def start_mode(resume: bool, overwrite: bool) -> StartMode:
    """--resume and --overwrite exclude each other."""
    if resume and overwrite:
        raise ValueError("--resume and --overwrite exclude each other; give one of them")
    return StartMode.RESUME if resume else StartMode.OVERWRITE if overwrite else StartMode.NEW


def options_of(
    settings: type[Any],
    *,
    without: tuple[str, ...] = (),
    optional: bool = False,
    defaults: Any = None,
    common: tuple[str, ...] | None = None,
    group: HelpGroup = COMMON,
    **types: Any,
) -> type[Any]:
    """A dataclass of the same fields, with the help that the command line shows.

    `types` replaces the type of a field where the command line takes another form, or None.
    `optional`: every field may be left out, because a preset decides then; the help shows the
    values of `defaults`, if there are any. `common` names the fields that come first in the help,
    in place of those that the settings mark as COMMON. `group` is that of fields which name none.
    """
    hints = get_type_hints(settings, include_extras=True)
    options: list[tuple[str, Any, Field[Any]]] = []
    for setting in fields(settings):
        name = setting.name
        if name in without:
            continue
        value_type, text, *notes = get_args(hints[name])  # Annotated[type, "help", GROUP]
        groups = [note for note in notes if isinstance(note, HelpGroup)]
        value_type = types.get(name, value_type)
        default: Any = None if name in types or optional else setting.default
        if default is MISSING:
            raise TypeError(f"{settings.__name__}.{name} has no default; leave it out")
        # only a flag that is on, or may be, needs a --no-name that turns it off
        has_negative = default is True or (
            default is None and bool in (value_type, *get_args(value_type))
        )
        is_common = COMMON in groups if common is None else name in common
        parameter = option(
            text + _default_text(getattr(defaults, name, None)),
            COMMON if is_common else next(iter(groups), group),
            negative=None if has_negative else "",
            # --attention softmax favor
            consume_multiple=name in types or get_origin(value_type) is tuple,
            show_default=_default_display(default),
        )
        hint = value_type | None if optional else value_type
        options.append((name, Annotated[hint, parameter], field(default=default)))
    return _options_class(f"{settings.__name__}Options", options)


def merge_options(*classes: type[Any]) -> type[Any]:
    """One class with the options of several, whose names differ."""
    names = [setting.name for options in classes for setting in fields(options)]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two options have the name {name!r}; rename one of them")
    options = [
        (
            setting.name,
            get_type_hints(options, include_extras=True)[setting.name],
            field(default=setting.default),
        )
        for options in classes
        for setting in fields(options)
    ]
    return _options_class("Options", options)


def _options_class(name: str, options: list[tuple[str, Any, Any]]) -> type[Any]:
    created = make_dataclass(name, options, frozen=True)
    created.__module__ = __name__  # cyclopts takes a class of the standard library for one value
    return created


def _default_display(default: Any) -> Any:
    if isinstance(default, tuple):
        return format_values if default else False
    return False if default is False else None


def _default_text(default: Any) -> str:
    """For an option that may be left out. cyclopts writes the others itself."""
    if default is None or default is False:
        return ""
    return f" [default: {format_values(default) if isinstance(default, tuple) else default}]"


def option_values(options: Any, *, set_only: bool = False) -> dict[str, Any]:
    """The values as keyword arguments of the dataclass that the options come from.

    `set_only`: without the options that were left out.
    """
    return values_of(options, type(options), set_only=set_only)


def values_of(options: Any, group: type[Any], *, set_only: bool = False) -> dict[str, Any]:
    """The values that merged options have for the fields of one class."""
    values = {setting.name: getattr(options, setting.name) for setting in fields(group)}
    return {name: v for name, v in values.items() if v is not None} if set_only else values


def flatten_options(**classes: Any) -> Callable[[Command], Command]:
    """Gives a command the fields of these classes as its options.

    `options_of` creates the classes, so they cannot be written as type annotations in place.
    """

    def annotate(command: Command) -> Command:
        for name, options in classes.items():
            command.__annotations__[name] = Annotated[options, Parameter(name="*")]
        return command

    return annotate


def print_training_result(out: Path, metrics: dict[str, float], prefix: str = "") -> None:
    """The last line of a training. Only the main process prints it."""
    from attnlab.training import is_main_process

    if is_main_process():
        values = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        print(f"{out}: trained; {prefix}{values}")


def layer_attention(names: list[str] | None) -> str | list[str]:
    """The value of --attention: one name for all layers, or a name per layer."""
    names = names or ["softmax"]
    return names[0] if len(names) == 1 else names
