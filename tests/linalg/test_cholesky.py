"""Cholesky factorisation: without jitter if possible, with the least jitter otherwise, or an error."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, DotProduct, Kernel, WhiteKernel

from gpexperts.exceptions import NotPositiveDefiniteError
from gpexperts.kernels.named import covariance_of
from gpexperts.linalg.cholesky import JITTERS, factorise
from gpexperts.training.likelihood import Block, log_marginal_likelihood


def positive_definite(m: int, seed: int = 0) -> np.ndarray:
    B = np.random.default_rng(seed).normal(size=(m, m + 5))
    return B @ B.T / m


@pytest.mark.parametrize("m", [1, 2, 63, 64, 65, 150])
def test_factor_solves_inverse_and_determinant(m: int) -> None:
    C = positive_definite(m)
    b = np.random.default_rng(1).normal(size=(3, m))
    factor = factorise(C.copy())
    L = np.tril(factor.lower)
    assert factor.jitter == 0.0
    np.testing.assert_allclose(L @ L.T, C, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(factor.solve(b.copy()) @ C, b, atol=1e-8)
    np.testing.assert_allclose(factor.log_determinant(), np.linalg.slogdet(C)[1], rtol=1e-10)
    inverted = factorise(C.copy()).inverted()
    np.testing.assert_allclose(inverted.whiten(b.copy()), np.linalg.solve(L, b.T).T, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        inverted.whiten_transposed(b.copy()), np.linalg.solve(L.T, b.T).T, rtol=1e-7, atol=1e-9
    )
    inverse = factor.inverse()
    np.testing.assert_array_equal(inverse, inverse.T)
    np.testing.assert_allclose(inverse @ C, np.eye(m), atol=1e-8)


@pytest.mark.parametrize("m", [3, 130])
def test_jitter_is_the_least_that_works_and_the_matrix_is_restored_before_each_try(m: int) -> None:
    C = positive_definite(m)
    values, vectors = np.linalg.eigh(C)
    values[0] = -3e-9 * np.trace(C) / m  # so that 1e-9 fails and 1e-8 succeeds
    C = vectors * values @ vectors.T
    C = (C + C.T) / 2
    factor = factorise(C.copy())
    assert factor.jitter == 1e-8
    L = np.tril(factor.lower)
    np.testing.assert_allclose(L @ L.T, C + 1e-8 * np.trace(C) / m * np.eye(m), rtol=1e-9, atol=1e-12)


def test_an_indefinite_matrix_is_an_error_with_its_name() -> None:
    C = positive_definite(70) - 2.0 * np.eye(70)
    with pytest.raises(
        NotPositiveDefiniteError, match=r"The thing \(70 rows\) is not positive definite.*0.0001"
    ):
        factorise(C, name="thing")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (5, 5), (7, 2), (9, 9), (9, 0)])
def test_nan_and_infinity_are_an_error(bad: float, place: tuple[int, int]) -> None:
    C = positive_definite(10)
    C[place] = C[place[::-1]] = bad
    with pytest.raises(NotPositiveDefiniteError, match="contains NaN or infinity"):
        factorise(C)


def test_jitters_increase_from_zero() -> None:
    assert JITTERS[0] == 0.0
    assert list(JITTERS) == sorted(JITTERS)


@pytest.mark.parametrize(
    "kernel", [2.0 * RBF([0.3, 2.0]) + WhiteKernel(0.2), DotProduct(0.7) + WhiteKernel(0.2), 2.0 * RBF(0.3)]
)
@pytest.mark.parametrize("jitter", [0.0, 0.01])
def test_the_gradient_includes_the_jitter(kernel: Kernel, jitter: float) -> None:
    """The jitter is a multiple of C's mean diagonal, which itself depends on θ."""
    rng = np.random.default_rng(0)
    X, S = rng.normal(size=(9, 2)), positive_definite(9)
    covariance = covariance_of(kernel)

    def factorised(theta: np.ndarray) -> float:
        C = covariance.at(theta).noisy_gram(X)
        return 0.5 * float(np.sum(S * (C + jitter * np.trace(C) / 9 * np.eye(9))))

    steps = 1e-6 * np.eye(len(kernel.theta))
    differences = [(factorised(kernel.theta + e) - factorised(kernel.theta - e)) / 2e-6 for e in steps]
    _, gradient = covariance.noisy_gram_with_gradient(X)
    np.testing.assert_allclose(gradient(S, jitter), differences, rtol=1e-6, atol=1e-8)


def test_the_likelihood_reports_its_jitter() -> None:
    X = np.repeat(np.linspace(0, 3, 9)[:, None], 2, axis=0)
    term = log_marginal_likelihood(covariance_of(2.0 * RBF(0.3) + WhiteKernel(1e-17)), Block(X, np.sin(X)))
    assert term.jitter > 0
    assert np.isfinite(term.value)
    assert np.isfinite(term.gradient).all()


@pytest.mark.parametrize("size", [1, 7, 64, 150])
def test_the_diagonal_of_the_inverse(size: int) -> None:
    matrix = positive_definite(size)
    expected = np.diagonal(np.linalg.inv(matrix))
    np.testing.assert_allclose(factorise(matrix.copy()).inverted().precision(), expected, rtol=1e-9)
