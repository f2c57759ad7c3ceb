"""The page in a real browser, offline: every view, by keyboard, at any width, hostile tokens."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.interpret._look import look
from attnlab.models import ViT, ViTConfig
from tests.support.browser import Watched
from tests.support.hostile_capture import HOSTILE, VIEWS, hostile
from tests.support.page_widths import check_width, every_width
from tests.support.pronoun_captures import pronoun_result
from tests.support.saved_figures import png_size, save_figure
from tests.support.text_models import TOKENS, both_stacks, decoder, encoder, write_image


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind of model."""
    folder = tmp_path_factory.mktemp("pages")
    torch.manual_seed(0)
    vision = ViT(ViTConfig(classes=5, image_size=12, patch=4, width=24, layers=2, heads=3))
    results = {
        "decoder": look(
            decoder(),
            "the dog ran",
            tokenizer=TOKENS,
            generate=5,
            neurons=True,
            untrained=True,
            effects=True,
        ),
        "encoder": look(encoder(), "I am happy", pair="not the dog", tokenizer=TOKENS),
        "both": look(both_stacks(), "the dog ran", tokenizer=TOKENS, pair="I am"),
        "vision": look(vision, image=write_image(folder / "a.png")),
        "signed": look(decoder("fourier"), "the dog", tokenizer=TOKENS, neurons=True),
        "hostile": hostile(),
        "pronoun": pronoun_result(),
    }
    return {name: result.save(folder / f"{name}.html") for name, result in results.items()}


def selected_view(page: Any) -> str:
    return page.locator("[role=tab][aria-selected=true]").get_attribute("id").split("-tab-")[1]


@pytest.mark.parametrize("kind", ["decoder", "encoder", "both", "vision", "signed"])
def test_every_view_of_every_kind_of_model(
    kind: str, pages: dict[str, Path], watched: Watched
) -> None:
    page = watched.open(pages[kind])
    for key, view in VIEWS.items():
        watched.press(key)
        assert selected_view(page) == view
        drawn = page.locator("canvas").count() > 0
        explained = page.locator("p.message").count() > 0
        assert drawn != explained, view  # a drawing, or the reason why there is none
        if drawn:
            assert len(page.locator(".area").get_attribute("aria-label")) > 20
            assert color_count(page) > 1, view
            watched.press("t")
            assert page.locator("table caption").count() == 1
            assert page.locator("tbody tr").count() > 0, view
            watched.press("t")
        else:
            assert len(page.locator("p.message").inner_text()) > 20
    watched.check()


def color_count(page: Any) -> int:
    """The number of colors on the canvas."""
    return page.evaluate(
        """() => {
          const canvas = document.querySelector('canvas');
          const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
          const seen = new Set();
          for (let i = 0; i < data.length; i += 4) seen.add(data.slice(i, i + 4).join());
          return seen.size;
        }"""
    )


EXPECTED = {  # the views that each kind of model can draw
    "decoder": {
        "heads",
        "matrix",
        "model",
        "effect",
        "neurons",
        "compare",
        "generation",
        "flow",
        "mask",
    },
    "encoder": {"heads", "matrix", "model", "flow", "mask"},
    "both": {"heads", "matrix", "model", "generation", "cross", "flow", "mask"},
    "vision": {"heads", "matrix", "model", "flow", "image", "mask"},
}


@pytest.mark.parametrize("kind", list(EXPECTED))
def test_available_views(kind: str, pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages[kind])
    views = set()
    for key, view in VIEWS.items():
        watched.press(key)
        if page.locator("canvas").count():
            views.add(view)
    assert views == EXPECTED[kind]


def test_hostile_tokens_are_text(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["hostile"])
    for key in VIEWS:
        watched.press(key)
        if page.locator("canvas").count():
            page.locator(".area").focus()
            for _ in range(6):
                page.keyboard.press("ArrowDown")  # shows tips
            page.keyboard.press("Escape")
            watched.press("t", "t")
    assert page.evaluate("() => window.harmed") is None
    assert page.locator("img").count() == 0
    assert page.locator("script:not([type])").count() == 1
    watched.press("x", "t")
    text = page.locator("table").inner_text()
    for token in HOSTILE:
        visible = {"\x00\x01\x1b[31m\x7f": "␀␁␛[31m␡", "\n\t ": "⏎⇥·"}.get(token, token)
        if visible.isprintable() and len(visible) < 100:  # vitest checks the names of others
            assert visible in text, visible
    assert "x" * 100 in text
    watched.check()


