"""The same two apps in one process, without sockets: for tests of a study before it meets real sites."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["LocalGrid"]

CLIENT_APP_RAISED = 2  # Flower's code for an exception in a ClientApp
FIRST_NODE = 1000


class LocalGrid:
    """A Flower Grid whose nodes live in this process and answer at once.

    Every message goes through Flower's own records, a node keeps nothing but its context between messages, and an
    exception in the ClientApp becomes the error reply that Flower makes of it.

    Parameters
    ----------
    client_app : flwr.clientapp.ClientApp
    node_configs : sequence of dict
        The node_config of each site.

    Examples
    --------
    >>> grid = LocalGrid(client_app, [{"site-name": "north"}, {"site-name": "south"}])  # doctest: +SKIP
    >>> grid.start(server_app, {"min-clients": 2})  # doctest: +SKIP
    """

    def __init__(self, client_app: Any, node_configs: Sequence[Mapping]):
        self.client_app = client_app
        self.run_id = 1
        self.run_config: dict = {}
        self.contexts: dict[int, Any] = {}
        self._connected: set[int] = set()
        self._inbox: dict[str, list] = {}
        self._sent = 0
        for node_config in node_configs:
            self.connect(node_config)

    def connect(self, node_config: Mapping) -> int:
        """A site joins, with an empty memory; returns its node id."""
        from flwr.app import Context, RecordDict

        node = FIRST_NODE + len(self.contexts)
        self.contexts[node] = Context(self.run_id, node, dict(node_config), RecordDict(), self.run_config)
        self._connected.add(node)
        return node

    def disconnect(self, node: int) -> None:
        """A site is gone, and what it kept in memory with it."""
        self._connected.discard(node)

    def start(self, server_app: Any, run_config: Mapping) -> None:
        """Run a ServerApp to its end.

        Parameters
        ----------
        server_app : flwr.serverapp.ServerApp
        run_config : dict
        """
        from flwr.app import Context, RecordDict
        from flwr.supercore.task_identity import TaskIdentity

        self.run_config.update(run_config)
        # a Message asks the process who it is, which Flower sets where it starts a ServerApp
        before = TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = self.run_id, 1, 1
        try:
            server_app(self, Context(self.run_id, 1, {}, RecordDict(), dict(run_config)))
        finally:
            TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id = before

    def deliver(self, message: Any) -> list:
        """The replies that one message leads to; override it to lose, delay or forge some."""
        from flwr.app import Error, Message

        context = self.contexts[message.metadata.dst_node_id]
        try:
            return [self.client_app(message, context)]
        except Exception as error:
            return [Message(Error(CLIENT_APP_RAISED, str(error)), reply_to=message)]

    # ---- what a ServerApp uses of a Grid

    def get_node_ids(self) -> list[int]:
        """Nodes that are connected."""
        return sorted(self._connected)

    def push_messages(self, messages) -> list[str | None]:
        """Deliver messages; None for one whose node is not there."""
        ids: list[str | None] = []
        for message in messages:
            if message.metadata.dst_node_id not in self._connected:
                ids.append(None)
                continue
            self._sent += 1
            key = f"message-{self._sent}"
            message.metadata.__dict__["_message_id"] = key
            self._inbox[key] = self.deliver(message)
            ids.append(key)
        return ids

    def pull_messages(self, message_ids) -> list:
        """Replies to these messages that have not been pulled yet."""
        return [reply for key in message_ids for reply in self._inbox.pop(key, [])]

    def send_and_receive(self, messages, *, timeout: float | None = None) -> list:
        """Deliver messages and return all replies."""
        return self.pull_messages([key for key in self.push_messages(messages) if key is not None])
