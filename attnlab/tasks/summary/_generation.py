"""Write summaries of many texts at once: greedy, with a beam search or by sampling."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, TypeVar

import torch

from attnlab._help_groups import COMMON, GENERATION
from attnlab.generate import Generated, Sampling, beam_search, generate
from attnlab.generate._map_in_threads import map_in_threads
from attnlab.models import Seq2Seq
from attnlab.tasks.summary._token_ids import SummaryTextEncoding
from attnlab.training._batches import pad_rows

Item = TypeVar("Item")
BEAMS = 4  # together with the length penalty, best ROUGE-L on validation texts (docs/summary.md)
PENALTY = 1.0
BATCH_ROWS = 128  # summaries that are written at once
SPAN = 3  # a summary that repeats this many words in a row is looping
MAX_SAMPLES_FACTOR = 4  # samples per wanted summary, at most, if some are equal


@dataclass(frozen=True)
class GenerationMethod:
    """How summaries are written. The sentences are also the help of the command line."""

    count: Annotated[
        int, "Number of summaries of each text. The best comes first.", GENERATION, COMMON
    ] = 1
    beams: Annotated[
        int | None,
        "Number of beams of a beam search. 1 is greedy decoding. Without it, 4, or no beam search "
        "with a temperature.",
        GENERATION,
        COMMON,
    ] = None
    length_penalty: Annotated[
        float, "Exponent of the length by which beam search divides each score.", GENERATION
    ] = PENALTY
    temperature: Annotated[
        float,
        "Sampling temperature. 1 follows the model's probabilities; 0 disables sampling.",
        GENERATION,
        COMMON,
    ] = 0.0
    top_k: Annotated[int | None, "Sample from the k most likely tokens only.", GENERATION] = None
    top_p: Annotated[
        float | None,
        "Sample from the most likely tokens whose probabilities add up to p.",
        GENERATION,
    ] = None
    block_repeats: Annotated[
        int | None, "Never write the same n tokens in a row twice. 0 disables it.", GENERATION
    ] = 3
    max_new_tokens: Annotated[
        int | None,
        "Largest number of tokens to write. Without it, the length that the model was trained for.",
        GENERATION,
    ] = None
    seed: Annotated[int, "Random seed for sampling.", GENERATION] = 0

    def __post_init__(self) -> None:
        for name in ("count", "beams", "max_new_tokens"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ValueError(f"{name} is {number}; give 1 or more")
        if self.block_repeats is not None and self.block_repeats < 0:
            raise ValueError(
                f"block-repeats is {self.block_repeats}; give 1 or more, or 0 to let it repeat"
            )
        if self.beams is not None and self.temperature > 0:
            raise ValueError("beams and temperature exclude each other; give one of them")
        if (self.top_k is not None or self.top_p is not None) and not self.temperature:
            raise ValueError(
                "top-k and top-p only work with sampling; give a temperature above 0 too"
            )
        if not math.isfinite(self.length_penalty):
            raise ValueError(f"length-penalty is {self.length_penalty}; give a finite number")
        self.sampling()
        if self.length_penalty != PENALTY and self.width is None:
            reason = "sampling has none" if self.temperature > 0 else "there is only one"
            raise ValueError(f"length-penalty compares beams, but {reason}; leave it out")

    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.top_k, self.top_p, self.seed)

    @property
    def width(self) -> int | None:
        """The number of beams, or None without a beam search. Several summaries need several
        beams."""
        if self.temperature > 0 or (self.beams == 1 and self.count == 1):
            return None
        return max(self.beams or BEAMS, 2 * self.count if self.count > 1 else 1)


SEARCH, GREEDY = GenerationMethod(), GenerationMethod(beams=1)


@dataclass(frozen=True)
class GeneratedSummary:
    """One summary."""

    text: str
    log_probability: float
    """Of the whole summary with its end token."""
    finished: bool
    """Whether the model wrote the end token before the length limit."""
    ids: list[int]
    score: float | None = None
    """What a beam search ranks by: log-probability / length ** length penalty."""


def check_texts(
    texts: Sequence[str], encoding: SummaryTextEncoding, names: Sequence[str] | None = None
) -> list[str]:
    """Raise an error for an empty text, and return a note for each text that is too long."""
    notes = []
    names = [f"text {number}" for number in range(1, len(texts) + 1)] if names is None else names
    for name, text in zip(names, texts, strict=True):
        if not text.strip():
            raise ValueError(f"{name} is empty; give at least one sentence")
        ids, cut = encoding.encode_source(text)
        if cut:
            notes.append(
                f"{name} has {len(ids) + cut} tokens; this model reads {len(ids)}: "
                f"the last {cut} were cut off"
            )
    return notes


def write_summaries(
    model: Seq2Seq,
    encoding: SummaryTextEncoding,
    texts: Sequence[str],
    method: GenerationMethod = SEARCH,
    *,
    on_token: Callable[[int, int, int], None] | None = None,
    on_best: Callable[[int, list[list[int]]], None] | None = None,
) -> list[list[GeneratedSummary]]:
    """Up to `count` different summaries of each text. A beam search returns the best first;
    sampling returns them in the order of sampling, which depends only on the seed and the text.

    There are fewer if the search or the sampling finds no more different ones. `on_token` receives
    the index of the text, the index of the summary and each new token. `on_best` receives the index
    of the text and the ids of all its summaries so far, which replace everything sent before: after
    each step of a search, and after sampling if some summaries are equal. The last call has the
    summaries that are returned.

    >>> from attnlab.tasks.summary import SummaryModel, load_summary, train, write_summaries
    >>> small = SummaryModel(vocabulary=300, width=16, encoder_layers=1, decoder_layers=1, heads=2)
    >>> options = {"model": small, "limit": 60, "training": {"steps": 2}, "quiet": True}
    >>> metrics = train("docstrings", out="run", **options)
    >>> model, encoding, config = load_summary("run")
    >>> ((summary,),) = write_summaries(model, encoding, ["Return the sum of two numbers."])
    >>> type(summary.text).__name__
    'str'
    """
    sources = [torch.tensor(encoding.encode_source(text)[0]) for text in texts]
    keys = _text_keys(texts)
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    size = max(1, BATCH_ROWS // (method.width or method.count))
    results: list[list[GeneratedSummary]] = [[] for _ in texts]

    def write(start: int) -> None:
        part = order[start : start + size]
        writer = _BatchWriter(
            model, encoding, method, [sources[i] for i in part], [keys[i] for i in part],
            on_token and (lambda i, *rest: on_token(part[i], *rest)),
            on_best and (lambda i, ids: on_best(part[i], ids)),
        )  # fmt: skip
        rows = writer.sample() if method.width is None else writer.search(method.width)
        for i, summaries in zip(part, rows, strict=True):
            results[i] = summaries

    starts = range(0, len(order), size)
    if on_token is None and on_best is None:
        map_in_threads(model, write, starts)
    else:  # callbacks get one batch after the other
        for start in starts:
            write(start)
    return results


def _text_keys(texts: Iterable[str]) -> list[int]:
    """A random key for each text, from its content and the number of equal texts before it."""
    seen: Counter[str] = Counter()
    keys = []
    for text in texts:
        content = f"{seen[text]} {text}".encode("utf-8", "surrogatepass")
        keys.append(int.from_bytes(sha256(content).digest()[:8], "little"))
        seen[text] += 1
    return keys


@dataclass(frozen=True)
class _BatchWriter:
    """Writes the summaries of texts of about equal length in one batch."""

    model: Seq2Seq
    encoding: SummaryTextEncoding
    method: GenerationMethod
    sources: Sequence[torch.Tensor]
    keys: Sequence[int]
    on_token: Callable[[int, int, int], None] | None
    on_best: Callable[[int, list[list[int]]], None] | None

    def search(self, width: int) -> list[list[GeneratedSummary]]:
        """Beam search. Equal summaries come once; looping or unfinished ones come last."""

        def send_drafts(i: int, hypotheses: list[list[int]]) -> None:
            assert self.on_best is not None
            self.on_best(i, self._distinct(hypotheses, self.encoding.decode_summary))

        rows = beam_search(
            **self._generation_arguments(range(len(self.sources))), width=width, best=width,
            length_penalty=self.method.length_penalty,
            on_best=send_drafts if self.on_best else None,
        )  # fmt: skip
        results = []
        for i, hypotheses in enumerate(rows):
            summaries = [self._to_summary(row, self.method.length_penalty) for row in hypotheses]
            summaries.sort(key=lambda row: is_looping(row.text) or not row.finished)
            results.append(self._distinct(summaries, lambda row: row.text) or summaries[:1])
            if self.on_best is not None:
                self.on_best(i, [row.ids for row in results[-1]])
        return results

    def sample(self) -> list[list[GeneratedSummary]]:
        """Sample until `count` summaries differ, at most MAX_SAMPLES_FACTOR times as many.

        Greedy decoding is a single sample without chance.
        """
        count = self.method.count
        limit = MAX_SAMPLES_FACTOR * count if self.method.temperature > 0 else 1
        samples_so_far: list[list[GeneratedSummary]] = [[] for _ in self.sources]
        results, open_texts, sampled = list(samples_so_far), list(range(len(samples_so_far))), 0
        while open_texts and sampled < limit:
            counts = [len(results[i]) for i in open_texts]
            on_token = self._token_callback(open_texts, counts, sampled) if self.on_token else None
            samples = min(count - min(counts), limit - sampled)
            rows = generate(
                **self._generation_arguments(open_texts), samples=samples, first_sample=sampled,
                keys=[self.keys[i] for i in open_texts], sampling=self.method.sampling(),
                on_token=on_token,
            )  # fmt: skip
            sampled += samples
            for i, count_before, generated in zip(open_texts, counts, rows, strict=True):
                samples_so_far[i] = [*samples_so_far[i], *map(self._to_summary, generated)]
                # an empty summary only counts if there is no other
                results[i] = self._distinct(samples_so_far[i], lambda row: row.text)
                results[i] = results[i] or samples_so_far[i][: sampled == limit]
                new = [row.ids for row in results[i][count_before:]]
                if self.on_best and new != [row.ids for row in generated[: count - count_before]]:
                    self.on_best(i, [row.ids for row in results[i]])
            open_texts = [i for i in open_texts if len(results[i]) < count]
        return results

    def _token_callback(
        self, open_texts: Sequence[int], counts: Sequence[int], first_sample: int
    ) -> Any:
        """Send the tokens of a new sample to the next free index of its text, if there is one."""

        def on_token_sampled(row: int, sample: int, token: int, _: float) -> None:
            index = counts[row] + sample - first_sample
            if self.on_token is not None and index < self.method.count:
                self.on_token(open_texts[row], index, token)

        return on_token_sampled

    def _generation_arguments(self, rows: Sequence[int]) -> dict[str, Any]:
        """Arguments of `generate` and `beam_search` for these texts."""
        tokens = self.encoding.tokenizer
        longest = self.method.max_new_tokens or self.encoding.longest_summary
        device, limit = next(self.model.parameters()).device, self.model.max_length
        ids, keys = pad_rows([self.sources[i] for i in rows], tokens.pad)
        context = {"source": ids.to(device)}
        if not bool(keys.all()):
            context["source_keys"] = keys.to(device)
        return {
            "model": self.model,
            "prompts": [[tokens.end]] * len(rows),
            "new_tokens": longest if limit is None else min(longest, limit - 1),
            "stop": tokens.end,
            "block_repeats": self.method.block_repeats or None,
            "context": context,
        }

    def _to_summary(self, row: Generated, penalty: float | None = None) -> GeneratedSummary:
        score = None if penalty is None else row.score / len(row.log_probabilities) ** penalty
        return GeneratedSummary(
            self.encoding.decode_summary(row.ids), row.score, row.finished, row.ids, score
        )

    def _distinct(self, rows: Iterable[Item], to_text: Callable[[Item], str]) -> list[Item]:
        """The first `count` rows with different texts, without empty ones."""
        by_text: dict[str, Item] = {}
        for row in rows:
            by_text.setdefault(to_text(row), row)
        by_text.pop("", None)
        return list(by_text.values())[: self.method.count]


def is_looping(text: str) -> bool:
    """Whether a text repeats words at once, or the same three words in a row anywhere."""
    words = text.lower().split()
    repeats_at_once = any(
        words[i : i + n] == words[i + n : i + 2 * n]
        for n in range(1, len(words) // 2 + 1)
        for i in range(len(words) - 2 * n + 1)
    )
    spans = [tuple(words[i : i + SPAN]) for i in range(len(words) - SPAN + 1)]
    return repeats_at_once or len(set(spans)) < len(spans)
