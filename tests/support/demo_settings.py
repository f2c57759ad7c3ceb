"""Settings with which the demo takes seconds."""

from __future__ import annotations

from attnlab.demo.settings import DemoSettings
from attnlab.tasks.knowledge.lesson import LearnSettings

QUICK = DemoSettings(
    none_epochs=1,
    pretraining_epochs=0.1,
    finetuning_epochs=0.1,
    learn=LearnSettings(reader_epochs=0.1, remember_epochs=0.1),
    model={"width": 16, "layers": 2, "heads": 2},
    samples=1,
    made_up=3,
    looked_at=2,
    claims=("perturb-key", "copy"),
)
