"""What the last build left: its site, served on this machine, and its ledger."""

import errno
import functools
import http.server
import json
from pathlib import Path
from typing import Any

from clcore import _paths

STATE = "site.json"
"""The file in which a site names its build: the ledger next to it may be of a later one."""


class _Handler(http.server.SimpleHTTPRequestHandler):
    def send_head(self) -> Any:
        """The answer's head and what follows it; a path that no file can have is a bad request."""
        try:
            return super().send_head()
        except ValueError as error:  # a zero byte
            self.send_error(400, str(error))
            return None


def serve(port: int) -> None:
    """Serve the built site on this machine until interrupted."""
    folder = _paths.build_dir() / "html"
    if not (folder / "index.html").exists():
        raise FileNotFoundError(f"there is no site in {folder} yet; run `make book` first")
    handler = functools.partial(_Handler, directory=str(folder))
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise OSError(
            f"port {port} is in use by another program; give another one, such as "
            f"`make serve ARGS='--port {port + 1}'`, or 0 for any that is free"
        ) from None
    with server:
        print(f"http://127.0.0.1:{server.server_address[1]}/ (stop with Ctrl-C)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def state(html: Path) -> dict | None:
    """The `book` of a site's build (`clcore.book.build`), or None for a site older than this
    record. Raises ValueError for a file that is damaged."""
    from clcore._files import read_json

    if not (html / STATE).exists():
        return None
    return read_json(html / STATE, "run `make book` to make the site again")


def rows_file() -> dict:
    """The last build's ledger ({"book", "rows"}), or every claim as `todo` before any build."""
    from clcore import ledger
    from clcore._files import read_json

    path = _paths.build_dir() / "ledger.json"
    if not path.exists():
        return {"book": None, "rows": list(ledger.rows([]))}
    return json.loads(json.dumps(read_json(path, "run `make book` to make it again")))
