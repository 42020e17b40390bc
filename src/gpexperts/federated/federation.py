"""The server's side of a round: messages to clients, replies back, and who is missing."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from flwr.app import Message, MessageType
from flwr.serverapp import Grid

from gpexperts.exceptions import FederationError
from gpexperts.federated.log import MessageLog
from gpexperts.federated.messages import REFUSED, Parcel, Refusal, pack, unpack

__all__ = ["Check", "Federation", "array_of", "require"]

POLL = 0.5
"""Seconds between two looks for replies; Flower's own `send_and_receive` waits 3."""

Check = Callable[[int, Parcel], None]
"""Client and reply; raises `Refusal` where the reply is wrong."""


class Federation:
    """The clients of a fit.

    Parameters
    ----------
    grid : Grid
    timeout : float
        Seconds of the longest wait for replies.
    min_clients : int
        With fewer, the fit ends with an error.
    log : MessageLog
    """

    def __init__(self, grid: Grid, *, timeout: float, min_clients: int, log: MessageLog) -> None:
        self.grid, self.timeout, self.min_clients, self.log = grid, timeout, min_clients, log
        self.fit = secrets.token_hex(8)
        self.members: list[int] = sorted(grid.get_node_ids())

    def ask(
        self, kind: str, parcels: Mapping[int, Parcel], check: Check = lambda client, reply: None
    ) -> dict[int, Parcel]:
        """Send a message to some clients and return the replies that are right, by client.

        A client that sends an error, refuses, sends something wrong or nothing in time is left out, and the
        log says why.
        """
        self.log.start_round()
        connected = set(self.grid.get_node_ids())
        messages = []
        for client, parcel in parcels.items():
            if client not in connected:
                self.log.failed(kind, client, "not connected")
                continue
            content = pack(parcel)
            self.log.add(kind, client, content, sent=True)
            group = str(self.log.n_rounds)
            # The constructor of Message, which Flower recommends, works in its own processes only.
            messages.append(
                self.grid.create_message(content, MessageType.QUERY, client, group, ttl=self.timeout)
            )
        replies: dict[int, Parcel] = {}
        waited = {message.metadata.dst_node_id for message in messages}
        for client, message in self._received(messages):
            waited.discard(client)
            if message.has_error():
                self.log.failed(kind, client, f"error: {message.error.reason}")
                continue
            self.log.add(kind, client, message.content, sent=False)
            try:
                reply = unpack(message.content)
                _check_envelope(kind, self.fit, reply)
                check(client, reply)
            except Refusal as refusal:
                self.log.failed(kind, client, str(refusal))
                continue
            replies[client] = reply
        for client in sorted(waited):
            self.log.failed(kind, client, f"no reply within {self.timeout:g} s")
        return {client: replies[client] for client in parcels if client in replies}

    def _received(self, messages: list[Message]) -> Iterator[tuple[int, Message]]:
        """Send messages; yield clients with their replies, as they come in time.

        A reply belongs to the message that it names: a late one to an earlier message is not used, and the
        SuperLink may report an error in the name of a client.
        """
        until = time.monotonic() + self.timeout
        numbers = self.grid.push_messages(messages) if messages else []
        asked = {
            number: message.metadata.dst_node_id
            for number, message in zip(numbers, messages, strict=False)
            if number
        }
        while asked:
            for reply in self.grid.pull_messages(list(asked)):
                client = asked.pop(reply.metadata.reply_to_message_id, None)
                if client is not None:
                    yield client, reply
            if asked and time.monotonic() >= until:
                return
            if asked:
                time.sleep(min(POLL, self.timeout))

    def ask_members(self, kind: str, parcel_of: Callable[[int], Parcel], check: Check) -> dict[int, Parcel]:
        """Ask all members; those who do not answer are members no longer."""
        replies = self.ask(kind, {client: parcel_of(client) for client in self.members}, check)
        self.keep(list(replies))
        return replies

    def keep(self, clients: Sequence[int]) -> None:
        """Go on with these clients.

        Raises
        ------
        FederationError
            If there are too few.
        """
        self.members = [client for client in self.members if client in set(clients)]
        if len(self.members) < self.min_clients:
            raise FederationError(
                f"{len(self.members)} clients are left, but min_clients={self.min_clients}. {self.failures()}"
            )

    def failures(self) -> str:
        """Say why clients are missing."""
        last = {event.client: event for event in self.log.events}
        if not last:
            return "No other client is connected."
        return " ".join(f"Client {e.client} ({e.kind}): {e.reason.rstrip('.')}." for e in last.values())


def _check_envelope(kind: str, fit: str, reply: Parcel) -> None:
    if reply.kind == REFUSED:
        raise Refusal(f"refused: {reply.values.get('reason', 'no reason given')}")
    if reply.kind != kind or reply.fit != fit:
        raise Refusal(f"the reply is one to {reply.kind!r} of another fit or message")


def require(condition: bool, fault: str) -> None:
    """Refuse a reply that does not fulfil a condition."""
    if not condition:
        raise Refusal(f"wrong reply: {fault}")


def array_of(reply: Parcel, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """Return an array of a reply, or refuse one of another shape or with NaN."""
    value = reply.arrays.get(name)
    require(value is not None, f"{name} is missing")
    assert value is not None
    require(
        value.ndim == len(shape)
        and all(s is None or s == have for s, have in zip(shape, value.shape, strict=True)),
        f"{name} has shape {value.shape}, not {shape}",
    )
    require(np.issubdtype(value.dtype, np.number) and bool(np.isfinite(value).all()), f"{name} is not finite")
    return value
