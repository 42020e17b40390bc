"""Partition: assign every training row to an expert.

``"kmeans"`` is the paper's choice. ``"balanced"`` (used by ``"auto"``) is as local, and its parts have equal
sizes; it takes O(n log M). ``"random"`` gives every expert a random sample of the rows. An array of labels is
used as given. To add a partitioner, subclass :class:`Partitioner`; see docs/extending.md.
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
