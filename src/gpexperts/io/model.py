"""`save` and `load`: a fitted estimator to one file and back, bit for bit."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpexperts.exceptions import CorruptModelError, UnsavableModelError
from gpexperts.experts.local import Experts
from gpexperts.io import container
from gpexperts.io.checking import check_factors, check_model
from gpexperts.io.registry import estimator_class
from gpexperts.io.values import Decoder, Encoder
from gpexperts.linalg.cholesky import InverseFactor

__all__ = ["load", "save"]

_NOWHERE: dict[str, Any] = {"engine": None, "checkpoint": None, "travelled_": {}}
_OF_THIS_PROCESS = (*_NOWHERE, "_skl_callbacks", "_callback_fit_ctx", "_parent_callback_ctx")
"""Attributes that say where and how a process works, not what was learned. An engine above all: a file
that names a scheduler could make whoever loads it connect to a machine of the file's choice, and one that
names a checkpoint, write to a file of its choice at the next fit."""


def save(model: Any, path: str | os.PathLike[str], *, include_factors: bool = False) -> int:
    """Save a fitted model; see :meth:`gpexperts.DistributedGPRegressor.save`."""
    from gpexperts import __version__

    cls = estimator_class()
    if type(model) is not cls:
        raise UnsavableModelError(
            f"Only a {cls.__name__} itself can be saved as .gpx, not a {type(model).__qualname__}. "
            "Save it with skops: skops.io.dump(model, 'model.skops')."
        )
    check_is_fitted(model)
    if include_factors:  # they are computed in this process, which needs the rows here
        model = model.to_local()
    encoder = Encoder()
    state = model._state(lambda there: there.streamed(model._factor_budget))
    state = {name: value for name, value in state.items() if name not in _OF_THIS_PROCESS}
    header = {"version": __version__, "model": encoder.state(state, "")}
    if isinstance(model._experts, Experts):  # those of a cluster are not here to be looked at
        try:
            check_model(model)
        except CorruptModelError as error:
            raise UnsavableModelError(f"This model could not be loaded again: {error}") from error
    if include_factors:
        header["factors"] = encoder.encode(_factors(model), "factors")
    return container.write(path, header, encoder.arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model that was saved with :meth:`gpexperts.DistributedGPRegressor.save`.

    Nothing in a file can make this run code. It takes memory in proportion to the length of the file,
    whatever the file claims.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    model : DistributedGPRegressor
        Predicts bit for bit what the saved model predicts. Its `engine` and its `checkpoint` are None: where
        to work and where to write is for the one who loads to say.

    Raises
    ------
    NotAModelFileError, NewerFormatError, CorruptModelError
        If the file is something else, needs a newer gpexperts, or was cut short or altered. All are
        :class:`~gpexperts.exceptions.ModelFileError`.
    """
    header, arrays = container.read(path)
    decoder = Decoder(arrays)
    try:
        model = estimator_class()()
        state = decoder.attributes(header["model"], type(model))
        model.__setstate__({**model.__dict__, **state, **_NOWHERE})
        check_model(model)
        model._experts.factor_budget = model._factor_budget  # of this machine, not of the one that saved
        if "factors" in header:
            rows = decoder.decode(header["factors"])
            check_factors(model._experts, rows)
            for i, lower, alpha in rows:
                model._experts.keep(i, InverseFactor(lower), alpha, model._experts.jitter.get(i, 0.0))
    except MemoryError:
        raise
    except Exception as error:
        # The checksum was right, so that this is a file made by hand or by a defect; whatever its tree
        # ran into, the caller should hear that the file is at fault.
        reason = str(error) if isinstance(error, CorruptModelError) else f"{type(error).__name__}: {error}"
        raise CorruptModelError(f"{path} does not describe a model: {reason}") from error
    return model


def _factors(model: Any) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """All factors, or as many as the memory budget lets a model keep."""
    experts = model._experts
    everyone = range(experts.n_experts + (experts.shared is not None))
    n_bytes = np.cumsum([8 * experts.size(i) * (experts.size(i) + experts.n_outputs) for i in everyone])
    who = everyone[: int(np.searchsorted(n_bytes, experts.factor_budget, side="right"))]
    # By the engine, as a prediction does it: the number of BLAS threads is part of the rounding.
    trained = model._engine().map(experts.trained, who)
    return [(i, t.inverse.lower, t.alpha) for i, t in zip(who, trained, strict=True)]
