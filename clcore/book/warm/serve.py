"""The process that forks, and what becomes of its children."""

import builtins
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn, cast

from jupyter_client import AsyncKernelManager

from clcore.book import execute

_ALWAYS = ("papermill", "ipykernel.kernelapp", "ipykernel.ipkernel")
_LONGEST = 2**16  # bytes of a message: two paths and two variables
_LOOK = 0.05  # seconds between looks at who has ended


def serve(door: int, names: list[str]) -> None:
    """Import modules, then fork a runner for each message that comes through a socket, until the
    build is gone.

    door: the socket's number. A child that was a kernel leaves by SystemExit.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the build ends its chapters itself
    _load(names)
    if os.fstat(1).st_size or len(list(Path("/proc/self/task").iterdir())) > 1:
        return
    me = os.getpid()
    answers: dict[int, socket.socket] = {}
    with socket.socket(fileno=door) as asked:
        while True:
            if select.select([asked], [], [], _LOOK)[0]:
                told, given, _, _ = socket.recv_fds(asked, _LONGEST, 3)
                if not told:
                    return
                back, *out = given
                pid = os.fork()
                if pid == 0:
                    for one in (asked, *answers.values()):
                        one.close()
                    os.close(back)
                    _run(json.loads(told), out, me)
                for one in out:
                    os.close(one)
                answers[pid] = socket.socket(fileno=back)
                _send(answers[pid], pid)
            for pid in list(answers):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    with answers.pop(pid) as answer:
                        _send(answer, os.waitstatus_to_exitcode(status))


def _send(answer: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # nobody waits for it
        answer.send(str(number).encode())


class _Kernel:
    """What pandas asks, as it is imported, to see that it does not print to a terminal."""

    kernel = None


def _load(names: list[str]) -> None:
    vars(builtins)["get_ipython"] = _Kernel
    for name in (*_ALWAYS, *names):
        importlib.import_module(name)
    del vars(builtins)["get_ipython"]
    sys.stdout.flush()
    sys.stderr.flush()
    gc.collect()
    gc.freeze()  # else a child's collector writes into, and so copies, all that is shared


def _run(told: dict[str, Any], out: list[int], parent: int) -> NoReturn:
    """Be a chapter's runner, with a process beside it that becomes the kernel when it is asked."""
    for at, file in enumerate(out, 1):
        os.dup2(file, at)
        os.close(file)
    os.environ.update(told["own"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    seat = Seat()  # before this process has a second thread
    status = execute.main(told["job"], parent, manager(seat))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # to take the modules apart would copy them first


class Seat:
    """A child that waits, and becomes the kernel that is asked for; of its Popen what
    jupyter_client asks of one."""

    stdin = stdout = stderr = None

    def __init__(self) -> None:
        asked, self._asks = os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._asks)
            os.setsid()  # a group of its own, which can be interrupted as one
            with os.fdopen(asked, "rb") as file:
                told = file.read()
            if not told:  # the runner ended before it had need of a kernel
                os._exit(0)
            _be_kernel(**json.loads(told))
        os.close(asked)

    def take(self, argv: list[str], env: dict[str, str], cwd: str) -> None:
        """Begin the kernel. argv: what follows `python -m ipykernel_launcher`."""
        env = env | {"JPY_PARENT_PID": str(os.getpid())}  # with whom it ends
        with os.fdopen(self._asks, "wb") as file:
            file.write(json.dumps({"argv": argv, "env": env, "cwd": cwd}).encode())

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._look(os.WNOHANG)

    def wait(self) -> int | None:
        """Its exit status, once it has ended."""
        return self._look(0)

    def _look(self, options: int) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, options)
            self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)


def _be_kernel(argv: list[str], env: dict[str, str], cwd: str) -> NoReturn:
    """Be the kernel that `python -m ipykernel_launcher` would be; ends by SystemExit."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for name in [name for name in sys.modules if name.partition(".")[0] == "clcore"]:
        del sys.modules[name]
    # Unseeded generators would else give every chapter the same; Python's own sees to itself.
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.seed()
    import ipykernel_launcher
    from ipykernel import kernelapp

    sys.argv = [ipykernel_launcher.__file__, *argv]
    # Which ipykernel has read from the environment, but as it was imported.
    parent = f"--IPKernelApp.parent_handle={env['JPY_PARENT_PID']}"
    kernelapp.launch_new_instance([*argv, parent])
    raise SystemExit


def manager(seat: Seat) -> type[AsyncKernelManager]:
    """A class of managers for one kernel, whose process is there."""

    class Manager(AsyncKernelManager):
        async def _async_launch_kernel(self, kernel_cmd: list[str], **kw: Any) -> None:
            local = cast(Any, self.provisioner)
            local.process, local.cwd = seat, kw.get("cwd") or Path.cwd()
            local.pid = local.pgid = seat.pid  # the first of its group
            argv = kernel_cmd[kernel_cmd.index("ipykernel_launcher") + 1 :]
            seat.take(argv, kw["env"], str(local.cwd))
            self._reconcile_connection_info(local.connection_info)

    return Manager
