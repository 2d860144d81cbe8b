"""What the last build left: its site, served on this machine, and its ledger."""

import functools
import http.server
import json

from clcore import _paths


def serve(port: int) -> None:
    """Serve the built site on this machine until interrupted."""
    folder = _paths.build_dir() / "html"
    if not (folder / "index.html").exists():
        raise FileNotFoundError(f"there is no site in {folder} yet; run `make book` first")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"http://127.0.0.1:{server.server_address[1]}/ (stop with Ctrl-C)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def rows_file() -> dict:
    """The last build's ledger ({"book", "rows"}), or every claim as `todo` before any build."""
    from clcore import ledger
    from clcore._files import read_json

    path = _paths.build_dir() / "ledger.json"
    if not path.exists():
        return {"book": None, "rows": list(ledger.rows([]))}
    return json.loads(json.dumps(read_json(path, "run `make book` to make it again")))
