"""Experts: local GPs that share one set of hyperparameters, and how queries evaluate them."""
