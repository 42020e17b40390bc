"""The federated fit: who takes part, units, θ, parts, selector, calibration; one function per stage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gpexperts.aggregation import MostCertain
from gpexperts.calibration import Calibration
from gpexperts.choices import Choice, margins
from gpexperts.columns import ColumnEncoder
from gpexperts.experts.store import Observations
from gpexperts.federated import network
from gpexperts.federated.experts import FederatedExperts
from gpexperts.federated.federation import Federation, array_of, require
from gpexperts.federated.joining import Members, common_units, described
from gpexperts.federated.joint import Joint, ascend, maximise_jointly, start_of
from gpexperts.federated.messages import Parcel
from gpexperts.federated.privacy import PrivacySpent, spent
from gpexperts.federated.secagg import SECAGG
from gpexperts.federated.secagg_sums import SecAggSums
from gpexperts.federated.settings import FederatedSettings
from gpexperts.federated.stages import CERTAIN
from gpexperts.federated.sums import MaskedSums, PlainSums, Sums
from gpexperts.kernels.named import AUTOMATIC_KERNELS
from gpexperts.model import FittedModel, Seeds
from gpexperts.prepare import experts_view
from gpexperts.row_noise import plain
from gpexperts.rows.base import Units
from gpexperts.selection import Selector
from gpexperts.settings import Settings
from gpexperts.tuning import Tuning
from gpexperts.tuning.corrections import WORTHWHILE

__all__ = ["Fitted", "fit_federation"]


_SUMS: dict[bool | str, type[Sums]] = {False: PlainSums, True: MaskedSums, SECAGG: SecAggSums}


class Fitted(NamedTuple):
    """The result of a federated fit."""

    model: FittedModel
    selector: Selector
    tuning: Tuning
    calibration: Calibration | None
    choices: dict[str, Choice]
    settings: Settings
    """Of the library's predictor."""
    columns: tuple[str, ...]
    n_rows: dict[int, int]
    n_steps: int
    privacy: PrivacySpent | None


def fit_federation(
    federation: Federation, settings: FederatedSettings, communication: tuple[np.ndarray, np.ndarray] | None
) -> Fitted:
    """Fit a model to the rows of all clients.

    Parameters
    ----------
    federation : Federation
    settings : FederatedSettings
    communication : tuple of ndarray or None
        The communication set, in the user's units: inputs (n, d) and targets (n, p).
    """
    members = described(federation, settings)
    sums = _SUMS[settings.secure_sum](federation, members.keys)
    units, of_y = common_units(sums, members)
    joint, choices = _train(sums, settings, members, units)
    shared = None
    if communication is not None:
        shared = Observations(*units.apply(*communication, plain(len(communication[0]))))
    found = _parts(federation, settings, members, joint, shared)
    experts = FederatedExperts(
        federation,
        {client: np.asarray(reply.arrays["sizes"]) for client, reply in found.items()},
        joint.covariance,
        n_features=members.n_features,
        n_outputs=members.n_outputs,
        shared=shared,
    )
    if settings.needs_centroids:
        centroids = np.concatenate([reply.arrays["centroids"] for reply in found.values()])
    else:
        centroids = np.full((experts.n_experts, members.n_features), np.nan)
    rng = np.random.RandomState(settings.seed)
    model = FittedModel(
        x_scale=units.x,
        y_scale=units.y,
        experts=experts,
        centroids=centroids,
        labels=None,
        one_output=members.one_output,
        trace=tuple(joint.trace),
        choices=choices,
        seeds=Seeds(*rng.randint(2**31 - 1, size=2).tolist()),
        calibrate=settings.calibrate,
        encoder=ColumnEncoder.numbers(members.n_features, members.columns or None),
        y_summary=(of_y.mean, of_y.std),
    )
    if settings.selection == "dnn":
        selector: Selector = _network(sums, settings, members, experts, centroids)
    else:
        selector = settings.selector.fit(experts_view(model, settings.library))
    experts.ranking = lambda X: selector.select(X, experts.n_experts)
    tuning, calibration, later = _tuned(found, settings, selector, experts.n_experts)
    library = settings.library
    if settings.selection == CERTAIN:
        experts.n_certain, tuning = tuning.n_selected, Tuning(experts.n_experts)
        library = replace(library, aggregator=MostCertain(library.aggregator, experts.n_certain))
    return Fitted(
        model,
        selector,
        tuning,
        calibration,
        {**choices, **later},
        library,
        members.columns,
        {client: members.n_rows[client] for client in found},
        joint.n_sums,
        _spent(settings, len(members.keys), joint),
    )


def _train(
    sums: Sums, settings: FederatedSettings, members: Members, units: Units
) -> tuple[Joint, dict[str, Choice]]:
    kernels = list(AUTOMATIC_KERNELS) if settings.kernel == "auto" else [settings.kernel]
    arrays = {
        "x_shift": units.x.shift,
        "x_scale": units.x.scale,
        "y_shift": units.y.shift,
        "y_scale": units.y.scale,
    }
    noise = settings.noise
    start, name, scores = start_of(sums, kernels, noise, arrays, members.n_features, bool(noise))
    if settings.privacy is not None:
        joint = ascend(start, name, sums, noise, settings.privacy, settings.max_steps)
    else:
        joint = maximise_jointly(start, name, sums, n_outputs=members.n_outputs, max_sums=settings.max_steps)
    choices = {}
    if len(kernels) > 1:
        others = margins(name, {kernel: -score for kernel, score in scores.items()})
        reason = f"mean score {scores[name]:.4f} per row of the clients' own training, {others}"
        choices["kernel"] = Choice(name, reason, {"scores": scores})
    return joint, choices


