"""Data sets of the paper, synthetic and real.

`load(name)` returns the arrays of a data set, `split(name)` its training and test rows;
`analytic_problem` is the synthetic problem with one input.
"""

from gpexperts.paper.datasets.base import DATASETS, DataSet, DataSetMissingError, find, load
from gpexperts.paper.datasets.clients import owners
from gpexperts.paper.datasets.splits import VARIANTS, split
from gpexperts.paper.datasets.synthetic import Split, analytic_function, analytic_problem

__all__ = [
    "DATASETS",
    "VARIANTS",
    "DataSet",
    "DataSetMissingError",
    "Split",
    "analytic_function",
    "analytic_problem",
    "find",
    "load",
    "owners",
    "split",
]
