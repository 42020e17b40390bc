from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from gpexperts.paper.datasets import DATASETS, DataSetMissingError, base, load, split
from gpexperts.paper.datasets.base import OriginalFile, cache_folder, find, named
from tests.paper.datasets.server import faulty_server


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; GPEXPERTS_DATA is not set."""
    monkeypatch.delenv("GPEXPERTS_DATA", raising=False)
    monkeypatch.setenv("GPEXPERTS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def concrete_csv(rows: int = 1030) -> bytes:
    table = np.random.default_rng(0).uniform(size=(rows, 9)).round(3)
    lines = [",".join(map(str, row)) for row in table]
    return "\n".join(["a,b,c,d,e,f,g,h,strength", *lines]).encode()


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("pole", "pol"),
        ("pumadyn", "pumadyn32nm"),
        ("sacros", "sarcos"),
        ("Concrete", "concrete"),
        ("year", "song"),
    ],
)
def test_aliases(alias: str, name: str) -> None:
    assert named(alias).name == name


def test_names_and_aliases_are_unique() -> None:
    names = [n for d in DATASETS.values() for n in (d.name, *d.aliases)]
    assert len(names) == len(set(names))


def test_unknown_name_lists_known_names() -> None:
    with pytest.raises(ValueError, match="Unknown data set 'iris'; known are concrete, airfoil"):
        load("iris")


def test_cache_folder_from_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPEXPERTS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/gpexperts")
    monkeypatch.setenv("GPEXPERTS_CACHE", "/y")
    assert cache_folder() == Path("/y")


def test_load_downloads_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with faulty_server(concrete_csv()) as server:
        original = OriginalFile(server.url, "concrete.csv")
        monkeypatch.setitem(
            DATASETS, "concrete", dataclasses.replace(DATASETS["concrete"], files=(original,))
        )
        first = load("concrete")
        second = load("concrete")
        assert server.requests == 1
    assert first["X"].shape == (1030, 8)
    np.testing.assert_array_equal(first["y"], second["y"])
    assert find("concrete") == cache / "concrete.npz"
    assert not list(cache.rglob("*.part"))


def test_data_folder_precedes_cache(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, value in ((cache, 1.0), (tmp_path / "mine", 2.0)):
        folder.mkdir()
        np.savez(folder / "concrete.npz", X=np.zeros((1030, 8)), y=np.full(1030, value))
    assert load("concrete")["y"][0] == 1.0
    monkeypatch.setenv("GPEXPERTS_DATA", str(tmp_path / "mine"))
    assert load("concrete")["y"][0] == 2.0


def test_load_reads_saved_original_file(cache: Path) -> None:
    (cache / "original").mkdir(parents=True)
    (cache / "original" / "concrete.csv").write_bytes(concrete_csv())
    assert load("concrete")["X"].shape == (1030, 8)


@pytest.mark.parametrize("name", ["concrete", "flights3m"])
def test_missing_data_set_names_places_for_its_file(
    cache: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(*_: object, **__: object) -> None:
        raise base.DownloadError("no network")

    monkeypatch.setattr(base, "fetch", offline)
    with pytest.raises(
        DataSetMissingError, match=rf"Put {name}\.npz .*GPEXPERTS_DATA to it, or into {cache}"
    ):
        load(name)


def test_file_of_wrong_shape_is_refused(cache: Path) -> None:
    cache.mkdir()
    np.savez(cache / "concrete.npz", X=np.zeros((5, 8)), y=np.zeros(5))
    with pytest.raises(ValueError, match=r"should hold concrete with X \(1030, 8\)"):
        load("concrete")


def test_download_of_wrong_shape_is_not_cached(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with faulty_server(concrete_csv(rows=10)) as server:
        original = OriginalFile(server.url, "concrete.csv")
        monkeypatch.setitem(
            DATASETS, "concrete", dataclasses.replace(DATASETS["concrete"], files=(original,))
        )
        with pytest.raises(ValueError, match="should hold concrete"):
            load("concrete")
    assert find("concrete") is None


def test_permuted_split_depends_on_seed(cache: Path) -> None:
    cache.mkdir()
    X = np.arange(1030 * 8.0).reshape(1030, 8)
    np.savez(cache / "concrete.npz", X=X, y=X[:, 0])
    rows = split("concrete")
    order = np.random.default_rng(0).permutation(1030)
    np.testing.assert_array_equal(rows.X_train, X[order[:927]])
    np.testing.assert_array_equal(rows.y_test, X[order[927:], 0])
    assert not np.array_equal(rows.X_train, split("concrete", seed=1).X_train)


@pytest.mark.parametrize("excluded", [True, False])
def test_sarcos_with_and_without_test_rows_in_training(
    cache: Path, excluded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir()
    X = np.random.default_rng(0).normal(size=(60, 21))
    monkeypatch.setitem(DATASETS, "sarcos", dataclasses.replace(DATASETS["sarcos"], rows=60))
    np.savez(
        cache / "sarcos.npz", X=X, y=X[:, 0], X_test=X[::10], y_test=X[::10, 0],
        test_dup_train_index=np.arange(0, 60, 10),
    )  # fmt: skip
    rows = split("sarcos" if excluded else "sarcos-official")
    assert len(rows.X_train) == (54 if excluded else 60)
    shared = {r.tobytes() for r in rows.X_train} & {r.tobytes() for r in rows.X_test}
    assert len(shared) == (0 if excluded else 6)


def test_protein_log1p_target(cache: Path) -> None:
    cache.mkdir()
    y = np.random.default_rng(0).uniform(0, 20, 45730)
    np.savez(cache / "protein.npz", X=np.zeros((45730, 9)), y=y)
    plain, log = split("protein", 3), split("protein-log1p", 3)
    np.testing.assert_allclose(log.y_test, np.log(1 + plain.y_test))


def test_song_split(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir()
    monkeypatch.setitem(DATASETS, "song", dataclasses.replace(DATASETS["song"], columns=1))
    y = np.arange(515345.0)
    np.savez(cache / "song.npz", X=y[:, None], y=y)
    rows = split("song")
    assert (rows.y_train[0], rows.y_train[-1], len(rows.y_train)) == (0, 99_999, 100_000)
    assert (rows.y_test[0], len(rows.y_test)) == (463_715, 10_000)


def test_data_set_without_split_is_refused(cache: Path) -> None:
    cache.mkdir()
    np.savez(cache / "flights3m.npz", X=np.zeros((3000000, 8), np.int8), y=np.zeros(3000000, np.int8))
    with pytest.raises(ValueError, match="'flights3m' has no predefined split"):
        split("flights3m")
