"""The project as a whole: layers of imports, the command line, requirements."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import attnlab
from attnlab import MECHANISMS
from tests.support.command_line import run

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "attnlab"

# The parts of DESIGN.md, lowest layer first: a part imports only from itself and from lower layers.
LAYERS = [
    {"_compiling", "_lazy", "_help_groups"},
    {
        "errors",
        "extensions",
        "_confidence_intervals",
        "_cores",
        "_join_words",
        "_message_frames",
        "_notes",
        "_short_repr",
    },
    {"_calibration", "_declared_types", "_pretokenize", "_safe_files"},
    {"_cache", "_tensor_files"},
    {"report", "run_folder"},
    {"tasks.registry", "_show"},
    {"gates", "mask", "_image_files", "state", "tokenizer"},
    {"_argument_checks"},
    {"mechanism"},
    {"mechanisms"},
    {"_register_mechanism"},
    {"_create_mechanism"},
    {"_attention"},
    {"laws"},
    {"position"},
    {"convolution", "feed_forward", "latent"},
    {"layers"},
    {"models"},
    {"generate"},
    {"training"},
    {"_command_options"},
    {"interpret"},
    {"huggingface"},
    {"tasks"},
    {"bench", "compare", "_mechanism_table", "mechanism_pictures"},
    {"heads"},
    {"convert"},
    {"claims"},
    {"demo"},
    {"studio"},
    {"cli"},
    {"__main__"},
]
LAYER = {part: height for height, parts in enumerate(LAYERS) for part in parts}


def part_of(module: str) -> str:
    """The part of a module. Declarations of tasks form their own part, which lower layers read."""
    if re.fullmatch(r"attnlab\.tasks\.((\w+\.)?kind|registry)", module):
        return "tasks.registry"
    return module.split(".")[1] if "." in module else ""


def imports_of(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            assert node.module is not None
            names.add(node.module)
    return {name for name in names if name.split(".")[0] == "attnlab"}


def illegal_imports(part: str, imported: set[str]) -> list[str]:
    return [
        name
        for name in imported
        if part_of(name) and part_of(name) != part and LAYER[part_of(name)] >= LAYER[part]
    ]


def test_lower_layers_never_import_higher_ones() -> None:
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        part = part_of(module)
        if part == "__init__":  # the package lists everything public, lazily
            continue
        assert part in LAYER, f"{path}: a new part; add it to LAYERS and to docs/log.md"
        if path.name == "_argument_checks.py":  # names Mechanism for the type checker alone
            assert (
                "if TYPE_CHECKING:\n    from attnlab.mechanism import Mechanism" in path.read_text()
            )
            continue
        assert not illegal_imports(part, imports_of(path)), path


def test_a_wrong_import_is_detected() -> None:
    assert illegal_imports("mechanisms", {"attnlab.models.decoder"})
    assert illegal_imports("models", {"attnlab.tasks"})
    assert illegal_imports("bench", {"attnlab.cli"})
    assert not illegal_imports("models", {"attnlab.mechanisms.favor", "attnlab.mask"})


@pytest.mark.parametrize("path", list((PACKAGE / "interpret").rglob("*.py")), ids=lambda p: p.name)
def test_interpret_imports_no_model_library(path: Path) -> None:
    """Hugging Face models reach it through `attnlab.MODEL_ADAPTERS`."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
    names += [str(node.value) for node in nodes if isinstance(node, ast.Constant)]
    assert [
        name for name in names if re.match(r"(attnlab\.huggingface|transformers)\b", name)
    ] == []


