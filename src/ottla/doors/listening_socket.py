"""The socket of a door."""

from __future__ import annotations

import socket

from ottla.model import Endpoint

BACKLOG = 128


def listen_at(endpoint: Endpoint) -> socket.socket:
    """A socket that listens; OSError if the address is taken, or not this machine's."""
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((endpoint.host, endpoint.port))
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
