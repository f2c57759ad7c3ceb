"""Checks what is to be converted, opens it, and starts the conversion."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from attnlab.convert._plan import (
    Plan,
    check_mechanisms,
    parse_layers,
    plan_heads,
    read_head_plan,
)
from attnlab.convert._replace_layers import replace_layers
from attnlab.convert._session import SETTINGS_FILE, WORK, Session
from attnlab.convert._settings import ConvertSettings
from attnlab.convert._source import open_source, read_texts
from attnlab.convert._stages import ModelPair
from attnlab.report import Report, read_report
from attnlab.run_folder import StartMode, check_folder
from attnlab.tasks.language.kind import CONVERSION
from attnlab.training import Run

DEFAULT = "hedgehog_window:window=64"


def convert(
    model: str | Path,
    text: str | Path | Sequence[str | Path],
    *,
    out: str | Path,
    attention: str | None = None,
    layers: str = "all",
    heads: str | Path | None = None,
    held_out: Sequence[str | Path] = (),
    settings: ConvertSettings | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> Report:
    """Replace the attention of some layers, train it to agree with softmax, and write a run.

    `model` is a run of the task `language` or a Hugging Face model, `text` one or more text files,
    and `held_out` files to measure on. `heads` is a file of `attnlab heads --json`, whose choice
    for each head counts; `attention` then replaces the mechanisms that it chose.

    >>> from pathlib import Path
    >>> from attnlab.convert import ConvertSettings, convert
    >>> from attnlab.models import StackConfig
    >>> from attnlab.tasks.language import train_language
    >>> from attnlab.training import Settings
    >>> _ = Path("text.txt").write_text("to be or not to be. " * 100)
    >>> small = StackConfig(vocabulary=1, width=16, layers=2, heads=2, context=16)
    >>> options = {"model": small, "settings": Settings(steps=2), "quiet": True}
    >>> _ = train_language([Path("text.txt")], out=Path("run"), **options)
    >>> few = ConvertSettings(steps=2, tokens=16, texts=2)
    >>> to = {"attention": "hedgehog_window:window=4", "layers": "1", "out": "converted"}
    >>> report = convert("run", "text.txt", settings=few, quiet=True, **to)
    >>> report.title
    'run: 1 of 2 layers converted'
    """
    settings, start, out = settings or ConvertSettings(), StartMode(start), Path(out)
    check_convert_folder(out, start)
    if out.resolve() == Path(model).resolve():
        raise ValueError(f"{out}: is the model itself; give another folder")
    if start is StartMode.RESUME and Run(out).began:
        shutil.rmtree(out / WORK, ignore_errors=True)
        return read_report(out / CONVERSION)
    head_plan = None if heads is None else read_head_plan(Path(heads))
    check_mechanisms([attention or DEFAULT])
    source = open_source(Path(model))
    config = source.model.config
    chosen = parse_layers(layers, config.layers)
    plan: Plan = dict.fromkeys(chosen, attention or DEFAULT)
    if head_plan is not None:
        plan = plan_heads(head_plan, chosen, config.heads, attention, Path(str(heads)))
        check_mechanisms(list(plan.values()))
    converted = replace_layers(source.model, plan)
    files = [text] if isinstance(text, str | Path) else list(text)
    texts = read_texts(list(map(Path, files)), list(map(Path, held_out)), source, settings)
    pair = ModelPair(source.model, converted, list(plan), settings.precision)
    session = Session(Path(model), source, pair, plan, texts, settings, out, start, quiet)
    with Run(out).locked():
        return session.run()


def check_convert_folder(out: Path, start: StartMode) -> None:
    """`check_folder` for a conversion: an unfinished one can be resumed or replaced."""
    unfinished = (out / WORK / SETTINGS_FILE).exists()
    if not unfinished or Run(out).began:
        check_folder(out, start)
        if start is StartMode.RESUME and not (out / CONVERSION).exists():
            raise ValueError(f"{out}: is no conversion; start without --resume in another folder")
    elif start is StartMode.NEW:
        raise ValueError(
            f"{out}: holds an unfinished conversion; give --resume to continue it, --overwrite to "
            "replace it, or another folder"
        )
