"""Does a Performer learn as well as softmax? Both learn to summarise, every layer of one kind.

Texts say of made-up things what they are and what they are for; a summary names both. There are so
many words that only who finds and copies the right ones does well.
"""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path

import torch

from attnlab.charts import Mark, Series
from attnlab.claims.base import Evidence, Plot, Size, Trial, claim, over
from attnlab.claims.judges import Below, OnlyWhen
from attnlab.tasks.summary.compare import placed
from attnlab.tasks.summary.pairs import Pair
from attnlab.tasks.summary.presets import TRAINING, SummaryModel
from attnlab.tasks.summary.recipe import learned
from attnlab.tasks.summary.task import SummaryTask
from attnlab.tasks.summary.wording import Wording
from attnlab.training import Run, train

WORDS = ["".join(each) for each in product("bdgklmnprt", "aeiou", "dklmnrst")]
LIMIT = 0.1  # nats per token
MODEL = SummaryModel(
    vocabulary=1000, text_tokens=32, summary_tokens=8, width=32, encoder_layers=1,
    decoder_layers=1, heads=4, dropout=0.0, smoothing=0.0,
)  # fmt: skip
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
    m is small. Both learn to summarise with the mechanism in all layers and in the copy head; what
    is compared is the loss on new texts, seed by seed. With one feature, phi(q) cancels from the
    weights: they cannot depend on the query.""",
    reference="Choromanski et al. 2020, Rethinking attention with Performers, arXiv 2009.14794",
    judge=OnlyWhen(
        Below(LIMIT, "loss of the Performer above that of softmax, nats per token"),
        "number of features",
    ),
    control="one feature instead, whatever the setting says",
)
def performer_matches(trial: Trial) -> Evidence:
    counts, seeds = trial.pick((32,), (4, 16, 64, 256)), trial.pick(3, 8)
    exact = [_loss("softmax", trial.seed * 100 + s, trial.size) for s in range(seeds)]
    gaps: dict[int, list[float]] = {}
    for count in counts:
        spec = BLIND if trial.control else f"favor:features={count}"
        found = [_loss(spec, trial.seed * 100 + s, trial.size) for s in range(seeds)]
        gaps[count] = [a - b for a, b in zip(found, exact, strict=True)]
    sweep = [(float(count), over(values)) for count, values in gaps.items()]
    band = [figure.ends for _, figure in sweep]
    return Evidence(
        sweep[-1][1],
        Plot(
            "features",
            "loss above softmax",
            [Series("Performer", [(count, figure.value) for count, figure in sweep], band)],
            x_log=True,
            marks=[Mark("a match", y=LIMIT)],
        ),
        sweep=sweep,
        details={"loss of softmax": round(over(exact).value, 3), "seeds": seeds},
    )


@lru_cache(maxsize=64)
def _loss(spec: str, seed: int, size: Size) -> float:
    """Of one trained model on new texts; kept, because the control asks for softmax again."""
    steps, count = (90, 1000) if size == "small" else (200, 5000)
    pairs = texts(count, seed)
    held = pairs[-200:]
    model = placed(MODEL, spec, "all")
    tokens = learned(pairs[:-200], model.vocabulary)
    wording = Wording(tokens, model.text_tokens, model.summary_tokens)
    task = SummaryTask(pairs[:-200], held, wording, smoothing=model.smoothing, about={})
    settings = replace(
        TRAINING, minutes=None, steps=steps, warmup=10, batch_tokens=512, seed=seed,
        save_every=steps + 1,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        made = model.build(tokens.vocabulary, seed)
        return train(task, made, settings, Run(Path(folder)), quiet=True)["loss"]


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
