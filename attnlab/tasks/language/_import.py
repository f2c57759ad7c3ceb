"""A Hugging Face model as a run of the task `language`."""

from __future__ import annotations

from pathlib import Path

from attnlab._notes import warn_caller
from attnlab._tensor_files import save_tensors
from attnlab.huggingface import import_tokenizer
from attnlab.huggingface._import_model import default_context, import_model
from attnlab.models import Decoder, Encoder, Model
from attnlab.run_folder import StartMode, check_folder
from attnlab.run_folder._file_names import FORMAT, TOKENIZER, VERSION, WEIGHTS
from attnlab.tasks.language.kind import LANGUAGE
from attnlab.training import Run
from attnlab.training._checkpoint import model_tensors
from attnlab.training._trained_run import check_vocabulary, versions

CONTEXT = 1024  # tokens; a longer text in training takes more memory than most machines have


def import_language(
    folder: Path,
    *,
    out: Path,
    attention: str | list[str] | None = None,
    context: int | None = None,
    start: StartMode = StartMode.NEW,
) -> Model:
    """Write a run with the weights and the tokenizer of a Hugging Face model.

    Without `context`, a model with rotary positions has at most 1,024 tokens in training. It reads
    longer texts all the same.

    >>> from pathlib import Path
    >>> from attnlab.huggingface import export_run
    >>> from attnlab.models import StackConfig
    >>> from attnlab.tasks.language import import_language, train_language
    >>> from attnlab.training import Settings
    >>> _ = Path("text.txt").write_text("to be or not to be. " * 40)
    >>> small = StackConfig(vocabulary=1, width=16, layers=1, heads=2, context=16)
    >>> options = {"model": small, "settings": Settings(steps=2), "quiet": True}
    >>> _ = train_language([Path("text.txt")], out=Path("run"), **options)
    >>> _ = export_run("run", "exported")
    >>> import_language(Path("exported"), out=Path("imported")).parameter_count()
    3888
    """
    check_folder(out, start)
    context = default_context(folder, CONTEXT) if context is None else context
    model, notes = import_model(folder, attention=attention, context=context)
    assert isinstance(model, Decoder | Encoder)
    tokenizer = import_tokenizer(folder)
    check_vocabulary(tokenizer, model, folder)
    for note in notes:
        warn_caller(f"{folder}: {note}")
    causal = isinstance(model, Decoder)
    config = {
        "format": FORMAT,
        "version": VERSION,
        "task": {
            "name": LANGUAGE.name,
            "headline": LANGUAGE.headline if causal else "loss",
            "better": LANGUAGE.better,
            "objective": "causal" if causal else "masked",
            "tokenizer": "pretrained",
            "imported": Path(folder).resolve().name,
        },
        "model": model.description(),
        "training": {},
        "parameters": model.parameter_count(),
        "versions": versions(),
    }
    run, tensors = Run(out), model_tensors(model)
    run.folder.mkdir(parents=True, exist_ok=True)
    with run.locked():
        files = {TOKENIZER: tokenizer.save, WEIGHTS: lambda part: save_tensors(tensors, part)}
        run.begin(config, start, files)
    return model
