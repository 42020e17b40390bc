"""Selection: which experts a query uses, best first.

| name | selected experts | depends on the query |
| --- | --- | --- |
| ``"nearest_rows"`` | those with the nearest training rows in the kernel's metric | yes |
| ``"knn"`` | those with the nearest centroids | yes |
| ``"dnn"`` | the most probable under a neural network | yes |
| a classifier | the most probable under it | yes |
| ``"ggm"`` | those with the largest partial correlations to others | no |
| ``"all"`` | all | no |

``"auto"`` means ``"nearest_rows"``. To add a selector, subclass :class:`Selector`; see docs/extending.md.
"""

from gpexperts.selection.all import AllSelector
from gpexperts.selection.base import ExpertsView, Selector
from gpexperts.selection.classifier import ClassifierSelector, DNNSelector
from gpexperts.selection.graphical import GGMSelector
from gpexperts.selection.knn import KNNSelector
from gpexperts.selection.nearest_rows import NearestRowsSelector

SELECTORS: dict[str, type[Selector]] = {
    "all": AllSelector,
    "ggm": GGMSelector,
    "knn": KNNSelector,
    "dnn": DNNSelector,
    "nearest_rows": NearestRowsSelector,
}

__all__ = [
    "SELECTORS",
    "AllSelector",
    "ClassifierSelector",
    "DNNSelector",
    "ExpertsView",
    "GGMSelector",
    "KNNSelector",
    "NearestRowsSelector",
    "Selector",
]
