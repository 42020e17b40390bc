"""Every warning and error of this library that a caller may want to catch by name."""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning

__all__ = [
    "BoundWarning",
    "ClusterError",
    "ConstantTargetWarning",
    "CorruptModelError",
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
    """A hyperparameter ended at a bound: the optimum may lie outside."""


class ConstantTargetWarning(GpexpertsWarning):
    """The target has a single value: there is nothing to learn."""


class FewerExpertsWarning(GpexpertsWarning):
    """The partition has fewer non-empty parts than were asked for."""


class NoNoiseWarning(GpexpertsWarning):
    """The kernel has no noise term, but the training rows look noisy."""


class RepairWarning(GpexpertsWarning):
    """Numerics had to be mended: jitter was added to make a matrix positive definite."""


class NotPositiveDefiniteError(ValueError):
    """A covariance matrix could not be factorised, even with jitter."""


class MemoryBudgetError(ValueError):
    """A fit needs more memory than its budget; nothing has been computed."""


class RefitRequiredError(ValueError):
    """A setting was changed that the fitted experts cannot serve."""


class TooFewRowsError(ValueError):
    """Too few rows were held out for an interval of the level that was asked for."""


class ModelFileError(ValueError):
    """Base class of what can be wrong with a model file."""


class NotAModelFileError(ModelFileError):
    """The file is something else than a gpexperts model."""


class NewerFormatError(ModelFileError):
    """The model file was written by a newer gpexperts, in a format this one does not know."""


class CorruptModelError(ModelFileError):
    """The model file was cut short, altered, or made by hand."""


class UnsavableModelError(TypeError):
    """The model has a part that a model file cannot hold, for example a class of the user's own."""


class TableError(ValueError):
    """A table on disk cannot be read, or does not fit the model."""


class ClusterError(RuntimeError):
    """A cluster could not do its work: no worker, no scheduler, no progress, or work that ends workers.

    Attributes
    ----------
    deadly : bool
        Whether it was the work that ended the workers.
    """

    deadly = False


class MissingExtraError(ImportError):
    """A part of the library needs an optional dependency that is not installed.

    Parameters
    ----------
    what : str
        What the user asked for.
    extra : str
        The extra that provides it, as in ``pip install 'gpexperts[extra]'``.
    """

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the optional dependencies of the extra [{extra}]. "
            f"Install them with: pip install 'gpexperts[{extra}]'"
        )