def test_effect_view(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["decoder"], "#view=effect")
    finding = page.locator("p.finding")
    assert re.search(
        r"Without layer \d, head \d.*the probability of .* (falls|rises)", finding.inner_text()
    )
    assert page.locator(".switches").count() == 0  # nobody to ask
    before = finding.inner_text()
    page.locator(".area").focus()
    page.keyboard.press("ArrowDown")  # the first token
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('queries=0')")
    page.wait_for_function(
        "(old) => document.querySelector('p.finding').innerText !== old", arg=before
    )
    watched.press("t")
    table = page.locator("table").inner_text()
    for part in ("head", "logit lens", "attention to a token"):
        assert (part in table) == (part != "attention to a token"), part  # of the last token only
    watched.press("t")
    page.evaluate("() => { location.hash = '#view=effect&side=1' }")
    page.wait_for_selector("p.message")
    assert "first side only" in page.locator("p.message").inner_text()
    page = watched.open(pages["vision"], "#view=effect")
    assert "--effects" in page.locator("p.message").inner_text()
    watched.check()


def test_keyboard_only(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["decoder"], "#view=heads")
    page.keyboard.press("Tab")
    for _ in range(60):  # the drawing can be reached
        if page.evaluate("() => document.activeElement.getAttribute('role')") == "application":
            break
        page.keyboard.press("Tab")
    else:
        pytest.fail("the drawing cannot be reached by Tab")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".area[aria-activedescendant]")
    active = page.locator(".area").get_attribute("aria-activedescendant")
    assert active
    assert page.locator(f"#{active}").count() == 1
    announced = page.locator("[aria-live]").all_inner_texts()
    assert any(text.strip() for text in announced)
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('queries')")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.wait_for_function("() => !location.hash.includes('queries')")
    page.keyboard.press("]")
    page.wait_for_function("() => location.hash.includes('layer=1')")
    page.keyboard.press("h")
    page.wait_for_function("() => location.hash.includes('heads=0')")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    page.keyboard.press("/")
    page.keyboard.type("dog")
    assert page.locator("input.search").input_value() == "dog"
    watched.check()


def test_address_keeps_the_selection(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["decoder"], "#view=matrix&layer=1&heads=2&scale=sqrt")
    assert selected_view(page) == "matrix"
    assert "Layer 1" in page.locator(".area").get_attribute("aria-label")
    watched.press("m")
    page.wait_for_function("() => location.hash.includes('view=model')")
    page.evaluate("() => { location.hash = '#view=mask' }")
    page.wait_for_function("() => document.querySelector('#look-tab-mask[aria-selected=true]')")
    nonsense = "#view=__proto__&layer=1e9&heads=-1,x&queries=99999&zoom=a,b&scale=%ff&side=7"
    watched.open(pages["decoder"], nonsense)
    watched.check()


def test_downloads_match_the_view(pages: dict[str, Path], watched: Watched, tmp_path: Path) -> None:
    page = watched.open(pages["decoder"], "#view=matrix&layer=1&heads=2")
    files = {}
    for kind in ("SVG", "PNG", "CSV", "JSON"):
        path = save_figure(page, tmp_path, kind)
        files[kind] = path.read_bytes()
        assert path.suffix == f".{kind.lower()}"
    root = ElementTree.fromstring(files["SVG"])
    assert root.tag.endswith("svg")
    assert not re.search(rb"<script|https?://(?!www\.w3\.org)", files["SVG"])
    assert files["PNG"].startswith(b"\x89PNG")
    rows = list(csv.reader(io.StringIO(files["CSV"].decode("utf-8-sig"))))
    result = look(decoder(), "the dog ran", tokenizer=TOKENS, generate=5, control=False)
    weights = result.panels[0].layers[1].weights
    assert weights is not None
    expected = weights[2]
    header, *cells = rows
    records = json.loads(files["JSON"])["rows"]
    assert [str(value) for value in records[0]] == header
    assert len(records) == len(cells)
    queries, keys, values = (header.index(name) for name in ("query", "key", "weight"))
    downloaded = {(int(row[queries]), int(row[keys])): float(row[values]) for row in cells}
    assert len(downloaded) == len(cells) == expected.numel()
    for (query, key), value in downloaded.items():  # 8 bits: within 0.4% of the row, as stated
        assert value == pytest.approx(float(expected[query, key]), abs=0.004), (query, key)
    watched.check()


