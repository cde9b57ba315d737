"""Request and answer of the job that fetches uv."""

import msgspec


class UvProgram(msgspec.Struct, frozen=True, kw_only=True):
    """Request (a folder) and answer (the program in it) of the engine's job `fetch-uv`."""

    path: str
