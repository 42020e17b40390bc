"""gpexperts: calibrated Gaussian process regression on tables of 100 to 10^7 rows.

    fit       X, y ─► rows ─► training ─► partition ─► experts ─► model
    predict   query ─► selection ─► experts ─► aggregation ─► calibration ─► mean, std

Each stage is a folder. `rows` says where training rows come from, `training` finds the hyperparameters,
`partition` divides the rows among `experts`, local GPs that share the hyperparameters; `selection` chooses
experts for every query and `aggregation` combines their predictions; `engines` says where the work runs.
`regressor` is the estimator, `pipeline` the fit, `predictor` the prediction. Around them, `io` stores models,
`tables` reads files, `plot` and `report` show models, `paper` holds the experiments, and `cli` is the command
line. docs/architecture.md tells more.
"""

from gpexperts.choices import Choice
from gpexperts.explanation import Explanation
from gpexperts.regressor import DistributedGPRegressor, load

__version__ = "0.1.0"

__all__ = ["Choice", "DistributedGPRegressor", "Explanation", "__version__", "load"]
