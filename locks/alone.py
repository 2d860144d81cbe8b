"""Run a command while no other runs that names the same lock: alone.py LOCK COMMAND ...

The lock is a file that the command holds open; the system gives it back when the command ends,
however it ends. Needs nothing but Python: it is run before anything is installed.
"""

import os
import sys

try:
    import fcntl
except ImportError:  # Windows: nobody is waited for
    fcntl = None


def main(lock: str, *command: str) -> None:
    """Become the command, with the lock."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    if fcntl:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another make is setting this up; waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:  # a disk without locks
            print(f"no lock on {lock} ({error}); going on", file=sys.stderr, flush=True)
    os.set_inheritable(handle, True)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
