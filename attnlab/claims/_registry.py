"""All claims, in the ledger's order: importing a topic's modules registers its claims."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

from attnlab.claims._claim import CLAIMS, TOPICS, Claim
from attnlab.extensions import load_extensions

__all__ = ["CLAIMS", "select_claims"]

FILES = (
    *("retrieve", "retrieve_noise", "retrieve_heads"),
    *("handmade", "handmade_position_codes", "handmade_convolution", "handmade_heads"),
    *(
        "temperature",
        "temperature_masks",
        "temperature_perturbations",
        "temperature_norms_and_residuals",
    ),
    *("positions",),
    *("kernels", "kernels_error", "kernels_trigonometric", "kernels_random_directions"),
    *("kernels_cost", "kernels_future_leak"),
    *("efficient_low_rank", "efficient_linformer", "efficient_bigbird"),
    *("efficient_synthesizer", "efficient_versus_recurrent", "efficient_long_distance_copying"),
    *("trained", "trained_heads", "trained_words", "trained_knowledge", "trained_vision"),
    *("trained_summary",),
    *("abilities_recall", "abilities_positions", "abilities_structure"),
    *("abilities_variants", "abilities_sinks"),
    *("effects_attention", "effects_heads", "effects_knowledge"),
    *("added_by_attnlab",),
)
for _file in FILES:
    import_module(f"attnlab.claims.{_file}")
load_extensions("attnlab.claims")


def select_claims(names: Sequence[str] = (), topic: str | None = None) -> list[Claim]:
    """Select claims by name or topic (its name or number). Without arguments, select all.

    >>> from attnlab.claims import select_claims
    >>> [claim.name for claim in select_claims(["copy"])]
    ['copy']
    """
    if topic is not None:
        if topic.isdecimal() and 1 <= int(topic) <= len(TOPICS):
            topic = list(TOPICS)[int(topic) - 1]
        if topic not in TOPICS:
            topics = ", ".join(f"{number} {name}" for number, name in enumerate(TOPICS, 1))
            raise ValueError(f"unknown topic {topic!r}; use one of {topics}")
    unknown = [name for name in names if name not in CLAIMS]
    if unknown:
        raise ValueError(
            f"unknown claim {unknown[0]!r}{_suggest(unknown[0])} (attnlab claims --list shows all)"
        )
    return [
        claim
        for claim in CLAIMS.values()
        if (not names or claim.name in names) and (topic is None or claim.topic == topic)
    ]


def _suggest(name: str) -> str:
    matches = get_close_matches(name, CLAIMS, 3, 0.5)
    return f"; did you mean {' or '.join(matches)}?" if matches else ""
