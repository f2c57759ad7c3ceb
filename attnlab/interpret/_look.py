"""`attnlab.look`: runs a model on a text or an image, and shows what it attends to."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args, get_type_hints

import torch

import attnlab
from attnlab._safe_files import check_output_file
from attnlab._short_repr import one_line
from attnlab.interpret._adapters import open_model
from attnlab.interpret._capture_file import header_and_blocks, pack, read, write_packed
from attnlab.interpret._capture_header import FORMAT
from attnlab.interpret._effects import measure_effects
from attnlab.interpret._head_switches import SwitchableModel
from attnlab.interpret._inspected_model import InspectedModel, PreparedInput
from attnlab.interpret._interesting_heads import find_highlights, opening_view
from attnlab.interpret._intervene import intervene
from attnlab.interpret._layer_numbers import layer_numbers, list_numbers
from attnlab.interpret._options import LookInput, LookOptions
from attnlab.interpret._page import render, save_page
from attnlab.interpret._records import Capture, CapturePanel, InitialView, View
from attnlab.interpret._run_model import control_patterns, evaluating, memory_used, run_captured
from attnlab.interpret._trace_token import choose_place, trace_token

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIX = ".attnlab"
FRAME_HEIGHT = 720  # pixels of the page in a notebook without anywidget


class LookResult:
    """A capture that a notebook displays, and that you can save as a page or a capture file."""

    def __init__(
        self,
        capture: Capture,
        source: Path | None = None,
        model: SwitchableModel | None = None,
    ) -> None:
        self.capture, self.source = capture, source
        self.model = model
        """The model of the first panel, whose heads the widget can switch off."""

    @property
    def panels(self) -> list[CapturePanel]:
        return self.capture.panels

    @property
    def difference(self) -> float | None:
        """Largest difference between weights times values and a layer's output."""
        layers = [layer for panel in self.panels for layer in panel.layers]
        checked = [layer.difference for layer in layers if layer.difference is not None]
        return max(checked, default=None)

    @cached_property
    def packed(self) -> tuple[dict[str, Any], list[bytes]]:
        """Header and blocks. A capture file keeps its own, so that nothing is rounded twice."""
        if self.source is None:
            return pack(self.capture)
        header, blocks = header_and_blocks(self.source)
        view = self.capture.initial_view
        changed = {
            "title": self.capture.title,
            "opening": None if view is None else asdict(view),
            "highlights": list(map(asdict, self.capture.highlights)),
        }
        return {**header, **changed}, blocks

    def open_at(
        self,
        view: str,
        layer: str | None = None,
        *,
        head: int | None = None,
        query: int | None = None,
    ) -> LookResult:
        """The same capture, whose page opens with this view and (by name) this layer, one captured
        head of it (by number) and one selected query (by position). With a view alone, it shows
        that view of the head and the query that the page opens with anyway."""
        names = [layer.name for layer in self.panels[0].layers]
        for kind, name, valid in (("view", view, get_args(View)), ("layer", layer, names)):
            if name is not None and name not in valid:
                raise ValueError(f"no {kind} {name!r}; give one of {', '.join(valid)}")
        opening = self.capture.initial_view
        if layer is None and head is None and query is None and opening is not None:
            initial = replace(opening, view=cast(View, view))
            return LookResult(replace(self.capture, initial_view=initial), self.source, self.model)
        index = 0 if layer is None else names.index(layer)
        heads = self.panels[0].layers[index].heads
        if head is not None and head not in heads:
            raise ValueError(
                f"no head {head} in {names[index]}; give one of {', '.join(map(str, heads))}"
            )
        queries = self.panels[0].sequences[self.panels[0].sequence_indices[index][0]].texts
        if query is not None and not 0 <= query < len(queries):
            raise ValueError(f"no query {query}; give 0 to {len(queries) - 1}")
        position = None if head is None else heads.index(head)
        initial = InitialView(cast(View, view), index, position, query)
        return LookResult(replace(self.capture, initial_view=initial), self.source, self.model)

    def save(self, path: str | Path, *, overwrite: bool = True) -> Path:
        """Write a capture file if the name ends with .attnlab, otherwise a page."""
        path = Path(path)
        if path.suffix == SUFFIX:
            if path.exists() and not overwrite:
                raise ValueError(f"{path}: already exists; choose another file or overwrite")
            write_packed(*self.packed, path)
        else:
            save_page(path, *self.packed, overwrite)
        return path

    def figure(
        self,
        view: str | None = None,
        *,
        panel: int = 0,
        layer: int | str | None = None,
        head: int | None = None,
        query: int | None = None,
        columns: int = 1,
        dark: bool = False,
        caption: bool = True,
    ) -> Figure:
        """A head as a matplotlib figure: `view` is heads (lines between tokens), matrix or image.

        Without `layer`, `head` and `query` it shows what the page opens with; without `head` the
        mean of the layer's heads. `columns` is the width in columns of a paper, 1 or 2. Save it
        cropped, as PDF, SVG or PNG: `figure.savefig("it.pdf", bbox_inches="tight")`.
        """
        from attnlab.interpret._figure import draw_figure, select_head

        selected = select_head(self.capture, panel, layer, head, query)
        return draw_figure(selected, cast(Any, view), columns, dark, caption)

    def data(
        self,
        *,
        panel: int = 0,
        layer: int | str | None = None,
        head: int | None = None,
        query: int | None = None,
    ) -> list[dict[str, Any]]:
        """The numbers of `figure`: a row with query, key, their tokens and the weight for each
        pair. Write them with `json.dump` or `csv.DictWriter`."""
        from attnlab.interpret._figure import select_head

        return select_head(self.capture, panel, layer, head, query).rows()

    def widget(self) -> Any:
        """The notebook widget; needs the anywidget package."""
        from attnlab.interpret._notebook_widget import make_widget

        return make_widget(*self.packed, self.model)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """The widget, or without anywidget a frame; with a picture for where neither runs."""
        try:
            widget = self.widget()
        except ImportError:
            return {"text/html": self._frame(), "text/plain": repr(self), **self._picture()}
        bundle = widget._repr_mimebundle_(**options)
        data, *metadata = bundle if isinstance(bundle, tuple) else (bundle,)
        data = {**data, "text/plain": repr(self), **self._picture()}
        return (data, *metadata) if metadata else data

    def _picture(self) -> dict[str, str]:
        """A static picture of what the page opens with: exported notebooks show it."""
        from attnlab.interpret._figure import draw_figure, png_bytes, select_head

        selected = select_head(self.capture)
        if selected.panel.layers[selected.layer].weights is None:
            return {}
        return {"image/png": b64encode(png_bytes(draw_figure(selected, columns=2))).decode()}

    def _frame(self) -> str:
        """The page in a sandboxed frame that may run its own script and offer downloads."""
        from attnlab.report._text import escape

        page, style = escape(render(*self.packed)), f"width:100%;height:{FRAME_HEIGHT}px;border:0"
        permissions = "allow-scripts allow-downloads"
        return f'<iframe sandbox="{permissions}" srcdoc="{page}" style="{style}"></iframe>'

    def __repr__(self) -> str:
        panels = "; ".join(f"{panel.label}: {len(panel.layers)} layers" for panel in self.panels)
        return f"LookResult({self.capture.title!r}, {panels})"


