"""Readers of the original files, one function per data set.

Each takes the paths of the files, in the order of `DataSet.files`, and returns the arrays of the npz file.
"""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np

__all__ = ["airfoil", "concrete", "parkinsons", "pol", "protein", "pumadyn", "sarcos", "song"]

Arrays = dict[str, np.ndarray]


def concrete(paths: list[Path]) -> Arrays:
    """UCI 165, as CSV: 8 inputs, then the strength."""
    table = np.loadtxt(paths[0], delimiter=",", skiprows=1)
    return {"X": table[:, :-1], "y": table[:, -1]}


def airfoil(paths: list[Path]) -> Arrays:
    """UCI 291: tab-separated, 5 inputs, then the sound pressure level."""
    table = np.loadtxt(_from_zip(paths[0], "airfoil_self_noise.dat"))
    return {"X": table[:, :-1], "y": table[:, -1]}


def parkinsons(paths: list[Path]) -> Arrays:
    """UCI 189: subject, age, sex, test_time, motor_UPDRS, total_UPDRS, then 16 voice measures.

    The target is total_UPDRS; motor_UPDRS, which almost determines it, is left out.
    """
    table = np.loadtxt(_from_zip(paths[0], "parkinsons_updrs.data"), delimiter=",", skiprows=1)
    return {"X": np.delete(table, [4, 5], axis=1), "y": table[:, 5]}


def pol(paths: list[Path]) -> Arrays:
    """Torgo's pole telecommunication: two files; the larger one is for training.

    Of the 48 inputs 22 are constant and dropped.
    """
    with tarfile.open(paths[0]) as archive:
        members = [m for m in archive.getmembers() if m.name.endswith((".data", ".test"))]
        tables = [_table(_member(archive, m)) for m in members]
    if len(tables) != 2:
        raise ValueError(f"{paths[0]} should hold one .data and one .test file, found {len(tables)} of them.")
    test, train = sorted(tables, key=len)
    table = np.concatenate([train, test])
    X = table[:, :-1]
    return {
        "X": X[:, X.std(axis=0) > 0],
        "y": table[:, -1],
        "std_test_index": np.arange(len(train), len(table)),
    }


def pumadyn(paths: list[Path]) -> Arrays:
    """DELVE's pumadyn-32nm: 32 inputs, then the angular acceleration."""
    with tarfile.open(paths[0]) as archive:
        (member,) = [m for m in archive.getmembers() if m.name.endswith("Dataset.data.gz")]
        table = np.loadtxt(io.TextIOWrapper(_gunzip(_member(archive, member))))
    return {"X": table[:, :32], "y": table[:, 32]}


def protein(paths: list[Path]) -> Arrays:
    """UCI 265, CASP.csv: RMSD, the target, then 9 inputs."""
    table = np.loadtxt(_from_zip(paths[0], "CASP.csv"), delimiter=",", skiprows=1)
    return {"X": table[:, 1:], "y": table[:, 0]}


def sarcos(paths: list[Path]) -> Arrays:
    """The two MATLAB files of the GPML book: 21 inputs, then 7 torques; the first torque is the target."""
    from scipy.io import loadmat

    train = loadmat(paths[0])["sarcos_inv"]
    test = loadmat(paths[1])["sarcos_inv_test"]
    X, X_test = train[:, :21], test[:, :21]
    return {
        "X": X,
        "y": train[:, 21],
        "X_test": X_test,
        "y_test": test[:, 21],
        "test_dup_train_index": _rows_also_in(X, X_test),
    }


def song(paths: list[Path]) -> Arrays:
    """UCI 203, YearPredictionMSD.txt: the year, then 90 measures of timbre."""
    table = _table(_from_zip(paths[0], "YearPredictionMSD.txt"))
    return {"X": table[:, 1:], "y": table[:, 0]}


def _rows_also_in(X: np.ndarray, other: np.ndarray, decimals: int = 5) -> np.ndarray:
    """Index of the rows of X that are also rows of `other`, up to rounding."""
    known = {row.tobytes() for row in np.round(other, decimals) + 0.0}
    return np.flatnonzero([row.tobytes() in known for row in np.round(X, decimals) + 0.0])


def _from_zip(path: Path, name: str) -> io.TextIOWrapper:
    """The text of the member with this name, in any folder of the archive."""
    with zipfile.ZipFile(path) as archive:
        found = [m for m in archive.namelist() if Path(m).name.lower() == name.lower()]
        if not found:
            raise ValueError(f"{path} holds no {name}; it holds {', '.join(archive.namelist())}.")
        return io.TextIOWrapper(io.BytesIO(archive.read(found[0])))


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> io.BytesIO:
    file = archive.extractfile(member)
    if file is None:
        raise ValueError(f"{member.name} is not a file.")
    return io.BytesIO(file.read())


def _gunzip(file: io.BytesIO) -> io.BytesIO:
    import gzip

    return io.BytesIO(gzip.decompress(file.read()))


def _table(file: io.IOBase) -> np.ndarray:
    """Comma-separated numbers."""
    return np.loadtxt(file, delimiter=",")
