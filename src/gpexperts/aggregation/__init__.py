"""Aggregation: combine the predictions of the selected experts.

| name | experts are treated as | the result is |
| --- | --- | --- |
| ``"npae"`` (default) | correlated, with their exact covariance | the best linear predictor |
| ``"grbcm"`` | independent given a shared set | close to it, and cheaper |
| ``"rbcm"``, ``"bcm"`` | independent | overconfident between experts |
| ``"gpoe"`` | independent | conservative |
| ``"poe"`` | independent | overconfident everywhere |

`MostCertain` applies one of these rules to the experts with the smallest variances.
To add an aggregator, subclass :class:`Aggregator`; see docs/extending.md.
"""

from gpexperts.aggregation.base import Aggregator
from gpexperts.aggregation.certain import MostCertain
from gpexperts.aggregation.grbcm import GRBCM
from gpexperts.aggregation.independent import BCM, RBCM, GPoE, PoE
from gpexperts.aggregation.npae import NPAE

AGGREGATORS: dict[str, type[Aggregator]] = {
    "poe": PoE,
    "gpoe": GPoE,
    "bcm": BCM,
    "rbcm": RBCM,
    "grbcm": GRBCM,
    "npae": NPAE,
}

__all__ = ["AGGREGATORS", "BCM", "GRBCM", "NPAE", "RBCM", "Aggregator", "GPoE", "MostCertain", "PoE"]