def look(model: Any, text: str | None = None, **options: Any) -> LookResult:
    """See what a model attends to when it reads a text or an image.

    `model` is a folder (attnlab's or Hugging Face's), a capture file, or a model in memory, which
    needs its `tokenizer` (or image processor). `options` are the fields of `LookOptions`. Give one
    of `compare` (another model), `untrained`, `compare_text` or `without` (heads, as ["3.1"]) to
    compare two panels. `neurons`
    captures q, k and v too. `control` scores the heads of an untrained model for comparison.
    `memory` limits the GiB of weights, gradients and flow. `effects` measures how the prediction
    changes without each head, what each layer predicts, and what attention to each token
    contributes.

        look("runs/gpt2", "The dog ran", generate=3, neurons=True).save("look.html")

    >>> import attnlab
    >>> from attnlab.tokenizer import Characters
    >>> from attnlab.models import Decoder, StackConfig
    >>> text = "the cat sat"
    >>> tokenizer = Characters.train([text])
    >>> sizes = {"context": 16, "width": 24, "layers": 2, "heads": 3}
    >>> model = Decoder(StackConfig(vocabulary=tokenizer.vocabulary, **sizes))
    >>> view = attnlab.look(model, text, tokenizer=tokenizer)  # a notebook shows it
    >>> page = view.save("cat.html")  # a page that works offline
    """
    settings = LookOptions(text=text, **options)
    if isinstance(model, str | Path) and is_capture(Path(model)):
        if replace(settings, title=None) != LookOptions():
            raise ValueError(f"{model}: is a capture file, which takes no options besides title")
        return _open_capture(Path(model), settings.title)
    inspected = open_model(model, settings.tokenizer)
    panels = _CapturedPanels(settings)
    with evaluating(inspected.model):
        prepared = inspected.prepare(settings)
        if settings.untrained:
            panels.add_with_untrained(inspected, prepared)
        else:
            panels.add(inspected, prepared)
        if settings.effects:
            first = panels.captured[0]
            first.effects = measure_effects(inspected, prepared, first, settings, settings.progress)
        if settings.compare_text is not None:
            second = inspected.prepare(
                replace(settings, text=settings.compare_text, compare_text=None)
            )
            panels.add(inspected, second, control=False)
        if settings.without:
            panels.add_without(inspected, prepared, settings.without)
    versions = {"attnlab": attnlab.__version__, "torch": torch.__version__, **inspected.libraries()}
    if settings.compare is not None:
        other = open_model(settings.compare, settings.compare_tokenizer or settings.tokenizer)
        versions |= other.libraries()
        with evaluating(other.model):
            panels.add(other, other.prepare(settings))
    _number_equal_labels(panels.captured, "model" if settings.compare_text is None else "text")
    title = settings.title or _title(inspected, settings)
    capture = _with_opening(Capture(title, panels.captured, list(panels.notes), versions))
    _add_walkthrough(capture, inspected, prepared, settings)
    return LookResult(capture, model=SwitchableModel(inspected, prepared))


