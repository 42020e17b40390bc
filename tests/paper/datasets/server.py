"""A local web server with faults."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FaultyServer:
    """Serves one body at every path; each fault in `faults` applies to one response, in order.

    Faults: "500", "404", "drop" (the connection ends half-way), "truncate" (half of the body, with
    its length as Content-Length).
    """

    def __init__(self, body: bytes, faults: list[str]) -> None:
        self.body, self.faults, self.requests = body, list(faults), 0
        self.url = ""


@contextmanager
def faulty_server(body: bytes, faults: list[str] | None = None) -> Iterator[FaultyServer]:
    state = FaultyServer(body, faults or [])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests += 1
            fault = state.faults.pop(0) if state.faults else ""
            if fault in ("404", "500"):
                self.send_error(int(fault))
                return
            half = state.body[: len(state.body) // 2]
            sent = half if fault in ("drop", "truncate") else state.body
            self.send_response(200)
            self.send_header("Content-Length", str(len(sent if fault == "truncate" else state.body)))
            self.end_headers()
            self.wfile.write(sent)
            self.wfile.flush()
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}/file.bin"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
