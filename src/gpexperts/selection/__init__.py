"""Selection: which experts a query asks, best first.

| name | the experts asked | depends on the query |
| --- | --- | --- |
| ``"knn"`` | those with the nearest centroids | yes |
| ``"dnn"`` | those a neural network finds most probable | yes |
| a classifier | those it finds most probable | yes |
| ``"ggm"`` | those that interact most with the others | no |
| ``"all"`` | all | no |

``"auto"`` is knn in the metric the kernel has learned. To add a selector, subclass :class:`Selector`; see
docs/extending.md.
"""

from gpexperts.selection.base import ExpertsView, Selector
from gpexperts.selection.classifier import ClassifierSelector, DNNSelector
from gpexperts.selection.everyone import AllSelector
from gpexperts.selection.graphical import GGMSelector
from gpexperts.selection.nearest import KNNSelector

SELECTORS: dict[str, type[Selector]] = {
    "all": AllSelector,
    "ggm": GGMSelector,
    "knn": KNNSelector,
    "dnn": DNNSelector,
}

__all__ = [
    "SELECTORS",
    "AllSelector",
    "ClassifierSelector",
    "DNNSelector",
    "ExpertsView",
    "GGMSelector",
    "KNNSelector",
    "Selector",
]
