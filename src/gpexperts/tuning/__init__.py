"""Which experts a query uses, and how the variance is corrected: chosen by held-out rows.

setups        what can be chosen: m rows of the own expert, K selected experts, corrections of the variance
choice        the setup, by log density, error and time
corrections   of the variance, by log density alone
"""

from gpexperts.tuning.choice import Tuned, scores_of, tune
from gpexperts.tuning.setups import EXPERTS, NEIGHBORS, Setups, Tuning, leaves_corrections

__all__ = ["EXPERTS", "NEIGHBORS", "Setups", "Tuned", "Tuning", "leaves_corrections", "scores_of", "tune"]
