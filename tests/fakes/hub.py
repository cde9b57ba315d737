"""A Hugging Face Hub on this computer, of the one address that is asked for a model's config.json."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub:
    """Answers `/NAME/resolve/main/config.json` as the Hub does; `asked` are the requests it got.

    Attributes:
        configs: The files by the names of their models.
        refusals: Status and `X-Error-Code` for models that can't be had.
        is_the_hub: False: somebody else answers, without the headers that only the Hub sets.
    """

    def __init__(self) -> None:
        self.configs: dict[str, bytes] = {}
        self.refusals: dict[str, tuple[int, str]] = {}
        self.is_the_hub = True
        self.asked: list[str] = []
        self.url = ""

    @contextmanager
    def serving(self) -> Iterator["FakeHub"]:
        """Answer until the end of the block, at `url`."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def _handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            content = self._answer()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _answer(self) -> bytes:
            hub.asked.append(f"{self.command} {self.path}")
            name, _, file = self.path.strip("/").partition("/resolve/main/")
            known = hub.configs.get(name) if file == "config.json" else None
            status, code = (200, "") if known is not None else (404, "RepoNotFound")
            status, code = hub.refusals.get(name, (status, code))
            content = known if known is not None and status == 200 else b""
            self.send_response(status)
            if code:
                self.send_header("X-Error-Code", code)
            if hub.is_the_hub:
                self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{name.replace("/", "-")}"')
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            return content

    return Handler
