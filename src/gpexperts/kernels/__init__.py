"""Kernels: covariance functions with analytic gradients, read from scikit-learn's kernel objects."""
