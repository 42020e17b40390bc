"""The first two stages of a fit: who takes part, and units from sums over all rows."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from gpexperts.federated.federation import Federation, require
from gpexperts.federated.messages import VERSION, Parcel
from gpexperts.federated.settings import FederatedSettings
from gpexperts.federated.sums import Sums, Total
from gpexperts.rows.base import Units
from gpexperts.rows.units import choose_units
from gpexperts.scaling import ColumnSummary

__all__ = ["Members", "common_units", "described"]


class Members(NamedTuple):
    """What clients say of their rows."""

    n_rows: dict[int, int]
    n_features: int
    n_outputs: int
    one_output: bool
    columns: tuple[str, ...]
    keys: dict[int, bytes]


def described(federation: Federation, settings: FederatedSettings) -> Members:
    """Ask who is there; clients whose columns are not those of most others are left out."""
    clients = list(federation.members)
    seeds = np.random.RandomState(settings.seed).randint(2**31 - 1, size=len(clients)).tolist()
    seed_of = dict(zip(clients, seeds, strict=True))

    def parcel_of(client: int) -> Parcel:
        values = {"version": VERSION, "seed": seed_of[client], "calibrate": settings.calibrate is not None}
        return Parcel("describe", federation.fit, values)

    def check(client: int, reply: Parcel) -> None:
        numbers = [reply.values.get(name) for name in ("n_rows", "n_features", "n_outputs")]
        require(all(isinstance(v, int) and v > 0 for v in numbers), "numbers of rows and columns")
        require(isinstance(reply.values.get("public_key"), bytes), "no public key")

    replies = federation.ask_members("describe", parcel_of, check)
    shapes = {client: _shape(reply) for client, reply in replies.items()}
    (common, _), *_ = Counter(shapes.values()).most_common(1)
    for client, shape in shapes.items():
        if shape != common:
            federation.log.failed("describe", client, f"has {_told(shape)}; most have {_told(common)}")
    federation.keep([client for client, shape in shapes.items() if shape == common])
    d, p, one_output, columns, _ = common
    return Members(
        {client: int(replies[client].values["n_rows"]) for client in federation.members},
        d,
        p,
        one_output,
        columns,
        {client: bytes(replies[client].values["public_key"]) for client in federation.members},
    )


_Shape = tuple[int, int, bool, tuple[str, ...], tuple[str, ...]]


def _shape(reply: Parcel) -> _Shape:
    v = reply.values
    return (
        int(v["n_features"]),
        int(v["n_outputs"]),
        bool(v.get("one_output")),
        tuple(v.get("columns", ())),
        tuple(v.get("units", ())),
    )


def _told(shape: _Shape) -> str:
    d, p, _, columns, units = shape
    return f"{d} inputs and {p} targets, columns {list(columns)}, units {list(units)}"


def common_units(sums: Sums, members: Members) -> tuple[Units, ColumnSummary]:
    """Return units of zero mean and unit variance, and a summary of the targets, both from sums.

    A client with the rows of another is left out.
    """
    federation, d, p = sums.federation, members.n_features, members.n_outputs
    while True:
        total = sums.total("summary", 1 + 2 * (d + p), {}, {})
        twins = _twins(total)
        if not twins:
            break
        for twin, client in twins.items():
            federation.log.failed("summary", twin, f"has the same rows as client {client}")
        federation.keep([client for client in federation.members if client not in twins])
    n, exact = int(total.exact[0]), total.exact[1:]
    X = _summary(n, exact[:d], exact[d : 2 * d])
    y = _summary(n, exact[2 * d : 2 * d + p], exact[2 * d + p :])
    units, _ = choose_units(X, y, standardize=True, kernel_is_object=False, learns_noise=True)
    return units, y


def _twins(total: Total) -> dict[int, int]:
    """Clients whose rows are those of an earlier one, with that one."""
    place = {client: i for i, client in enumerate(total.nodes)}
    tags: dict[int, Any] = {client: reply.values.get("tags") for client, reply in total.replies.items()}
    clients = [c for c, own in tags.items() if isinstance(own, list) and len(own) == len(place)]
    twins: dict[int, int] = {}
    for i, j in combinations(sorted(clients), 2):
        if i not in twins and tags[i][place[j]] == tags[j][place[i]]:
            twins.setdefault(j, i)
    return twins


def _summary(n: int, sums: list[Fraction], squares: list[Fraction]) -> ColumnSummary:
    """Summary of columns with these sums; their range is not known, and stands for the deviation only."""
    mean = np.array([float(s / n) for s in sums])
    variance = [max(Fraction(0), q / n - (s / n) ** 2) for s, q in zip(sums, squares, strict=True)]
    std = np.sqrt([float(v) for v in variance])
    std = np.where(std <= 10 * np.finfo(float).eps * np.sqrt(n) * np.abs(mean), 0.0, std)
    return ColumnSummary(n, mean, std, mean - std, mean + std)