def test_look_and_capture_import_transformers_only_if_needed() -> None:
    program = """
import sys, attnlab
assert "torch" not in sys.modules
from tests.support.text_models import TEXT, TOKENS, decoder
attnlab.look(decoder(), TEXT, tokenizer=TOKENS)
assert "attnlab.huggingface._inspected_models" in sys.modules and "transformers" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_no_test_file_imports_another_one() -> None:
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                parts = node.module.split(".")
                assert not (parts[0] == "tests" and parts[-1].startswith("test_")), (
                    f"{path} imports {node.module}; put what both need into tests/support"
                )


# The command line


def test_help_does_not_import_torch() -> None:
    program = (
        "import sys, attnlab.cli; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_mechanisms_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("mechanisms", capsys)
    assert code == 0
    for name, kind in MECHANISMS.items():
        row = next(line for line in out.splitlines() if line.split()[:1] == [name])
        card = kind.card
        can = (card.causal, card.cross, card.packs, card.constant_state, card.rows_sum_to_one)
        words = ["yes" if each else "no" for each in can]
        assert row.split()[1:6] == [words[0] if card.bidirectional else "only", *words[1:]]
        assert card.time in row
        assert card.memory in row
        assert card.arxiv in row
    assert max(len(line) for line in out.splitlines()) <= 80


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_one_mechanism(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(f"mechanisms {name}", capsys)
    _, raw, _ = run(f"mechanisms {name} --json", capsys)
    facts = json.loads(raw)
    assert code == 0
    assert facts["name"] == name
    assert facts["arxiv"] in out
    assert {gate.name for gate in MECHANISMS[name].gates} == {g["name"] for g in facts["gates"]}
    for gate in facts["gates"]:
        assert f"\ngate {gate['name']} " in out
        assert gate["range"] in out
    for option in facts["options"]:
        assert f"\n{option['name']} " in out
        assert str(option["default"]) in out


def test_mechanisms_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("mechanisms --json", capsys)
    assert code == 0
    assert [each["name"] for each in json.loads(out)] == list(MECHANISMS)


def test_tour(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("tour --tokens 70 --seed 3", capsys)
    assert code == 0
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()}
    assert set(MECHANISMS) <= set(rows)
    assert float(rows["softmax"][0]) == 0
    assert float(rows["window"][0]) == 0  # 70 tokens fit in its default window of 128
    assert float(rows["hard"][0]) > 0.5
    assert rows["window"][2] == rows["softmax"][2] == "143"  # kB: 2 * 4 heads * 70 * 64 * 4 bytes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("mechanisms favour", ["'favour'", "did you mean 'favor'"]),
        ("mechanism", ["mechanism", "mechanisms"]),
        ("mechanisms --jsn", ["--jsn"]),
        ("tour --tokens many", ["--tokens", "many"]),
        ("tour --tokens 1", ["--tokens 1", "2 or more"]),
    ],
)
def test_mistakes_are_one_line(
    arguments: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(arguments, capsys)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("attnlab: ")
    for word in words:
        assert word in err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run("--version", capsys)
    assert out.strip() == attnlab.__version__
    assert f'version = "{attnlab.__version__}"' in (ROOT / "pyproject.toml").read_text()


# Requirements


def test_every_installed_requirement_is_pinned() -> None:
    pins = (ROOT / "constraints.txt").read_text()
    names = {line.split("==")[0].lower().replace("_", "-") for line in pins.splitlines()}
    project = (ROOT / "pyproject.toml").read_text()
    for requirement in re.findall(r'^    "([a-z-]+)>=|"([a-z-]+)>=', project, re.MULTILINE):
        assert next(filter(None, requirement)) in names, requirement
    assert all("==" in line for line in pins.splitlines() if line and not line.startswith("#"))


@pytest.mark.parametrize("task", ["knowledge", "summary", "vision"])
def test_a_moved_command_names_the_new_one(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run(f"{task} compare", capsys)
    assert (code, error) == (2, f"attnlab: {task} compare: use attnlab compare {task}\n")


def test_mechanisms_and_training_do_not_import_the_compiler() -> None:
    """torch._dynamo and FSDP take longer to import than torch itself."""
    program = """
import sys, attnlab, attnlab.claims, attnlab.training, attnlab.huggingface
attnlab.create_mechanism("bigbird", head_dim=8, heads=2)
assert "torch._dynamo" not in sys.modules and "torch.distributed.fsdp" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
