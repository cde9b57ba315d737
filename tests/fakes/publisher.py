"""A place where Hone is published, on this computer: answers what a test wants it to."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Publisher:
    """Answers every GET with `status`, `headers` and what `pages` has at its path, else `body`.

    `asked` are the paths, `told` the headers it was sent.
    """

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body = b"{}"
        self.pages: dict[str, bytes] = {}
        self.hangs_up = False
        self.asked: list[str] = []
        self.told: list[dict[str, str]] = []
        self.url = ""

    def publish(self, tag: str) -> None:
        """Have this release as the newest."""
        self.body = json.dumps({"tag_name": tag, "html_url": "https://elsewhere.example/"}).encode()

    @contextmanager
    def serving(self) -> Iterator["Publisher"]:
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


def _handler(publisher: Publisher) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            publisher.asked.append(self.path)
            publisher.told.append(dict(self.headers))
            if publisher.hangs_up:
                return
            self.send_response(publisher.status)
            for name, value in publisher.headers.items():
                self.send_header(name, value)
            body = publisher.pages.get(self.path, publisher.body)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
