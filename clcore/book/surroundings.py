"""What reaches a process of ours that computes or draws: from the shell that started it, and from
the folders around it.

Whatever could change a result, a figure or a page is left out, as no key covers it: other modules
(PYTHONPATH, a user's site-packages), settings in a home folder, warnings switched off, widths of
tables. A list of what is let in, not of what is kept out: the next such variable has another name.
"""

import os
import subprocess
import sys
from importlib.machinery import all_suffixes
from pathlib import Path

from clcore import _imports, _paths

_KEPT = {
    *("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TEMP", "TMP", "TZ", "LD_LIBRARY_PATH"),
    # How many threads, which GPUs, and how their memory is got.
    *("MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NVIDIA_VISIBLE_DEVICES"),
    *("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "LOKY_MAX_CPU_COUNT"),
    # The way to the network.
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    # Who compiles, and where that is kept.
    *("CC", "CXX", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"),
    *("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "JOBLIB_TEMP_FOLDER"),
}
_BEGINNINGS = ("CLCORE_", "CUDA_", "OMP_", "KMP_", "SLURM_", "SBATCH_", "SUBMITIT_", "DASK_")


def environment(**more: str) -> dict[str, str]:
    """The variables of such a process: those that are let in, this tree first on its path, and
    folders of the build's own for settings. more: further ones."""
    kept = {n: v for n, v in os.environ.items() if n in _KEPT or n.startswith(_BEGINNINGS)}
    build = _paths.build_dir()
    return kept | {
        "CLCORE_BUILD": str(build),
        "CLCORE_DATA": str(_paths.data_dir()),
        "CLCORE_ROOT": str(_paths.root()),  # a relative one is another folder in a kernel
        "JUPYTER_PREFER_ENV_PATH": "1",
        "MPLCONFIGDIR": str(build / "matplotlib"),
        "PYTHONNOUSERSITE": "1",
        "PYTHONPATH": str(_paths.root()),
        "PYTHONSAFEPATH": "1",  # nothing from the folder that the command was given in
        "PYTHONUTF8": "1",
        "XDG_CONFIG_HOME": str(build / "config"),
        **more,
    }


def startup() -> Path | None:
    """The file of Python that every kernel runs first, $CLCORE_STARTUP: the tests check signatures
    so. What chapters print under it is kept apart. Errors: FileNotFoundError."""
    given = os.environ.get("CLCORE_STARTUP")
    return _paths.home(given).resolve(strict=True) if given else None


def find_fonts() -> None:
    """Let matplotlib look for fonts once, before any kernel does: if that takes long it prints a
    message, which the chapter would show."""
    if any((_paths.build_dir() / "matplotlib").glob("fontlist-*.json")):
        return
    command = [sys.executable, "-c", "import matplotlib.font_manager"]
    subprocess.run(command, env=environment(), capture_output=True)


def beside(notebook: Path, code: list[str]) -> list[Path]:
    """Files of the project, besides clcore, that may reach a kernel: what Python can import from
    the root or the notebook's folder, whoever imports it, since there it may stand before an
    installed package; matplotlib's settings next to the notebook, and files there that the code
    names.

    code: the chapter's Python.
    """
    root, folder = _paths.root(), notebook.parent
    asked = {name.split(".")[0] for source in code for name in _imports.imported(source)}
    found = {path for room in (root, folder) for path in _importable(room, asked)}
    text = "\n".join(code)
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path != notebook and (name == "matplotlibrc" or name in text) and path.is_file():
            found.add(path)
    return sorted(found)


def _importable(room: Path, asked: set[str]) -> list[Path]:
    """Modules in a folder, and all in its packages; in folders that are none, if they are asked
    for."""
    found = []
    for path in room.iterdir():
        if path.name in ("clcore", "__pycache__") or path.name.startswith("."):
            continue
        if path.is_dir():
            if (path / "__init__.py").exists() or path.name in asked:
                found += [one for one in path.rglob("*") if _is_module(one)]
        elif _is_module(path):
            found.append(path)
    return found


def found_first(folder: Path) -> list[Path]:
    """Modules in a notebook's folder, which a kernel finds before any that is installed."""
    return _importable(folder, set())


def _is_module(path: Path) -> bool:
    return path.name.endswith(tuple(all_suffixes())) and "__pycache__" not in path.parts


def packages() -> list[Path]:
    """Modules in the root and its folders: all that a chapter might import, whatever it asks for.
    Not those of the build, of data sets, or of another environment."""
    root, apart = _paths.root(), (_paths.build_dir(), _paths.data_dir())
    inner = {
        path.name
        for path in root.iterdir()
        if path.is_dir() and not any(made.is_relative_to(path) for made in apart)
        if not (path / "pyvenv.cfg").exists()
    }
    return _importable(root, inner)
