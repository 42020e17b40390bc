"""Partition: which expert owns which training row.

``"kmeans"`` is the paper's choice; ``"balanced"`` (what ``"auto"`` takes) is as local and gives parts of
equal size in O(n log M); ``"random"`` gives every expert a thin sample of everything. Labels of the
user's own are taken as they are. To add a partitioner, subclass :class:`Partitioner`; see
docs/extending.md.
"""

from gpexperts.partition.balanced import BalancedPartitioner
from gpexperts.partition.base import Partitioner
from gpexperts.partition.kmeans import KMeansPartitioner
from gpexperts.partition.random import RandomPartitioner

PARTITIONERS: dict[str, type[Partitioner]] = {
    "random": RandomPartitioner,
    "kmeans": KMeansPartitioner,
    "balanced": BalancedPartitioner,
}

__all__ = [
    "PARTITIONERS",
    "BalancedPartitioner",
    "KMeansPartitioner",
    "Partitioner",
    "RandomPartitioner",
]
