"""One self-contained HTML file, nothing from elsewhere: `page` has figures and needs no script,
`script_page` carries data and the built script that draws it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.charts import Cell, Chart, escape, number
from attnlab.files import check_new, write_text

ROWS = 200  # of a chart's values; more are thinned out
NARROW = 4  # columns
EDGE = 8  # around a picture

# --s0 to --s5 are told apart by colour-blind eyes too (after Okabe and Ito), and lines by dashes.
STYLE = """
:root { color-scheme: light dark; --page: #fcfcfa; --card: #f2f2ee; --ink: #1c1d20; --dim: #5a5d64;
  --rule: #dcdcd6; --s0: #0072b2; --s1: #c65102; --s2: #00805e; --s3: #a8437f; --s4: #946800;
  --s5: #80848c; }
@media (prefers-color-scheme: dark) { :root { --page: #15171a; --card: #1f2226; --ink: #e9e9e6;
  --dim: #a5a9b1; --rule: #363a40; --s0: #4fa8de; --s1: #ff9248; --s2: #2fcf9f; --s3: #e39ac3;
  --s4: #f0c040; --s5: #8b9099; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1rem 4rem; max-width: 70rem; background: var(--page);
  color: var(--ink); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: clamp(1.5rem, 5vw, 1.9rem); line-height: 1.2; margin: 0 0 1.5rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 0.6rem; }
p { margin: 0 0 0.8rem; max-width: 40rem; }
section { border-top: 1px solid var(--rule); padding: 1.8rem 0 1.4rem; }
section > * + * { margin-top: 1.2rem; }
.lead { font-size: 1.1rem; }
.lead p { max-width: 44rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 0.8rem;
  margin: 1.2rem 0 0; }
.tiles div { background: var(--card); border-radius: 8px; padding: 0.8rem 1rem; }
.tiles dt { color: var(--dim); font-size: 0.85rem; }
.tiles dd { margin: 0; font-size: 0.85rem; color: var(--dim); }
.tiles .value { color: var(--ink); font-size: 1.6rem; line-height: 1.3; font-weight: 600; }
figure { margin: 0; max-width: 36rem; }
figure + figure, figure + .scroll { margin-top: 2rem; }
figcaption { margin: 0 0 0.6rem; }
figcaption span, caption { color: var(--dim); font-size: 0.9rem; }
figcaption strong { display: block; line-height: 1.35; }
@media (min-width: 60rem) { .split { display: grid; grid-template-columns: 22rem minmax(0, 1fr);
  gap: 0 3rem; align-items: start; } .split > * { margin-top: 0; } }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-size: 13px; fill: var(--ink); }
svg .dim { fill: var(--dim); }
svg .small { font-size: 12px; }
@media (min-width: 36rem) { svg text { font-size: 11px; } svg .small { font-size: 10px; } }
.s0 { --c: var(--s0); } .s1 { --c: var(--s1); } .s2 { --c: var(--s2); } .s3 { --c: var(--s3); }
.s4 { --c: var(--s4); } .s5 { --c: var(--s5); }
.line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
.line.s1 { stroke-dasharray: 7 3; } .line.s2 { stroke-dasharray: 2 3; }
.line.s3 { stroke-dasharray: 9 3 2 3; } .line.s4 { stroke-dasharray: 12 4; }
.line.s5 { stroke-dasharray: 4 4; }
.line.thin { stroke-width: 1; }
.thick { stroke: var(--c); stroke-width: 9; }
.band { fill: var(--c); opacity: 0.18; }
.bar, .dot { fill: var(--c); }
.error { stroke: var(--c); stroke-width: 1.5; }
.cell { fill: var(--card); }
.grid { stroke: var(--rule); } .axis { stroke: var(--dim); }
.mark { stroke: var(--ink); stroke-dasharray: 4 3; }
.whisker { stroke: var(--ink); stroke-width: 1.5; }
.ring { fill: var(--page); stroke: var(--ink); stroke-width: 2; }
.halo { paint-order: stroke; stroke: var(--page); stroke-width: 4px; stroke-linejoin: round; }
.scroll { overflow-x: auto; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--s0); outline-offset: 2px; }
table { border-collapse: collapse; font-size: 0.92rem; line-height: 1.4; }
caption { text-align: left; padding: 0 0 0.5rem; }
caption strong { display: block; color: var(--ink); font-size: 1rem; }
th, td { padding: 0.4rem 1.2rem 0.4rem 0; text-align: left; vertical-align: top;
  overflow-wrap: normal; }
th:last-child, td:last-child { padding-right: 0; }
th { color: var(--dim); font-weight: 500; font-size: 0.85rem; vertical-align: bottom;
  line-height: 1.25;
  border-bottom: 1px solid var(--dim); }
