"""The log of every message: kind, direction, client and bytes; and what went wrong."""

from __future__ import annotations

import logging
from typing import NamedTuple

from flwr.app import RecordDict

from gpexperts.federated.messages import count_bytes

__all__ = ["Event", "LoggedMessage", "MessageLog", "Traffic", "logger"]

logger = logging.getLogger("gpexperts.federated")


class LoggedMessage(NamedTuple):
    """One message."""

    round: int
    kind: str
    sent: bool
    """By the server; False for a reply."""
    client: int
    n_bytes: int


class Event(NamedTuple):
    """A client that did not do its part in a round."""

    round: int
    kind: str
    client: int
    reason: str


class Traffic(NamedTuple):
    """All messages of one kind."""

    rounds: int
    messages: int
    """Both directions."""
    bytes_sent: int
    bytes_received: int


class MessageLog:
    """Messages in the order in which they were sent and received.

    Attributes
    ----------
    messages : list of LoggedMessage
    events : list of Event
    n_rounds : int
        A round is one message to some clients, and the wait for their replies.
    """

    def __init__(self) -> None:
        self.messages: list[LoggedMessage] = []
        self.events: list[Event] = []
        self.n_rounds = 0

    def start_round(self) -> None:
        """Count a round."""
        self.n_rounds += 1

    def add(self, kind: str, client: int, content: RecordDict, *, sent: bool) -> None:
        """Log a message."""
        self.messages.append(LoggedMessage(self.n_rounds, kind, sent, client, count_bytes(content)))

    def failed(self, kind: str, client: int, reason: str) -> None:
        """Log a client that did not do its part."""
        self.events.append(Event(self.n_rounds, kind, client, reason))
        logger.warning("client %s, %s: %s", client, kind, reason)

    def by_kind(self) -> dict[str, Traffic]:
        """Rounds, messages and bytes of each kind."""
        table: dict[str, Traffic] = {}
        for kind in dict.fromkeys(message.kind for message in self.messages):
            own = [message for message in self.messages if message.kind == kind]
            table[kind] = Traffic(
                len({message.round for message in own}),
                len(own),
                sum(message.n_bytes for message in own if message.sent),
                sum(message.n_bytes for message in own if not message.sent),
            )
        return table

    def __str__(self) -> str:
        lines = [f"{'kind':<12}{'rounds':>7}{'messages':>10}{'sent':>12}{'received':>12}"]
        for kind, t in self.by_kind().items():
            lines.append(f"{kind:<12}{t.rounds:>7}{t.messages:>10}{t.bytes_sent:>12,}{t.bytes_received:>12,}")
        return "\n".join(lines)
