"""The main results as sentences."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["alarms", "headlines"]

_LEVELS = (0.5, 0.8, 0.95)
"""Levels whose coverage is judged together."""
_ERRORS = 2.5
"""Standard errors by which the coverage may differ from the level: three levels are judged."""


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
    sentences = [model, _accuracy(data["target"], observed), _coverage(observed)]
    return sentences + ([_outside(observed)] if observed["n_outside"] else [])


def alarms(data: dict[str, Any]) -> list[str]:
    """Return what must be looked at before the model is used."""
    observed = data["observed"]
    if observed is None:
        return []
    scores, linear = observed["scores"], observed["compared"][1]
    found = []
    if observed["dominant"] is not None:
        number, share, rest = observed["dominant"]
        found.append(
            f"Row {number} alone has {100 * share:.0f} % of the squared error. Without it the RMSE is "
            f"{rest:.3g}. Check its {data['target']}."
        )
    elif scores["smse"] is not None and scores["smse"] > 0.9:
        found.append(
            f"The model explains almost nothing of {data['target']} on these rows. Check that inputs and "
            "target belong together, and that the rows are like the training rows."
        )
    if linear["rmse"] < 0.98 * scores["rmse"]:
        found.append(
            f"A linear regression has a smaller error: RMSE {linear['rmse']:.3g} against "
            f'{scores["rmse"]:.3g}. Try trend="auto".'
        )
    share = _shares(observed).get(0.95)
    if share is not None and share < 0.85:
        found.append(
            f"The 95 % intervals cover only {100 * share:.0f} % of the observations: do not rely on them. "
            "The rows may differ from the training rows. For rows like these, "
            'calibrate="conformal" has nominal coverage.'
        )
    return found


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


def _shares(observed: dict[str, Any]) -> dict[float, float]:
    """Empirical coverage at the levels that are judged; without those that need more held-out rows."""
    curve = zip(observed["calibration"]["level"], observed["calibration"]["share"], strict=True)
    known = {round(level, 2): share for level, share in curve}
    return {level: known[level] for level in _LEVELS if level in known}


def _coverage(observed: dict[str, Any]) -> str:
    shares, n = _shares(observed), observed["scores"]["n"]
    signs = [
        0 if abs(share - level) <= _ERRORS * np.sqrt(level * (1 - level) / n) else np.sign(share - level)
        for level, share in shares.items()
    ]
    if not any(signs):
        verdict = "as nominal, up to sampling error"
    elif min(signs) >= 0:
        verdict = "more than nominal: the model is underconfident"
    elif max(signs) <= 0:
        verdict = "less than nominal: the model is overconfident"
    elif signs[0] > 0:
        verdict = "narrow intervals cover too much, wide ones too little: the errors have heavy tails"
    else:
        verdict = "narrow intervals cover too little, wide ones too much"
    levels = _joined([f"{100 * level:g} %" for level in shares])
    covered = _joined([f"{100 * share:.1f} %" for share in shares.values()])
    return f"The {levels} intervals cover {covered} of the observations: {verdict}."


def _joined(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