def test_every_view_is_saved_for_a_column_of_a_paper(
    pages: dict[str, Path], watched: Watched, tmp_path: Path
) -> None:
    """Hostile tokens too: cropped, in light and dark, with and without a caption."""
    page = watched.open(pages["hostile"], "#view=heads")
    for key, view in VIEWS.items():
        watched.press(key)
        if not page.locator("canvas").count():
            continue
        widths = {}
        for columns, millimeters in (("1", 85), ("2", 178)):
            widths[columns] = png_size(save_figure(page, tmp_path, "PNG", width=columns))[0]
            assert 0 < widths[columns] <= millimeters / 25.4 * 300 * 1.03, view
        light, dark, plain = (
            save_figure(page, tmp_path, "SVG", caption=caption, colors=colors).read_bytes()
            for colors, caption in (("light", True), ("dark", True), ("dark", False))
        )
        assert b"#fcfcfa" in light, view
        assert b"#15171a" in dark, view
        heights = [float(ElementTree.fromstring(each).attrib["height"]) for each in (dark, plain)]
        assert heights[1] < heights[0], view
        assert not re.search(
            rb"<script|<foreignObject|<[^<>]*\son\w+=|https?://(?!www\.w3\.org)", light
        )
    assert page.evaluate("() => window.harmed") is None
    watched.check()


def test_the_page_opens_on_the_most_interesting_head(
    pages: dict[str, Path], watched: Watched
) -> None:
    """One head, one token, and a sentence, also in a link to a view; other links hold all."""
    page = watched.open(pages["pronoun"])
    chips = page.get_by_role("group", name="Interesting heads").get_by_role("button")
    assert chips.first.get_attribute("aria-pressed") == "true"
    finding = page.locator(".finding")
    assert finding.inner_text() == "Layer 1, head 1: “it” attends mostly to “animal” (64%)."
    before = finding.inner_text()
    chips.nth(1).click()
    page.wait_for_function(
        "old => document.querySelector('.finding').innerText !== old", arg=before
    )
    assert chips.nth(1).get_attribute("aria-pressed") == "true"
    page.wait_for_function("() => location.hash.includes('heads=')")
    page.goto("about:blank")
    watched.open(pages["pronoun"], "#view=matrix")
    assert finding.inner_text() == "Layer 1, head 1: “it” attends mostly to “animal” (64%)."
    page.goto("about:blank")
    watched.open(pages["pronoun"], "#view=heads&layer=0")
    assert "attention from" in finding.inner_text()
    watched.check()


def test_views_that_do_not_apply_are_not_shown(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["encoder"])
    names = {each.split("-tab-")[1] for each in page.locator("[role=tab]").evaluate_all(
        "(tabs) => tabs.map((tab) => tab.id)")}  # fmt: skip
    assert names == EXPECTED["encoder"] | {"walkthrough"}
    more = page.get_by_role("button", name="More options")
    assert not page.get_by_label("Scale").is_visible()
    more.click()
    page.get_by_label("Scale").wait_for(state="visible")
    page.goto("about:blank")
    watched.open(pages["encoder"], "#scale=sqrt")  # an option in use is shown
    assert page.get_by_label("Scale").is_visible()
    watched.check()


def test_flow_opens_on_the_last_layer(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["pronoun"], "#view=heads&layer=0&heads=1")
    layer = page.get_by_role("combobox", name="Layer")
    watched.press("f")
    assert layer.input_value() == "1"
    watched.press("e")
    assert layer.input_value() == "0"
    page.wait_for_function("() => location.hash === '#heads=1'")
    watched.check()