def _with_opening(capture: Capture) -> Capture:
    """The capture with its interesting heads, opened on the first of them."""
    with_heads = replace(capture, highlights=find_highlights(capture.panels[0]))
    return replace(with_heads, initial_view=opening_view(with_heads))


def _add_walkthrough(
    capture: Capture, inspected: InspectedModel, prepared: PreparedInput, options: LookOptions
) -> None:
    """Follow one token of the first panel: of `walkthrough`, which then opens the page."""
    panel = capture.panels[0]
    place = choose_place(panel, capture.highlights, options)
    try:
        with evaluating(inspected.model):
            panel.walkthrough = trace_token(inspected, prepared, panel, options, place)
    except Exception as error:  # a model that cannot be followed can still be looked at
        if options.walkthrough is not None:
            raise
        capture.notes.append(f"The walkthrough has weights only: {one_line(error, 200)}")
    if options.walkthrough is not None:
        capture.initial_view = InitialView("walkthrough", *place)


def _signature() -> Signature:
    """The signature of `look` with all fields of LookOptions, for help and completion."""
    types = get_type_hints(LookOptions)
    options = [
        option.replace(kind=Parameter.KEYWORD_ONLY, annotation=types[option.name])
        for option in signature(LookOptions).parameters.values()
        if option.name != "text"
    ]
    own = signature(look, eval_str=True)
    return own.replace(parameters=[*list(own.parameters.values())[:-1], *options])


look.__signature__ = _signature()  # type: ignore[attr-defined]


