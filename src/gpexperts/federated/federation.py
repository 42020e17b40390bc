"""The server's side of a round: messages to clients, replies back, and who is missing."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from flwr.app import Message, MessageType, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from gpexperts.exceptions import FederationError
from gpexperts.federated.grid import LocalGrid
from gpexperts.federated.log import MessageLog, logger
from gpexperts.federated.messages import REFUSED, Parcel, Refusal, pack, unpack

__all__ = ["Check", "Federation", "array_of", "require"]

POLL = 0.5
"""Seconds between two looks for replies; Flower's own `send_and_receive` waits 3."""

TRIES = 3
"""How often a client gets a message whose process ends without a reply."""

Check = Callable[[int, Parcel], object]
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
        asked = {client: parcel for client, parcel in parcels.items() if client in connected}
        for client in sorted(parcels.keys() - connected):
            self.log.failed(kind, client, "not connected")
        replies: dict[int, Parcel] = {}
        waited = set(asked)
        for client, message in self._received(asked):
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

    def _received(self, parcels: Mapping[int, Parcel]) -> Iterator[tuple[int, Message]]:
        """Send messages; yield clients with their replies, as they come in time.

        A reply belongs to the message that it names: a late one to an earlier message is not used, and the
        SuperLink may report an error in the name of a client. If the process that Flower starts for a
        message ends without a reply, or does not start in time, the client is asked again.
        """
        until = time.monotonic() + self.timeout
        asked = self._sent(parcels)
        tries = dict.fromkeys(parcels, 1)
        while asked:
            again = []
            for reply in self.grid.pull_messages(list(asked)):
                client = asked.pop(reply.metadata.reply_to_message_id, None)
                if client is None:
                    continue
                if _crashed(reply) and tries[client] < TRIES and time.monotonic() < until:
                    tries[client] += 1
                    again.append(client)
                else:
                    yield client, reply
            if again:
                logger.warning("asking clients %s again: their processes have ended without a reply", again)
                asked |= self._sent({client: parcels[client] for client in again})
            if asked and time.monotonic() >= until:
                return
            if asked:
                time.sleep(min(POLL, self.timeout))

    def _sent(self, parcels: Mapping[int, Parcel]) -> dict[str, int]:
        """Send messages; return the client of each number of a message."""
        messages = []
        for client, parcel in parcels.items():
            content = pack(parcel)
            self.log.add(parcel.kind, client, content, sent=True)
            messages.append(self._message(content, client, train=parcel.stage is not None))
        numbers = self.grid.push_messages(messages) if messages else []
        return {number: client for number, client in zip(numbers, parcels, strict=False) if number}

    def _message(self, content: RecordDict, client: int, *, train: bool) -> Message:
        """Return a message; stages of SecAgg+ are messages of training."""
        kind, group = MessageType.TRAIN if train else MessageType.QUERY, str(self.log.n_rounds)
        if isinstance(self.grid, LocalGrid):
            return self.grid.create_message(content, kind, client, group, ttl=self.timeout)
        return Message(content, client, kind, ttl=self.timeout, group_id=group)

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


def _crashed(reply: Message) -> bool:
    return reply.has_error() and reply.error.code == ErrorCode.CLIENT_APP_CRASHED


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
