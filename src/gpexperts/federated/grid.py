"""A Grid in this process: the same clients and the same server code, without a network."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from flwr.app import DEFAULT_TTL, Context, Error, Message, Metadata, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from gpexperts.federated.log import logger

__all__ = ["LocalGrid"]

_RUN, _SERVER, _FAILED = 1, 0, 0


class LocalGrid(Grid):
    """Flower clients that live in this process, numbered from 1.

    Each has its own `Context`; nothing but messages passes between server and clients. Clients compute one
    after the other, and each is waited for.

    Parameters
    ----------
    apps : sequence of ClientApp
        One per client.
    """

    def __init__(self, apps: Sequence[ClientApp]) -> None:
        self.apps = dict(enumerate(apps, start=1))
        self.contexts = {node: Context(_RUN, node, {}, RecordDict(), {}) for node in self.apps}
        self._replies: dict[str, Message] = {}
        self._count = 0

    @property
    def run(self) -> Any:
        """Not used."""
        raise NotImplementedError("A LocalGrid has no run.")

    def set_run(self, run: Any) -> None:
        """Not used."""
        raise NotImplementedError("A LocalGrid has no run.")

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Return a message to a client."""
        self._count += 1
        metadata = Metadata(
            run_id=_RUN,
            message_id=f"message {self._count}",
            src_node_id=_SERVER,
            dst_node_id=dst_node_id,
            reply_to_message_id="",
            group_id=group_id,
            created_at=time.time(),
            ttl=DEFAULT_TTL if ttl is None else ttl,
            message_type=message_type,
        )
        return Message(content=content, metadata=metadata)

    def get_node_ids(self) -> list[int]:
        """Return the clients."""
        return list(self.apps)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Have messages answered at once, one client after the other."""
        numbers = []
        for message in messages:
            number = message.metadata.message_id
            self._replies[number] = self.answered(message)
            numbers.append(number)
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Return the replies."""
        return [self._replies.pop(number) for number in message_ids if number in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Have messages answered."""
        return self.pull_messages(self.push_messages(messages))

    def answered(self, message: Message) -> Message:
        """Return the reply of a client, or its error."""
        node = message.metadata.dst_node_id
        try:
            return self.apps[node](message, self.contexts[node])
        except Exception as error:  # as Flower does: an error of a client is a reply
            logger.exception("client %s", node)
            return Message(Error(_FAILED, type(error).__name__), reply_to=message)
