"""ZMQ sockets of a feed, all with the same bounds."""

from dataclasses import dataclass

import zmq
import zmq.asyncio


@dataclass(frozen=True, slots=True)
class SocketLimits:
    """`waiting_messages` wait in a socket's queue at most, of `message_bytes` at most each; ZMQ ends a connection that
    brings a longer one. What does not fit waits on the engine's side, and shows as a hole when it is dropped there.
    """

    waiting_messages: int = 1_000
    message_bytes: int = 16 << 20


def new_socket(context: zmq.asyncio.Context, kind: int, limits: SocketLimits) -> zmq.asyncio.Socket:
    """Not connected yet. It connects again by itself, after 0.1 to 2 s; a silent peer is given up after 15 s."""
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.IPV6, 1)
    socket.setsockopt(zmq.RCVHWM, limits.waiting_messages)
    socket.setsockopt(zmq.MAXMSGSIZE, limits.message_bytes)
    socket.setsockopt(zmq.RECONNECT_IVL, 100)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 2_000)
    socket.setsockopt(zmq.HEARTBEAT_IVL, 5_000)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 15_000)
    return socket
