"""The compared methods and their settings.

Each is a function of standardised training rows that returns a fitted method.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np


class Fitted(NamedTuple):
    """A fitted method."""

    predict: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    """X ↦ mean and standard deviation of an observation."""
    kernel: Any = None
    """The trained covariance as a scikit-learn kernel, if the method has one."""
    prior_mean: float = 0.0
    interval: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None
    """X ↦ bounds of 95 % intervals, if they are not mean ± 1.96 standard deviations."""


def ours(X: np.ndarray, y: np.ndarray, seed: int, **settings: Any) -> Fitted:
    """Gpexperts with its defaults, but for `settings`."""
    from gpexperts import DistributedGPRegressor

    model = DistributedGPRegressor(random_state=seed, **settings).fit(X, y)
    # With a trend, the kernel is not that of a GP of X and y.
    kernel = model.kernel_ if model.model_.trend is None else None
    return Fitted(lambda Z: model.predict(Z, return_std=True), kernel, interval=model.predict_interval)


def ours_without_trend(X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    """Gpexperts with its defaults, but no trend."""
    return ours(X, y, seed, trend=None)


def paper(X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    """Gpexperts with the settings of the paper: k-means, RBF, training on all rows, knn with K = M/2."""
    from gpexperts.paper.settings import paper_model

    n_experts = max(5, round(len(X) / 560))
    model = paper_model(n_experts, seed, selection="knn", n_selected=0.5).fit(X, y)
    return Fitted(lambda Z: model.predict(Z, return_std=True), model.kernel_)


def sklearn_exact(X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    """scikit-learn's GaussianProcessRegressor: constant × Matérn 3/2 (ARD) + white noise."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import Matern, WhiteKernel

    scale = np.full(X.shape[1], np.sqrt(X.shape[1]))
    kernel = 1.0 * Matern(scale, (1e-2, 1e4), nu=1.5) + WhiteKernel(0.1, (1e-8, 1e1))
    model = GaussianProcessRegressor(kernel, random_state=seed).fit(X, y)
    return Fitted(lambda Z: model.predict(Z, return_std=True), model.kernel_)


