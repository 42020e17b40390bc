"""Selection: which experts a query asks, best first.

| name | the experts asked | depends on the query |
| --- | --- | --- |
| ``"rows"`` | those who own the nearest rows, in the metric the kernel has learned | yes |
| ``"knn"`` | those with the nearest centroids | yes |
| ``"dnn"`` | those a neural network finds most probable | yes |
| a classifier | those it finds most probable | yes |
| ``"ggm"`` | those that interact most with the others | no |
| ``"all"`` | all | no |

``"auto"`` is ``"rows"``. To add a selector, subclass :class:`Selector`; see
docs/extending.md.
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
    "rows": NearestRowsSelector,
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
