"""gpexperts: a calibrated Gaussian process on data that no ordinary GP can hold.

    X, y ─► partition ─► experts ─► selection ─► aggregation ─► mean, std
                         (local GPs,   (K of M,
                          one θ)        per query)

Each stage is a folder: `partition` says who owns which rows, `experts` trains and answers, `selection`
says who is asked, `aggregation` combines what they say; `engines` says where the work runs. The
estimator in `regressor` composes them, `metrics` scores the result, `persistence` saves it. Around that,
`tables` reads files, `plot` and `report` show what a model does, and `cli` is the command line.
"""

from typing import TYPE_CHECKING, Any

from gpexperts.explanation import Explanation
from gpexperts.regressor import DistributedGPRegressor

if TYPE_CHECKING:
    from gpexperts.io import load

__version__ = "0.1.0"

__all__ = ["DistributedGPRegressor", "Explanation", "__version__", "load"]


def __getattr__(name: str) -> Any:
    # Everything that a model file may hold is imported before one is read, not with this package.
    if name == "load":
        from gpexperts.io import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
