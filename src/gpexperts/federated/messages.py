"""What travels: the kinds of messages, and how their content becomes Flower records.

Every message holds a kind, the fit that it belongs to, plain values and arrays. `KINDS` is the whole
protocol: a client refuses every other kind.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS

__all__ = [
    "KINDS",
    "REFUSED",
    "VERSION",
    "Parcel",
    "Refusal",
    "count_bytes",
    "pack",
    "refused",
    "stage_of",
    "unpack",
]

VERSION = 1
"""Of the protocol; a client refuses others."""
REFUSED = "refused"
_ABOUT, _VALUES, _ARRAYS = "about", "values", "arrays"


KINDS: dict[str, str] = {
    "describe": "version, seed → numbers of rows and columns, names, units, public key",
    "summary": "public keys → sums of columns and of their squares; tags that find equal rows",
    "start": "units, names of kernels → θ and score of each kernel, trained on own rows",
    "likelihood": "θ → log likelihood, its gradient, leave-one-out error, number of rows",
    "keys": "settings of SecAgg+ → two public keys",
    "shares": "public keys → encrypted shares of secrets, for the other clients",
    "unmask": "clients that have replied → seeds of masks, or shares of them",
    "parts": "θ, communication set → rows and centroid of each expert; scores of held-out rows",
    "network": "weights of the selector's network → trained weights times rows",
    "predict": "queries with their experts → mean and explained variance of each",
}
"""What the server sends → what a client replies."""


class Refusal(Exception):
    """A client does not answer. The text says why, to the user of the server; it holds no value of a row."""


class Parcel(NamedTuple):
    """The content of a message."""

    kind: str
    fit: str
    values: dict[str, Any] = {}  # noqa: RUF012
    """Numbers, texts, bytes and lists of one of them."""
    arrays: dict[str, np.ndarray] = {}  # noqa: RUF012
    stage: dict[str, Any] | None = None
    """The record of Flower's SecAgg+, if the message is one of its stages."""


def pack(parcel: Parcel) -> RecordDict:
    """Return the content as Flower records, without empty lists: Flower cannot count their bytes."""
    values = {name: value for name, value in parcel.values.items() if not isinstance(value, list) or value}
    about = {"kind": parcel.kind, "fit": parcel.fit}
    arrays = {name: Array(np.ascontiguousarray(value)) for name, value in parcel.arrays.items()}
    content = RecordDict(
        {_ABOUT: ConfigRecord(about), _VALUES: ConfigRecord(values), _ARRAYS: ArrayRecord(arrays)}
    )
    if parcel.stage is not None:
        content[RECORD_KEY_CONFIGS] = ConfigRecord(dict(parcel.stage))
    return content


def unpack(content: RecordDict) -> Parcel:
    """Read the content of a message.

    Raises
    ------
    Refusal
        If it is not one of this protocol.
    """
    try:
        about = content.config_records[_ABOUT]
        values = dict(content.config_records[_VALUES])
        arrays = {name: array.numpy() for name, array in content.array_records[_ARRAYS].items()}
        stage = content.config_records.get(RECORD_KEY_CONFIGS)
        return Parcel(
            str(about["kind"]), str(about["fit"]), values, arrays, None if stage is None else dict(stage)
        )
    except (KeyError, ValueError, TypeError) as error:
        raise Refusal(f"The message is not one of this protocol: {type(error).__name__}.") from error


def stage_of(parcel: Parcel) -> dict[str, Any]:
    """Return the record of SecAgg+; it is empty if the message is not one of its stages."""
    return parcel.stage or {}


def refused(kind: str, fit: str, reason: str) -> Parcel:
    """Return the reply of a client that does not answer."""
    return Parcel(REFUSED, fit, {"reason": reason, "asked": kind})


def count_bytes(content: RecordDict) -> int:
    """Bytes of all records; Flower cannot count those of empty lists, which have none."""
    total = 0
    for record in content.values():
        if isinstance(record, ConfigRecord):
            empty = [name for name, value in record.items() if isinstance(value, list) and not value]
            total += sum(map(len, empty))
            record = ConfigRecord({name: value for name, value in record.items() if name not in empty})
        total += record.count_bytes()
    return total