class _CapturedPanels:
    """Captures panels one by one, each within the memory that is left."""

    def __init__(self, options: LookOptions) -> None:
        self.options = options
        self.captured: list[CapturePanel] = []
        self.notes: dict[str, None] = {}

    def add(
        self, inspected: InspectedModel, prepared: PreparedInput, *, control: bool = True
    ) -> None:
        panel = self._add(inspected, prepared)
        if self.options.control and control:
            untrained = inspected.untrained(self.options.seed)
            panel.control = control_patterns(untrained, prepared, self.options)

    def add_with_untrained(self, inspected: InspectedModel, prepared: PreparedInput) -> None:
        """Add the model and its untrained copy, which runs once and also serves as the control."""
        trained = self._add(inspected, prepared)
        untrained = self._add(inspected.untrained(self.options.seed), prepared)
        if self.options.control:
            trained.control = untrained.patterns

    def add_without(
        self, inspected: InspectedModel, prepared: PreparedInput, heads: Sequence[str]
    ) -> None:
        """Add the same model without some heads, on the tokens that the whole model reads."""
        change = intervene(inspected.model)
        if self.options.layers is None:
            names = [layer.name for layer in self.captured[0].layers]
        else:
            names = [site.name for site in change.sites]
        numbered = dict(zip(layer_numbers(names), names, strict=True))
        for layer, head in map(parse_head, heads):
            if layer not in numbered:
                known = list_numbers(list(numbered)).removeprefix("a number from ")
                raise ValueError(f"no layer {layer}; give LAYER.HEAD with {known}")
            change = change.ablate(numbered[layer], head)
        with change:
            panel = self._add(inspected, prepared)
        panel.label = f"{panel.label} without {', '.join(heads)}"

    def _add(self, inspected: InspectedModel, prepared: PreparedInput) -> CapturePanel:
        used = sum(map(memory_used, self.captured))
        panel, notes = run_captured(inspected, prepared, self.options, used_bytes=used)
        self.captured.append(panel)
        self.notes.update(dict.fromkeys(notes))
        return panel


def parse_head(text: str) -> tuple[int, int]:
    """The layer and the head in a text such as 3.1."""
    layer, dot, head = text.partition(".")
    if not dot or not (layer.isdecimal() and head.isdecimal()):
        raise ValueError(f"no head {text!r}; give LAYER.HEAD, both numbers from 0, such as 3.1")
    return int(layer), int(head)


def _open_capture(path: Path, title: str | None) -> LookResult:
    capture = read(path)
    capture.title = title or capture.title
    if capture.initial_view is None and not capture.highlights:
        capture = _with_opening(capture)  # written by an earlier version
    return LookResult(capture, path)


def _number_equal_labels(panels: Sequence[CapturePanel], what: str) -> None:
    """Make the labels of two panels different."""
    if len({panel.label for panel in panels}) < len(panels):
        for panel, number in zip(panels, ("first", "second"), strict=True):
            panel.label = f"{panel.label}, {number} {what}"


def check_out(out: Path, overwrite: bool) -> None:
    """Raise if the output cannot be written; call it before anything is computed."""
    if not out.is_dir() and out.suffix not in (".html", ".htm", SUFFIX):
        raise ValueError(
            f"{out}: give the name of a page, NAME.html, or of a capture file, NAME{SUFFIX}"
        )
    check_output_file(out, overwrite)


def is_capture(path: Path) -> bool:
    """Whether it is a capture file of any version (`read` rejects unknown versions)."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(FORMAT)) == FORMAT.encode("ascii")


def _title(inspected: InspectedModel, look_input: LookInput) -> str:
    given = (look_input.image, look_input.sound, look_input.inputs)
    files = [each.name for each in given if isinstance(each, Path)]
    name = ": ".join([*files, *([look_input.text] if look_input.text else [])]) or "tensors"
    name = name if len(name) <= 80 else f"{name[:79]}…"
    return f"{inspected.label}: {name}"
