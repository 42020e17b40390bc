from __future__ import annotations

import hashlib
import json
import socket
from pathlib import Path

import pytest

from gpexperts.paper.datasets.download import ChecksumError, DownloadError, fetch, sha256_of
from tests.paper.datasets.server import faulty_server

BODY = bytes(range(256)) * 4000
DIGEST = hashlib.sha256(BODY).hexdigest()


def names(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


def test_downloads_reports_progress_and_pins_the_checksum(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    with faulty_server(BODY) as server:
        path = fetch(server.url, tmp_path / "new" / "file.bin", progress=lambda *step: seen.append(step))
    assert path.read_bytes() == BODY
    assert seen[-1] == ("file.bin", len(BODY), len(BODY))
    assert json.loads((path.parent / "checksums.json").read_text()) == {"file.bin": DIGEST}
    assert names(path.parent) == {"file.bin", "checksums.json"}


@pytest.mark.parametrize("faults", [["500"], ["drop"], ["drop", "500", "drop"]])
def test_tries_again_after_faults_that_may_pass(tmp_path: Path, faults: list[str]) -> None:
    with faulty_server(BODY, faults) as server:
        fetch(server.url, tmp_path / "file.bin", pause=0.001)
        assert server.requests == len(faults) + 1
    assert sha256_of(tmp_path / "file.bin") == DIGEST


@pytest.mark.parametrize(("fault", "attempts"), [("500", 3), ("drop", 3), ("404", 1)])
def test_gives_up_and_leaves_nothing_behind(tmp_path: Path, fault: str, attempts: int) -> None:
    with faulty_server(BODY, [fault] * 9) as server:
        with pytest.raises(DownloadError, match=f"could not be downloaded after {attempts} attempts"):
            fetch(server.url, tmp_path / "file.bin", retries=2, pause=0.001)
        assert server.requests == attempts
    assert names(tmp_path) == set()


@pytest.mark.parametrize("fault", ["", "truncate"])
def test_a_wrong_checksum_is_an_error_and_the_file_is_not_kept(tmp_path: Path, fault: str) -> None:
    expected = DIGEST if fault else "0" * 64
    with faulty_server(BODY, [fault]) as server, pytest.raises(ChecksumError, match="expected " + expected):
        fetch(server.url, tmp_path / "file.bin", sha256=expected)
    assert names(tmp_path) == set()


def test_a_file_that_changes_after_its_first_download_is_noticed(tmp_path: Path) -> None:
    with faulty_server(BODY) as server:
        fetch(server.url, tmp_path / "file.bin")
        (tmp_path / "file.bin").unlink()
        server.body = BODY + b"!"
        with pytest.raises(ChecksumError, match="has changed at its home"):
            fetch(server.url, tmp_path / "file.bin")
    assert names(tmp_path) == {"checksums.json"}


def test_an_existing_file_survives_a_failed_download(tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"precious")
    with faulty_server(BODY, ["drop"]) as server, pytest.raises(DownloadError):
        fetch(server.url, tmp_path / "file.bin", retries=0)
    assert (tmp_path / "file.bin").read_bytes() == b"precious"


def test_a_refused_connection_is_a_download_error(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DownloadError, match="after 2 attempts"):
        fetch(f"http://127.0.0.1:{port}/x", tmp_path / "x", retries=1, pause=0.001)


def test_without_a_network_it_fails_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object, **__: object) -> object:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    with pytest.raises(DownloadError, match="after 1 attempts"):
        fetch("http://data.example/x", tmp_path / "x")
