"""The data sets of the paper: description, location and loading.

`load(name)` searches NAME.npz in the folder given by the environment variable GPEXPERTS_DATA, then in the
cache. If it is in neither, the original files are downloaded and converted once. An npz file holds X (n, d),
y (n,) and the arrays of a predefined split, if there is one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gpexperts.files import appearing
from gpexperts.paper.datasets import uci
from gpexperts.paper.datasets.download import DownloadError, Progress, fetch

__all__ = [
    "DATASETS",
    "DataSet",
    "DataSetMissingError",
    "OriginalFile",
    "cache_folder",
    "find",
    "load",
    "named",
]

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class OriginalFile:
    """One original file of a data set."""

    url: str
    filename: str
    """Its name in the cache."""
    sha256: str | None = None
    """Expected checksum; if None, that of the first download is stored and expected later."""


@dataclass(frozen=True)
class DataSet:
    """Description of a data set."""

    name: str
    title: str
    rows: int
    columns: int
    """Number of inputs."""
    page: str
    """Address of its description."""
    files: tuple[OriginalFile, ...] = ()
    """Original files; empty if it cannot be downloaded."""
    parse: Callable[[list[Path]], Arrays] | None = None
    """Paths of these files ↦ arrays X, y and those of the split."""
    aliases: tuple[str, ...] = ()
    prepared_sha256: str = field(default="", repr=False)
    """Checksum of the npz file with which the published results were computed."""


class DataSetMissingError(FileNotFoundError):
    """A data set is not present and could not be downloaded."""


_UCI = "https://archive.ics.uci.edu"
_GPML = "http://www.gaussianprocess.org/gpml/data"
_DELVE = "https://www.cs.toronto.edu/~delve/data/pumadyn"

DATASETS: dict[str, DataSet] = {
    s.name: s
    for s in (
        DataSet(
            "concrete", "Concrete compressive strength", 1030, 8,
            f"{_UCI}/dataset/165/concrete+compressive+strength",
            (OriginalFile(f"{_UCI}/static/public/165/data.csv", "concrete.csv"),), uci.concrete,
            prepared_sha256="be0ee31847336547932b0087ef3aea8dd36b42833a6325d722ec5b027256192e",
        ),
        DataSet(
            "airfoil", "Airfoil self-noise", 1503, 5, f"{_UCI}/dataset/291/airfoil+self+noise",
            (OriginalFile(f"{_UCI}/static/public/291/airfoil+self+noise.zip", "airfoil.zip"),), uci.airfoil,
            prepared_sha256="7a9a2edbd8ef76e56027d3b35837a833d222787731e194b4a0c99472b2645aee",
        ),
        DataSet(
            "parkinsons", "Parkinsons telemonitoring", 5875, 20,
            f"{_UCI}/dataset/189/parkinsons+telemonitoring",
            (OriginalFile(f"{_UCI}/static/public/189/parkinsons+telemonitoring.zip", "parkinsons.zip"),),
            uci.parkinsons, aliases=("parkinson",),
            prepared_sha256="4eea849e9f988c4fa52a22a5507bd1456aeafc6807667a5dba734f1a8292267f",
        ),
        DataSet(
            "pol", "Pole telecommunication", 15000, 26,
            "https://www.dcc.fc.up.pt/~ltorgo/Regression/DataSets.html",
            (OriginalFile("https://www.dcc.fc.up.pt/~ltorgo/Regression/pol.tgz", "pol.tgz"),), uci.pol,
            aliases=("pole", "pole-telecom", "poletelecomm"),
            prepared_sha256="67c0a9dbc7cad9a05f85fbc0e905ab2864237c206a4d9a56907321b48ea29e45",
        ),
        DataSet(
            "pumadyn32nm", "Pumadyn robot arm, 32nm", 8192, 32,
            f"{_DELVE}/desc.html",
            (OriginalFile(f"{_DELVE}/pumadyn-32nm.tar.gz", "pumadyn32nm.tar.gz"),),
            uci.pumadyn, aliases=("pumadyn", "pumadyn-32nm"),
            prepared_sha256="e9a1c91ee0c2b79a27ed7928a54170c9faadf4d1364fff8b041f30cc934ba3ed",
        ),
        DataSet(
            "protein", "Protein tertiary structure (CASP)", 45730, 9,
            f"{_UCI}/dataset/265/physicochemical+properties+of+protein+tertiary+structure",
            (
                OriginalFile(
                    f"{_UCI}/static/public/265/physicochemical+properties+of+protein+tertiary+structure.zip",
                    "protein.zip",
                ),
            ),
            uci.protein, aliases=("casp",),
            prepared_sha256="2cf07d5225d7345801e31d4b527c19d5fb2059e0fcf2d2514e84a5d5e95ad70b",
        ),
        DataSet(
            "sarcos", "SARCOS inverse dynamics, torque 1", 44484, 21,
            f"{_GPML}/",
            (
                OriginalFile(f"{_GPML}/sarcos_inv.mat", "sarcos_inv.mat"),
                OriginalFile(f"{_GPML}/sarcos_inv_test.mat", "sarcos_inv_test.mat"),
            ),
            uci.sarcos, aliases=("sacros",),
            prepared_sha256="115c754c4258428c66914197ec7047fdae016f6e8637dbce27035a21875b0114",
        ),
        DataSet(
            "song", "Year of release of a song (YearPredictionMSD)", 515345, 90,
            f"{_UCI}/dataset/203/yearpredictionmsd",
            (OriginalFile(f"{_UCI}/static/public/203/yearpredictionmsd.zip", "song.zip"),), uci.song,
            aliases=("year", "yearpredictionmsd", "msd"),
        ),
        DataSet(
            "song_head", "The first 1,176 rows of song", 1176, 90, f"{_UCI}/dataset/203/yearpredictionmsd",
            aliases=("song-head",),
            prepared_sha256="970a05744cb8e88dfc1c4086f439c743b7e1bfe0ff4cfdb54e1e822c36c03c01",
        ),
        DataSet(
            "flights3m", "US flights, January to June 2001: arrival delay", 3000000, 8,
            "https://www.transtats.bts.gov/", aliases=("flights",),
            prepared_sha256="7c43513de3329c004e59630ad04674c7d28d52ddd0d56473712c315a8eb57e67",
        ),
    )
}  # fmt: skip


def named(name: str) -> DataSet:
    """Return the data set of this name or alias."""
    key = name.lower()
    for dataset in DATASETS.values():
        if key == dataset.name or key in dataset.aliases:
            return dataset
    raise ValueError(f"Unknown data set {name!r}; known are {', '.join(DATASETS)}.")


def cache_folder() -> Path:
    """GPEXPERTS_CACHE, or gpexperts in XDG_CACHE_HOME, or ~/.cache/gpexperts."""
    own = os.environ.get("GPEXPERTS_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpexperts"


def find(name: str) -> Path | None:
    """Return the npz file of a data set, or None if it is neither in GPEXPERTS_DATA nor in the cache."""
    filename = f"{named(name).name}.npz"
    folders = [Path(f) for f in (os.environ.get("GPEXPERTS_DATA"),) if f] + [cache_folder()]
    return next((folder / filename for folder in folders if (folder / filename).is_file()), None)


def load(name: str, progress: Progress | None = None) -> Arrays:
    """Return the arrays of a data set; download it if it is not present.

    Parameters
    ----------
    name : str
        A name or alias; `gpexperts datasets` lists them.
    progress : callable, optional
        Called during a download; see `gpexperts.paper.datasets.download.Progress`.

    Returns
    -------
    dict of ndarray
        X (n, d), y (n,) and, if the split is predefined, `std_test_index` (rows of the test set) or
        `X_test`, `y_test` and `test_dup_train_index` (training rows that are also test rows).

    Raises
    ------
    DataSetMissingError
        If it is not present and cannot be downloaded; the message names the places for the file.
    MissingExtraError
        If it must be downloaded and pooch is not installed.
    """
    dataset = named(name)
    path = find(name)
    if path is None:
        path = _prepare(dataset, progress)
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files}
    _check(dataset, arrays, path)
    return arrays


def _prepare(dataset: DataSet, progress: Progress | None) -> Path:
    """Download and read the original files, and write NAME.npz to the cache."""
    folder = cache_folder()
    originals = [folder / "original" / original.filename for original in dataset.files]
    if dataset.parse is None:
        raise DataSetMissingError(_where_to_put(dataset, "It cannot be downloaded."))
    for original, path in zip(dataset.files, originals, strict=True):
        if not path.is_file():
            try:
                fetch(original.url, path, sha256=original.sha256, progress=progress)
            except DownloadError as error:
                raise DataSetMissingError(_where_to_put(dataset, str(error))) from error
    arrays = dataset.parse(originals)
    _check(dataset, arrays, originals[0])
    path = folder / f"{dataset.name}.npz"
    with appearing(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return path


def _check(dataset: DataSet, arrays: Arrays, path: Path) -> None:
    shape, expected = arrays["X"].shape, (dataset.rows, dataset.columns)
    if shape != expected or arrays["y"].shape != expected[:1]:
        raise ValueError(
            f"{path} should hold {dataset.name} with X {expected} and y {expected[:1]}, but has X {shape} "
            f"and y {arrays['y'].shape}. Delete the file and load the data set again, or replace the file."
        )


def _where_to_put(dataset: DataSet, reason: str) -> str:
    where = os.environ.get("GPEXPERTS_DATA")
    lines = [
        f"The data set {dataset.name!r} is not present. {reason}",
        f"Put {dataset.name}.npz (arrays X {dataset.rows, dataset.columns} and y {(dataset.rows,)}) into "
        + (f"{where} (GPEXPERTS_DATA)" if where else "a folder and set GPEXPERTS_DATA to it")
        + f", or into {cache_folder()}.",
    ]
    for original in dataset.files:
        lines.append(f"Or save {original.url} as {cache_folder() / 'original' / original.filename}.")
    return "\n".join(lines)
