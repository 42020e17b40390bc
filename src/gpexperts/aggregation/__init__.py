"""Aggregation: what the asked experts say becomes one prediction.

| name | takes experts as | beyond the prior it is |
| --- | --- | --- |
| ``"npae"`` (default) | correlated, exactly | the best linear predictor |
| ``"grbcm"`` | independent given a shared set | close to it, cheaper |
| ``"rbcm"``, ``"bcm"`` | independent | overconfident between experts |
| ``"gpoe"`` | independent | conservative |
| ``"poe"`` | independent | overconfident everywhere |

To add one, subclass :class:`Aggregator`; see docs/extending.md.
"""

from gpexperts.aggregation.base import Aggregator
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

__all__ = ["AGGREGATORS", "BCM", "GRBCM", "NPAE", "RBCM", "Aggregator", "GPoE", "PoE"]
