"""One result of several seeds: a verdict that differs between seeds is undecided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from attnlab._join_words import join_words
from attnlab.claims._claim import Evidence, Verdict
from attnlab.claims._run_claims import Result


def combine_results(by_seed: Mapping[int, Result]) -> Result:
    """The verdict that all seeds have, with the evidence of the first and the figures of all."""
    first, *others = by_seed.values()
    if not others:
        return first
    controls = {seed: result.control for seed, result in by_seed.items()}
    return Result(
        first.name,
        _combine_verdicts({seed: result.verdict for seed, result in by_seed.items()}),
        _with_figures(first.evidence, by_seed),
        _combine_verdicts({seed: each for seed, each in controls.items() if each is not None})
        if first.control is not None
        else None,
        first.control_evidence,
        sum(result.seconds for result in by_seed.values()),
    )


def _combine_verdicts(by_seed: Mapping[int, Verdict]) -> Verdict:
    seeds_of: dict[Verdict, list[str]] = {}
    for seed, verdict in by_seed.items():
        seeds_of.setdefault(verdict, []).append(str(seed))
    failures = [verdict for verdict in seeds_of if verdict.outcome == "failed"]
    if len(seeds_of) == 1 or failures:
        return [*failures, *seeds_of][0]
    listed = [
        f"{' '.join(filter(None, (verdict.outcome, verdict.condition)))} with seed"
        f"{'s' if len(seeds) > 1 else ''} {join_words(seeds)}"
        for verdict, seeds in seeds_of.items()
    ]
    return Verdict("undecided", join_words(listed))


def _with_figures(evidence: Evidence | None, by_seed: Mapping[int, Result]) -> Evidence | None:
    if evidence is None:
        return None
    figures = {
        f"seed {seed}": f"{result.verdict.outcome}, {result.evidence.figure}"
        for seed, result in by_seed.items()
        if result.evidence is not None
    }
    return replace(evidence, details={**evidence.details, **figures})
