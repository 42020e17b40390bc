"""Linear algebra: Cholesky factorisation with a jitter ladder, on LAPACK without the interpreter lock."""