def _parts(
    federation: Federation,
    settings: FederatedSettings,
    members: Members,
    joint: Joint,
    shared: Observations | None,
) -> dict[int, Parcel]:
    """Have every client divide its rows; returns the replies with sizes, centroids and scores."""
    d, p = members.n_features, members.n_outputs
    values: dict[str, Any] = {
        **settings.centroid_noise,
        "kernel": joint.kernel,
        "expert_size": 0 if isinstance(settings.expert_size, str) else settings.expert_size,
        "centroids": settings.needs_centroids,
        "selection": settings.selection,
        "aggregation": settings.aggregation,
        "n_selected": settings.candidates,
    }
    arrays = {"theta": joint.covariance.kernel.theta}
    if shared is not None:
        arrays |= {"shared_X": shared.X, "shared_y": shared.y}

    def check(client: int, reply: Parcel) -> None:
        sizes = array_of(reply, "sizes", (None,))
        require(bool((sizes > 0).all()) and len(sizes) > 0, "parts without rows")
        require(int(sizes.sum()) == members.n_rows[client], "parts of other rows")
        if settings.needs_centroids:
            array_of(reply, "centroids", (len(sizes), d))
        if settings.calibrate is not None:
            scores = array_of(reply, "scores", (len(settings.candidates), None, p))
            require(scores.shape[1] > 0 and bool((scores >= 0).all()), "scores of held-out rows")
            array_of(reply, "log_std", (len(settings.candidates),))

    return federation.ask_members("parts", lambda _: Parcel("parts", federation.fit, values, arrays), check)


def _network(
    sums: Sums,
    settings: FederatedSettings,
    members: Members,
    experts: FederatedExperts,
    centroids: np.ndarray,
) -> Selector:
    """Train the selector's network by federated averaging."""
    weights = network.initial_weights(members.n_features, experts.n_experts, settings.seed)
    for r in range(settings.network_rounds if experts.n_experts > 1 else 0):
        values = {"n_experts": experts.n_experts, "epochs": settings.network_epochs, "round": r}
        n, *total = sums.total(
            "network",
            1 + network.n_weights(weights),
            values,
            weights,
            own=lambda client: {"first": experts.first[client]},
        ).values
        weights = network.shaped(np.array(total) / n, weights)
    return network.selector_of(weights, centroids)


def _tuned(
    found: dict[int, Parcel], settings: FederatedSettings, selector: Selector, n_experts: int
) -> tuple[Tuning, Calibration | None, dict[str, Choice]]:
    """Choose K by the scores of held-out rows, and calibrate with them."""
    K = settings.library.n_selected(n_experts)
    if settings.calibrate is None:
        # Of all experts, the most certain one; where places are ranked, a few of the nearest.
        default = 1 if settings.selection == CERTAIN else selector.default_n_selected(n_experts)
        return Tuning(default if K is None else K), None, {}
    scores = np.concatenate([reply.arrays["scores"] for reply in found.values()], axis=1)
    log_std = np.sum([reply.arrays["log_std"] for reply in found.values()], axis=0)
    # Negative log density with the best factor of the variance, which the calibration applies.
    loss = log_std / scores[0].size + 0.5 * np.log(np.mean(scores**2, axis=(1, 2)))
    loss += 0.5 + 0.5 * np.log(2.0 * np.pi)
    choices, best = {}, 0
    if settings.selection == "all":
        K = n_experts
    elif K is None:
        best = int(np.flatnonzero(loss <= loss.min() + WORTHWHILE)[0])
        K = min(settings.candidates[best], n_experts)
        by_k = dict(zip(settings.candidates, loss.tolist(), strict=True))
        others = margins(str(settings.candidates[best]), {str(k): value for k, value in by_k.items()})
        reason = f"NLPD {loss[best]:.4g} on {scores.shape[1]} held-out rows{others and f', {others}'}"
        reason += "; by the client of each row alone"
        choices["n_selected"] = Choice(K, reason, {"nlpd": by_k})
    # The std of held-out rows stay with the clients: intervals of all queries have one width in units of std.
    calibration = Calibration(scores[best], np.ones_like(scores[best]))
    scale = calibration.variance_scale
    choices["calibrate"] = Choice(
        settings.calibrate,
        f"{scores.shape[1]} held-out rows; their mean squared score is {np.round(scale, 3)}",
        {"rows_held_out": scores.shape[1], "variance_scale": scale.tolist()},
    )
    return Tuning(K), calibration, choices


def _spent(settings: FederatedSettings, n_clients: int, joint: Joint) -> PrivacySpent | None:
    if settings.privacy is None:
        return None
    return spent(settings.privacy, n_clients, 1 + joint.n_sums, centroids=settings.needs_centroids)
