"""A SuperLink and SuperNodes as real processes on loopback, with encryption and registered clients."""

from __future__ import annotations

import os
import re
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

from gpexperts.paper.datasets import split
from tests.federated.credentials import write_certificates, write_key
from tests.federated.federations import function, queries, rows_of

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BIN = Path(sys.executable).parent
LONGEST = 1500
"""Seconds. A round takes about 6 on an idle machine, and several times as long on a busy one. Flower reports
after 60 that a client was killed."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(LONGEST + 300)]


class Processes:
    """Processes of Flower; a folder as home marks them and those that they start, so that none stays."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.running = folder, free_ports(1), {}
        self.environment = {
            **os.environ,
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_HOME": str(folder / "home"),
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
        }
        (folder / "home").mkdir()
        mark = f"FLWR_HOME={self.environment['FLWR_HOME']}"
        self.watchdog = subprocess.Popen(
            [sys.executable, str(HERE / "watchdog.py"), mark], stdin=subprocess.PIPE, start_new_session=True
        )

    def configure(self, name: str, certificate: Path) -> None:
        """Tell the command ``flwr`` where the SuperLink is."""
        (self.folder / "home" / "config.toml").write_text(
            f'[superlink.{name}]\naddress = "127.0.0.1:{self.port}"\nroot-certificates = "{certificate}"\n'
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
        """Have the watchdog end all processes, also those that have left the group of their parent."""
        assert self.watchdog.stdin is not None
        self.watchdog.stdin.close()
        assert self.watchdog.wait(120) == 0, "processes are left behind"
        for process in self.running.values():
            process.wait(30)


def free_ports(n: int) -> int:
    """Return the first of n free ports whose numbers differ in the last digit only, which is 0, 1, …."""
    for first in np.random.default_rng().permutation(np.arange(2000, 3200)) * 10:
        try:
            for port in range(first, first + n):
                with socket.socket() as listener:
                    listener.bind(("127.0.0.1", int(port)))
        except OSError:
            continue
        return int(first)
    raise AssertionError("no free ports")


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
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture
def superlink(processes: Processes) -> list[str]:
    """A SuperLink with encryption that knows four clients; returns the arguments of a SuperNode."""
    folder = processes.folder
    write_certificates(folder)
    processes.configure("loop", folder / "ca.crt")
    processes.start(
        "superlink", "flower-superlink", "--enable-supernode-auth", "--ssl-certfile", "server.crt",
        "--ssl-keyfile", "server.key", "--ssl-ca-certfile", "ca.crt", "--host", "127.0.0.1",
        "--port", str(processes.port), "--disable-runtime-dependency-installation",
    )  # fmt: skip
    wait_for_port(processes.port, 300)
    for client in range(4):
        write_key(folder / f"key-{client}")
        name = f"register-{client}"
        register = processes.start(name, "flwr", "supernode", "register", f"key-{client}.pub", "loop")
        assert register.wait(120) == 0, processes.log(name)
    return ["flower-supernode", "--superlink", f"127.0.0.1:{processes.port}", "--root-certificates", "ca.crt"]


@pytest.mark.parametrize("secure_sum", ["true", '"secagg+"'])
def test_clients_that_are_killed_in_training_and_in_answering(
    processes: Processes, superlink: list[str], secure_sum: str
) -> None:
    folder, ports = processes.folder, free_ports(5)
    shutil.copytree(HERE / "flower_app", folder / "app")
    write_key(folder / "stranger")
    stranger = processes.start(
        "stranger", *superlink, "--port", str(ports + 4),
        "--auth-supernode-private-key", "stranger", "--max-retries", "1",
    )  # fmt: skip
    for client, stage in enumerate(("never", "training", "never", "answering")):
        rows = rows_of(client, 60)
        np.savez(folder / f"client-{client}.npz", X=rows.X, y=rows.y)
        config = f'rows="{folder}/client-{client}.npz" dies-in="{stage}" min-clients=2 n-jobs=1'
        processes.start(
            f"client-{client}", *superlink, "--port", str(ports + client),
            "--auth-supernode-private-key", f"key-{client}", "--node-config", config,
        )  # fmt: skip
    X = queries(20)
    np.savez(folder / "queries.npz", X=X)
    config = (
        f'clients=4 wait=200.0 queries="{folder}/queries.npz" predictions="{folder}/predictions.npz" '
        f'kernel="rbf" max-steps=2 min-clients=2 timeout=600.0 secure-sum={secure_sum}'
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


def test_the_commands_of_the_page(processes: Processes) -> None:
    """The blocks of docs/federated.md, in their order, with other ports, one joint step and more time."""
    folder, ports = processes.folder, free_ports(3)
    page = (ROOT / "docs" / "federated.md").read_text(encoding="utf-8")
    section = page[page.index("## A real federation") : page.index("**Write your own client**")]
    blocks = re.findall(r"^```bash\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 6
    (folder / "examples").symlink_to(ROOT / "examples")
    processes.configure("federation", folder / "keys" / "ca.crt")
    wait = f"until (: < /dev/tcp/127.0.0.1/{processes.port}) 2> /dev/null; do sleep 1; done"
    text = "\n".join([*blocks[:3], wait, *blocks[3:]])
    text = text.replace("--port 909$i", f"--port {ports // 10}$i").replace("8000", str(processes.port))
    assert text.count('predictions.npz\\""') == 1
    quick = 'predictions.npz\\" kernel=\\"matern32\\" max-steps=1 timeout=1200.0"'
    text = text.replace('predictions.npz\\""', quick)
    run = processes.start("run", "bash", "-e", "-c", text)
    run.wait(LONGEST)
    assert (folder / "out" / "predictions.npz").is_file(), processes.log("run")[-3000:]
    *_, y_test = split("parkinsons")
    with np.load(folder / "out" / "predictions.npz") as found:
        assert len(found["clients"]) == 3
        assert len(found["absent"]) == 0
        assert np.mean((found["mean"] - y_test) ** 2) < 0.01 * np.var(y_test)
        assert 0.92 <= np.mean((found["lower"] <= y_test) & (y_test <= found["upper"])) <= 0.97
