"""Locks of files: held by another, not known to the disk, and what is no file."""

import errno
import os

import pytest

from clcore import _locks


def test_a_lock_is_had_once_and_given_back_with_the_file(tmp_path):
    path = tmp_path / "lock"
    with _locks.opened(path) as first, _locks.opened(path) as second:
        assert _locks.take(first) and not _locks.take(second)
        first.close()
        assert _locks.take(second)


@pytest.mark.parametrize("name", ["ENOSYS", "ENOLCK", "EOPNOTSUPP"])
def test_a_disk_without_locks_is_named(tmp_path, monkeypatch, name):
    def flock(*_):
        raise OSError(getattr(errno, name), "no")

    monkeypatch.setattr(_locks.fcntl, "flock", flock)
    with (
        _locks.opened(tmp_path / "lock") as handle,
        pytest.raises(_locks.NoLocks, match=rf"no file locks \((ENOTSUP|{name}): no\), at .*lock"),
    ):
        _locks.take(handle)


def test_another_error_is_neither_contention_nor_a_lack(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(_locks.fcntl, "flock", flock)
    with (
        _locks.opened(tmp_path / "lock") as handle,
        pytest.raises(OSError, match=r"locking .*lock failed \(EIO: broken\)") as raised,
    ):
        _locks.take(handle)
    assert not isinstance(raised.value, _locks.NoLocks)


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_what_is_no_plain_file_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "lock"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"expected a plain file|symbolic links"):
        _locks.opened(path)
    assert not (tmp_path / "elsewhere").exists()


def test_what_a_file_holds_stays(tmp_path):
    path = tmp_path / "lock"
    path.write_text("process 1")
    with _locks.opened(path) as handle:
        assert handle.read() == "process 1"
