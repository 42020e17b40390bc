"""gpexperts: calibrated Gaussian process regression on tables of 100 to 10^7 rows.

    fit       X, y ─► rows ─► training ─► partition ─► experts ─► model
    predict   query ─► selection ─► experts ─► aggregation ─► calibration ─► mean, std

Each stage is a folder. `rows` are the sources of training rows, `training` finds the hyperparameters,
`partition` divides the rows among `experts`, local GPs that share the hyperparameters; `selection` chooses
experts for every query, `aggregation` combines their predictions, and `engines` run the work.
`regressor` is the estimator, `drop_in` scikit-learn's interface to it, `pipeline` the fit, `predictor` the
prediction, and `joint` what it predicts about several points at once. Around them, `io` stores models,
`tables` reads files, `plot` and `report` show models, `paper` holds the experiments, and `cli` is the command
line. See docs/architecture.md.
"""

from gpexperts.choices import Choice
from gpexperts.drop_in import GaussianProcessRegressor
from gpexperts.explanation import Explanation, OwnExplanation
from gpexperts.regressor import DistributedGPRegressor, load

__version__ = "0.1.0"

__all__ = [
    "Choice",
    "DistributedGPRegressor",
    "Explanation",
    "GaussianProcessRegressor",
    "OwnExplanation",
    "__version__",
    "load",
]
