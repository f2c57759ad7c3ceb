"""Numbers that say what a model predicts, so that an intervention can be judged by their change.

Letters: B batch, T tokens, V vocabulary, K classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab.interpret._inspected_model import BatchOutput
from attnlab.interpret._model_input import ModelInput, check_token, token_id

MetricName = Literal["loss", "logit", "probability", "logit_difference", "distance"]
MetricFunction = Callable[[Tensor, Tensor], Tensor | float]
"""From one row's logits (T, V) and its token ids (T,) to a number."""

DESCRIPTIONS: dict[str, str] = {
    "loss": "loss of the next tokens, in nats",
    "logit": "logit of {answer}",
    "probability": "probability of {answer}",
    "logit_difference": "logit of {answer} minus logit of {other}",
    "distance": "distance from the whole model's output, relative to its length",
}


@dataclass(frozen=True)
class EffectMetric:
    """A metric with its tokens. `answer` without a value is what the model itself predicts."""

    name: str = "loss"
    answer: str | int | None = None
    other: str | int | None = None
    position: int | None = None
    function: MetricFunction | None = None

    def fix(self, source: ModelInput, whole: BatchOutput) -> FixedMetric:
        """The metric for one input; raises if it does not fit the model."""
        fixed = FixedMetric(self, source, whole)
        if self.function is None:
            fixed.prepare()
        return fixed


def create_metric(
    metric: MetricName | MetricFunction,
    answer: str | int | None = None,
    other: str | int | None = None,
    position: int | None = None,
) -> EffectMetric:
    if callable(metric):
        return EffectMetric("your metric", answer, other, position, metric)
    if metric not in get_args(MetricName):
        listed = ", ".join(get_args(MetricName))
        raise ValueError(f"no metric {metric!r}; give one of {listed}, or a function of the logits")
    if metric == "logit_difference" and other is None:
        raise ValueError("logit_difference needs two tokens; give answer= and other=")
    if metric in ("loss", "distance") and (answer is not None or other is not None):
        raise ValueError(f"{metric} takes no answer; give metric='probability', or omit answer")
    if metric != "logit_difference" and other is not None:
        raise ValueError(f"{metric} compares no tokens; omit other, or give logit_difference")
    return EffectMetric(metric, answer, other, position)


class FixedMetric:
    """A metric of one input or batch: reads (B,) numbers from a model's output."""

    def __init__(self, metric: EffectMetric, source: ModelInput, whole: BatchOutput) -> None:
        self.metric, self.source, self.whole = metric, source, whole
        self.position = -1
        self.answers: Tensor | None = None  # (B,)
        self.other: int | None = None

    def prepare(self) -> None:
        metric, source, whole = self.metric, self.source, self.whole
        if metric.name == "distance":
            return
        if metric.name == "loss":
            if whole.kind != "next" or source.ids.shape[1] < 2:
                raise ValueError(
                    f"{source.label}: the loss needs a model that predicts next tokens and a text "
                    "of two or more; give metric='distance', or 'probability' with answer="
                )
            return
        if whole.kind == "vectors":
            check_token(0, whole)
        if whole.kind != "classes":
            self.position = source.position(whole, metric.position)
        if metric.answer is None:
            self.answers = self._logits(whole).argmax(-1)  # (B,)
        else:
            answer = check_token(token_id(source, metric.answer, "answer"), whole, "answer")
            self.answers = torch.full((len(whole.values),), answer, device=whole.values.device)
        if metric.other is not None:
            self.other = check_token(token_id(source, metric.other, "other"), whole, "other")

    def _logits(self, output: BatchOutput) -> Tensor:
        values = output.values.detach().float()
        return values if output.kind == "classes" else values[:, self.position]  # (B, V)

    def read(self, output: BatchOutput) -> Tensor:
        """The metric of each row, (B,)."""
        name, function = self.metric.name, self.metric.function
        if function is not None:
            rows = zip(output.values.detach(), self.source.ids, strict=True)
            return torch.tensor([float(function(values, ids)) for values, ids in rows])
        if name == "loss":
            return self._loss(output)
        if name == "distance":
            before, after = (x.values.detach().float().flatten(1) for x in (self.whole, output))
            return ((after - before).norm(dim=1) / before.norm(dim=1).clamp(min=1e-12)).cpu()
        logits, answers = self._logits(output), self.answers
        assert answers is not None
        if name == "probability":
            logits = logits.softmax(-1)
        chosen = logits.gather(1, answers[:, None])[:, 0]
        return (chosen if self.other is None else chosen - logits[:, self.other]).cpu()

    def _loss(self, output: BatchOutput) -> Tensor:
        """Row by row: the probabilities of one row stay in the processor's cache."""
        following = self.source.ids[:, 1:].to(output.values.device)  # (B, T-1)
        rows = zip(output.values.detach(), following, strict=True)
        losses = [F.cross_entropy(logits[:-1].float(), ids) for logits, ids in rows]
        return torch.stack(losses).cpu()

    def describe(self) -> str:
        answers = [] if self.answers is None else self.answers.unique().tolist()
        answer = repr(self._name(answers[0])) if len(answers) == 1 else "the model's own prediction"
        other = "" if self.other is None else repr(self._name(self.other))
        description = DESCRIPTIONS.get(self.metric.name, self.metric.name)
        return description.format(answer=answer, other=other)

    def _name(self, index: int) -> str:
        inspected = self.source.inspected
        if self.whole.kind == "classes":
            names = [] if inspected is None else list(inspected.classes)
            return names[index] if index < len(names) else str(index)
        return self.source.token(index)
