"""Data sets: made up and real."""

from gpexperts.datasets.synthetic import Split, analytic_function, analytic_problem

__all__ = ["Split", "analytic_function", "analytic_problem"]
