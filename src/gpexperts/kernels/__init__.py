"""Kernels: covariance functions with analytic gradients, built from scikit-learn's kernel objects."""
