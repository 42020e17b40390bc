"""Each reader, on a few rows in the format of the original file."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from gpexperts.paper.datasets import uci

RNG = np.random.default_rng(0)


def text(table: np.ndarray, delimiter: str = ",", header: str = "") -> bytes:
    buffer = io.StringIO()
    np.savetxt(buffer, table, delimiter=delimiter, header=header, comments="", fmt="%.6f")
    return buffer.getvalue().encode()


def zipped(path: Path, name: str, content: bytes) -> list[Path]:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "words")
        archive.writestr(name, content)
    return [path]


def tarred(path: Path, members: dict[str, bytes]) -> list[Path]:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return [path]


def test_concrete(tmp_path: Path) -> None:
    table = RNG.uniform(size=(5, 9)).round(6)
    (tmp_path / "c.csv").write_bytes(text(table, header=",".join("abcdefghi")))
    arrays = uci.concrete([tmp_path / "c.csv"])
    np.testing.assert_array_equal(arrays["X"], table[:, :8])
    np.testing.assert_array_equal(arrays["y"], table[:, 8])


def test_airfoil(tmp_path: Path) -> None:
    table = RNG.uniform(size=(5, 6)).round(6)
    arrays = uci.airfoil(zipped(tmp_path / "a.zip", "airfoil_self_noise.dat", text(table, "\t")))
    np.testing.assert_array_equal(arrays["X"], table[:, :5])
    np.testing.assert_array_equal(arrays["y"], table[:, 5])


def test_parkinsons_drops_motor_score(tmp_path: Path) -> None:
    table = RNG.uniform(size=(5, 22)).round(6)
    header = ",".join(map(str, range(22)))
    arrays = uci.parkinsons(
        zipped(tmp_path / "p.zip", "data/parkinsons_updrs.data", text(table, header=header))
    )
    np.testing.assert_array_equal(arrays["X"], table[:, [0, 1, 2, 3, *range(6, 22)]])
    np.testing.assert_array_equal(arrays["y"], table[:, 5])


def test_protein(tmp_path: Path) -> None:
    table = RNG.uniform(size=(5, 10)).round(6)
    header = ",".join(map(str, range(10)))
    arrays = uci.protein(zipped(tmp_path / "p.zip", "CASP.csv", text(table, header=header)))
    np.testing.assert_array_equal(arrays["X"], table[:, 1:])
    np.testing.assert_array_equal(arrays["y"], table[:, 0])


def test_song(tmp_path: Path) -> None:
    table = RNG.uniform(size=(4, 91)).round(6)
    arrays = uci.song(zipped(tmp_path / "s.zip", "YearPredictionMSD.txt", text(table)))
    np.testing.assert_array_equal(arrays["X"], table[:, 1:])
    np.testing.assert_array_equal(arrays["y"], table[:, 0])


def test_pol_trains_on_larger_file_and_drops_constant_columns(tmp_path: Path) -> None:
    table = RNG.uniform(size=(9, 5)).round(6)
    table[:, 2] = 7.0
    members = {"Pol/pol.data": text(table[:3]), "Pol/pol.test": text(table[3:]), "Pol/pol.domain": b"words"}
    arrays = uci.pol(tarred(tmp_path / "pol.tgz", members))
    order = [3, 4, 5, 6, 7, 8, 0, 1, 2]
    np.testing.assert_array_equal(arrays["X"], table[order][:, [0, 1, 3]])
    np.testing.assert_array_equal(arrays["y"], table[order, 4])
    np.testing.assert_array_equal(arrays["std_test_index"], [6, 7, 8])


def test_pumadyn(tmp_path: Path) -> None:
    table = RNG.uniform(size=(5, 33)).round(6)
    members = {
        "pumadyn-32nm/Dataset.data.gz": gzip.compress(text(table, " ")),
        "pumadyn-32nm/Dataset.spec": b"x",
    }
    arrays = uci.pumadyn(tarred(tmp_path / "p.tar.gz", members))
    np.testing.assert_array_equal(arrays["X"], table[:, :32])
    np.testing.assert_array_equal(arrays["y"], table[:, 32])


def test_sarcos_finds_test_rows_among_training_rows(tmp_path: Path) -> None:
    train = RNG.normal(size=(20, 28))
    test = np.concatenate([train[[3, 11]], RNG.normal(size=(1, 28))])
    savemat(tmp_path / "train.mat", {"sarcos_inv": train})
    savemat(tmp_path / "test.mat", {"sarcos_inv_test": test})
    arrays = uci.sarcos([tmp_path / "train.mat", tmp_path / "test.mat"])
    np.testing.assert_array_equal(arrays["test_dup_train_index"], [3, 11])
    np.testing.assert_array_equal(arrays["X"], train[:, :21])
    np.testing.assert_array_equal(arrays["y_test"], test[:, 21])


def test_archive_without_the_file_lists_its_members(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no CASP.csv; it holds readme.txt, other.csv"):
        uci.protein(zipped(tmp_path / "p.zip", "other.csv", b"1,2"))
