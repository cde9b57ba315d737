"""The sockets of a process and all below it."""

import contextlib
from typing import Any

import psutil

from tests.performance.windows import family


def listening(pid: int) -> list[str]:
    """Addresses that another computer or program could reach over a network: TCP that listens, UDP that is bound."""
    return [
        f"{process.name()} at {socket.laddr.ip}:{socket.laddr.port}"
        for process, socket in _sockets(pid, "inet")
        if socket.status == psutil.CONN_LISTEN or (socket.status == psutil.CONN_NONE and not socket.raddr)
    ]


def local_sockets(pid: int) -> list[str]:
    return [str(socket.laddr) for _, socket in _sockets(pid, "unix")]


def _sockets(pid: int, kind: str) -> list[tuple[psutil.Process, Any]]:
    sockets = []
    for process in family(pid):
        with contextlib.suppress(psutil.Error):
            sockets += [(process, socket) for socket in process.net_connections(kind) if socket.laddr]
    return sockets
