"""Warnings and errors of this library that a caller may want to catch by name."""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning

__all__ = [
    "BoundWarning",
    "ClusterError",
    "ColumnWarning",
    "ConstantTargetWarning",
    "CorruptModelError",
    "FewRowsWarning",
    "FewerExpertsWarning",
    "GpexpertsWarning",
    "MemoryBudgetError",
    "MissingExtraError",
    "ModelFileError",
    "NewerFormatError",
    "NoNoiseWarning",
    "NotAModelFileError",
    "NotPositiveDefiniteError",
    "RefitRequiredError",
    "RepairWarning",
    "TableError",
    "TooFewRowsError",
    "UnsavableModelError",
]


class GpexpertsWarning(UserWarning):
    """Base class of this library's warnings."""


class BoundWarning(GpexpertsWarning, ConvergenceWarning):
    """A hyperparameter ended at a bound: the optimum may be outside."""


class ColumnWarning(GpexpertsWarning):
    """A column has rare or unseen levels, no values, or gaps that training has not seen."""


class ConstantTargetWarning(GpexpertsWarning):
    """The target has a single value: no model can be trained."""


class FewRowsWarning(GpexpertsWarning):
    """So few rows determine neither the noise nor the length scales."""


class FewerExpertsWarning(GpexpertsWarning):
    """The partition has fewer non-empty parts than requested."""


class NoNoiseWarning(GpexpertsWarning):
    """The kernel has no noise term, but the training rows look noisy."""


class RepairWarning(GpexpertsWarning):
    """Jitter was added to a matrix to make it positive definite."""


class NotPositiveDefiniteError(ValueError):
    """A covariance matrix could not be factorised, even with jitter."""


class MemoryBudgetError(ValueError):
    """A fit needs more memory than its budget; nothing has been computed."""


class RefitRequiredError(ValueError):
    """A setting was changed that needs a new fit."""


class TooFewRowsError(ValueError):
    """Too few rows were held out for an interval of the requested level."""


class ModelFileError(ValueError):
    """Base class of errors of model files."""


class NotAModelFileError(ModelFileError):
    """The file is not a gpexperts model."""


class NewerFormatError(ModelFileError):
    """The model file was written by a newer gpexperts, in a format that this version cannot read."""


class CorruptModelError(ModelFileError):
    """The model file is truncated or was altered."""


class UnsavableModelError(TypeError):
    """The model has a part that a model file cannot hold, for example a user-defined class."""


class TrendError(ValueError):
    """The regressor of `trend` cannot be fitted, or does not predict finite numbers."""


class TableError(ValueError):
    """A table on disk cannot be read, or does not fit the model."""


class ClusterError(RuntimeError):
    """A cluster has failed: no worker, no scheduler, no progress, or a task that kills workers.

    Attributes
    ----------
    killed_workers : bool
        Whether a task has killed its workers.
    """

    killed_workers = False


class MissingExtraError(ImportError):
    """A part of the library needs an optional dependency that is not installed.

    Parameters
    ----------
    what : str
        The feature or setting that needs it.
    extra : str
        The extra that provides it, as in ``pip install 'gpexperts[extra]'``.
    """

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the optional dependencies of the extra [{extra}]. "
            f"Install them with: pip install 'gpexperts[{extra}]'"
        )
