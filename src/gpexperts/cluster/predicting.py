"""`predict` for dask arrays and frames: lazy, block by block, on the cluster that holds the experts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpexperts.aggregation import Aggregator
from gpexperts.cluster.experts import ClusterExperts
from gpexperts.cluster.inputs import checked_block, lazy_blocks
from gpexperts.cluster.tasks import Gathered
from gpexperts.scaling import Standardizer
from gpexperts.selection.base import Selector, checked_index

if TYPE_CHECKING:
    from gpexperts.regressor import DistributedGPRegressor

__all__ = ["predict_collection"]


class _Plan(NamedTuple):
    """What every block needs besides its rows; kept once on the cluster.

    Each task of a prediction depends on it or on several others. Dask fuses chains of single dependencies,
    in a way that differs from one call of compute to the next: the same name would then stand for
    different work.
    """

    x_scale: Standardizer
    y_scale: Standardizer
    selector: Selector
    n_selected: int
    n_experts: int
    aggregator: Aggregator
    noise: float | None
    """None predicts the latent function."""
    variance_scale: np.ndarray
    """(p,) factor of an observation's variance."""
    one_output: bool


def predict_collection(
    model: DistributedGPRegressor, experts: ClusterExperts, X: Any, *, return_std: bool, latent: bool
) -> Any:
    """Return dask arrays of means, and of standard deviations if wanted; nothing is computed yet.

    Where rows may not leave their workers (``share_inputs=False``) the work is begun at once.

    A block of queries becomes one task per group of experts, and one per pair of groups where
    covariances are wanted: choose blocks of some ten thousand rows.
    """
    import dask.array as da

    engine = experts.engine
    names, lengths, blocks = lazy_blocks(X, "X")
    known = list(getattr(model, "feature_names_in_", names or []))
    if names is not None and names != known:
        raise ValueError(
            f"The columns of X are {names}, but the model was fitted with {known}; select them in that order."
        )
    rule = model._rule()
    aggregator = model._combining(rule)
    M, G = experts.n_experts, len(experts.groups)
    made = _Plan(
        x_scale=model._x_scale,
        y_scale=model._y_scale,
        selector=model._selector(),
        n_selected=rule.n_selected,
        n_experts=M,
        aggregator=aggregator,
        noise=None if latent else experts.covariance.noise_variance,
        variance_scale=model._variance_scale(),
        one_output=model._y_ndim == 1,
    )
    (plan,) = engine.persist([engine.task("plan of a prediction", _same, _Opaque(made))])
    pairs = {(g, h) for g in range(G) for h in range(g, G)} if aggregator.needs_covariance else None
    arrays: tuple[list[Any], list[Any]] = [], []
    for b, block in enumerate(blocks):
        queries = engine.task(f"queries {b}", _queries, b, block, plan)
        index = engine.task(f"experts of queries {b}", _selected, queries, plan)
        gathered = experts.graph(
            queries,
            index,
            asked=np.arange(M),
            pairs=pairs,
            communication=aggregator.needs_communication,
            prune=rule.prune,
            surprise=aggregator.needs_surprise,
        )
        answer = engine.task(f"predictions {b}", _combined, gathered, plan)
        n = lengths[b] if lengths is not None else np.nan
        shape = (n,) if made.one_output else (n, experts.n_outputs)
        values = [engine.task(f"predictions {b}", _answer, answer, k, plan) for k in (0, 1)]
        if experts.private:  # Dask's optimisation of arrays forgets where work must be done
            values = engine.persist(values)
        for k in (0, 1):
            arrays[k].append(da.from_delayed(values[k], shape=shape, dtype=float))
    mean, std = map(da.concatenate, arrays)
    return (mean, std) if return_std else mean


class _Opaque:
    """Hides a value from Dask, which would look for tasks in it."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _same(opaque: _Opaque) -> Any:
    return opaque.value


def _queries(number: int, X: Any, plan: _Plan) -> np.ndarray:
    X, d = checked_block(number, X), len(plan.x_scale.shift)
    if X.shape[1] != d:
        raise ValueError(
            f"X has {X.shape[1]} features, but DistributedGPRegressor is expecting {d} features as input."
        )
    return plan.x_scale.transform(X)


def _selected(X: np.ndarray, plan: _Plan) -> np.ndarray:
    return checked_index(plan.selector.select(X, plan.n_selected), len(X), plan.n_experts)


def _combined(gathered: Gathered, plan: _Plan) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (n, p), in the user's units."""
    prediction = plan.aggregator.combine(gathered.moments)
    if plan.noise is None:
        var = np.broadcast_to(prediction.var[:, None], prediction.mean.shape)
    else:
        var = plan.variance_scale * prediction.observation_var(plan.noise)
    return plan.y_scale.restore(prediction.mean), np.sqrt(var) * plan.y_scale.scale


def _answer(answer: tuple[np.ndarray, np.ndarray], k: int, plan: _Plan) -> np.ndarray:
    return answer[k][:, 0] if plan.one_output else answer[k]
