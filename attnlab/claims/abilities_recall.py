"""Associative recall: how much a constant state holds, and what else changes recall.

The task is Zoology's: pairs of a key and a value, then each key again, and its value is the answer.
All models have one layer with a short convolution, and equally many training steps.

Letters: H heads, T tokens.
"""

from __future__ import annotations

from dataclasses import replace

from attnlab.claims._ability_models import (
    AbilityTraining,
    differences,
    repeated_accuracies,
)
from attnlab.claims._claim import Bars, Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims.judges import Above, Below, Every
from attnlab.report import Series

RECALL_MODELS, RECALL_VARIANTS = "recall-models", "recall-variants"
UNIFORM = "softmax:beta=1e-9"
ZOOLOGY = "Arora et al. 2023, Zoology, figure 2 (arXiv 2312.04927)"
BASED = "Arora et al. 2024, Based, figure 2 (arXiv 2402.18668)"


def recall_of(pairs: int, attention: str, width: int) -> AbilityTraining:
    """One head, so that a linear state has width x width numbers."""
    ability = f"recall:pairs={pairs},length={4 * pairs},vocabulary=64"
    return AbilityTraining(ability, attention, width=width, heads=1, steps=600)


@claim(
    "recall-needs-state",
    topic="abilities",
    source="paper",
    statement="attention recalls 8 pairs at every width, additive linear attention only if its "
    "state is large enough",
    why="""Softmax keeps all keys and values; a query needs only a margin of the scores to pick its
    own, and 64 keys can be told apart in few dimensions. Linear attention adds all phi(k) v^T to
    one W x W matrix: other pairs disturb the answer unless their features are nearly orthogonal
    to the query's. The number of nearly orthogonal features grows with W. So accuracy should grow
    with the width for linear attention and be high for softmax at any width. How high it gets for
    linear attention at width 64 differs between trainings, and three are too few to decide that
    part with every seed. Uniform weights, the control, can only guess among the 8 values.""",
    judge=Every(
        Above(0.95, "least accuracy of softmax over the widths"),
        [
            Below(0.7, "accuracy of linear attention at width 16"),
            Above(0.8, "accuracy of linear attention at width 64"),
        ],
    ),
    control="uniform weights instead of softmax",
    reference=f"{ZOOLOGY}; {BASED}",
    group=RECALL_MODELS,
)
def recall_needs_state(trial: Trial) -> Evidence:
    exact = UNIFORM if trial.control else "softmax"
    widths = (16, 64)
    accuracies = {
        name: {w: mean_interval(repeated_accuracies(trial, recall_of(8, name, w))) for w in widths}
        for name in (exact, "elu")
    }
    labels = {exact: "uniform weights" if trial.control else "softmax", "elu": "linear (elu + 1)"}
    lines = [
        Series(labels[name], [(float(w), a.value) for w, a in by_width.items()])
        for name, by_width in accuracies.items()
    ]
    return Evidence(
        min(accuracies[exact].values(), key=lambda accuracy: accuracy.value),
        Lines("width", "accuracy", lines, x_log=True),
        parts={
            f"accuracy of linear attention at width {w}": accuracies["elu"][w] for w in (16, 64)
        },
        details={"numbers in the linear state": ", ".join(str(w * (w + 1)) for w in widths)},
    )


@claim(
    "delta-recalls-more",
    topic="abilities",
    source="paper",
    statement="at equal state the delta rule recalls more pairs than adding does",
    why="""Adding writes v k^T whatever the state already answers for k, so that each pair disturbs
    all others. The delta rule writes only the error, v - S k: S <- S + w (v - S k) k^T. It moves
    the state to one that answers the newest keys correctly, and can hold W pairs with W
    orthogonal keys. Both have one head and width 16, which is a state of 16 x 16 (adding also
    keeps a sum of 16 keys to normalize by). Now and then a training of the delta rule gets stuck;
    with three trainings, one such is enough to leave it undecided. A single pair fits into both:
    that is the control.""",
    judge=Above(0.15, "accuracy of the delta rule less that of adding, 8 pairs"),
    control="a single pair",
    reference="Schlag et al. 2021, Linear transformers are secretly fast weight programmers, "
    "section 6.1 (arXiv 2102.11174); Yang et al. 2024 (arXiv 2406.06484)",
    group=RECALL_MODELS,
)
def delta_recalls_more(trial: Trial) -> Evidence:
    accuracies = {}
    for name in ("delta", "elu"):
        training = recall_of(8, name, 16)
        if trial.control:
            training = replace(training, ability="recall:pairs=1,length=8,vocabulary=64")
        accuracies[name] = repeated_accuracies(trial, training)
    return Evidence(
        differences(accuracies["delta"], accuracies["elu"]),
        Bars("accuracy", {
            "delta rule": mean_interval(accuracies["delta"]),
            "adding (elu + 1)": mean_interval(accuracies["elu"]),
        }),
    )  # fmt: skip
