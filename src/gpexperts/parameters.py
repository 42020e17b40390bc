"""The parameters of the estimator: each is named, described and defaulted here, and only here.

The estimator's docstring and the options of ``gpexperts fit`` are made from `PARAMETERS`, model files hold
its names, and a test compares it with the constructor.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

__all__ = ["PARAMETERS", "RENAMED", "Parameter", "documented"]


Cls = TypeVar("Cls", bound=Any)


class Parameter(NamedTuple):
    """One parameter of the estimator."""

    default: Any
    accepts: str
    """What it may be, as in a docstring."""
    help: str
    """What it does, in a sentence or two."""
    flag: Any = None
    """The type that the command line reads; None if it is no option of ``gpexperts fit``."""


PARAMETERS: dict[str, Parameter] = {
    "n_experts": Parameter("auto", 'int or "auto"', "Number of experts, M.", str),
    "expert_size": Parameter(
        "auto",
        'int or "auto"',
        "Training rows per expert, from which M follows.",
        str,
    ),
    "partition": Parameter(
        "auto",
        '{"auto", "balanced", "kmeans", "random"}, Partitioner or int array of shape (n,)',
        'How the training rows are divided among experts. "auto" is "balanced" in the metric of the trained '
        "kernel. An int array gives the expert of each row; −1 marks rows that GRBCM shares.",
        str,
    ),
    "kernel": Parameter(
        "auto",
        '{"auto", "rbf", "matern12", "matern32", "matern52"}, scikit-learn kernel or None',
        '"auto" (or None) chooses among the named kernels, each constant × shape with one length scale per '
        "input + white noise. A kernel object is evaluated on X as given, as in scikit-learn: lengths in "
        "the units of X, variances in those of y², y centred. The WhiteKernel terms of its top-level sum "
        "are the noise.",
        str,
    ),
    "categorical_features": Parameter(
        "from_dtype",
        '"from_dtype", array-like of bool, int or str, or None',
        'Which columns are categories. "from_dtype" takes those of data frames that hold categories, text or '
        "booleans; a mask, positions or names choose columns of frames and arrays; None chooses none. Gaps "
        "(NaN) are allowed in every column, and dates in data frames; `choices_` describes each column.",
        None,
    ),
    "optimizer": Parameter(
        "lbfgs", '"lbfgs" or None', "None keeps the hyperparameters of the given kernel.", None
    ),
    "n_restarts": Parameter(0, "int", "Additional random starts of the first training stage.", int),
    "training": Parameter(
        "auto",
        '{"auto", "full"}',
        '"auto" trains on small blocks of rows from every region, at a cost that does not grow with n. '
        '"full" maximises the likelihood of all parts, as in the paper.',
        str,
    ),
    "selection": Parameter(
        "auto",
        '{"auto", "nearest_rows", "knn", "dnn", "ggm", "all"}, Selector or classifier with predict_proba',
        'How the experts of a query are selected. "auto" is "nearest_rows": the experts that own the nearest '
        "training rows, in the metric of the kernel.",
        str,
    ),
    "n_selected": Parameter(
        "auto",
        'int, float or "auto"',
        "Number of selected experts per query, K. A float is the ratio K/M, so that 1 is one expert and 1.0 "
        'is all; 0 uses the own expert alone. "auto" chooses K and the corrections of the variance by '
        "held-out log density.",
        str,
    ),
    "n_neighbors": Parameter(
        "auto",
        'int or "auto"',
        "Number of training rows, the nearest ones in the metric of the kernel, that form the query's own "
        "expert; 0 for none. It is used alone (n_selected=0), or as one more expert of NPAE. "
        '"auto" chooses by held-out log density, and is 0 for other rules and for one expert.',
        str,
    ),
    "aggregation": Parameter(
        "npae",
        '{"npae", "poe", "gpoe", "bcm", "rbcm", "grbcm"} or Aggregator',
        "How the predictions of the selected experts are combined.",
        str,
    ),
    "standardize": Parameter(
        True,
        "bool",
        "Whether inputs and target are scaled to zero mean and unit variance. For a kernel object, only y is "
        "centred; False changes nothing at all.",
        bool,
    ),
    "memory_budget": Parameter(
        "auto",
        'int, str or "auto"',
        'Bytes (or "4GiB") for stored factors and work arrays; "auto" is a quarter of the memory.',
        str,
    ),
    "engine": Parameter(
        None,
        'None, "dask", str, dask.distributed.Client or Engine',
        'Where the work runs. None is threads of this machine; "dask" is the current Dask client, or a new '
        "LocalCluster; a str is the address of a scheduler. A Client is stored as its address.",
        str,
    ),
    "n_jobs": Parameter(
        None, "int or None", "Threads; None is all usable cores, or 1 inside another worker.", int
    ),
    "random_state": Parameter(None, "int, RandomState or None", "Seed of every random choice.", int),
    "verbose": Parameter(0, "int", "1 prints stages and decisions, 2 every step.", None),
    "calibrate": Parameter(
        None,
        '{None, "scale", "conformal", "jackknife"}',
        'How intervals are calibrated. "scale" and "conformal" hold a tenth of the rows (100 to 2,000, at '
        'most a quarter) out before anything is learned. "scale" multiplies the variance of an observation '
        'by one number per output. "conformal" takes the widths of `predict_interval` from the quantiles of '
        "|y − mean|/std: at least `level` of new rows lie inside, whatever the model. "
        '"jackknife" holds no rows out: it takes the widths from training rows, up to 10,000, each predicted '
        "without it.",
        str,
    ),
    "noise": Parameter(
        "auto",
        '{"auto", "gaussian", "student"}',
        '"student" is for outliers: rows beyond six standard deviations of their leave-one-out residual get '
        "small weights, after Student-t noise. std and intervals are then those of an ordinary observation. "
        '"auto" looks for gross outliers; if there are any, it keeps what the density of rows given their '
        'neighbours prefers. If hyperparameters are given, and for fewer than 100 rows, it is "gaussian".',
        str,
    ),
    "target_transform": Parameter(
        None,
        '{None, "log", "yeo-johnson", "auto"} or transformer',
        "A function of the target that the model is fitted to, for skewed or positive targets. Predictions "
        "are in the units of the target: mean and std of its distribution, and transformed quantiles. "
        '"auto" keeps what the density of rows given their neighbours prefers, nothing included.',
        str,
    ),
    "trend": Parameter(
        "auto",
        '{"auto", None, "linear", "boosting", "sparse"} or regressor',
        "A regressor that the experts build on, fitted in five folds so that no row is predicted by one that "
        'has seen it. "boosting" is scikit-learn\'s HistGradientBoosting, "sparse" a GP with inducing points '
        'that summarise all rows, for smooth functions with much noise. "auto" tries them and none, and '
        "keeps what the density of rows given their neighbours prefers. If hyperparameters are given, and "
        "for fewer than 500 or more than 1,000,000 rows, it is None. Of more than 200,000 rows, also on a "
        "cluster, a sample fits the trend.",
        str,
    ),
    "trend_role": Parameter(
        "auto",
        '{"auto", "mean", "input", "both"}',
        "Whether the trend is the mean that experts correct, one more input of the experts, or both.",
        str,
    ),
}

RENAMED: dict[str, str] = {
    "normalize_y": "use standardize=True (the default)",
    "alpha": "add a WhiteKernel to the kernel; its level is the noise variance",
    "n_restarts_optimizer": "use n_restarts",
    "copy_X_train": "leave it out; the training rows are always copied",
    "n_targets": "leave it out; the number of targets is read from y",
    "checkpoint": "leave it out; training takes a minute at any size",
    "share_inputs": "leave it out; rows of a dask collection are shared among its workers",
}
"""Names of scikit-learn and of earlier versions, and what to do instead."""


def documented(parameters: Mapping[str, Parameter]) -> Callable[[Cls], Cls]:
    """Class decorator: put a table of parameters into the docstring, in place of ``{parameters}``.

    Also show the signature of the constructor, which `help` would otherwise read from ``__new__``.
    """

    def decorate(cls: Cls) -> Cls:
        lines = []
        for name, parameter in parameters.items():
            lines += [
                f"    {name} : {parameter.accepts}, default={parameter.default!r}",
                *_wrapped(parameter.help),
            ]
        cls.__doc__ = (cls.__doc__ or "").replace("    {parameters}", "\n".join(lines))
        init = inspect.signature(cls.__init__)
        shown = [p for name, p in init.parameters.items() if name != "self"]
        cls.__signature__ = init.replace(parameters=shown)
        return cls

    return decorate


def _wrapped(text: str) -> list[str]:
    indent = " " * 8
    return textwrap.wrap(text, 100, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
