"""The arithmetic of the secure sum: the server learns the sum of vectors and none of them.

Client i sends x_i + m_i + Σ_{j > i} s_ij − Σ_{j < i} s_ij. The pair masks s_ij come from a Diffie-Hellman
secret of i and j and cancel in the sum. The own mask m_i comes from a seed that i gives away only after the
server has said which replies are in the sum; for clients that are not, the others give away the seeds of
their pair masks. A reply that comes too late stays hidden by its own mask. This is secure aggregation as in
Bonawitz et al. (2017), without the secret sharing: if a client vanishes between the two messages, the sum
starts again.

Numbers are sums of multiples of 2⁻²⁵⁶ modulo 2⁵¹²: they are exact, and need no bound in advance.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from flwr.common.secure_aggregation.crypto.symmetric_encryption import generate_shared_key
from flwr.supercore.primitives.asymmetric import bytes_to_private_key, bytes_to_public_key

__all__ = ["N_BYTES", "add", "decode", "encode", "masked", "pair_seed", "row_tag", "unmasked"]

N_BYTES = 64
"""Of one number."""
_MODULUS = 1 << (8 * N_BYTES)
_UNIT = 1 << 256
_LARGEST = Fraction(1 << 200)


def encode(values: Sequence[float | Fraction]) -> bytes:
    """Return numbers as one text of bytes that can be added.

    Raises
    ------
    ValueError
        If a number is not finite, or larger than 2²⁰⁰.
    """
    return _joined(_integer(value) for value in values)


def _integer(value: float | Fraction) -> int:
    if not isinstance(value, Fraction):
        if not np.isfinite(value):
            raise ValueError("A secure sum needs finite numbers.")
        value = Fraction(float(value))
    if abs(value) > _LARGEST:
        raise ValueError(f"A secure sum takes numbers up to {float(_LARGEST):.3g}; rescale the columns.")
    return round(value * _UNIT) % _MODULUS


def decode(total: bytes) -> list[Fraction]:
    """Return the numbers of a sum."""
    half = _MODULUS // 2
    return [Fraction((v + half) % _MODULUS - half, _UNIT) for v in _integers(total)]


def add(texts: Sequence[bytes]) -> bytes:
    """Add encoded vectors of equal length."""
    return _joined(sum(column) % _MODULUS for column in zip(*map(_integers, texts), strict=True))


def pair_seed(private_key: bytes, public_key: bytes, label: str) -> bytes:
    """Return the seed that two clients share for the sum `label`; no one else can compute it."""
    secret = generate_shared_key(bytes_to_private_key(private_key), bytes_to_public_key(public_key))
    return hmac.digest(secret, label.encode(), "sha256")


def row_tag(private_key: bytes, public_key: bytes, label: str, X: np.ndarray, y: np.ndarray) -> bytes:
    """Return a text that is the same for two clients if their rows are, in any order.

    Its key is the secret of the pair, so that the server can compare two tags but not guess rows.
    """
    rows = np.ascontiguousarray(np.concatenate([X, y], axis=1) + 0.0)  # −0 becomes 0
    digest = hashlib.sha256(rows[np.lexsort(rows.T)].tobytes()).digest()
    return hmac.digest(pair_seed(private_key, public_key, label), digest, "sha256")


def masked(vector: bytes, own_seed: bytes, own: int, pair_seeds: Mapping[int, bytes]) -> bytes:
    """Mask an encoded vector.

    Parameters
    ----------
    vector : bytes
    own_seed : bytes
    own : int
        This client.
    pair_seeds : mapping from client to bytes
        Of the other clients of the sum.
    """
    n = len(vector) // N_BYTES
    masks = [_stream(own_seed, n, 1)]
    masks += [_stream(seed, n, _sign(own, other)) for other, seed in pair_seeds.items()]
    return add([vector, *masks])


def unmasked(
    vectors: Mapping[int, bytes],
    own_seeds: Mapping[int, bytes],
    lost_seeds: Mapping[int, Mapping[int, bytes]],
) -> list[Fraction]:
    """Return the sum of masked vectors.

    Parameters
    ----------
    vectors : mapping from client to bytes
    own_seeds : mapping from client to bytes
        For the same clients.
    lost_seeds : mapping from client to mapping from client to bytes
        For each of these clients, the seeds of its pairs with clients that are not in the sum.
    """
    n = len(next(iter(vectors.values()))) // N_BYTES
    masks = [_stream(seed, n, -1) for seed in own_seeds.values()]
    for client, seeds in lost_seeds.items():
        masks += [_stream(seed, n, -_sign(client, lost)) for lost, seed in seeds.items()]
    return decode(add([*vectors.values(), *masks]))


def _sign(own: int, other: int) -> int:
    return 1 if own < other else -1


def _stream(seed: bytes, n: int, sign: int) -> bytes:
    """N pseudo-random numbers: ChaCha20, as Flower's own generator has a seed of 32 bits only."""
    text = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor().update(bytes(n * N_BYTES))
    return text if sign > 0 else _joined(-value % _MODULUS for value in _integers(text))


def _integers(text: bytes) -> list[int]:
    return [int.from_bytes(text[i : i + N_BYTES], "little") for i in range(0, len(text), N_BYTES)]


def _joined(values: object) -> bytes:
    return b"".join(value.to_bytes(N_BYTES, "little") for value in values)  # type: ignore[attr-defined]
