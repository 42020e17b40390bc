"""The parameters of the federated estimator: the table, and a checked snapshot of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from gpexperts.calibration import HOLDING
from gpexperts.federated.privacy import Privacy
from gpexperts.federated.secagg import SECAGG
from gpexperts.federated.stages import checked_aggregation, checked_selection, selector_named
from gpexperts.kernels.named import NAMED_KERNELS
from gpexperts.parameters import PARAMETERS, Parameter
from gpexperts.selection import Selector
from gpexperts.settings import Settings, number_selected
from gpexperts.tuning import EXPERTS
from gpexperts.validation import (
    check_count,
    check_seed,
    check_word,
    is_auto,
    is_number,
    positive_int,
)

__all__ = ["FEDERATED_PARAMETERS", "FederatedSettings"]

MAX_STEPS = 15
"""Joint steps for θ, at most: each is a round or two."""

FEDERATED_PARAMETERS: dict[str, Parameter] = {
    "kernel": Parameter(
        "auto",
        '{"auto", "rbf", "matern12", "matern32", "matern52"}',
        '"auto" takes the one with the best mean score when every client trains alone.',
    ),
    "expert_size": PARAMETERS["expert_size"]._replace(
        help="Rows per expert; a client with more rows has several experts."
    ),
    "aggregation": Parameter(
        "gpoe",
        '{"poe", "gpoe", "bcm", "rbcm", "grbcm"}',
        'How predictions of experts are combined. "grbcm" needs a communication set.',
    ),
    "selection": Parameter(
        "auto",
        '{"auto", "certain", "knn", "dnn", "all"}',
        'How the experts of a query are selected. "auto" is "certain": all clients get the query, and the '
        'experts with the smallest variances are used. "knn" and "dnn" send it to few clients, by nearest '
        "centroids or by a network that is trained by federated averaging.",
    ),
    "n_selected": Parameter(
        "auto",
        'int, float or "auto"',
        'Number of selected experts per query, K; a float is the ratio K/M. "auto" chooses by the held-out '
        "rows of the clients.",
    ),
    "calibrate": Parameter(
        "conformal",
        '{None, "scale", "conformal"}',
        "Whether each client holds out a tenth of its rows, whose scores calibrate intervals.",
    ),
    "max_steps": Parameter(MAX_STEPS, "int", f"Joint steps for θ, at most {MAX_STEPS}."),
    "secure_sum": Parameter(
        True,
        'bool or "secagg+"',
        "Whether sums over clients are masked: then each takes two rounds instead of one. "
        '"secagg+" masks with Flower\'s own SecAgg+, in four rounds.',
    ),
    "privacy": Parameter(
        None, "Privacy or None", "Clipping and Gaussian noise on gradients and centroids, for named kernels."
    ),
    "min_clients": Parameter(3, "int", "With fewer clients, `fit` ends with an error."),
    "timeout": Parameter(300.0, "float", "Seconds of the longest wait for the replies of a round."),
    "network_rounds": Parameter(20, "int", 'Rounds of federated averaging, for selection="dnn".'),
    "network_epochs": Parameter(2, "int", "Epochs of each client in such a round."),
    "random_state": PARAMETERS["random_state"],
}


@dataclass(frozen=True)
class FederatedSettings:
    """The values of all parameters, checked."""

    kernel: str
    expert_size: int | str
    aggregation: str
    selection: str
    n_selected: Any
    calibrate: str | None
    max_steps: int
    secure_sum: bool | str
    privacy: Privacy | None
    min_clients: int
    timeout: float
    network_rounds: int
    network_epochs: int
    seed: int
    library: Settings
    """What the library's own stages read."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> FederatedSettings:
        """Check parameters as `get_params(deep=False)` gives them."""
        check_word(values["kernel"], "kernel", ("auto", *NAMED_KERNELS))
        if not is_auto(values["expert_size"]):
            positive_int(values["expert_size"], "expert_size")
        aggregation = checked_aggregation(values["aggregation"])
        selection = checked_selection(values["selection"])
        if not is_auto(values["n_selected"]):
            number_selected(values["n_selected"], 1, given=None)
            if values["n_selected"] == 0:
                raise ValueError("n_selected=0 uses a query's own expert, of rows that clients do not give.")
        check_word(values["calibrate"], "calibrate", (None, *HOLDING))
        for name in ("max_steps", "network_rounds", "network_epochs"):
            check_count(values[name], name)
        if values["max_steps"] > MAX_STEPS:
            raise ValueError(f"max_steps must be at most {MAX_STEPS}, got {values['max_steps']}.")
        secure_sum = values["secure_sum"]
        if not isinstance(secure_sum, bool) and secure_sum != SECAGG:
            raise ValueError(f"secure_sum must be True, False or {SECAGG!r}, got {secure_sum!r}.")
        privacy = values["privacy"]
        if privacy is not None and not isinstance(privacy, Privacy):
            raise TypeError(f"privacy must be None or a Privacy, got {privacy!r}.")
        if privacy is not None and values["kernel"] == "auto":
            raise ValueError(
                "privacy needs a named kernel: to choose one would give more away. Use kernel='matern32'."
            )
        if privacy is not None and not values["secure_sum"]:
            raise ValueError("privacy needs secure_sum=True: each client adds only its share of the noise.")
        if privacy is not None and selection == "dnn":
            raise ValueError("privacy has no noise for the weights of a network; use another selection.")
        positive_int(values["min_clients"], "min_clients", "")
        timeout = values["timeout"]
        if not is_number(timeout) or not 0 < timeout < np.inf:
            raise ValueError(f"timeout must be a positive number of seconds, got {timeout!r}.")
        check_seed(values["random_state"])
        return cls(
            **{
                name: values[name]
                for name in FEDERATED_PARAMETERS
                if name not in ("random_state", "selection")
            },
            selection=selection,
            seed=int(check_random_state(values["random_state"]).randint(2**31 - 1)),
            library=_library(values, aggregation, selection),
        )

    @property
    def selector(self) -> Selector:
        """Not fitted; not for "dnn"."""
        return selector_named(self.selection)

    @property
    def needs_centroids(self) -> bool:
        """Whether the selection uses centroids."""
        return self.selection == "knn"

    @property
    def candidates(self) -> list[int]:
        """Values of K that clients score; a ratio K/M is scored with each of them alone."""
        if isinstance(self.n_selected, (int, np.integer)):
            return [int(self.n_selected)]
        return list(EXPERTS) if is_auto(self.n_selected) and self.selection != "all" else [max(EXPERTS)]

    @property
    def noise(self) -> dict[str, Any]:
        """What clients need to know of the noise of sums; empty for none."""
        if self.privacy is None:
            return {}
        return {
            "noise": float(self.privacy.noise_multiplier),
            "noise_clients": self.min_clients,
            "clip": float(self.privacy.clip),
            "start_clip": float(self.privacy.start_clip),
        }

    @property
    def centroid_noise(self) -> dict[str, Any]:
        """The same for centroids."""
        if self.privacy is None or self.privacy.centroid_noise == 0:
            return {}
        return {
            "centroid_noise": float(self.privacy.centroid_noise),
            "centroid_clip": float(self.privacy.centroid_clip),
        }


def _library(values: Mapping[str, Any], aggregation: str, selection: str) -> Settings:
    shared = {
        "kernel": values["kernel"],
        "n_selected": values["n_selected"],
        "calibrate": values["calibrate"],
        "random_state": values["random_state"],
        "aggregation": aggregation,
        "selection": selector_named(selection),
        "n_neighbors": 0,
        "noise": "gaussian",
        "trend": None,
        "n_jobs": 1,
    }
    defaults = {name: parameter.default for name, parameter in PARAMETERS.items()}
    return Settings.of({**defaults, **shared})
