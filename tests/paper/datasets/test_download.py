from __future__ import annotations

import hashlib
import json
import socket
import sys
import time
from pathlib import Path

import pytest

from gpexperts.exceptions import MissingExtraError
from gpexperts.paper.datasets.download import ChecksumError, DownloadError, fetch, sha256_of
from tests.paper.datasets.server import faulty_server

BODY = bytes(range(256)) * 4000
DIGEST = hashlib.sha256(BODY).hexdigest()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between two attempts."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


def names(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


def test_fetch_reports_progress_and_stores_checksum(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    with faulty_server(BODY) as server:
        path = fetch(server.url, tmp_path / "new" / "file.bin", progress=lambda *step: seen.append(step))
    assert path.read_bytes() == BODY
    assert len(seen) > 2
    assert seen[-1] == ("file.bin", len(BODY), len(BODY))
    assert json.loads((path.parent / "checksums.json").read_text()) == {"file.bin": DIGEST}
    assert names(path.parent) == {"file.bin", "checksums.json"}


@pytest.mark.parametrize("faults", [["500"], ["drop"], ["drop", "500"]])
def test_fetch_retries_after_temporary_faults(tmp_path: Path, faults: list[str]) -> None:
    with faulty_server(BODY, faults) as server:
        fetch(server.url, tmp_path / "file.bin")
        assert server.requests == len(faults) + 1
    assert sha256_of(tmp_path / "file.bin") == DIGEST


@pytest.mark.parametrize(("fault", "attempts"), [("500", 3), ("drop", 3), ("404", 1)])
def test_failed_fetch_leaves_no_file(tmp_path: Path, fault: str, attempts: int) -> None:
    with faulty_server(BODY, [fault] * 9) as server:
        with pytest.raises(DownloadError, match="could not be downloaded"):
            fetch(server.url, tmp_path / "file.bin")
        assert server.requests == attempts
    assert names(tmp_path) == set()


@pytest.mark.parametrize("fault", ["", "truncate"])
def test_file_with_wrong_checksum_is_not_kept(tmp_path: Path, fault: str) -> None:
    expected = DIGEST if fault else "0" * 64
    with faulty_server(BODY, [fault]) as server, pytest.raises(ChecksumError, match=expected):
        fetch(server.url, tmp_path / "file.bin", sha256=expected, retries=0)
    assert names(tmp_path) == set()


def test_changed_file_is_refused(tmp_path: Path) -> None:
    with faulty_server(BODY) as server:
        fetch(server.url, tmp_path / "file.bin")
        (tmp_path / "file.bin").unlink()
        server.body = BODY + b"!"
        with pytest.raises(ChecksumError, match="has changed since its first download"):
            fetch(server.url, tmp_path / "file.bin")
    assert names(tmp_path) == {"checksums.json"}


def test_failed_fetch_keeps_existing_file(tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"old")
    with faulty_server(BODY, ["drop"]) as server, pytest.raises(DownloadError):
        fetch(server.url, tmp_path / "file.bin", sha256=DIGEST, retries=0)
    assert (tmp_path / "file.bin").read_bytes() == b"old"


def test_refused_connection_is_a_download_error(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DownloadError, match="could not be downloaded"):
        fetch(f"http://127.0.0.1:{port}/x", tmp_path / "x", retries=1)


def test_no_network_is_a_download_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object, **__: object) -> object:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    with pytest.raises(DownloadError, match="could not be downloaded"):
        fetch("http://data.example/x", tmp_path / "x")


def test_missing_pooch_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'gpexperts\[paper\]'"):
        fetch("http://data.example/x", tmp_path / "x")