td { border-bottom: 1px solid var(--rule); max-width: 24rem; white-space: nowrap; }
td.wide { min-width: 11rem; white-space: normal; overflow-wrap: anywhere; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(7.5rem, 1fr));
  gap: 1.2rem 1rem; margin: 1.2rem 0 0; padding: 0; list-style: none; }
.pictures img { display: block; width: 6rem; height: 6rem; image-rendering: pixelated;
  border: 1px solid var(--rule); border-radius: 4px; margin-bottom: 0.35rem; }
.pictures strong, .pictures span { display: block; font-size: 0.88rem; line-height: 1.35; }
.pictures strong { font-weight: 600; }
.pictures span { color: var(--dim); }
details { margin-top: 0.6rem; font-size: 0.9rem; }
details .scroll { max-height: 22rem; overflow-y: auto; margin-top: 0.4rem; }
summary { color: var(--dim); cursor: pointer; width: fit-content; }
@media print { :root { --page: #fff; --card: #f4f4f4; --ink: #000; --dim: #444; --rule: #ccc; }
  body { max-width: none; padding: 0; font-size: 10pt; } details { display: none; }
  figure, tr, .tiles div, .pictures li { break-inside: avoid; } h2 { break-after: avoid; }
  .scroll { overflow: visible; } * { print-color-adjust: exact; } }
"""


@dataclass(frozen=True)
class Tile:
    """One key figure."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Figure:
    chart: Chart
    caption: str = ""


@dataclass(frozen=True)
class Picture:
    """A small image with a line and a note below it."""

    png: bytes
    text: str
    note: str = ""


@dataclass(frozen=True)
class Table:
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    caption: str = ""


@dataclass(frozen=True)
class Section:
    """On a wide screen prose stands beside figures and narrow tables; tiles and the rest below."""

    heading: str
    prose: Sequence[str] = ()
    tiles: Sequence[Tile] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    html: str = ""
    """Ready to stand below the rest: whoever made it has escaped every text in it."""


def page(
    title: str,
    sections: Iterable[Section],
    *,
    style: str = "",
    script: str = "",
    framed: Sequence[str] = (),
) -> str:
    """The whole file; the first section is the summary and set larger. All texts are plain text.

    `style` joins the page's own, `script` is the only one that may run here. What the pages in
    `framed` may do by their own policy this page must allow too: a frame inherits it.
    """
    sections = list(sections)
    styles = [_hash(STYLE + style), *_allowed(framed, "style-src")]
    scripts = [*([_hash(script)] if script else []), *_allowed(framed, "script-src")]
    images = dict.fromkeys(_allowed(framed, "img-src"))
    images |= {"data:": None} if any(each.pictures for each in sections) else {}
    policy = _policy(
        f"style-src {' '.join(styles)}",
        *([f"script-src {' '.join(scripts)}"] if scripts else []),
        *([f"img-src {' '.join(images)}"] if images else []),
    )
    body = "\n".join(_section(each, i == 0) for i, each in enumerate(sections))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(title)}</title>
<style>{STYLE}{style}</style>
</head>
<body>
<h1>{escape(title)}</h1>
<main>
{body}
</main>
{f"<script>{script}</script>" if script else ""}</body>
</html>
"""


def script_page(
    title: str,
    script: str,
    style: str,
    data: dict[str, Any] | None = None,
    *,
    data_id: str = "attnlab-data",
    blocks: Sequence[bytes] = (),
) -> str:
    """A page that `script` draws in #attnlab from `data`, JSON in an element of its own, and from
    `blocks` of bytes. Only this script and this style may run: their hashes are the policy."""
    script = script.replace("</script", "<\\/script")
    policy = _policy(
        f"script-src {_hash(script)}", f"style-src {_hash(style)}", "img-src data: blob:"
    )
    title = escape(title)
    carried = "".join(
        f'<script type="text/plain" data-block="{number}">'
        f"{base64.b64encode(block).decode('ascii')}</script>\n"
        for number, block in enumerate(blocks)
    )
    if data is not None:
        element = f'<script type="application/json" id="{data_id}">{_inline(data)}</script>\n'
        carried = element + carried
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<div id="attnlab"><noscript>{title}: this page draws with JavaScript.</noscript></div>\n'
        f"{carried}<script>{script}</script>\n</body>\n</html>\n"
    )


def _policy(*allowed: str) -> str:
    """Nothing but what is allowed here."""
    return "; ".join(["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"])


def _allowed(framed: Sequence[str], what: str) -> list[str]:
    """What the policies of these pages allow of a kind, each once."""
    found = [re.search(rf'content="[^"]*{what} ([^;"]*)', page) for page in framed]
    return list(dict.fromkeys(part for each in found if each for part in each[1].split()))


def _inline(data: dict[str, Any]) -> str:
    """JSON that cannot end the element it stands in; half surrogates stay escaped."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"


