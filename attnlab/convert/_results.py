"""What a conversion measured, and sentences that sum it up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from attnlab._confidence_intervals import Estimate, format_number, format_percent, mean_interval
from attnlab.convert._generation_costs import GenerationCost
from attnlab.convert._plan import Plan
from attnlab.convert._settings import ADAPTERS, CONTROL, TRANSFER, ConvertSettings

ORIGINAL, REPLACED, RANDOM = "original", "replaced, not trained", "random features, not trained"
LABELS = {
    TRANSFER: "after attention transfer",
    ADAPTERS: "after adapters",
    CONTROL: "adapters around random features",
}
"""What the report calls the losses after the stages."""


@dataclass(frozen=True)
class Conversion:
    """What was converted, and how."""

    label: str
    plan: Plan
    all_layers: int
    settings: ConvertSettings
    texts: int
    """Number of texts to train on."""
    new_parameters: int


@dataclass
class Results:
    """Losses are one for each held-out text."""

    conversion: Conversion
    losses: dict[str, list[float]] = field(default_factory=dict)
    errors: dict[str, dict[int, float]] = field(default_factory=dict)
    """Of each converted layer's attention: not trained, and after attention transfer."""
    costs: dict[str, Sequence[GenerationCost]] = field(default_factory=dict)
    training: dict[str, Mapping[str, float]] = field(default_factory=dict)
    """Steps, tokens and seconds of each stage."""

    @property
    def names(self) -> list[str]:
        """Of all losses: the conversion first, then the controls."""
        stages = [LABELS[name] for name in (TRANSFER, ADAPTERS)]
        names = (ORIGINAL, REPLACED, *stages, RANDOM, LABELS[CONTROL])
        return [name for name in names if name in self.losses]

    @property
    def final(self) -> str:
        """The name of the loss of the model that was written."""
        return next(
            name for name in (LABELS[ADAPTERS], LABELS[TRANSFER], REPLACED) if name in self.losses
        )

    def mean(self, name: str) -> float:
        return sum(self.losses[name]) / len(self.losses[name])

    def increase(self, name: str) -> Estimate:
        """Over the original, text by text."""
        pairs = zip(self.losses[name], self.losses[ORIGINAL], strict=True)
        return mean_interval([loss - before for loss, before in pairs])

    def relative_increase(self, name: str) -> float:
        return self.increase(name).value / self.mean(ORIGINAL)

    def gap_closed(self, name: str) -> float | None:
        """The fraction of the loss of replacing that training took back."""
        gap = self.increase(REPLACED).value
        return None if gap <= 0 else 1 - self.increase(name).value / gap


def findings(results: Results) -> list[str]:
    sentences = [_loss_finding(results), *_control_findings(results), _cost_finding(results)]
    return list(filter(None, sentences))


def _loss_finding(results: Results) -> str:
    conversion, final = results.conversion, results.final
    count = len(results.losses[ORIGINAL])
    text = (
        f"{len(conversion.plan)} of {conversion.all_layers} layers were converted. On {count} "
        f"held-out texts of {conversion.settings.tokens:,} tokens the loss is "
        f"{results.mean(ORIGINAL):.4f} with the original, {results.mean(REPLACED):.4f} with the "
        f"layers replaced"
    )
    if final != REPLACED:
        text += f", and {results.mean(final):.4f} after training"
    text += f": {format_signed(results.relative_increase(final))} of the original's."
    closed = results.gap_closed(final)
    if final != REPLACED and closed is not None:
        text += f" Training closed {format_percent(closed)} of the gap."
    return text


def _control_findings(results: Results) -> list[str]:
    final, sentences = results.final, []
    for name in (RANDOM, LABELS[CONTROL]):
        if name not in results.losses:
            continue
        pairs = zip(results.losses[name], results.losses[final], strict=True)
        worse = mean_interval([control - loss for control, loss in pairs])
        verdict = (
            "which is worse, as it must be"
            if worse.ends[0] > 0
            else "which is no worse than the conversion beyond the uncertainty"
            if worse.value <= 0 or len(results.losses[name]) > 1
            else "measured on one text only"
        )
        sentences.append(f"The control, {name}, has a loss of {results.mean(name):.4f}, {verdict}.")
    return sentences


def _cost_finding(results: Results) -> str:
    before, after = (results.costs.get(name, ()) for name in ("original", "converted"))
    if not before or not after:
        return ""
    one, other = before[-1], after[-1]
    return (
        f"At {one.tokens:,} tokens the cache takes {format_bytes(other.cache_bytes)} instead of "
        f"{format_bytes(one.cache_bytes)}, and the next token "
        f"{format_number(1000 * other.seconds)} ms instead of {format_number(1000 * one.seconds)}."
    )


def format_signed(fraction: float) -> str:
    return f"{100 * fraction:+.1f}%".replace("-", "−")


def format_bytes(size: int) -> str:
    return f"{format_number(size / 2**20)} MiB"
