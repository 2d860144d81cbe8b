"""What a process of ours that computes or draws gets from the shell that started it.

Whatever could change a result, a figure or a page is left out, since no key knows it: other modules
(PYTHONPATH, a user's site-packages), settings in a home folder, warnings switched off, widths of
tables. A list of what is let in, not of what is kept out: the next such variable has another name.
"""

import os
import subprocess
import sys

from clcore import _paths

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


def find_fonts() -> None:
    """Let matplotlib look for fonts once, before any kernel does: where that takes long it says so,
    and the chapter would show it."""
    if any((_paths.build_dir() / "matplotlib").glob("fontlist-*.json")):
        return
    command = [sys.executable, "-c", "import matplotlib.font_manager"]
    subprocess.run(command, env=environment(), capture_output=True)
