"""What of an estimator a file holds: its parameters, the fitted model, and what its predictor has learned.

A checksum finds damage, but not a forged file. So every value is checked when it is read, where possible by
the code that uses it: `Settings`, `check_served`, the stages' own checks, and a first selection of experts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from gpexperts.aggregation import NPAE
from gpexperts.calibration import Calibration
from gpexperts.exceptions import CorruptModelError, UnsavableModelError
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.store import ExpertStore
from gpexperts.io import container
from gpexperts.io.covariances import check_kernel
from gpexperts.io.fitted import choice_trees, model_tree, restored_choices, restored_model
from gpexperts.io.selectors import restored_selector, selector_tree
from gpexperts.io.values import Decoder, Encoder, is_int, require
from gpexperts.linalg.cholesky import InverseFactor
from gpexperts.model import FittedModel
from gpexperts.parameters import PARAMETERS
from gpexperts.predictor import Learned
from gpexperts.prepare import check_served, evaluation_engine
from gpexperts.schema import KINDS, TableColumn, TableSchema
from gpexperts.settings import Settings
from gpexperts.tuning import Tuning
from gpexperts.validation import is_auto, is_number

__all__ = ["load_model", "save_model"]

_MAX_JOBS = 256
"""Threads that a prediction may start."""
_NEVER_STORED = "engine"
"""A file that names a scheduler could make its reader connect to any machine."""


def save_model(estimator: Any, path: str | os.PathLike[str], *, include_factors: bool) -> int:
    """Write a fitted estimator to a file; see `DistributedGPRegressor.save`.

    Returns
    -------
    size : int
        Bytes of the file.
    """
    cls = type(estimator)
    if cls.__module__ != "gpexperts.regressor":
        raise UnsavableModelError(
            f"A {cls.__module__}.{cls.__qualname__} cannot be saved as .gpx, only a DistributedGPRegressor "
            "itself. Save it with skops: skops.io.dump(model, 'model.skops')."
        )
    predictor = estimator.predictor_
    model, settings, learned = predictor.model, predictor.settings, predictor.learned
    if include_factors:  # they are computed in this process
        model = replace(model, experts=model.experts.to_local(settings.factor_budget))
    out, names = Encoder(), getattr(estimator, "feature_names_in_", None)
    table: TableSchema | None = getattr(estimator, "table_", None)
    header = {
        "version": version("gpexperts"),
        "parameters": out.named({k: v for k, v in settings.values.items() if k != _NEVER_STORED}),
        "feature_names": None if names is None else [str(name) for name in names],
        "factors": _factor_trees(out, model, settings) if include_factors else [],
        "model": model_tree(out, model),
        "learned": {
            "selector": selector_tree(out, learned.selector),
            "tuning": out.named(learned.tuning._asdict()),
            "choices": choice_trees(out, learned.choices),
            "residuals": _scores_tree(out, learned.residuals, "residuals"),
            "calibration": _scores_tree(out, learned.calibration, "calibration"),
        },
        "table": None if table is None else out.encode(asdict(table), "table_"),
    }
    if isinstance(model.experts, LocalExperts):
        try:
            _estimator(cls, header, Decoder(out.arrays))
        except Exception as error:
            raise UnsavableModelError(f"This model could not be loaded again: {_fault(error)}") from error
    return container.write(path, header, out.arrays)


def load_model(cls: Any, path: str | os.PathLike[str]) -> Any:
    """Read an estimator of class `cls` from a file.

    No content of a file makes this run code. The memory and time it takes are proportional to the length of
    the file, whatever its content.

    Returns
    -------
    estimator
        With ``engine=None``. Its predictions are those of the saved model, bit for bit.

    Raises
    ------
    NotAModelFileError, NewerFormatError, CorruptModelError
    """
    header, arrays = container.read(path)
    try:
        return _estimator(cls, header, Decoder(arrays))
    except MemoryError:
        raise
    except Exception as error:
        # The checksum is right, so the file was forged or written by a defect: any error is its fault.
        raise CorruptModelError(f"{path} does not describe a model: {_fault(error)}") from error


def _fault(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error} is missing."
    return str(error) if isinstance(error, CorruptModelError) else f"{type(error).__name__}: {error!s:.500}"


def _estimator(cls: Any, header: dict[str, Any], read: Decoder) -> Any:
    parameters = read.named(header["parameters"])
    require(parameters.keys() <= PARAMETERS.keys() - {_NEVER_STORED}, "there are unknown parameters")
    estimator = cls(**parameters)
    settings = _settings(estimator)
    model = restored_model(read, header["model"], settings)
    check_served(model, settings)
    learned = _learned(read, header["learned"], model, settings)
    names, table, d = header["feature_names"], header["table"], model.encoder.n_features
    state = {**vars(estimator), "n_features_in_": d, "model_": model, "_predictor": learned}
    if names is not None:
        require(_are_strings(names) and len(names) == d, f"there are not {d} names of inputs")
        state["feature_names_in_"] = np.array(names, dtype=object)
    if table is not None:
        state["table_"] = _table(read.decode(table), names or ())
    _keep_factors(read, header["factors"], model.experts)
    estimator.__setstate__(state)
    # A selector that fails, or a wrong K, is the file's fault.
    estimator.predictor_.formula.select(model.centroids[:1])
    return estimator


# ------------------------------------------------------------------------------------- parameters


def _settings(estimator: Any) -> Settings:
    """Check the parameters, also those that only `fit` uses."""
    settings = Settings.of(estimator.get_params(deep=False))
    jobs = settings["n_jobs"]
    require(jobs is None or (is_int(jobs, -_MAX_JOBS, _MAX_JOBS) and jobs != 0), f"n_jobs is {jobs!r:.40}")
    require(isinstance(settings["standardize"], (bool, int)), "standardize is not a bool")
    require(isinstance(settings["verbose"], int), "verbose is not an int")
    check_random_state(settings["random_state"])
    if settings.kernel_is_object:
        check_kernel(settings["kernel"])
    if isinstance(settings.aggregator, NPAE):
        settings.aggregator.check_parameters()
    return settings


def _are_strings(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


# ------------------------------------------------------------- what the predictor learned, factors


def _learned(read: Decoder, tree: dict[str, Any], model: FittedModel, settings: Settings) -> Learned:
    tuning = Tuning(**read.named(tree["tuning"]))
    _check_experts(tuning, model, settings)
    require(is_number(tuning.prune) and 0.0 <= tuning.prune <= 1.0, "prune is not a share")
    require(tuning.disagreement is None or is_number(tuning.disagreement), "disagreement is not a number")
    NPAE(0.0, tuning.disagreement, tuning.scale, tuning.local_noise, tuning.floor).check_parameters()
    if isinstance(aggregator := tuning.applied(settings.aggregator), NPAE):
        aggregator.check_parameters()
    residuals = _scores(read, tree["residuals"], None, model.n_outputs)
    rows = None if model.held_out is None else len(model.held_out.y)
    calibration = _scores(read, tree["calibration"], rows, model.n_outputs)
    calibrated = settings["calibrate"] is not None
    require((calibration is not None) == calibrated, "there are no scores, or those of no rows")
    selector = restored_selector(read, tree["selector"], model, settings)
    return Learned(selector, tuning, restored_choices(read, tree["choices"]), residuals, calibration)


def _check_experts(tuning: Tuning, model: FittedModel, settings: Settings) -> None:
    """Check the number of selected experts, K, and the rows of the own expert, m."""
    M, n = model.experts.n_experts, int(model.experts.offsets[-1])
    K, m, rule = tuning.n_selected, tuning.n_neighbors, settings.aggregator
    require(is_int(K, 0, M), f"K = {K!r:.40} of {M} experts")
    require(is_int(m, 0, n), f"m = {m!r:.40} of {n} rows")
    given = settings.n_selected(M)
    require(given is None or given == K, f"K = {K} is not n_selected")
    given = settings["n_neighbors"]
    require(is_auto(given) or min(int(given), n) == m, f"m = {m} is not n_neighbors")
    require(K + m > 0, "there is no expert to predict with")
    require(not rule.needs_communication or (K > 0 and m == 0), "this rule needs its fixed experts alone")
    require(rule.needs_covariance or K == 0 or m == 0, "this rule cannot combine an own expert with others")


def _scores_tree(out: Encoder, scores: Calibration | None, name: str) -> Any:
    return out.encode(None if scores is None else list(scores), name)


def _scores(read: Decoder, trees: Any, n: int | None, p: int) -> Calibration | None:
    """Restore the scores of n held-out rows, or of any number."""
    if trees is None:
        return None
    first, second, third = trees
    scores = read.array(first, (n, p))
    std = read.array(second, scores.shape)
    positive = len(scores) > 0 and bool((scores >= 0).all() and (std > 0).all())
    require(positive, "scores or standard deviations are not positive")
    weights = None if third is None else read.array(third, scores.shape[:1])
    require(weights is None or bool((weights > 0).all()), "a weight is not positive")
    return Calibration(scores, std, weights)


def _factor_trees(out: Encoder, model: FittedModel, settings: Settings) -> list[Any]:
    """All factors, or the first ones up to the memory budget."""
    experts = model.experts
    assert isinstance(experts, LocalExperts)
    numbers = range(experts.n_experts + (experts.shared is not None))
    n_bytes = np.cumsum([8 * experts.size(i) * (experts.size(i) + 2 * experts.n_outputs) for i in numbers])
    numbers = numbers[: int(np.searchsorted(n_bytes, experts.factor_budget, side="right"))]
    # By the engine that a prediction uses: rounding depends on the number of BLAS threads.
    trained = evaluation_engine(model, settings).map(experts.trained, numbers)
    return [out.encode([t.inverse.lower, t.alpha], f"factors[{i}]") for i, t in enumerate(trained)]


def _keep_factors(read: Decoder, trees: Any, experts: ExpertStore) -> None:
    assert isinstance(experts, LocalExperts)
    require(len(trees) <= experts.n_experts + (experts.shared is not None), "there are factors of no expert")
    for i, (lower, alpha) in enumerate(trees):
        m = experts.size(i)
        L, a = read.array(lower, (m, m)), read.array(alpha, (experts.n_outputs, m))
        require(L.flags.f_contiguous, f"the factor of expert {i} is not in Fortran order")
        experts.keep(i, InverseFactor(L), a, experts.jitter.get(i, 0.0))


# ------------------------------------------------------------------------------------- the table


def _table(values: dict[str, Any], names: Sequence[str]) -> TableSchema:
    columns = [TableColumn(**column) for column in values.pop("columns")]
    table = TableSchema(columns=columns, **values)
    require(all(map(_is_column, columns)), "a column of the training table is not described completely")
    require(
        all(isinstance(text, str) for text in (table.source, table.sha256))
        and _are_strings(table.targets)
        and len(table.targets) > 0
        and all(is_int(number, 0, 2**62) for number in (table.n_rows, table.n_dropped, table.first_row))
        and is_number(table.target_low)
        and is_number(table.target_high)
        and all(isinstance(v, dict) for v in (table.config, table.left_out, table.reading, table.scores))
        and isinstance(table.drop_missing, bool)
        and isinstance(table.skips, list)
        and all(len(skip) == 2 and all(is_int(i, 0, 2**62) for i in skip) for skip in table.skips)
        and [column.name for column in columns] == list(names),
        "the table of the training rows is not described completely",
    )
    return table


def _is_column(column: TableColumn) -> bool:
    return (
        isinstance(column.name, str)
        and column.kind in KINDS
        and isinstance(column.format, str)
        and all(value is None or is_number(value) for value in (column.low, column.high))
    )