def _gpboost(
    X: np.ndarray,
    y: np.ndarray,
    seed: int,
    kernel: str,
    shape: float,
    unit: float,
    approximation: dict[str, Any] | None = None,
) -> Fitted:
    import gpboost
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    model = gpboost.GPModel(
        gp_coords=X, cov_function=kernel, cov_fct_shape=min(shape, 1.5), likelihood="gaussian",
        vecchia_ordering="random", seed=seed,
        **(approximation or {"gp_approx": "vecchia", "num_neighbors": 20}),
    )  # fmt: skip
    model.fit(y=y)

    def predict(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        prediction = model.predict(gp_coords_pred=Z, predict_var=True, predict_response=True)
        return prediction["mu"], np.sqrt(prediction["var"])

    noise, signal, *ranges = np.ravel(model.get_cov_pars())
    trained = Matern(np.array(ranges) * unit, nu=shape)
    return Fitted(predict, ConstantKernel(signal) * trained + WhiteKernel(noise))


def gpboost_gaussian(X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    """GPBoost: Vecchia with 20 neighbours, Gaussian kernel with ARD, its defaults otherwise."""
    # Its Gaussian kernel is exp(−(distance / range)²): a length scale is range / √2.
    return _gpboost(X, y, seed, "gaussian_ard", np.inf, np.sqrt(0.5))


def gpboost_matern32(X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    """GPBoost: Vecchia with 20 neighbours, Matérn 3/2 with ARD, its defaults otherwise."""
    return _gpboost(X, y, seed, "matern_ard", 1.5, 1.0)


def gpboost_full_scale(X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    """GPBoost: full-scale Vecchia, 200 inducing points and 30 neighbours (its defaults), Matérn 3/2, ARD."""
    approximation = {"gp_approx": "full_scale_vecchia", "num_neighbors": 30, "num_ind_points": 200}
    return _gpboost(X, y, seed, "matern_ard", 1.5, 1.0, approximation)


def _svgp(X: np.ndarray, y: np.ndarray, seed: int, n_inducing: int) -> Fitted:
    import gpytorch
    import torch
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self, inducing: torch.Tensor) -> None:
            distribution = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
            super().__init__(gpytorch.variational.VariationalStrategy(self, inducing, distribution))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(
                gpytorch.kernels.MaternKernel(nu=1.5, ard_num_dims=inducing.shape[1])
            )
            # With its default, 0.7, rows with 32 inputs are uncorrelated at the start and training fails.
            self.covar_module.base_kernel.lengthscale = inducing.shape[1] ** 0.5

        def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    torch.set_num_threads(2)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    held_out, train = order[: len(X) // 10], order[len(X) // 10 :]
    x_all, y_all = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    n_batches = max(1, len(train) // 1024)
    epochs, patience = max(50, 500 // n_batches), max(10, 100 // n_batches)  # enough steps for few rows
    best: tuple[float, Model, gpytorch.likelihoods.Likelihood] | None = None
    for rate in (0.01, 0.05):  # early stopping and the choice of the rate use a tenth of the rows
        torch.manual_seed(seed)
        model = Model(x_all[train[:n_inducing]].clone())
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(train))
        optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=rate)
        reached, waited = np.inf, 0
        for _ in range(epochs):
            model.train(), likelihood.train()
            for batch in np.array_split(rng.permutation(train), n_batches):
                optimiser.zero_grad()
                (-bound(model(x_all[batch]), y_all[batch])).backward()
                optimiser.step()
            model.eval(), likelihood.eval()
            with torch.no_grad():
                prediction = likelihood(model(x_all[held_out]))
                loss = float(
                    -torch.distributions.Normal(prediction.mean, prediction.stddev)
                    .log_prob(y_all[held_out])
                    .mean()
                )
            waited = 0 if loss < reached - 1e-3 else waited + 1
            reached = min(reached, loss)
            if best is None or loss < best[0]:
                best = loss, deepcopy(model), deepcopy(likelihood)
            if waited >= patience:
                break
    assert best is not None
    _, chosen, noise = best

    def predict(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        means, deviations = [], []
        with torch.no_grad():
            for part in torch.tensor(Z, dtype=torch.float32).split(4096):
                prediction = noise(chosen(part))
                means.append(prediction.mean.numpy()), deviations.append(prediction.stddev.numpy())
        return np.concatenate(means).astype(float), np.concatenate(deviations).astype(float)

    signal = ConstantKernel(float(chosen.covar_module.outputscale))
    lengths = chosen.covar_module.base_kernel.lengthscale.detach().numpy().ravel().astype(float)
    trained = signal * Matern(lengths, nu=1.5) + WhiteKernel(float(noise.noise))
    return Fitted(predict, trained, float(chosen.mean_module.constant))


def svgp_512(X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    """GPyTorch SVGP, 512 inducing points, Matérn 3/2 ARD, better of two learning rates, early stopping."""
    return _svgp(X, y, seed, 512)


def svgp_1024(X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    """GPyTorch SVGP, 1024 inducing points, Matérn 3/2 ARD, better of two learning rates, early stopping."""
    return _svgp(X, y, seed, 1024)


def muygps(X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    """MuyGPyS: 50 neighbours, isotropic Matérn 3/2, length scale and noise by its Bayesian optimiser."""
    from MuyGPyS.gp import MuyGPS
    from MuyGPyS.gp.deformation import Isotropy, l2
    from MuyGPyS.gp.hyperparameter import AnalyticScale, Parameter
    from MuyGPyS.gp.kernels import Matern
    from MuyGPyS.gp.noise import HomoscedasticNoise
    from MuyGPyS.neighbors import NN_Wrapper
    from MuyGPyS.optimize import Bayes_optimize
    from MuyGPyS.optimize.batch import sample_batch
    from MuyGPyS.optimize.loss import lool_fn
    from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
    from sklearn.gaussian_process.kernels import Matern as SkMatern

    np.random.seed(seed)  # noqa: NPY002 — the library draws from NumPy's global generator
    targets = y[:, None] if np.ndim(y) == 1 else y
    neighbours = NN_Wrapper(X, 50, nn_method="exact", algorithm="ball_tree")
    model = MuyGPS(
        kernel=Matern(
            smoothness=Parameter(1.5),
            deformation=Isotropy(metric=l2, length_scale=Parameter(1.0, [0.05, 20.0])),
        ),
        noise=HomoscedasticNoise(0.05, (1e-6, 1.0)),
        scale=AnalyticScale(),
    )
    batch, batch_neighbours = sample_batch(neighbours, min(len(X), 1000), len(X))
    _, pairwise, batch_y, batch_nn_y = model.make_train_tensors(batch, batch_neighbours, X, targets)
    crosswise = model.make_train_tensors(batch, batch_neighbours, X, targets)[0]
    model = Bayes_optimize(
        model, batch_y, batch_nn_y, crosswise, pairwise, loss_fn=lool_fn, init_points=5, n_iter=20
    )
    model = model.optimize_scale(pairwise, batch_nn_y)

    def predict(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        means, deviations = [], []
        for part in np.array_split(Z, max(1, len(Z) // 2000)):
            index, _ = neighbours.get_nns(part)
            cross, pair, nn_y = model.make_predict_tensors(np.arange(len(part)), index, part, X, targets)
            K, k = model.kernel(pair), model.kernel(cross)
            means.append(np.ravel(model.posterior_mean(K, k, nn_y)))
            variance = np.ravel(model.posterior_variance(K, k))
            deviations.append(np.sqrt(variance + float(model.noise()) * float(np.ravel(model.scale())[0])))
        return np.concatenate(means), np.concatenate(deviations)

    signal, length = float(np.ravel(model.scale())[0]), float(model.kernel.deformation.length_scale())
    trained = ConstantKernel(signal) * SkMatern(length, nu=1.5) + WhiteKernel(signal * float(model.noise()))
    return Fitted(predict, trained)


def _validation(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Split n training rows: four fifths to fit, one fifth to stop early and to choose settings."""
    order = np.random.default_rng(seed).permutation(n)
    return np.sort(order[n // 5 :]), order[: n // 5]


def boosting(X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    """HistGradientBoosting, 500 trees of 127 leaves, with the residual variance of held-out rows."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    settings = {"max_iter": 500, "max_leaf_nodes": 127, "early_stopping": True, "random_state": seed}
    rest, held_out = _validation(len(X), seed)
    trial = HistGradientBoostingRegressor(**settings).fit(X[rest], y[rest])
    std = float(np.sqrt(np.mean((y[held_out] - trial.predict(X[held_out])) ** 2)))
    model = HistGradientBoostingRegressor(**settings).fit(X, y)
    return Fitted(lambda Z: (model.predict(Z), np.full(len(Z), std)))


def lightgbm(X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    """LightGBM: up to 5,000 trees, rate 0.03, leaves and smallest leaf by validation rows, then all rows."""
    import lightgbm as lgb

    settings = {
        "learning_rate": 0.03, "feature_fraction": 0.8, "bagging_fraction": 0.8, "bagging_freq": 1,
        "seed": seed, "deterministic": True, "verbosity": -1,
    }  # fmt: skip
    fit, held_out = _validation(len(X), seed)
    best: tuple[float, dict[str, Any], int] | None = None
    for leaves, smallest in ((15, 5), (31, 20), (127, 20)):
        trial = {**settings, "num_leaves": leaves, "min_data_in_leaf": smallest}
        train = lgb.Dataset(X[fit], y[fit], params={"verbosity": -1})
        booster = lgb.train(
            trial, train, 5000, valid_sets=[lgb.Dataset(X[held_out], y[held_out], reference=train)],
            callbacks=[lgb.early_stopping(100, verbose=False)],
        )  # fmt: skip
        loss = float(np.mean((y[held_out] - booster.predict(X[held_out])) ** 2))
        if best is None or loss < best[0]:
            best = loss, trial, booster.best_iteration
    assert best is not None
    loss, chosen, trees = best
    model = lgb.train(chosen, lgb.Dataset(X, y, params={"verbosity": -1}), trees)
    return Fitted(lambda Z: (model.predict(Z), np.full(len(Z), np.sqrt(loss))))


def catboost(X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    """CatBoost, RMSEWithUncertainty: up to 5,000 trees, rate and depth by validation rows, then all rows."""
    from catboost import CatBoostRegressor

    settings = {
        "loss_function": "RMSEWithUncertainty", "random_seed": seed, "allow_writing_files": False,
        "verbose": False,
    }  # fmt: skip
    fit, held_out = _validation(len(X), seed)
    best: tuple[float, dict[str, Any], int] | None = None
    for rate, depth in ((0.03, 6), (0.1, 6), (0.1, 8)):
        trial = {**settings, "learning_rate": rate, "depth": depth}
        model = CatBoostRegressor(**trial, iterations=5000, early_stopping_rounds=100)
        model.fit(X[fit], y[fit], eval_set=(X[held_out], y[held_out]))
        loss = float(model.get_best_score()["validation"]["RMSEWithUncertainty"])
        if best is None or loss < best[0]:
            best = loss, trial, model.tree_count_
    assert best is not None
    _, chosen, trees = best
    final = CatBoostRegressor(**chosen, iterations=trees).fit(X, y)

    def predict(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = final.predict(Z, prediction_type="RMSEWithUncertainty").T
        return mean, np.sqrt(variance)

    return Fitted(predict)


METHODS: dict[str, Callable[[np.ndarray, np.ndarray, int], Fitted]] = {
    "gpexperts": ours,
    "gpexperts, no trend": ours_without_trend,
    "gpexperts, paper's settings": paper,
    "scikit-learn exact": sklearn_exact,
    "GPBoost Gaussian": gpboost_gaussian,
    "GPBoost Matérn 3/2": gpboost_matern32,
    "GPBoost full-scale Vecchia": gpboost_full_scale,
    "SVGP 512": svgp_512,
    "SVGP 1024": svgp_1024,
    "MuyGPyS": muygps,
    "HistGradientBoosting": boosting,
    "LightGBM": lightgbm,
    "CatBoost": catboost,
}
