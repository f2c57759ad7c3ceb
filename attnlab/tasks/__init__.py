"""Tasks: what a model learns, from data to metric.

`TASKS` lists them. `register_task` adds one of your own, most easily a `SimpleTask`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab._lazy import lazy_names

if TYPE_CHECKING:
    from attnlab.tasks.comparison import Comparison as Comparison
    from attnlab.tasks.comparison import ComparisonTrial as ComparisonTrial
    from attnlab.tasks.comparison import Metric as Metric
    from attnlab.tasks.comparison import TrainingBudget as TrainingBudget
    from attnlab.tasks.comparison import TrialResult as TrialResult
    from attnlab.tasks.kind import Capability as Capability
    from attnlab.tasks.kind import Example as Example
    from attnlab.tasks.kind import TaskKind as TaskKind
    from attnlab.tasks.registry import TASKS as TASKS
    from attnlab.tasks.registry import register_task as register_task
    from attnlab.tasks.simple import Recipe as Recipe
    from attnlab.tasks.simple import Row as Row
    from attnlab.tasks.simple import SimpleTask as SimpleTask
    from attnlab.tasks.simple import answer_row as answer_row

__all__ = [
    "TASKS",
    "Capability",
    "Comparison",
    "ComparisonTrial",
    "Example",
    "Metric",
    "Recipe",
    "Row",
    "SimpleTask",
    "TaskKind",
    "TrainingBudget",
    "TrialResult",
    "answer_row",
    "register_task",
]
__getattr__ = lazy_names(
    __name__,
    {
        "TASKS": "attnlab.tasks.registry",
        "TrainingBudget": "attnlab.tasks.comparison",
        "Capability": "attnlab.tasks.kind",
        "Comparison": "attnlab.tasks.comparison",
        "Example": "attnlab.tasks.kind",
        "Metric": "attnlab.tasks.comparison",
        "TrialResult": "attnlab.tasks.comparison",
        "Recipe": "attnlab.tasks.simple",
        "Row": "attnlab.tasks.simple",
        "SimpleTask": "attnlab.tasks.simple",
        "TaskKind": "attnlab.tasks.kind",
        "ComparisonTrial": "attnlab.tasks.comparison",
        "answer_row": "attnlab.tasks.simple",
        "register_task": "attnlab.tasks.registry",
    },
)
