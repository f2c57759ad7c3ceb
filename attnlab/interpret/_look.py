"""`attnlab.look`: from a model and a text to something that shows itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

import torch

import attnlab
from attnlab._safe_files import check_new
from attnlab.interpret._adapters import open_subject
from attnlab.interpret._capture_file import header_and_blocks, pack, read, write_packed
from attnlab.interpret._capture_header import FORMAT
from attnlab.interpret._inspected_model import Prepared, Subject
from attnlab.interpret._options import LookInput, LookOptions
from attnlab.interpret._page import render, save_page
from attnlab.interpret._records import Capture, Opening, Side, View
from attnlab.interpret._run_model import bytes_of, control_patterns, evaluating, run_captured

SUFFIX = ".attnlab"
FRAME = 720  # pixels that a notebook gives to a page where there is no widget


class Looked:
    """A capture that shows itself in a notebook and saves itself as a page or a capture file."""

    def __init__(self, capture: Capture, source: Path | None = None) -> None:
        self.capture, self.source = capture, source

    @property
    def sides(self) -> list[Side]:
        return self.capture.sides

    @property
    def difference(self) -> float | None:
        """The largest between weights times values and what a layer gave."""
        found = [layer.difference for side in self.sides for layer in side.layers]
        checked = [each for each in found if each is not None]
        return max(checked) if checked else None

    @cached_property
    def packed(self) -> tuple[dict[str, Any], list[bytes]]:
        """Header and blocks; of a capture file its own, so that nothing is rounded twice."""
        if self.source is None:
            return pack(self.capture)
        header, blocks = header_and_blocks(self.source)
        opening = self.capture.opening
        chosen = {"opening": None if opening is None else asdict(opening)}
        return {**header, "title": self.capture.title, **chosen}, blocks

    def opening(self, view: str, layer: str | None = None) -> Looked:
        """The same, shown in this view and layer (of the first side, by its name) at first."""
        names = [each.name for each in self.sides[0].layers]
        for kind, name, known in (("view", view, get_args(View)), ("layer", layer, names)):
            if name is not None and name not in known:
                raise ValueError(f"no {kind} {name!r}; there are {', '.join(known)}")
        first = Opening(cast(View, view), 0 if layer is None else names.index(layer))
        return Looked(replace(self.capture, opening=first), self.source)

    def save(self, path: str | Path, *, overwrite: bool = True) -> Path:
        """A page, or a capture file where the name ends with .attnlab."""
        path = Path(path)
        if path.suffix == SUFFIX:
            if path.exists() and not overwrite:
                raise ValueError(f"{path}: is there already; choose another file or overwrite")
            write_packed(*self.packed, path)
        else:
            save_page(path, *self.packed, overwrite)
        return path

    def widget(self) -> Any:
        """For notebooks; needs anywidget."""
        from attnlab.interpret._notebook_widget import make_widget

        return make_widget(*self.packed)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        try:
            widget = self.widget()
        except ImportError:
            return {"text/html": self._frame(), "text/plain": repr(self)}
        return widget._repr_mimebundle_(**options)

    def _frame(self) -> str:
        """The page in a frame that may run its own script and nothing else."""
        from attnlab.report._text import escape

        page, style = escape(render(*self.packed)), f"width:100%;height:{FRAME}px;border:0"
        rights = "allow-scripts allow-downloads"
        return f'<iframe sandbox="{rights}" srcdoc="{page}" style="{style}"></iframe>'

    def __repr__(self) -> str:
        sides = "; ".join(f"{side.label}: {len(side.layers)} layers" for side in self.sides)
        return f"Looked({self.capture.title!r}, {sides})"


def look(model: Any, text: str | None = None, **options: Any) -> Looked:
    """See what a model attends to when it reads a text or an image.

    `model`: a folder (attnlab's or Hugging Face's), a capture file, or a model in memory, which
    needs its `tokenizer` (or image processor). `options` are the fields of `LookOptions`. Give one
    of `compare` (another model), `untrained` or `compare_text` to see two sides. `neurons` keeps
    q, k and v too. `control`: the patterns of an untrained model stand beside those of each head.
    `memory`: GiB that weights, gradients and flow may take.

        look("runs/gpt2", "The dog ran", generate=3, neurons=True).save("look.html")
    """
    chosen = LookOptions(text=text, **options)
    if isinstance(model, str | Path) and is_capture(Path(model)):
        if replace(chosen, title=None) != LookOptions():
            raise ValueError(f"{model}: a capture, which is shown as it is; give only a title")
        return _reopened(Path(model), chosen.title)
    subject = open_subject(model, chosen.tokenizer)
    sides = _CapturedSides(chosen)
    with evaluating(subject.model):
        prepared = subject.prepare(chosen)
        if chosen.untrained:
            sides.add_both(subject, prepared)
        else:
            sides.add(subject, prepared)
        if chosen.compare_text is not None:
            again = subject.prepare(replace(chosen, text=chosen.compare_text, compare_text=None))
            sides.add(subject, again, control=False)
    made = {"attnlab": attnlab.__version__, "torch": torch.__version__, **subject.libraries()}
    if chosen.compare is not None:
        second = open_subject(chosen.compare, chosen.compare_tokenizer or chosen.tokenizer)
        made |= second.libraries()
        with evaluating(second.model):
            sides.add(second, second.prepare(chosen))
    _tell_apart(sides.captured, "model" if chosen.compare_text is None else "text")
    title = chosen.title or _title(subject, chosen)
    return Looked(Capture(title, sides.captured, list(sides.notes), made))


def _signature() -> Signature:
    """With all fields of LookOptions, for help and completion."""
    kinds = get_type_hints(LookOptions)
    options = [
        each.replace(kind=Parameter.KEYWORD_ONLY, annotation=kinds[each.name])
        for each in signature(LookOptions).parameters.values()
        if each.name != "text"
    ]
    own = signature(look, eval_str=True)
    return own.replace(parameters=[*list(own.parameters.values())[:-1], *options])


look.__signature__ = _signature()  # type: ignore[attr-defined]


class _CapturedSides:
    """Sides as they are captured, each within the memory that those before it leave."""

    def __init__(self, options: LookOptions) -> None:
        self.options = options
        self.captured: list[Side] = []
        self.notes: dict[str, None] = {}

    def add(self, subject: Subject, prepared: Prepared, *, control: bool = True) -> None:
        side = self._add(subject, prepared)
        if self.options.control and control:
            untrained = subject.untrained(self.options.seed)
            side.control = control_patterns(untrained, prepared, self.options)

    def add_both(self, subject: Subject, prepared: Prepared) -> None:
        """The model and the same untrained, which is also the control: it runs once."""
        trained = self._add(subject, prepared)
        untrained = self._add(subject.untrained(self.options.seed), prepared)
        if self.options.control:
            trained.control = untrained.patterns

    def _add(self, subject: Subject, prepared: Prepared) -> Side:
        taken = sum(map(bytes_of, self.captured))
        side, notes = run_captured(subject, prepared, self.options, taken=taken)
        self.captured.append(side)
        self.notes.update(dict.fromkeys(notes))
        return side


def _reopened(path: Path, title: str | None) -> Looked:
    kept = read(path)
    kept.title = title or kept.title
    return Looked(kept, path)


def _tell_apart(sides: Sequence[Side], what: str) -> None:
    """Two sides of one name are numbered."""
    if len({side.label for side in sides}) < len(sides):
        for side, number in zip(sides, ("first", "second"), strict=True):
            side.label = f"{side.label}, {number} {what}"


def check_out(out: Path, overwrite: bool) -> None:
    """Before anything is computed."""
    if not out.is_dir() and out.suffix not in (".html", ".htm", SUFFIX):
        raise ValueError(f"{out}: name a page, NAME.html, or a capture file, NAME{SUFFIX}")
    check_new(out, overwrite)


def is_capture(path: Path) -> bool:
    """Of any version: the reader refuses those that it does not know."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(FORMAT)) == FORMAT.encode("ascii")


def _title(subject: Subject, given: LookInput) -> str:
    shown = given.image.name if given.image is not None else given.text or ""
    shown = shown if len(shown) <= 80 else f"{shown[:79]}…"
    return f"{subject.label}: {shown}"
