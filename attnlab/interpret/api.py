"""`attnlab.look`: from a model and a text to something that shows itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

import attnlab
from attnlab.interpret.file import MAGIC, header_and_blocks, pack, read, write_packed
from attnlab.interpret.header import VIEWS
from attnlab.interpret.memory import GIBIBYTES
from attnlab.interpret.own_subjects import OwnSubject, open_own
from attnlab.interpret.page import render, save_page
from attnlab.interpret.records import Capture, Opening, Side
from attnlab.interpret.sides import Limits, control_of, evaluating, side_of, taken_by
from attnlab.interpret.subjects import Prepared, Subject, Wish
from attnlab.models import MODELS, Model
from attnlab.tokens import Tokenizer

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
        for kind, name, known in (("view", view, VIEWS), ("layer", layer, names)):
            if name is not None and name not in known:
                raise ValueError(f"no {kind} {name!r}; there are {', '.join(known)}")
        first = Opening(view, 0 if layer is None else names.index(layer))
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
        from attnlab.interpret.widget import make_widget

        return make_widget(*self.packed)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        try:
            widget = self.widget()
        except ImportError:
            return {"text/html": self._frame(), "text/plain": repr(self)}
        return widget._repr_mimebundle_(**options)

    def _frame(self) -> str:
        """The page in a frame that may run its own script and nothing else."""
        from attnlab.charts import escape

        page, style = escape(render(*self.packed)), f"width:100%;height:{FRAME}px;border:0"
        rights = "allow-scripts allow-downloads"
        return f'<iframe sandbox="{rights}" srcdoc="{page}" style="{style}"></iframe>'

    def __repr__(self) -> str:
        sides = "; ".join(f"{side.label}: {len(side.layers)} layers" for side in self.sides)
        return f"Looked({self.capture.title!r}, {sides})"


def look(
    model: Any,
    text: str | None = None,
    *,
    pair: str | None = None,
    image: str | Path | None = None,
    generate: int = 0,
    tokenizer: Any = None,
    compare: Any = None,
    compare_tokenizer: Any = None,
    untrained: bool = False,
    compare_text: str | None = None,
    neurons: bool = False,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    max_tokens: int = 2048,
    gradients: bool = True,
    control: bool = True,
    memory: float = GIBIBYTES,
    seed: int = 0,
    title: str | None = None,
) -> Looked:
    """See what a model attends to when it reads a text or an image.

    `model`: a folder (attnlab's or Hugging Face's), a capture file, or a model in memory, which
    needs its `tokenizer` (or image processor). Give one of `compare` (another model), `untrained`
    or `compare_text` to see two sides. `neurons` keeps q, k and v too. `control`: the patterns of
    an untrained model stand beside those of each head. `memory`: GiB that weights, gradients and
    flow may take.
    """
    if isinstance(model, str | Path) and is_capture(Path(model)):
        asked = (text, pair, image, compare, compare_text)
        if generate or untrained or neurons or any(each is not None for each in asked):
            raise ValueError(f"{model}: a capture, which is shown as it is; give only a title")
        return _reopened(Path(model), title)
    if (compare is not None) + untrained + (compare_text is not None) > 1:
        raise ValueError("compare, untrained and compare_text; give one of them")
    if generate > max_tokens:
        raise ValueError(f"--generate {generate}; --max-tokens is {max_tokens}: give fewer")
    wish = Wish(text, pair, Path(image) if image is not None else None, generate)
    limits = Limits(layers, heads, max_tokens, neurons, gradients, memory)
    sides = _Sides(limits, seed, control)
    subject = open_subject(model, tokenizer)
    with evaluating(subject.model):
        prepared = subject.prepare(wish)
        if untrained:
            sides.add_both(subject, prepared)
        else:
            sides.add(subject, prepared)
        if compare_text is not None:
            again = subject.prepare(replace(wish, text=compare_text))
            sides.add(subject, again, control=False)
    if compare is not None:
        second = open_subject(compare, compare_tokenizer or tokenizer)
        with evaluating(second.model):
            sides.add(second, second.prepare(wish))
    _tell_apart(sides.found, "text" if compare_text is not None else "model")
    shown = title or _title(subject, wish)
    return Looked(Capture(shown, sides.found, list(sides.notes), versions()))


class _Sides:
    """Sides as they are found, each within the memory that those before it leave."""

    def __init__(self, limits: Limits, seed: int, control: bool) -> None:
        self.limits, self.seed, self.control = limits, seed, control
        self.found: list[Side] = []
        self.notes: dict[str, None] = {}

    def add(self, subject: Subject, prepared: Prepared, *, control: bool = True) -> None:
        side = self._add(subject, prepared)
        if self.control and control:
            side.control = control_of(subject.untrained(self.seed), prepared, self.limits)

    def add_both(self, subject: Subject, prepared: Prepared) -> None:
        """The model and the same untrained, which is also the control: it runs once."""
        trained = self._add(subject, prepared)
        untrained = self._add(subject.untrained(self.seed), prepared)
        if self.control:
            trained.control = untrained.patterns

    def _add(self, subject: Subject, prepared: Prepared) -> Side:
        taken = sum(map(taken_by, self.found))
        side, notes = side_of(subject, prepared, self.limits, taken=taken)
        self.found.append(side)
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
    if out.is_dir():
        raise ValueError(f"{out}: is a folder; name a file, as look.html")
    if out.suffix not in (".html", ".htm", SUFFIX):
        raise ValueError(f"{out}: name a page, NAME.html, or a capture file, NAME{SUFFIX}")
    if not out.parent.is_dir():
        raise ValueError(f"{out}: there is no folder {out.parent}; make it first")
    if out.exists() and not overwrite:
        raise ValueError(f"{out}: is there already; give --overwrite or another name")


def open_subject(model: Any, tokenizer: Any = None) -> Subject:
    if isinstance(model, Subject):
        return model
    if isinstance(model, str | Path):
        return _open(Path(model))
    if isinstance(model, Model):
        if tokenizer is not None and not isinstance(tokenizer, Tokenizer):
            raise ValueError("tokenizer: give one of attnlab.tokens with a model of attnlab")
        return OwnSubject(model, tokenizer, type(model).__name__)
    if isinstance(model, torch.nn.Module) and hasattr(model, "main_input_name"):
        from attnlab.interpret.huggingface_subjects import HuggingFaceSubject

        name = str(getattr(model.config, "name_or_path", "")) or type(model).__name__
        return HuggingFaceSubject(model, tokenizer, Path(name).name)
    raise ValueError(
        f"cannot look at {type(model).__name__}; give a folder, a model of attnlab, or a Hugging "
        "Face model with its tokenizer"
    )


def _open(path: Path) -> Subject:
    if not path.exists():
        raise ValueError(f"{path}: is not there; give a folder with a model, or a capture file")
    if _is_own(path / "config.json"):
        return open_own(path)
    from attnlab.interpret.huggingface_subjects import open_huggingface

    return open_huggingface(path)


def _is_own(config: Path) -> bool:
    """Whether attnlab wrote it; what is no model at all is told by whoever opens it next."""
    try:
        found = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    kind = found.get("model") if isinstance(found, dict) else None
    return isinstance(found, dict) and ("training" in found or str(kind) in MODELS)


def is_capture(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def versions() -> dict[str, str]:
    import sys

    found = {"attnlab": attnlab.__version__, "torch": torch.__version__}
    if "transformers" in sys.modules:
        found["transformers"] = sys.modules["transformers"].__version__
    return found


def _title(subject: Subject, wish: Wish) -> str:
    shown = wish.image.name if wish.image is not None else wish.text or ""
    shown = shown if len(shown) <= 80 else f"{shown[:79]}…"
    return f"{subject.label}: {shown}"
