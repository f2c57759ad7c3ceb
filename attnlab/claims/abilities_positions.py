"""Reading longer rows than in training, with different position encodings.

The task is induction in rows of 24 tokens, tested in rows of up to 192. Every model has one layer
and a short convolution, so it needs no positions to solve the task: what differs is the harm that
positions do where they were never trained.
"""

from __future__ import annotations

import math
from dataclasses import replace

from attnlab.claims._ability_models import AbilityTraining, differences, repeated_accuracies
from attnlab.claims._claim import Evidence, Lines, Trial, claim
from attnlab.claims.judges import Above
from attnlab.report import Series

EXTRAPOLATION_MODELS = "extrapolation-models"
# without an early stop: how well a model does on longer rows depends on how long it was trained
INDUCTION = AbilityTraining(
    "induction:length=24,tokens=6,vocabulary=24", steps=400, stop_at=math.inf
)
ENCODINGS = {
    "learned": replace(INDUCTION, position="learned"),
    "none": INDUCTION,
    "ALiBi": replace(INDUCTION, attention="softmax:bias=alibi"),
    "rotary, base 10,000": replace(INDUCTION, position="rotary"),
    "rotary, base 1,000,000": replace(INDUCTION, position="rotary", rotary_base=1e6),
}
LENGTHS, JUDGED, SEEDS = (1, 2, 4, 8), 8, 5  # times the length of the training rows


def compare_encodings(trial: Trial, first: str, second: str) -> Evidence:
    """The accuracy of `first` less that of `second`, in long rows or (control) in short ones."""
    judged = 1 if trial.control else JUDGED
    accuracies = {
        name: {
            times: repeated_accuracies(trial, ENCODINGS[name], times, SEEDS) for times in LENGTHS
        }
        for name in (first, second)
    }
    lines = [
        Series(name, [(float(24 * times), sum(a) / len(a)) for times, a in by_length.items()])
        for name, by_length in accuracies.items()
    ]
    return Evidence(
        differences(accuracies[first][judged], accuracies[second][judged]),
        Lines("tokens in a row", "accuracy", lines, x_log=True),
        details={
            f"accuracy, {name}, at {times} times the length": sum(a) / len(a)
            for name, by_length in accuracies.items()
            for times, a in by_length.items()
            if times in (1, JUDGED)
        },
    )


@claim(
    "alibi-extrapolates",
    topic="abilities",
    source="paper",
    quoted=True,
    statement="trained on short rows, ALiBi is more accurate on rows that are 8 times longer than "
    "learned positions are",
    why="""ALiBi subtracts m |i - j| from the scores, with a fixed slope m for each head: a larger
    distance means less weight, at any length. The learned positions of later tokens were never
    trained: they are random vectors, and small ones. Press et al. measure the perplexity of text,
    where the last tokens matter most. Induction needs tokens at all distances, and two heads have
    the slopes 2^-4 and 2^-8, so that a token 100 places back loses 6 or 0.4 of its score. Whether
    this costs more than the random vectors do differs between trainings: five are too few to decide
    it with every seed. Rotary positions bring new angles into every score and lose far more, so
    that ALiBi does extrapolate further than they do: that is the control.""",
    judge=Above(0.05, "accuracy at 8 times the length, ALiBi less learned positions"),
    control="rotary positions (base 10,000) instead of learned ones",
    reference="Press et al. 2021, Train short, test long (arXiv 2108.12409)",
    group=EXTRAPOLATION_MODELS,
)
def alibi_extrapolates(trial: Trial) -> Evidence:
    other = "rotary, base 10,000" if trial.control else "learned"
    return compare_encodings(replace(trial, control=False), "ALiBi", other)


@claim(
    "no-positions-extrapolate",
    topic="abilities",
    source="paper",
    statement="trained on short rows, a decoder without positions is more accurate on rows that "
    "are 8 times longer than one with learned positions",
    why="""Without positions nothing in a longer row is new but the number of tokens: a causal mask
    still lets a decoder know the order, and here a short convolution does so too. More keys need
    a larger margin of the scores, ln 8 = 2.1 more for 8 times as many, so some accuracy is lost.
    Learned positions of later tokens are random vectors on top of that. The mean was higher without
    positions with every seed, but five trainings are too few for the interval to say so each time.
    At the training length both solve the task: that is the control.""",
    judge=Above(0.01, "accuracy at 8 times the length, no positions less learned positions"),
    control="at the training length",
    reference="Kazemnejad et al. 2023, The impact of positional encoding on length generalization "
    "in transformers (arXiv 2305.19466)",
    group=EXTRAPOLATION_MODELS,
)
def no_positions_extrapolate(trial: Trial) -> Evidence:
    return compare_encodings(trial, "none", "learned")


@claim(
    "rotary-base-extrapolates",
    topic="abilities",
    source="paper",
    statement="trained on short rows, rotary positions with base 1,000,000 are more accurate on "
    "rows that are 8 times longer than with base 10,000",
    why="""Rotary positions turn pair i of a head of size D by t base^(-2i/D). In training each pair
    sees only the angles up to 24 base^(-2i/D); a longer row brings new ones. With a larger base
    more pairs turn slowly, and slow pairs carry content at any distance: with D = 16, four of the
    eight pairs turn by less than a fifth of a radian in 192 tokens with base 1,000,000, and two
    with base 10,000. At the training length both solve the task: that is the control.""",
    judge=Above(0.01, "accuracy at 8 times the length, base 1,000,000 less base 10,000"),
    control="at the training length",
    reference="Xiong et al. 2023, Effective long-context scaling of foundation models (arXiv "
    "2309.16039); Liu et al. 2023, Scaling laws of RoPE-based extrapolation (arXiv 2310.05209)",
    group=EXTRAPOLATION_MODELS,
)
def rotary_base_extrapolates(trial: Trial) -> Evidence:
    return compare_encodings(trial, "rotary, base 1,000,000", "rotary, base 10,000")
