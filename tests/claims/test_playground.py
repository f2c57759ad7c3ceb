"""The playground in a browser (mouse, touch, keyboard), and its file of test cases."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from attnlab.claims import CLAIMS
from attnlab.claims._claim import TOPICS
from attnlab.claims._ledger_page import save_playground
from tests.support.browser import Watched
from tests.support.command_line import run
from tests.support.page_widths import check_width, every_width
from tests.support.saved_figures import png_size, save_figure

WEB = Path(__file__).parents[2] / "web"


@pytest.fixture(scope="module")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("playground") / "a.html"
    save_playground(path)
    return path


@pytest.fixture
def watched(browser: Any) -> Iterator[Watched]:
    watched_browser = Watched(browser, viewport={"width": 1280, "height": 1000})
    yield watched_browser
    watched_browser.close()


def assert_equal(actual: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for name, value in expected.items():
            assert_equal(actual[name], value)
    elif isinstance(expected, list):
        assert len(actual) == len(expected)
        for left, right in zip(actual, expected, strict=True):
            assert_equal(left, right)
    elif isinstance(expected, float):
        assert actual == pytest.approx(expected, rel=1e-12, abs=1e-14)
    else:
        assert actual == expected


def test_math_test_cases_are_up_to_date() -> None:
    """Vitest compares the page's mathematics with this file. This test recomputes it."""
    spec = importlib.util.spec_from_file_location("math_test_cases", WEB / "math_test_cases.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stored = json.loads(module.PATH.read_text(encoding="utf-8"))
    assert_equal(stored, json.loads(json.dumps(module.instances())))
    stored["attention"][0]["weights"][0] += 1e-6
    with pytest.raises(AssertionError):
        assert_equal(stored, module.instances())


def test_playground_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "playground.html"
    code, output, _ = run(f"claims playground --out {path}", capsys)
    assert (code, output) == (0, f"{path}\n")
    assert "Content-Security-Policy" in path.read_text()
    code, _, error = run(f"claims playground --out {path}", capsys)
    assert code == 2
    assert "--overwrite" in error
    assert run(f"claims playground --out {path} --overwrite", capsys)[0] == 0


def weights(page: Any) -> list[float]:
    return [float(each) for each in page.locator(".weights .cell .text").all_inner_texts()]


def test_points_move_by_keyboard_and_mouse(playground: Path, watched: Watched) -> None:
    page = watched.open(playground)
    assert weights(page)[0] > 0.99
    page.locator("[data-point=query-0]").focus()
    for _ in range(8):
        page.keyboard.press("Shift+ArrowLeft")
    assert "−0.20, 0.00" in page.locator("[data-point=query-0]").get_attribute("aria-label")
    assert weights(page)[0] < 0.1
    page.get_by_role("button", name="Reset").click()
    area = page.locator(".board svg").first.bounding_box()
    at = page.locator("[data-point=query-0] .ring").bounding_box()
    page.mouse.move(at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] * 0.3, area["y"] + area["height"] * 0.35, steps=4)
    page.mouse.up()
    assert "−1.00, 0.75" in page.locator("[data-point=query-0]").get_attribute("aria-label")
    assert weights(page)[2] > 0.9
    watched.check()


def test_points_move_by_touch(playground: Path, browser: Any) -> None:
    watched = Watched(browser, viewport={"width": 400, "height": 900}, has_touch=True)
    page = watched.open(playground)
    page.evaluate("""() => {
        const svg = document.querySelector('.board svg');
        const box = svg.getBoundingClientRect();
        const tip = document.querySelector('[data-point=query-0] .ring');
        const at = tip.getBoundingClientRect();
        const fire = (target, type, x, y) => target.dispatchEvent(new PointerEvent(type, {
            pointerId: 1, pointerType: 'touch', bubbles: true, clientX: x, clientY: y }));
        svg.setPointerCapture = () => {};
        fire(tip, 'pointerdown', at.x + at.width / 2, at.y + at.height / 2);
        fire(svg, 'pointermove', box.x + box.width * 0.3, box.y + box.height * 0.35);
        fire(svg, 'pointerup', 0, 0);
    }""")
    assert "−1.00, 0.75" in page.locator("[data-point=query-0]").get_attribute("aria-label")
    watched.check()
    watched.close()


def test_presets_open_and_the_address_restores_them(playground: Path, watched: Watched) -> None:
    page = watched.open(playground)
    ids = page.locator("#preset option").evaluate_all("all => all.map(each => each.value)")
    assert len(ids) > 20
    for name in ids:
        page.locator("#preset").select_option(name)
        assert f"attnlab claims show {name}" in page.locator(".try").inner_text()
        claim = CLAIMS[name]
        assert list(TOPICS).index(claim.topic) < 3
        caption = page.locator(".claim-statement").inner_text()
        assert caption.startswith(f"Claim {name}: ")
        words = [word for word in re.findall(r"[a-z]{5,}", claim.statement) if word != "alpha"]
        assert all(word in caption for word in words), caption
        assert "NaN" not in page.locator(".attnlab").inner_html()
    page.locator("#preset").select_option("noise-radial")
    page.get_by_role("slider", name="inverse temperature beta").press("ArrowLeft")
    page.get_by_role("button", name="New random sample").click()
    page.get_by_label("k2", exact=True).check()
    page.get_by_role("button", name="more heads").click()
    # the address follows the last change after a pause: wait until the page is complete
    page.wait_for_function("() => /queries=.*seed=2/.test(location.hash)")
    before = page.locator(".results").inner_text()
    cloud = page.locator(".cloud").first.get_attribute("d")
    address = page.evaluate("() => location.hash")
    page.goto("about:blank")
    watched.open(playground, address)
    assert page.locator(".results").inner_text() == before
    assert page.locator(".cloud").first.get_attribute("d") == cloud
    page.goto("about:blank")  # otherwise only the address changes, and the page follows later
    watched.open(playground, "#preset=__proto__&keys=a,b&beta=x&allowed=%ff&panel=2")
    assert weights(page)[0] > 0.99
    watched.check()


