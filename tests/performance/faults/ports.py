"""Which sockets a process and all below it listen at."""

import contextlib

import psutil


def listening(pid: int) -> list[str]:
    """Addresses that another computer or program could reach over a network: TCP that listens, UDP that is bound."""
    found = []
    for process in _family(pid):
        with contextlib.suppress(psutil.Error):
            for one in process.net_connections("inet"):
                is_open = one.status == psutil.CONN_LISTEN or (
                    one.status == psutil.CONN_NONE and not one.raddr
                )
                if one.laddr and is_open:
                    found.append(f"{process.name()} at {one.laddr.ip}:{one.laddr.port}")
    return found


def local_sockets(pid: int) -> list[str]:
    """Names of the local sockets that the family holds."""
    names: list[str] = []
    for process in _family(pid):
        with contextlib.suppress(psutil.Error):
            names += [str(one.laddr) for one in process.net_connections("unix") if one.laddr]
    return names


def _family(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
