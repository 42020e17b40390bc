"""The headline numbers in words."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["headlines"]


def headlines(data: dict[str, Any]) -> list[str]:
    """Return the sentences the page begins with."""
    trained, experts = data["trained_on"], data["experts"]
    source = f" of {trained['source']}" if trained["source"] else ""
    M, K = len(experts["size"]), experts["n_selected"]
    if M == 1:
        how = "A single expert holds them all: this is the exact Gaussian process."
    else:
        low, high = min(experts["size"]), max(experts["size"])
        sizes = f"{low:,} rows each" if low == high else f"{low:,} to {high:,} rows each"
        asked = "all" if K == M else f"{K}"
        if sum(experts["asked"]) < K * experts["n_queries"]:
            asked = f"at most {K}"
        how = f"{M:,} experts share them, {sizes}; a query asks {asked} of them."
    learned = f"The model learned {data['target']} from {trained['rows']:,} rows{source}. {how}"
    seen = data["observed"]
    if seen is None:
        return [
            learned,
            "No table was given to compare with, so that this page shows what was learned and explains "
            "training rows; how well the model predicts new ones it cannot tell.",
        ]
    return [learned, _errors(data["target"], seen), _honesty(seen["scores"])]


def _errors(target: str, seen: dict[str, Any]) -> str:
    scores = seen["scores"]
    rows = f"the {scores['n']:,} rows of {seen['source']}"
    typical = f"a typical error is {scores['rmse']:.3g}"
    if scores["smse"] is None:
        return f"On {rows}, which all have the same {target}, {typical}."
    if scores["smse"] >= 1:
        return f"On {rows} it does no better than always answering their mean; {typical}."
    explained = 100 * (1 - scores["smse"])
    digits = 1 if explained < 99 else 2
    return f"On {rows} it explains {explained:.{digits}f} % of the variance of {target}; {typical}."


def _honesty(scores: dict[str, Any]) -> str:
    share, n = scores["coverage"]["0.95"], scores["n"]
    chance = 2 * np.sqrt(0.95 * 0.05 / n)
    if share < 0.95 - chance:
        verdict = "too few: it is surer of itself than it should be"
    elif share > 0.95 + chance:
        verdict = "more than promised: it is more cautious than it need be"
    else:
        verdict = "as many as an honest model's would, chance allowed for"
    return f"Its 95 % intervals hold {100 * share:.1f} % of what was observed: {verdict}."