def picture(chart: Chart) -> str:
    """The drawing alone, as a file of its own: an SVG with the page's style.

    Its edge is part of the drawing: what a picture shows beyond its own box is cut off.
    """
    start, rest = chart.svg.split(">", 1)
    start = re.sub(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', _with_edge, start)
    ground = "svg { background: var(--page); font-family: system-ui, sans-serif; }"
    return f"{start}><style>{STYLE}{ground}</style>{rest}"


def _with_edge(box: re.Match[str]) -> str:
    width, height = (float(size) + 2 * EDGE for size in box.groups())
    return f'viewBox="-{EDGE} -{EDGE} {width:g} {height:g}"'


def check_page(path: Path, overwrite: bool) -> None:
    """Before anything is computed for it."""
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; name a file, as {path.name or 'page'}.html")
    if path.suffix not in (".html", ".htm"):
        raise ValueError(f"{path}: a page is written as HTML; name it NAME.html")
    check_new(path, overwrite)


def write_page(path: Path, text: str, overwrite: bool = False) -> None:
    if path.exists() and not overwrite:
        raise ValueError(f"{path}: is there already; choose another file or overwrite")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
    write_text(path, text)


def _section(section: Section, first: bool) -> str:
    heading = f"<h2>{escape(section.heading)}</h2>" if section.heading else ""
    prose = "".join(f"<p>{escape(each)}</p>" for each in section.prose)
    lead = ' class="lead"' if first else ""
    text = f"<div{lead}>{heading}{prose}</div>"
    narrow = [each for each in section.tables if len(each.header) <= NARROW]
    wide = [each for each in section.tables if len(each.header) > NARROW]
    if section.figures or narrow:
        beside = [*map(_figure, section.figures), *map(_table, narrow)]
        text = f'<div class="split">{text}<div>{"".join(beside)}</div></div>'
    tiles = "".join(map(_tile, section.tiles))
    tiles = f'<dl class="tiles">{tiles}</dl>' if tiles else ""
    pictures = "".join(map(_picture, section.pictures))
    pictures = f'<ul class="pictures">{pictures}</ul>' if pictures else ""
    return f"<section>{text}{tiles}{pictures}{''.join(map(_table, wide))}{section.html}</section>"


def _picture(picture: Picture) -> str:
    content = base64.b64encode(picture.png).decode("ascii")
    note = f"<span>{escape(picture.note)}</span>" if picture.note else ""
    return (
        f'<li><img src="data:image/png;base64,{content}" alt="">'
        f"<strong>{escape(picture.text)}</strong>{note}</li>"
    )


def _tile(tile: Tile) -> str:
    note = f"<dd>{escape(tile.note)}</dd>" if tile.note else ""
    value = f'<dd class="value">{escape(tile.value)}</dd>'
    return f"<div><dt>{escape(tile.name)}</dt>{value}{note}</div>"


def _figure(figure: Figure) -> str:
    chart = figure.chart
    every = -(-len(chart.rows) // ROWS) or 1
    note = f"one of every {every} values" if every > 1 else ""
    table = _table(Table(chart.header, chart.rows[::every], caption=note))
    caption = f"<strong>{escape(chart.title)}</strong><span>{escape(figure.caption)}</span>"
    values = f"<details><summary>Values</summary>{table}</details>"
    return f"<figure><figcaption>{caption}</figcaption>{chart.svg}{values}</figure>"


def _table(table: Table) -> str:
    """Columns of numbers are set to the right; a narrow screen scrolls, by keyboard too."""
    if any(len(row) != len(table.header) for row in table.rows):
        raise ValueError(f"{table.title}: rows do not have the header's {len(table.header)} cells")
    rows = [[each if isinstance(each, str) else number(each) for each in row] for row in table.rows]
    kinds = [_kind(column) for column in zip(*rows, strict=True)] or [""] * len(table.header)
    head = "".join(
        f'<th scope="col"{kind if "number" in kind else ""}>{escape(name)}</th>'
        for name, kind in zip(table.header, kinds, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{k}>{escape(c)}</td>" for c, k in zip(row, kinds, strict=True))
        + "</tr>"
        for row in rows
    )
    title = f"<strong>{escape(table.title)}</strong>" if table.title else ""
    caption = f"<caption>{title}{escape(table.caption)}</caption>" if title or table.caption else ""
    name = escape(table.title or "values")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{name}"><table>{caption}'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _kind(column: Sequence[str]) -> str:
    one = r"[−-]?[\d.,]+(e−?\d+)?%?"
    numeric = rf"[–∞]|−∞|{one}( \({one} to {one}\))?"
    if all(re.fullmatch(numeric, each) for each in column):
        return ' class="number"'
    return ' class="wide"' if max(map(len, column)) > 24 else ""
