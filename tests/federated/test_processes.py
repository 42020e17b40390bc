"""A SuperLink and SuperNodes as real processes on loopback, with encryption and registered clients."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.federated.credentials import write_certificates, write_key
from tests.federated.federations import function, queries, rows_of

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
LONGEST = 1200
"""Seconds; a round takes about 6 on an idle machine, and several times as long on a busy one."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(LONGEST + 100)]


class Processes:
    """Processes of Flower, each with its own process group, so that none is left behind."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.running = folder, free_port(), {}
        self.environment = {
            **os.environ,
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_HOME": str(folder / "home"),
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
        }
        (folder / "home").mkdir()
        (folder / "home" / "config.toml").write_text(
            f'[superlink.loop]\naddress = "127.0.0.1:{self.port}"\nroot-certificates = "{folder}/ca.crt"\n'
        )

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                env=self.environment,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.running[name] = process
        return process

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def stop(self) -> None:
        for process in reversed(self.running.values()):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            process.wait(30)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for_port(port: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < until, "the SuperLink does not start"
            time.sleep(0.2)
        else:
            return


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    started = Processes(tmp_path)
    yield started
    started.stop()


@pytest.fixture
def superlink(processes: Processes) -> list[str]:
    """A SuperLink with encryption that knows four clients; returns the arguments of a SuperNode."""
    folder = processes.folder
    write_certificates(folder)
    processes.start(
        "superlink", "flower-superlink", "--enable-supernode-auth", "--ssl-certfile", "server.crt",
        "--ssl-keyfile", "server.key", "--ssl-ca-certfile", "ca.crt", "--host", "127.0.0.1",
        "--port", str(processes.port), "--disable-runtime-dependency-installation",
    )  # fmt: skip
    wait_for_port(processes.port, 120)
    for client in range(4):
        write_key(folder / f"key-{client}")
        name = f"register-{client}"
        register = processes.start(name, "flwr", "supernode", "register", f"key-{client}.pub", "loop")
        assert register.wait(120) == 0, processes.log(name)
    return ["flower-supernode", "--superlink", f"127.0.0.1:{processes.port}", "--root-certificates", "ca.crt"]


def test_clients_that_are_killed_in_training_and_in_answering(
    processes: Processes, superlink: list[str]
) -> None:
    folder = processes.folder
    shutil.copytree(HERE / "flower_app", folder / "app")
    write_key(folder / "stranger")
    stranger = processes.start(
        "stranger", *superlink, "--port", str(free_port()),
        "--auth-supernode-private-key", "stranger", "--max-retries", "1",
    )  # fmt: skip
    for client, stage in enumerate(("never", "training", "never", "answering")):
        rows = rows_of(client, 60)
        np.savez(folder / f"client-{client}.npz", X=rows.X, y=rows.y)
        config = f'rows="{folder}/client-{client}.npz" dies-in="{stage}" min-clients=2 n-jobs=1'
        processes.start(
            f"client-{client}", *superlink, "--port", str(free_port()),
            "--auth-supernode-private-key", f"key-{client}", "--node-config", config,
        )  # fmt: skip
    X = queries(20)
    np.savez(folder / "queries.npz", X=X)
    config = (
        f'clients=4 wait=200.0 queries="{folder}/queries.npz" predictions="{folder}/predictions.npz" '
        'kernel="rbf" max-steps=3 min-clients=2 timeout=90.0'
    )
    run = processes.start(
        "run", "flwr", "run", str(folder / "app"), "loop", "--stream", "--run-config", config
    )
    run.wait(LONGEST)
    assert (folder / "predictions.npz").is_file(), processes.log("run")[-3000:]
    with np.load(folder / "predictions.npz") as found:
        assert len(found["clients"]) == 3
        assert len(found["absent"]) == 1
        assert found["absent"][0] in found["clients"]
        near = (X[:, 0] < 1) | ((X[:, 0] > 2) & (X[:, 0] < 3))
        assert np.abs(found["mean"] - function(X))[near].mean() < 0.2
        assert (found["lower"] < found["upper"]).all()
    killed = [name for name in ("client-1", "client-3") if processes.running[name].poll() == -signal.SIGKILL]
    assert killed == ["client-1", "client-3"]
    assert stranger.wait(60) > 0, "a client that is not registered takes part"
    assert "Failed to activate SuperNode" in processes.log("stranger")
