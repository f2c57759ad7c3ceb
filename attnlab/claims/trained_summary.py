"""Whether a Performer learns as well as softmax attention, on a small summarization task.

Each text says what a made-up thing is and what it is for, and its summary repeats both. There are
so many words that a model must find and copy the right ones. Runs are so short that softmax is
still learning: after long training all losses are 0, and nothing can be compared.
"""

from __future__ import annotations

import math
import random
import statistics
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path

import torch

from attnlab._confidence_intervals import Estimate
from attnlab.claims._claim import Evidence, Lines, Size, Trial, claim, mean_interval
from attnlab.claims.judges import Below, OnlyWhen
from attnlab.report import Mark, Series
from attnlab.tasks.comparison import scale_learning_rates
from attnlab.tasks.summary._pairs import Pair
from attnlab.tasks.summary._presets import TRAINING, SummaryModel
from attnlab.tasks.summary._task import SummaryTask
from attnlab.tasks.summary._token_ids import SummaryTextEncoding
from attnlab.tasks.summary._training import train_tokenizer
from attnlab.training import Run, train

WORDS = ["".join(each) for each in product("bdgklmnprt", "aeiou", "dklmnrst")]
MAX_GAP = 0.1  # as a fraction of what softmax learned
STEPS = 60  # softmax then has a tenth, or three fifths, of the guessing loss, by learning rate
LEARNING_RATE_FACTORS = (1.0, 0.5)  # of the usual learning rate
MODEL = SummaryModel(
    vocabulary=1000, text_tokens=32, summary_tokens=8, width=32, encoder_layers=1,
    decoder_layers=1, heads=4, dropout=0.0, smoothing=0.0,
)  # fmt: skip
HELD_OUT = 200  # texts for the measurement
ONE_FEATURE = "favor:features=1"


@claim(
    "performer-matches",
    topic="trained",
    source="paper",
    statement="a Performer trains to about the same loss as softmax attention, over several "
    "settings",
    why="""FAVOR+ estimates exp(q.k) with m positive random features, so a Performer approximates
    softmax attention. If it is trained from the start, it need not approximate well; it only has to
    learn. But a state of m features cannot store more than about m pairs, and weights phi(q).phi(k)
    of few features cannot be as sharp as exp(q.k), so a task that looks up words should show a gap
    if m is small. Both models learn to summarize, with the mechanism in all layers and in the copy
    head, at two learning rates. The experiment compares their losses on new texts, seed by seed,
    while softmax is still learning, because fully trained models all reach 0. The gap is divided by
    what softmax learned: how far its loss is below that of guessing tokens by their frequency. Of
    the two learning rates, the one with the larger gap counts. With one feature, phi(q) cancels in
    the weights, which then cannot depend on the query.""",
    reference="Choromanski et al. 2020, Rethinking attention with Performers, arXiv 2009.14794",
    judge=OnlyWhen(
        Below(MAX_GAP, "loss of the Performer minus that of softmax / what softmax learned"),
        "number of features",
    ),
    control="one feature instead",
)
def performer_matches(trial: Trial) -> Evidence:
    counts, seeds = trial.pick((32,), (4, 16, 64, 256)), trial.pick(3, 8)
    runs = [(trial.seed * 100 + offset, trial.size) for offset in range(seeds)]
    exact_losses = {
        factor: [_trained_loss("softmax", factor, *run) for run in runs]
        for factor in LEARNING_RATE_FACTORS
    }
    guesses = [_guessing_loss(*run) for run in runs]
    sweep: list[tuple[float, Estimate]] = []
    for count in counts:
        spec = ONE_FEATURE if trial.control else f"favor:features={count}"
        gaps = [
            mean_interval([
                (_trained_loss(spec, factor, *run) - softmax) / (guess - softmax)
                for run, softmax, guess in zip(runs, exact_losses[factor], guesses, strict=True)
            ])
            for factor in LEARNING_RATE_FACTORS
        ]  # fmt: skip
        sweep.append((float(count), max(gaps, key=lambda gap: gap.value)))
    return Evidence(
        sweep[-1][1],
        Lines(
            "features",
            "loss gap / what softmax learned",
            [
                Series(
                    "Performer",
                    [(count, figure.value) for count, figure in sweep],
                    [figure.ends for _, figure in sweep],
                )
            ],
            x_log=True,
            marks=[Mark("a match", y=MAX_GAP)],
        ),
        sweep=sweep,
        details={
            **{
                f"loss of softmax at {factor:g} times the learning rate": round(
                    statistics.fmean(losses), 3
                )
                for factor, losses in exact_losses.items()
            },
            "loss of guessing": round(statistics.fmean(guesses), 3),
            "seeds": seeds,
        },
    )


@lru_cache(maxsize=16)
def _task(seed: int, size: Size) -> SummaryTask:
    pairs = make_texts(1000 if size == "small" else 5000, seed)
    tokens = train_tokenizer(pairs[:-HELD_OUT], MODEL.vocabulary)
    encoding = SummaryTextEncoding(tokens, MODEL.text_tokens, MODEL.summary_tokens)
    return SummaryTask(
        pairs[:-HELD_OUT], pairs[-HELD_OUT:], encoding, smoothing=MODEL.smoothing, about={}
    )


@lru_cache(maxsize=256)
def _trained_loss(spec: str, factor: float, seed: int, size: Size) -> float:
    """Loss of a trained model on new texts. Cached, because the control needs softmax again."""
    task = _task(seed, size)
    settings = replace(
        TRAINING, minutes=None, steps=STEPS, warmup_steps=10, batch_tokens=512, seed=seed,
        save_every=STEPS + 1, evaluations=None,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        model = MODEL.with_attention(spec, "all").build(task.encoding.tokenizer.vocabulary, seed)
        run = Run(Path(folder))
        return train(task, model, scale_learning_rates(settings, factor), run, quiet=True)["loss"]


def _guessing_loss(seed: int, size: Size) -> float:
    """The loss of guessing each token by its frequency in summaries."""
    task = _task(seed, size)
    return guessing_loss(
        [token for _, target in task.rows for token in target.tolist()],
        [token for _, target in task.validation for token in target.tolist()],
        task.encoding.tokenizer.vocabulary,
    )


def guessing_loss(
    train_tokens: Sequence[int], test_tokens: Sequence[int], vocabulary: int
) -> float:
    """Nats per token of guessing by frequency, with add-one smoothing."""
    counts, total = Counter(train_tokens), len(train_tokens) + vocabulary
    return -statistics.fmean(math.log((counts[token] + 1) / total) for token in test_tokens)


def make_texts(count: int, seed: int) -> list[Pair]:
    """Texts with two facts in random order: what a thing is and is for, and what it has."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(count):
        name, kind, field, part, other = rng.sample(WORDS, 5)
        facts = [f"the {name} is a {kind} for {field}", f"it has {part} and {other}"]
        rng.shuffle(facts)
        pairs.append(Pair(" ; ".join(facts), f"{kind} for {field}"))
    return pairs