def test_controls(playground: Path, watched: Watched) -> None:
    page = watched.open(playground, "#preset=mask-minus-infinity")
    sums = page.locator(".weights tbody tr").first.locator("td.row-sum").first
    assert sums.inner_text() == "1.00"
    page.get_by_role("button", name="after it").click()
    assert float(sums.inner_text()) < 0.7
    page.get_by_label("key 1 is allowed").check()
    assert sums.inner_text() == "1.00"
    page.get_by_role("button", name="more keys").click()
    assert len(weights(page)) == 6
    page.get_by_role("button", name="self-attention").click()
    assert len(weights(page)) == 36
    page.get_by_label("causal mask").check()
    assert weights(page)[1:6] == [0] * 5  # the first query sees only itself
    box = page.get_by_label("Q, row 1, column 1")
    box.fill("-2.5")
    page.wait_for_function("() => location.hash.includes('query=-2.5;0;0;1')")
    page.locator("summary").click()
    page.get_by_label("token 1, x").fill("0.5")
    assert "0.50" in page.locator("[data-point=key-0]").get_attribute("aria-label")
    watched.check()


def test_queries_are_rows(playground: Path, watched: Watched) -> None:
    """As in every matrix of weights: sums of rows are 1 and stand beside them."""
    page = watched.open(playground, "#preset=rows-sum-to-one")
    table = page.get_by_role("table", name="Weights")
    assert table.locator("tbody th button").all_inner_texts() == ["x1", "x2", "x3", "x4", "x5"]
    sums = table.locator("tbody tr td.row-sum:nth-of-type(6)").all_inner_texts()
    assert sums == ["1.00"] * 5
    received = [float(cell) for cell in table.locator(".foot td").all_inner_texts() if cell]
    assert sum(received) == pytest.approx(5, abs=0.05)
    assert max(received) > 1.2
    assert min(received) < 0.8
    watched.open(playground, "#preset=perturb-query")
    assert table.locator("tbody th").all_inner_texts() == ["q1", "q2", "q3", "gets"]
    watched.check()


def test_the_boards_are_saved_as_one_figure(
    playground: Path, watched: Watched, tmp_path: Path
) -> None:
    page = watched.open(playground, "#preset=self-construct")
    scope = page.locator(".results")
    light, dark = (
        save_figure(page, tmp_path, "SVG", scope, colors=colors, width="2").read_text("utf-8")
        for colors in ("light", "dark")
    )
    root = ElementTree.fromstring(light)
    assert len(root.findall("{http://www.w3.org/2000/svg}svg")) == 2
    assert "c₂" in "".join(root.itertext())
    assert "Tokens and their queries" in "".join(root.itertext())
    assert "var(" not in light  # every color is a plain one
    assert light != dark
    wide, high = png_size(save_figure(page, tmp_path, "PNG", scope, width="1"))
    assert wide == pytest.approx(85 / 25.4 * 300, rel=0.01)
    assert high > 1.8 * wide  # one board below the other
    text = save_figure(page, tmp_path, "CSV", scope).read_text("utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 9
    assert sum(float(row["weight"]) for row in rows) == pytest.approx(3)
    background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(252, 252, 250)"  # the page kept its own colors
    watched.check()


def test_features_and_positions(playground: Path, watched: Watched) -> None:
    page = watched.open(playground)
    page.locator("[role=tab]").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("figure").count() == 2

    def error(row: int) -> float:
        text = page.locator(".errors td.number").nth(row).inner_text()
        return float(text.removesuffix("%"))

    page.get_by_role("slider", name="number of features").press("End")
    many = error(0)
    page.get_by_role("slider", name="number of features").press("Home")
    assert error(0) > many
    page.get_by_role("button", name="independent").click()
    page.get_by_role("slider", name="size of the inputs").press("End")
    assert "not positive" in page.locator(".errors").inner_text()
    page.locator("[role=tab][aria-selected=true]").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_role("slider", name="steps k").press("End")
    text = page.locator("#panel").inner_text()
    difference = re.search(r"Largest difference.*?: ([\d.e−]+)", text, re.DOTALL)
    assert difference is not None
    assert float(difference[1].replace("−", "-")) < 1e-14
    scores = re.search(r": (−?[\d.]+)\. Both moved by 1,000: (−?[\d.]+)\.", text)
    assert scores is not None
    assert scores[1] == scores[2]
    watched.check()


@every_width
def test_every_width_in_light_and_dark(
    width: int, scheme: str, playground: Path, browser: Any
) -> None:
    def views(watched: Watched) -> Iterator[str]:
        for fragment in ("#preset=self-construct", "#preset=perturb-query", "#panel=features",
                         "#panel=positions&p-width=16"):  # fmt: skip
            watched.page.goto("about:blank")
            watched.open(playground, fragment)
            yield fragment

    check_width(browser, width, scheme, views)
