"""The main results as sentences."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["headlines"]


def headlines(data: dict[str, Any]) -> list[str]:
    """Return the first sentences of the page."""
    model = _model(data)
    observed = data["observed"]
    if observed is None:
        return [
            model,
            "No test data were given. This page describes the model and explains predictions for training "
            "rows; it does not measure the accuracy on new rows.",
        ]
    sentences = [model, _accuracy(data["target"], observed), _coverage(observed["scores"])]
    return sentences + ([_outside(observed)] if observed["n_outside"] else [])


def _outside(observed: dict[str, Any]) -> str:
    n, columns = observed["n_outside"], ", ".join(f"{name}: {count:,}" for name, count in observed["outside"])
    rows = "1 row is" if n == 1 else f"{n:,} rows are"
    return f"{rows} outside the range of the training rows ({columns}): there the model extrapolates."


def _model(data: dict[str, Any]) -> str:
    training, experts = data["training"], data["experts"]
    source = f" of {training['source']}" if training["source"] else ""
    begin = f"The model predicts {data['target']}. It was fitted to {training['rows']:,} rows{source}"
    M, K, m = len(experts["size"]), experts["n_selected"], experts["n_neighbors"]
    if K == 0:
        return f"{begin}. A prediction uses the {m:,} training rows nearest to the query."
    if M == 1 and m == 0:
        return f"{begin} with a single expert, which is the exact Gaussian process."
    low, high = min(experts["size"]), max(experts["size"])
    sizes = f"{low:,} rows each" if low == high else f"{low:,} to {high:,} rows each"
    own = f", and an expert of the {m:,} training rows nearest to the query" if m else ""
    selected = f"all {K:,}" if K == M else f"{K:,}"
    if sum(experts["count"]) < K * experts["n_queries"]:
        selected = f"at most {K:,}"
    return f"{begin} by {M:,} experts of {sizes}. A prediction uses {selected} of them{own}."


def _accuracy(target: str, observed: dict[str, Any]) -> str:
    scores = observed["scores"]
    rows = f"On the {scores['n']:,} rows of {observed['source']}"
    rmse = f"the RMSE is {scores['rmse']:.3g}"
    if scores["smse"] is None:
        return f"{rows}, which all have the same {target}, {rmse}."
    if scores["smse"] >= 1:
        return f"{rows} it is no better than predicting their mean; {rmse}."
    explained = 100 * (1 - scores["smse"])
    digits = 1 if explained < 99 else 2
    return f"{rows} it explains {explained:.{digits}f} % of the variance of {target}; {rmse}."


def _coverage(scores: dict[str, Any]) -> str:
    share, n = scores["coverage"]["0.95"], scores["n"]
    error = 2 * np.sqrt(0.95 * 0.05 / n)
    if share < 0.95 - error:
        verdict = "less than nominal: the model is overconfident"
    elif share > 0.95 + error:
        verdict = "more than nominal: the model is underconfident"
    else:
        verdict = "as nominal, up to two standard errors"
    return f"The 95 % intervals cover {100 * share:.1f} % of the observations: {verdict}."
