"""Knowledge: learn facts from a corpus, answer questions, and separate knowledge from guesses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab._lazy import lazy_names

if TYPE_CHECKING:
    from attnlab.tasks.knowledge._audit import ask as ask
    from attnlab.tasks.knowledge._audit import audit as audit
    from attnlab.tasks.knowledge._learn import learn as learn
    from attnlab.tasks.knowledge._learn_stages import LearnSettings as LearnSettings
    from attnlab.tasks.knowledge._load import load_knowledge as load_knowledge
    from attnlab.tasks.knowledge._scoring import baseline as baseline
    from attnlab.tasks.knowledge._scoring import evaluate as evaluate
    from attnlab.tasks.knowledge._training import finetune as finetune
    from attnlab.tasks.knowledge._training import pretrain as pretrain
    from attnlab.tasks.knowledge._world import WorldConfig as WorldConfig
    from attnlab.tasks.knowledge._world import make_world as make_world

__all__ = [
    "LearnSettings",
    "WorldConfig",
    "ask",
    "audit",
    "baseline",
    "evaluate",
    "finetune",
    "learn",
    "load_knowledge",
    "make_world",
    "pretrain",
]
__getattr__ = lazy_names(
    __name__,
    {
        "LearnSettings": "attnlab.tasks.knowledge._learn_stages",
        "WorldConfig": "attnlab.tasks.knowledge._world",
        "ask": "attnlab.tasks.knowledge._audit",
        "audit": "attnlab.tasks.knowledge._audit",
        "baseline": "attnlab.tasks.knowledge._scoring",
        "evaluate": "attnlab.tasks.knowledge._scoring",
        "finetune": "attnlab.tasks.knowledge._training",
        "learn": "attnlab.tasks.knowledge._learn",
        "load_knowledge": "attnlab.tasks.knowledge._load",
        "make_world": "attnlab.tasks.knowledge._world",
        "pretrain": "attnlab.tasks.knowledge._training",
    },
)
