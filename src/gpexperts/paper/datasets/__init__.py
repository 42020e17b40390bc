"""Data sets: made up and real.

`load(name)` gives the arrays of one of the paper's data sets, `split(name)` its training and test rows as
the paper divides them; `analytic_problem` makes up the paper's function of one input.
"""

from gpexperts.paper.datasets.base import DATASETS, DataSet, DataSetMissingError, find, load
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
    "split",
]
