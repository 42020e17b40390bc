"""The closed list of classes that a model file may name.

A file says `"class": "KNNSelector"`, and that name is looked up here and nowhere else: no import by
name, no attribute access by name. The names are part of the file format; a class that is renamed keeps
its old name in this list.
"""

from __future__ import annotations

from typing import Any

from sklearn.gaussian_process import kernels
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import LabelBinarizer

from gpexperts.aggregation import AGGREGATORS
from gpexperts.calibration import Calibration
from gpexperts.engines import ThreadEngine
from gpexperts.experts.local import Experts
from gpexperts.partition import PARTITIONERS
from gpexperts.scaling import Standardizer
from gpexperts.selection import SELECTORS, ClassifierSelector
from gpexperts.tables.schema import Column, TableSchema
from gpexperts.training.likelihood import TraceRow
from gpexperts.training.schedule import Evidence
from gpexperts.tuning import Rule

__all__ = ["KERNELS", "RECORDS", "SKLEARN", "STATEFUL", "estimator_class"]


def _by_name(*classes: type) -> dict[str, type]:
    return {cls.__name__: cls for cls in classes}


RECORDS = _by_name(Calibration, Column, Evidence, Rule, Standardizer, TableSchema, TraceRow)
"""Named tuples and dataclasses: their fields are all there is to them."""

STATEFUL = _by_name(
    Experts, ClassifierSelector, ThreadEngine,
    *AGGREGATORS.values(), *PARTITIONERS.values(), *SELECTORS.values(),
)  # fmt: skip
"""This library's own objects: what `__getstate__` gives is all there is to them."""

KERNELS = _by_name(
    kernels.CompoundKernel, kernels.ConstantKernel, kernels.DotProduct, kernels.ExpSineSquared,
    kernels.Exponentiation, kernels.Matern, kernels.PairwiseKernel, kernels.Product,
    kernels.RationalQuadratic, kernels.RBF, kernels.Sum, kernels.WhiteKernel,
)  # fmt: skip
"""Their parameters are all there is to them."""

SKLEARN: dict[str, tuple[type, tuple[str, ...]]] = {
    "MLPClassifier": (MLPClassifier, ("_label_binarizer",)),
    "LabelBinarizer": (LabelBinarizer, ()),
}
"""Parameters, attributes that end in an underscore, and the further attributes named here."""


def estimator_class() -> Any:
    """The one class whose instances are saved; looked up late, for it imports this package."""
    from gpexperts.regressor import DistributedGPRegressor

    return DistributedGPRegressor
