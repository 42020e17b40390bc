"""What a fitted model predicts about several points at once, and about the function itself.

Every prediction is linear in the targets, mean(x) = w(x)ᵀ y. `weights` collects w(x); `covariance` derives
the covariance of prediction errors, `samples` draws functions, and `gradient` differentiates w.
"""
