"""The Flower ClientApp: it holds rows, trains on them and answers; nothing else leaves it.

Every message is answered from the rows, the message and the state of the Flower `Context` alone, so that
Flower may start a new process for each.
"""

from __future__ import annotations

from collections.abc import Callable

from flwr.app import Context, Message, MessageType
from flwr.clientapp import ClientApp

from gpexperts.federated import secagg
from gpexperts.federated.answering import Client
from gpexperts.federated.log import logger
from gpexperts.federated.messages import Refusal, pack, refused, unpack
from gpexperts.federated.policy import ClientPolicy, ClientRows
from gpexperts.federated.state import State

__all__ = ["client_app"]


def client_app(
    rows: Callable[[Context], ClientRows] | ClientRows,
    policy: Callable[[Context], ClientPolicy] | ClientPolicy | None = None,
) -> ClientApp:
    """Return a Flower ClientApp for the rows of one client.

    Parameters
    ----------
    rows : ClientRows, or callable
        A callable reads them, given the Flower `Context` with its ``node_config``.
    policy : ClientPolicy or callable, optional
    """
    app, given = ClientApp(), policy or ClientPolicy()

    def answer(message: Message, context: Context) -> Message:
        kind = fit = ""
        try:
            request = unpack(message.content)
            kind, fit = request.kind, request.fit
            held = rows(context) if callable(rows) else rows
            allowed = given(context) if callable(given) else given
            within_secagg = request.stage is not None and message.metadata.message_type == MessageType.TRAIN
            node = message.metadata.dst_node_id
            client = Client(held, allowed, State(context), node, within_secagg)
            client.admit(request)
            if within_secagg:
                content = secagg.answered(message, context, allowed, client.answer, request)
            else:
                content = pack(client.answer(request))
        except Refusal as refusal:
            logger.warning("refused %r: %s", kind, refusal)
            content = pack(refused(kind, fit, str(refusal)))
        except Exception as error:
            # The text of an error may hold values of rows: it stays here, in the log.
            logger.exception("failed to answer %r", kind)
            content = pack(refused(kind, fit, f"{type(error).__name__}; the log of the client says more."))
        return Message(content, reply_to=message)

    app.train()(answer)
    app.query()(answer)
    app.evaluate()(answer)
    return app
