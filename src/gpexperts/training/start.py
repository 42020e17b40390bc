"""A trained kernel from which another is trained: for further inputs, or for other targets."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from gpexperts.kernels.base import Covariance, is_length_scale
from gpexperts.rows.base import Units

__all__ = ["Start"]

_TINY = np.finfo(float).tiny


class Start(NamedTuple):
    """A trained kernel, and what of it another one starts with."""

    name: str
    """Of the kernel."""
    covariance: Covariance
    units: Units
    """In which the kernel was trained."""
    keeps: Literal["lengths", "noise", "all"]
    """Its length scales alone; these and its noise, the rest of the variance being signal; or all of it."""

    def applied(self, covariance: Covariance, units: Units, variance: float) -> Covariance:
        """Return a named covariance that starts there, for targets of this variance in other units.

        It may have further inputs, after the others.
        """
        kernel, theta = covariance.kernel, covariance.kernel.theta.copy()
        lengths = self.covariance.kernel.theta[is_length_scale(self.covariance.kernel)]
        theta[np.flatnonzero(is_length_scale(kernel))[: len(lengths)]] = lengths
        if self.keeps != "lengths":
            ratio = float(np.mean((self.units.y.scale / units.y.scale) ** 2))
            noise = self.covariance.noise_variance * ratio
            signal = getattr(self.covariance, "signal_variance", 0.0) * ratio
            if self.keeps == "noise":
                noise = min(noise, 0.99 * variance)
                signal = variance - noise
            names = [h.name for h in kernel.hyperparameters if not h.fixed for _ in range(h.n_elements)]
            for name, value in (("constant_value", signal), ("noise_level", noise)):
                at = [name_of.endswith(name) for name_of in names]
                theta[at] = np.log(max(value, _TINY))
        return covariance.at(np.clip(theta, *kernel.bounds.T))
