"""A table of counts as coloured squares: what was there by row, what was said by column."""

from __future__ import annotations

from collections.abc import Sequence

from attnlab.charts.drawing import LINE, WIDTH, Chart, _svg, _text
from attnlab.charts.scales import escape, fitted, width_of

WRITTEN = 12  # classes: of more, a square has no room for its count
LONGEST = 92.0  # of a name
STRONGEST = 0.6  # of a square's colour, so that its count stays readable


def matrix_chart(
    names: Sequence[str],
    counts: Sequence[Sequence[int]],
    *,
    title: str,
    rows: str,
    columns: str,
) -> Chart:
    """Right answers stand on the diagonal in one colour, mistakes beside it in another.

    A square is as strong as its share of its row, by the root: a few mistakes are seen too.
    """
    size = len(names)
    if len(counts) != size or any(len(row) != size for row in counts):
        raise ValueError(f"{title}: {size} names for a table of {len(counts)} rows")
    shown = [fitted(name, LONGEST) for name in names]
    longest = max(map(width_of, shown), default=0.0)
    left, top = longest + 10, 0.85 * longest + LINE + 16  # slanted names need room
    edge = (WIDTH - left - 0.5 * longest) / max(1, size)
    parts = [_text(2, LINE - 4, f"down: {rows}; across: {columns}", kind="dim small")]
    for i, name in enumerate(shown):
        x, y = left + (i + 0.5) * edge, top + (i + 0.5) * edge
        parts.append(_text(left - 6, y + 4, name, "end", "small"))
        if longest < 0.8 * edge:  # short names need no slant
            parts.append(_text(x, top - 6, name, "middle", "small"))
            continue
        parts.append(
            f'<text x="0.0" y="0.0" text-anchor="start" class="small" '
            f'transform="translate({x:.1f} {top - 6:.1f}) rotate(-58)">'
            f"{escape(name)}</text>"
        )
    for i, row in enumerate(counts):
        total = sum(row)
        for j, count in enumerate(row):
            place = left + j * edge, top + i * edge
            share = count / total if total else 0.0
            tip = f"{names[i]}, said {names[j]}: {count:,} of {total:,}"
            parts += _square(place, edge, share, i == j, tip)
            if count and size <= WRITTEN:
                at = place[0] + edge / 2, place[1] + edge / 2 + 4
                parts.append(_text(*at, str(count), "middle", "small"))
    text = f"A square for each pair of {rows} and {columns}; {size} classes."
    listed = [
        (names[i], names[j], count)
        for i, row in enumerate(counts)
        for j, count in enumerate(row)
        if count
    ]
    svg = _svg(top + size * edge + 4, title, text, parts)
    return Chart(title, svg, (rows, columns, "images"), listed)


def _square(
    place: tuple[float, float], edge: float, share: float, right: bool, tip: str
) -> list[str]:
    x, y = place
    area = f'x="{x + 0.5:.1f}" y="{y + 0.5:.1f}" width="{edge - 1:.1f}" height="{edge - 1:.1f}"'
    kind = "s0" if right else "s1"
    strength = STRONGEST * share**0.5
    return [
        f'<rect class="cell" {area}/>',
        f'<rect class="bar {kind}" {area} fill-opacity="{strength:.3f}">'
        f"<title>{escape(tip)}</title></rect>",
    ]
