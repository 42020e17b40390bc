"""Mean and standard deviation over two inputs."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from gpexperts import inspection
from gpexperts.plot.base import Display, as_label

__all__ = ["MapDisplay"]

_MAX_POINTS = 2000
_MARGIN = 0.03


class MapDisplay(Display):
    """Two maps, of the mean and of its standard deviation, in the coordinates of the user.

    Parameters
    ----------
    x, y : ndarray of shape (n_x,) and (n_y,)
        Coordinates of the grid.
    mean, std : ndarray of shape (n_y, n_x)
        Prediction at the grid; std is that of the noise-free function.
    points : ndarray of shape (n, 2) or None
        Places to mark, such as those of the training rows.
    values : ndarray of shape (n,) or None
        Observations at the points; they are coloured on the scale of the mean.
    names : tuple of str
        Names of the two inputs, and of the target.

    Attributes
    ----------
    axes_ : list of Axes
        Those of the mean and of the standard deviation; `ax_` is the first.
    """

    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray,
        mean: np.ndarray,
        std: np.ndarray,
        *,
        points: np.ndarray | None = None,
        values: np.ndarray | None = None,
        names: tuple[str, str, str] = ("x", "y", "target"),
    ) -> None:
        self.x, self.y, self.mean, self.std = x, y, mean, std
        self.points, self.values, self.names = points, values, names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        features: tuple[int | str, int | str] = (0, 1),
        n_grid: int = 80,
        ax: Any = None,
    ) -> Self:
        """Draw a model over the range of two of its inputs.

        Parameters
        ----------
        estimator : DistributedGPRegressor
            Fitted to one target.
        X : array-like of shape (n, d), optional
            Rows to mark; the training rows by default.
        y : array-like of shape (n,), optional
            Their observations, drawn in the colours of the mean.
        features : tuple of int or str
            Two inputs that are numbers, by number or name; others are as in the training row whose inputs are
            nearest to the median.
        n_grid : int
            Points of the grid in each direction.
        ax : sequence of two Axes, optional
        """
        inspection.single_output(estimator, "MapDisplay")
        if len(inspection.feature_names(estimator)) < 2:
            raise ValueError("MapDisplay is for models of two or more inputs; this one has 1.")
        columns = [inspection.find_number(estimator, feature) for feature in features]
        i, j = (column.inputs.start for column in columns)
        training = inspection.training_inputs(estimator)
        x, v = (_grid(training[:, k], n_grid) for k in (i, j))
        Z = np.tile(_middle(training), (len(x) * len(v), 1))
        Z[:, i], Z[:, j] = np.tile(x, len(v)), np.repeat(v, len(x))
        mean, std = estimator.predictor_.predict(Z, return_std=True, latent=True)
        rows = training if X is None else inspection.encoded_rows(estimator, X)
        shape = (len(v), len(x))
        table = getattr(estimator, "table_", None)
        return cls(
            x,
            v,
            mean[:, 0].reshape(shape),
            std[:, 0].reshape(shape),
            points=rows[:, [i, j]],
            values=None if y is None else np.asarray(y, dtype=float),
            names=(columns[0].name, columns[1].name, "target" if table is None else str(table.target)),
        ).plot(ax)

    @classmethod
    def from_predictions(
        cls, x: Any, y: Any, mean: Any, std: Any, *, points: Any = None, values: Any = None, ax: Any = None
    ) -> Self:
        """Draw predictions (n_y, n_x) on the grid of x (n_x,) and y (n_y,)."""
        grid = (np.asarray(x, dtype=float), np.asarray(y, dtype=float))
        return cls(
            *grid,
            np.asarray(mean),
            np.asarray(std),
            points=None if points is None else np.asarray(points),
            values=None if values is None else np.asarray(values),
        ).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on two axes, or on a new figure."""
        self.axes_ = self._axes(2, ax)
        limits = np.quantile(self.mean, [0.0, 1.0]) if self.values is None else self._limits()
        shown = (
            (self.axes_[0], self.mean, "viridis", f"mean of {as_label(self.names[2])}", limits),
            (self.axes_[1], self.std, "magma", "standard deviation", (0.0, float(self.std.max()))),
        )
        for axis, field, colours, label, (low, high) in shown:
            drawn = axis.pcolormesh(
                self.x, self.y, field, cmap=colours, vmin=low, vmax=high, shading="nearest", rasterized=True
            )
            axis.figure.colorbar(drawn, cax=axis.inset_axes([1.03, 0.0, 0.04, 1.0]), label=label)
            axis.set(xlabel=as_label(self.names[0]), ylabel=as_label(self.names[1]), aspect=self._aspect())
        self._mark(limits)
        return self

    def _limits(self) -> Any:
        """Limits of the colours; a few outliers among the observations do not stretch them."""
        assert self.values is not None
        low, high = np.quantile(self.values, [0.01, 0.99])
        return min(low, self.mean.min()), max(high, self.mean.max())

    def _aspect(self) -> str:
        """Equal units in both directions, unless that would make a narrow strip."""
        ratio = np.ptp(self.x) / np.ptp(self.y)
        return "equal" if 0.25 <= ratio <= 4 else "auto"

    def _mark(self, limits: Any) -> None:
        if self.points is None:
            return
        rows = np.linspace(0, len(self.points) - 1, min(len(self.points), _MAX_POINTS)).astype(int)
        places = self.points[rows].T
        if self.values is None:
            self.axes_[0].plot(*places, ".", color="white", ms=2, alpha=0.5)
        else:
            self.axes_[0].scatter(
                *places, c=self.values[rows], s=12, cmap="viridis", vmin=limits[0], vmax=limits[1],
                edgecolor="white", linewidth=0.3,
            )  # fmt: skip
        self.axes_[1].plot(*places, ".", color="white", ms=2, alpha=0.5)
        for axis in self.axes_:
            axis.set(xlim=_ends(self.x), ylim=_ends(self.y))


def _middle(X: np.ndarray) -> np.ndarray:
    """The row nearest to the median: medians of codes would be no category."""
    scale = X.std(axis=0)
    distance = ((X - np.median(X, axis=0)) / np.where(scale > 0, scale, 1.0)) ** 2
    return np.asarray(X[np.argmin(distance.sum(axis=1))])


def _grid(x: np.ndarray, n: int) -> np.ndarray:
    low, high = x.min(), x.max()
    margin = _MARGIN * (high - low)
    return np.linspace(low - margin, high + margin, n)


def _ends(x: np.ndarray) -> tuple[float, float]:
    return float(x[0]), float(x[-1])
