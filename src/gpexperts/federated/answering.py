"""What a client answers to each kind of message, and what it refuses."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from flwr.supercore.primitives.asymmetric import (
    generate_key_pairs,
    private_key_to_bytes,
    public_key_to_bytes,
)

from gpexperts.aggregation.certain import most_certain
from gpexperts.engines import ThreadEngine
from gpexperts.experts.moments import Request
from gpexperts.federated import network, secure
from gpexperts.federated.holdings import Holdings
from gpexperts.federated.local import (
    covariance_named,
    divided,
    held_out_scores,
    is_length,
    joint_blocks,
    mixable,
    starts,
)
from gpexperts.federated.masking import Masking
from gpexperts.federated.messages import KINDS, VERSION, Parcel, Refusal
from gpexperts.federated.policy import ClientPolicy, ClientRows
from gpexperts.federated.privacy import clipped, noisy_centroids, secret_normal
from gpexperts.federated.stages import CERTAIN, aggregator_named, selector_named
from gpexperts.federated.state import State
from gpexperts.partition.base import Parts
from gpexperts.scaling import ColumnSummary
from gpexperts.training.likelihood import log_marginal_likelihood

__all__ = ["Client"]

_LIMITS = {"summary": 8, "start": 8, "parts": 8}
"""Messages of a kind per fit; a sum is repeated if a client vanishes in its midst."""


class Client:
    """Answers one message.

    Parameters
    ----------
    rows : ClientRows
    policy : ClientPolicy
    state : State
    node : int
        This client.
    within_secagg : bool
        Whether Flower's SecAgg+ masks the reply.
    """

    def __init__(
        self, rows: ClientRows, policy: ClientPolicy, state: State, node: int, within_secagg: bool
    ) -> None:
        self.rows, self.policy, self.state, self.node = rows, policy, state, node
        self.engine = ThreadEngine(policy.n_jobs)
        self.masking = Masking(policy, state, node, within_secagg)

    def admit(self, request: Parcel) -> None:
        """Refuse messages that are not of this protocol and fit, or too many."""
        if request.kind not in KINDS:
            raise Refusal(f"Unknown message {request.kind!r}; known are {', '.join(KINDS)}.")
        if request.kind != "describe" and request.fit != self.state.value("fit"):
            raise Refusal("This client takes no part in that fit.")
        limit = {
            **_LIMITS,
            "likelihood": self.policy.max_steps,
            "network": self.policy.max_network_rounds,
        }.get(request.kind)
        if limit is not None and self.state.count(f"n_{request.kind}") > limit:
            raise Refusal(f"More than {limit} messages {request.kind!r} in one fit.")

    def answer(self, request: Parcel) -> Parcel:
        self.own = Holdings(self.rows, self.state)
        reply: Parcel = getattr(self, request.kind)(request)
        return reply

    # ------------------------------------------------------------------------- who takes part

    def describe(self, request: Parcel) -> Parcel:
        if request.values.get("version") != VERSION:
            raise Refusal(f"Protocol {request.values.get('version')}; this client has {VERSION}.")
        fits = self.state.count("n_fits")
        if fits > self.policy.max_fits:
            raise Refusal(f"More than {self.policy.max_fits} fits in one run.")
        self.state.clear("n_fits")
        private, public = generate_key_pairs()
        self.state.keep(
            fit=request.fit,
            seed=int(request.values["seed"]),
            calibrate=bool(request.values["calibrate"]),
            private_key=private_key_to_bytes(private),
            public_key=public_key_to_bytes(public),
            last_sum=-1,
        )
        return Parcel(
            "describe",
            request.fit,
            {
                "n_rows": len(self.own.kept.X),
                "n_features": self.own.X.shape[1],
                "n_outputs": self.own.y.shape[1],
                "one_output": np.ndim(self.rows.y) == 1,
                "columns": list(self.rows.columns),
                "units": list(self.rows.units),
                "public_key": self.state.value("public_key"),
            },
        )

    def summary(self, request: Parcel) -> Parcel:
        values: list[float | Fraction] = [float(self.own.kept.n)]
        for of in self.own.kept.summary():
            values += _sums(of)
        reply = self.masking.summed(request, values)
        private, label = self.state.value("private_key"), f"{request.fit} rows"
        tags = [
            secure.row_tag(private, key, label, self.own.X, self.own.y) if node != self.node else b""
            for node, key in self.masking.peers(request).items()
        ]
        return reply._replace(values={**reply.values, "tags": tags})

    def unmask(self, request: Parcel) -> Parcel:
        return self.masking.unmask(request)

    def keys(self, request: Parcel) -> Parcel:
        raise Refusal(f"{request.kind!r} is a stage of SecAgg+, which Flower sends as messages of training.")

    shares = keys

    # ------------------------------------------------------------------------------- training

    def start(self, request: Parcel) -> Parcel:
        self.state.keep(**{name: request.arrays[name] for name in ("x_shift", "x_scale")})
        self.state.keep(**{name: request.arrays[name] for name in ("y_shift", "y_scale")})
        kernels, rows = list(request.values["kernels"]), self.own.scaled
        found = starts(rows, kernels, self.engine, self.state.value("seed"))
        n, values = float(rows.n), [float(rows.n)]
        if self._noise(request):
            theta = found[kernels[0]].theta - covariance_named(kernels[0], rows.n_features).kernel.theta
            return self.masking.summed(request, [1.0, *self._noisy(request, theta, "start_clip")])
        for name in kernels:
            values += [
                n * found[name].score,
                *(n * mixable(found[name].theta, is_length(name, rows.n_features))),
            ]
        return self.masking.summed(request, values)

    def likelihood(self, request: Parcel) -> Parcel:
        covariance = self.own.covariance(request)
        if "first_theta" not in self.state:
            self.state.keep(first_theta=request.arrays["theta"])
        metric = covariance.at(self.state.array("first_theta"))
        blocks = joint_blocks(self.own.scaled, metric, self.state.value("seed"))
        terms = self.engine.map(lambda block: log_marginal_likelihood(covariance, block), blocks)
        n = float(sum(len(block.y) for block in blocks))
        gradient = np.sum([t.gradient for t in terms], axis=0)
        if self._noise(request):
            return self.masking.summed(request, [1.0, *self._noisy(request, gradient / n, "clip")])
        values = [n, sum(t.value for t in terms), sum(t.loo_error for t in terms)]
        return self.masking.summed(request, [*values, float(sum(t.jitter > 0 for t in terms)), *gradient])

    def network(self, request: Parcel) -> Parcel:
        if self.policy.min_noise_multiplier > 0:
            raise Refusal("This client needs noise, and the weights of a network have none.")
        parts = self.own.parts()
        weights = network.trained(
            request.arrays,
            parts.rows.X,
            int(request.values["first"]) + np.repeat(np.arange(len(parts.sizes)), parts.sizes),
            request.values,
            self.state.value("seed"),
        )
        n = float(len(parts.rows.X))
        return self.masking.summed(request, [n, *(n * weights)])

    # -------------------------------------------------------------------------------- experts

    def parts(self, request: Parcel) -> Parcel:
        asked, policy = request.values, self.policy
        covariance = self.own.covariance(request)
        rows = self.own.scaled
        size = int(asked["expert_size"]) or "auto"
        parts = divided(rows, covariance, size, policy.min_centroid_rows, self.state.value("seed"))
        labels = np.empty(rows.n, dtype=np.int64)
        labels[parts.rows.number] = np.repeat(np.arange(len(parts.sizes)), parts.sizes)
        self.state.keep(kernel=asked["kernel"], theta=request.arrays["theta"], labels=labels)
        for name in ("shared_X", "shared_y"):
            if name in request.arrays:
                self.state.keep(**{name: request.arrays[name]})
        values: dict[str, Any] = {}
        arrays = {"sizes": parts.sizes}
        if asked["centroids"]:
            if not policy.shares_centroids:
                raise Refusal("This client gives no centroids; use selection='certain'.")
            arrays["centroids"] = self._centroids(request, parts)
        held = self.own.held_out
        if held is not None:
            found = held_out_scores(
                self.own.experts(),
                held,
                selector_named(str(asked["selection"])),
                aggregator_named(str(asked["aggregation"])),
                [int(k) for k in asked["n_selected"]],
                self.engine,
                certain=asked["selection"] == CERTAIN,
            )
            arrays |= {"scores": found.scores, "log_std": found.log_std}
        return Parcel("parts", request.fit, values, arrays)

    def predict(self, request: Parcel) -> Parcel:
        if "labels" not in self.state:
            raise Refusal("This client has no experts yet.")
        X, experts = request.arrays["X"], self.own.experts()
        if self.state.count("n_queries", len(X)) > self.policy.max_queries:
            raise Refusal(f"More than {self.policy.max_queries} queries in one fit.")
        k = int(request.values.get("n_certain", 0))
        index = np.tile(np.arange(experts.n_experts), (len(X), 1)) if k else request.arrays["index"]
        fits = X.ndim == 2 and X.shape[1] == experts.n_features and index.ndim == 2 and len(index) == len(X)
        if not fits or index.min(initial=0) < -1 or index.max(initial=0) >= experts.n_experts:
            raise Refusal(f"Queries of shape {X.shape} with experts of shape {index.shape} do not fit.")
        if not np.isfinite(X).all():
            raise Refusal("Queries must be finite.")
        moments = experts.gather(X, index, Request(), self.engine)
        arrays = {"mean": moments.mean, "explained": np.asarray(moments.explained)}
        if 0 < k < experts.n_experts:
            query, column = np.nonzero(most_certain(moments, k))
            shape = len(X), k
            arrays = {
                name: array[query, column].reshape(*shape, *array.shape[2:]) for name, array in arrays.items()
            }
            index = column.reshape(shape)
        return Parcel("predict", request.fit, {}, {**arrays, "index": index} if k else arrays)

    # ---------------------------------------------------------------------------------- noise

    def _noise(self, request: Parcel) -> float:
        noise = float(request.values.get("noise", 0.0))
        if noise < self.policy.min_noise_multiplier:
            raise Refusal(
                f"Noise of {noise:g} times the clip; this client needs {self.policy.min_noise_multiplier:g}."
            )
        return noise

    def _noisy(self, request: Parcel, vector: np.ndarray, clip: str) -> np.ndarray:
        """Return a clipped vector with the share of the noise of a sum that falls to this client."""
        norm = float(request.values[clip])
        std = self._noise(request) * norm / np.sqrt(int(request.values["noise_clients"]))
        return clipped(vector, norm) + std * secret_normal(vector.shape)

    def _centroids(self, request: Parcel, parts: Parts) -> np.ndarray:
        noise = float(request.values.get("centroid_noise", 0.0))
        if noise == 0.0:
            return parts.centroids
        return noisy_centroids(parts, noise, float(request.values["centroid_clip"]))


def _sums(summary: ColumnSummary) -> list[Fraction]:
    """Σ x and Σ x² of every column, exactly as its mean and deviation imply them."""
    n = summary.n
    pairs = [(Fraction(float(m)), Fraction(float(s))) for m, s in zip(summary.mean, summary.std, strict=True)]
    return [n * m for m, _ in pairs] + [n * (s * s + m * m) for m, s in pairs]
