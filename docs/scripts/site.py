"""Hooks with which MkDocs builds the documentation site: `make site`.

Everything the pages need is in the site: mathematics becomes MathML while it is built, linked files
of the repository (examples, notebooks, tests) become pages, and the interactive pages are copied.
"""

from __future__ import annotations

import html
import json
import os
import posixpath
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from attnlab.claims._ledger_page import save_playground

ROOT = Path(__file__).parents[2]
CLAIMS = ROOT / "build" / "claims.html"  # `make site` writes it; it takes two minutes
LINK = re.compile(r"(\]\()([^)#\s:]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^( *```.*?^ *```)$", flags=re.DOTALL | re.MULTILINE)
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', flags=re.DOTALL)
# How much a page counts in the search: what explains before what lists
SEARCH_WEIGHTS = (("course", 2.0), ("repository/", 0.2), ("reference/", 0.4), ("log", 0.4))
EMBED = re.compile(r"<!-- site: (\w+) -->")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page for each file outside `docs` that a page links to."""
    queue = [file for file in files if file.src_uri.endswith(".md")]
    while queue:
        file = queue.pop()
        for match in LINK.finditer(without_code(file.content_string)):
            path = outside_path(origin(file.src_uri), match[2])
            if path is None or files.get_file_from_path(page_of(path)):
                continue
            added = File.generated(config, page_of(path), content=file_page(path))
            files.append(added)
            queue.append(added)
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Points links to files outside `docs` at their pages, and embeds the interactive pages."""
    here = page.file.src_uri
    boost = next((weight for start, weight in SEARCH_WEIGHTS if here.startswith(start)), 1.0)
    page.meta["search"] = {"boost": boost, "exclude": here == "reference/questions.md"}

    def replace_link(match: re.Match[str]) -> str:
        path = outside_path(origin(here), match[2])
        target = match[2]
        if path is not None:
            target = posixpath.relpath(page_of(path), posixpath.dirname(here) or ".")
        elif here.startswith("repository/") and (ROOT / "docs" / inside(here, target)).exists():
            target = posixpath.relpath(inside(here, target), posixpath.dirname(here))
        return f"{match[1]}{target}{match[3] or ''}{match[4]}"

    parts = FENCE.split(markdown)
    parts[::2] = [LINK.sub(replace_link, part) for part in parts[::2]]
    if here == "claims.md":  # a generated page
        parts[0] = parts[0].replace("\n## ", f"\n{embedded('claims', here)}\n## ", 1)
    return EMBED.sub(lambda match: embedded(match[1], here), "".join(parts))


def on_page_content(html: str, page: Page, **_: Any) -> str:
    return FORMULA.sub(lambda match: mathml(match[2], page.file.src_uri, match[1] == "div"), html)


def on_post_build(config: MkDocsConfig) -> None:
    folder = Path(config.site_dir) / "interactive"
    folder.mkdir(exist_ok=True)
    save_playground(folder / "playground.html", overwrite=True)
    if CLAIMS.exists():
        (folder / "claims.html").write_bytes(CLAIMS.read_bytes())


def without_code(text: str) -> str:
    return FENCE.sub("", text)


def origin(page: str) -> str:
    """The folder in the repository of the file that a page shows."""
    if page.startswith("repository/"):
        return posixpath.dirname(page.removeprefix("repository/"))
    return posixpath.dirname(f"docs/{page}")


def inside(page: str, target: str) -> str:
    """The page in `docs` that a page of another folder links to."""
    path = posixpath.normpath(posixpath.join(origin(page), target))
    return posixpath.relpath(path, "docs")


def outside_path(folder: str, target: str) -> str | None:
    """The path in the repository of a linked file, if it exists and is outside `docs`."""
    path = posixpath.normpath(posixpath.join(folder, target))
    if path.startswith(("docs/", "..")) or not (ROOT / path).is_file():
        return None
    return path


def page_of(path: str) -> str:
    return f"repository/{path if path.endswith('.md') else f'{path}.md'}"


def file_page(path: str) -> str:
    """Markdown that shows a file: a notebook with its outputs, Python as code."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    if path.endswith(".ipynb"):
        cells = json.loads(text)["cells"]
        note = f"This is the notebook `{path}` with its outputs.\n"
        return note + "\n".join(cell_page(cell) for cell in cells)
    language = "python" if path.endswith(".py") else "text"
    return f"# {path}\n\n````{language}\n{text}````\n"


def cell_page(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return f"{source}\n"
    outputs = "".join(map(output_page, cell["outputs"]))
    return f"````python\n{source}\n````\n{outputs}"


def output_page(output: dict[str, Any]) -> str:
    """An output as text or as a picture. A notebook's HTML is not shown: it may hold scripts."""
    data = {kind: "".join(text) for kind, text in output.get("data", {}).items()}
    if "image/png" in data:
        image = re.sub(r"\s", "", data["image/png"])
        return f"\n![output](data:image/png;base64,{image})\n\n"
    if "image/svg+xml" in data:
        image = base64_text(data["image/svg+xml"])
        return f"\n![output](data:image/svg+xml;base64,{image})\n\n"
    text = "".join(output.get("text", [])) or data.get("text/plain", "")
    return f"\n````text\n{text.rstrip()}\n````\n" if text.strip() else ""


def base64_text(text: str) -> str:
    import base64

    return base64.b64encode(text.encode()).decode()


def embedded(name: str, page: str) -> str:
    """A frame with one of the interactive pages, and a link that opens it alone."""
    if name == "claims" and not CLAIMS.exists():
        return ""
    target = os.path.relpath(f"interactive/{name}.html", posixpath.dirname(page) or ".")
    return (
        f'<p><a href="{target}">Open this page alone</a></p>\n'
        f'<iframe class="interactive" src="{target}" title="{name}"></iframe>\n'
    )


def mathml(formula: str, page: str, block: bool) -> str:
    tex = html.unescape(formula)
    result = str(convert(tex, display="block" if block else "inline"))
    if re.search(r">\s*\\", result):
        raise PluginError(f"{page}: a formula has an unknown command: {tex}")
    return result