def test_two_panels_open_on_their_difference(watched: Watched, tmp_path: Path) -> None:
    page = watched.open(pronoun_result(second=True).save(tmp_path / "two.html"))
    assert selected_view(page) == "compare"
    finding = page.locator(".finding").inner_text()
    assert re.match(
        r"Layer 1, head 1 of model and other: “\w+” attends \d+ points (more|less) to ", finding
    )
    assert finding.endswith("It changed most of the 6 heads.")
    watched.check()


def test_formulas_do_not_run_in_a_spreadsheet(
    pages: dict[str, Path], watched: Watched, tmp_path: Path
) -> None:
    page = watched.open(pages["hostile"], "#view=matrix")
    path = save_figure(page, tmp_path, "CSV")
    cells = [cell for row in csv.reader(io.StringIO(path.read_text("utf-8-sig"))) for cell in row]
    assert any("cmd|" in cell for cell in cells)
    assert not any(cell.startswith("=") for cell in cells)


@every_width
def test_every_width_in_light_and_dark(
    width: int, scheme: str, pages: dict[str, Path], browser: Any
) -> None:
    def views(watched: Watched) -> Iterator[str]:
        watched.open(pages["decoder"])
        for key, name in VIEWS.items():
            watched.press(key)
            yield name

    check_width(browser, width, scheme, views)


def test_long_inputs(browser: Any, tmp_path: Path) -> None:
    """512 tokens: every view opens; the footer says how many lines are left out."""
    model = decoder(context=512)
    path = look(model, "the dog ran in the park " * 21, tokenizer=TOKENS).save(tmp_path / "a.html")
    watched = Watched(browser)
    page = watched.open(path)
    assert "left out" in page.locator("footer").inner_text()
    for key in "xmfk":
        watched.press(key)
        assert page.locator("canvas").count() > 0
    watched.check()
    watched.close()


BROKEN = {
    "no header": lambda page: page.replace('id="attnlab-header"', 'id="other"'),
    "bad JSON": lambda page: page.replace('{"format"', '{format"', 1),
    "another format": lambda page: page.replace('"attnlab-capture"', '"something-else"', 1),
    "a lost block": lambda page: page.replace('data-block="0">', 'data-block="0">AAAA', 1),
    "a bomb": lambda page: re.sub(r'"size":\d+', '"size":99999999999', page, count=1),
    "wrong shapes": lambda page: re.sub(r'"shape":\[\d+', '"shape":[77777', page, count=1),
}


@pytest.mark.parametrize(
    ("difference", "excess", "kind", "text"),
    [
        (0.0312, 0.4, "good", "✓ checked, differs by 0.031: rounding"),
        (0.0052, 1.5, "warn", "⚠ differs by 0.005, more than rounding"),
        (0.0052, None, "warn", "⚠ differs by 0.005, more than rounding"),
        (None, None, "", "not checked"),
    ],
)
def test_badge_warns_of_differences_beyond_rounding(
    difference: float | None, excess: float | None, kind: str, text: str, watched: Watched,
    tmp_path: Path,
) -> None:  # fmt: skip
    result = look(decoder(), "the dog", tokenizer=TOKENS)
    for layer in result.panels[0].layers:
        layer.difference, layer.excess = difference, excess
    page = watched.open(result.save(tmp_path / "a.html"))
    badge = page.locator(".badge").filter(has_text=re.compile("check|differs"))
    assert badge.inner_text() == text
    assert badge.get_attribute("class").split()[1:] == ([kind] if kind else [])
    watched.check()


@pytest.mark.parametrize("name", list(BROKEN))
def test_broken_page_shows_an_error(
    name: str, pages: dict[str, Path], watched: Watched, tmp_path: Path
) -> None:
    text = BROKEN[name](pages["encoder"].read_text())
    assert text != pages["encoder"].read_text()
    path = tmp_path / "a.html"
    path.write_text(text)
    watched.page.goto(path.as_uri())
    watched.page.wait_for_function(
        "() => /attnlab|capture|block|header|file|array/i.test(document.body.innerText)"
    )
    watched.page.wait_for_selector("[role=alert], .message, .failure")
    assert json.dumps(watched.complaints) == "[]"
