"""The rows of a client in a fit: held out or kept, in the units of the experts, and divided into parts."""

from __future__ import annotations

import numpy as np

from gpexperts.calibration import draw_held_out
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.store import Observations
from gpexperts.federated.local import covariance_named, store_of
from gpexperts.federated.messages import Parcel, Refusal
from gpexperts.federated.policy import ClientRows, checked_rows
from gpexperts.federated.state import State
from gpexperts.kernels.base import Covariance
from gpexperts.memory import bytes_of
from gpexperts.partition.base import Parts
from gpexperts.row_noise import plain
from gpexperts.rows.arrays import ArrayRows
from gpexperts.rows.base import Units
from gpexperts.scaling import Standardizer

__all__ = ["Holdings"]


class Holdings:
    """The rows of a client, and what follows from them and the state of the fit.

    Parameters
    ----------
    rows : ClientRows
    state : State
    """

    def __init__(self, rows: ClientRows, state: State) -> None:
        self.X, self.y = checked_rows(rows)
        self.state = state

    @property
    def _held_out_numbers(self) -> np.ndarray:
        if not self.state.value("calibrate"):
            return np.empty(0, dtype=np.int64)
        return draw_held_out(len(self.X), np.random.RandomState(self.state.value("seed")))

    @property
    def kept(self) -> ArrayRows:
        """Rows that are not held out, in the user's units."""
        return ArrayRows(self.X, self.y).without(self._held_out_numbers)

    @property
    def scaled(self) -> ArrayRows:
        """The same rows, in the units of the experts."""
        return self.kept.in_units(self.units)

    @property
    def units(self) -> Units:
        """The user's units ↔ the units of the experts, as the server sent them."""
        x_shift, x_scale, y_shift, y_scale = (
            self.state.array(name) for name in ("x_shift", "x_scale", "y_shift", "y_scale")
        )
        return Units(Standardizer(x_shift, x_scale), Standardizer(y_shift, y_scale))

    @property
    def held_out(self) -> Observations | None:
        """Rows for the calibration, in the units of the experts."""
        numbers = self._held_out_numbers
        if not len(numbers):
            return None
        return Observations(*self.units.apply(self.X[numbers], self.y[numbers], plain(len(numbers))))

    def covariance(self, request: Parcel) -> Covariance:
        """Return the kernel of a message."""
        covariance = covariance_named(str(request.values["kernel"]), self.X.shape[1])
        theta, expected = request.arrays["theta"], covariance.kernel.theta
        if theta.shape != expected.shape or not np.isfinite(theta).all():
            raise Refusal(f"θ must be {len(expected)} finite numbers.")
        return covariance.at(theta)

    def parts(self) -> Parts:
        """Return the rows of each expert."""
        labels = self.state.array("labels")
        order = np.argsort(labels, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(labels))])
        return Parts(self.scaled.take(np.arange(len(labels))).take(order), offsets)

    def experts(self) -> LocalExperts:
        """Return the experts, with the trained θ."""
        shared = None
        if "shared_X" in self.state:
            X, y = self.state.array("shared_X"), self.state.array("shared_y")
            shared = Observations(X, y, plain(len(X)))
        covariance = covariance_named(self.state.value("kernel"), self.X.shape[1])
        theta = self.state.array("theta")
        return store_of(self.parts(), covariance.at(theta), shared, bytes_of("auto"))
