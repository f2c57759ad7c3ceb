"""Does a Performer learn as well as softmax? Both learn to summarize, every layer of one kind.

Texts say of made-up things what they are and what they are for; a summary names both. There are so
many words that only who finds and copies the right ones does well. Runs are so short that softmax
itself is still on its way: at its end all losses are 0, and alike whatever learned them.
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
LIMIT = 0.1  # of what softmax learned, in nats per token
STEPS = 60  # softmax is then at a tenth and at three fifths of guessing, by its rate
RATES = (1.0, 0.5)  # times the usual
MODEL = SummaryModel(
    vocabulary=1000, text_tokens=32, summary_tokens=8, width=32, encoder_layers=1,
    decoder_layers=1, heads=4, dropout=0.0, smoothing=0.0,
)  # fmt: skip
HELD = 200  # texts that are measured
BLIND = "favor:features=1"


@claim(
    "performer-matches",
    topic="trained",
    source="paper",
    statement="a Performer trains to about the same loss as softmax attention, over several "
    "settings",
    why="""FAVOR+ estimates exp(q.k) by m positive random features, so a Performer approximates
    softmax attention; trained from the start it need not approximate anything, it only must learn.
    But a state of m features cannot hold more than about m pairs, and weights phi(q).phi(k) of few
    features cannot be as sharp as exp(q.k), so a task that looks words up should show a gap where
    m is small. Both learn to summarize with the mechanism in all layers and in the copy head, with
    two learning rates; what is compared is the loss on new texts, seed by seed, while softmax is
    still learning: where both have come to 0 they match whatever they are. The gap is a share of
    what softmax learned: how far its loss is below that of guessing tokens by their frequency. Of
    the rates the one counts where the Performer is furthest behind. With one feature, phi(q)
    cancels from the weights: they cannot depend on the query.""",
    reference="Choromanski et al. 2020, Rethinking attention with Performers, arXiv 2009.14794",
    judge=OnlyWhen(
        Below(LIMIT, "loss of the Performer above that of softmax, by what softmax learned"),
        "number of features",
    ),
    control="one feature instead, whatever the setting says",
)
def performer_matches(trial: Trial) -> Evidence:
    counts, seeds = trial.pick((32,), (4, 16, 64, 256)), trial.pick(3, 8)
    places = [(trial.seed * 100 + each, trial.size) for each in range(seeds)]
    exact = {rate: [_loss("softmax", rate, *place) for place in places] for rate in RATES}
    guessed = [_guessing(*place) for place in places]
    sweep: list[tuple[float, Estimate]] = []
    for count in counts:
        spec = BLIND if trial.control else f"favor:features={count}"
        gaps = [
            mean_interval([
                (_loss(spec, rate, *place) - softmax) / (guess - softmax)
                for place, softmax, guess in zip(places, exact[rate], guessed, strict=True)
            ])
            for rate in RATES
        ]  # fmt: skip
        sweep.append((float(count), max(gaps, key=lambda gap: gap.value)))
    return Evidence(
        sweep[-1][1],
        Lines(
            "features",
            "behind softmax, by what it learned",
            [
                Series(
                    "Performer",
                    [(count, figure.value) for count, figure in sweep],
                    [figure.ends for _, figure in sweep],
                )
            ],
            x_log=True,
            marks=[Mark("a match", y=LIMIT)],
        ),
        sweep=sweep,
        details={
            **{
                f"loss of softmax at {rate:g} times the rate": round(statistics.fmean(losses), 3)
                for rate, losses in exact.items()
            },
            "loss of guessing": round(statistics.fmean(guessed), 3),
            "seeds": seeds,
        },
    )


@lru_cache(maxsize=16)
def _task(seed: int, size: Size) -> SummaryTask:
    pairs = texts(1000 if size == "small" else 5000, seed)
    tokens = train_tokenizer(pairs[:-HELD], MODEL.vocabulary)
    encoding = SummaryTextEncoding(tokens, MODEL.text_tokens, MODEL.summary_tokens)
    return SummaryTask(pairs[:-HELD], pairs[-HELD:], encoding, smoothing=MODEL.smoothing, about={})


@lru_cache(maxsize=256)
def _loss(spec: str, rate: float, seed: int, size: Size) -> float:
    """Of one trained model on new texts; kept, because the control asks for softmax again."""
    task = _task(seed, size)
    settings = replace(
        TRAINING, minutes=None, steps=STEPS, warmup_steps=10, batch_tokens=512, seed=seed,
        save_every=STEPS + 1, evaluations=None,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        made = MODEL.with_attention(spec, "all").build(task.encoding.tokenizer.vocabulary, seed)
        run = Run(Path(folder))
        return train(task, made, scale_learning_rates(settings, rate), run, quiet=True)["loss"]


def _guessing(seed: int, size: Size) -> float:
    """The loss of whoever knows only how often each token stands in a summary."""
    task = _task(seed, size)
    return guessing_loss(
        [token for _, target in task.rows for token in target.tolist()],
        [token for _, target in task.validation for token in target.tolist()],
        task.encoding.tokenizer.vocabulary,
    )


def guessing_loss(seen: Sequence[int], asked: Sequence[int], vocabulary: int) -> float:
    """Nats per token of frequencies, with one more of each token so that none is impossible."""
    counts, total = Counter(seen), len(seen) + vocabulary
    return -statistics.fmean(math.log((counts[token] + 1) / total) for token in asked)


def texts(count: int, seed: int) -> list[Pair]:
    """What a thing is and what it is for, before or after what it has."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        name, kind, field, part, other = draw.sample(WORDS, 5)
        facts = [f"the {name} is a {kind} for {field}", f"it has {part} and {other}"]
        draw.shuffle(facts)
        found.append(Pair(" ; ".join(facts), f"{kind} for {field}"))
    return found
