"""Digests of files: what was read before is not read again, and what was changed is."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from tasks.digest import digest_of_files


def plain(paths) -> str:
    """The same digest, read anew."""
    parts = (f"{path.name}:{hashlib.sha256(path.read_bytes()).hexdigest()};" for path in paths)
    return hashlib.sha256("".join(parts).encode()).hexdigest()


@pytest.fixture
def read(monkeypatch):
    """Names of the files that are read, in their order."""
    names = []
    digest = hashlib.file_digest

    def counted(file, kind):
        names.append(Path(file.name).name)
        return digest(file, kind)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    return names


def test_a_file_is_read_once(tmp_path, read):
    paths = [tmp_path / name for name in ("a", "b")]
    for path in paths:
        path.write_text(path.name)
    assert [digest_of_files(paths) for _ in range(3)] == [plain(paths)] * 3
    assert read == ["a", "b"]
    assert digest_of_files(paths[1:]) == plain(paths[1:]) and read == ["a", "b"]


def test_a_file_that_was_changed_or_replaced_is_read_again(tmp_path, read):
    path = tmp_path / "a"
    path.write_text("first")
    before = path.stat()
    found = {digest_of_files([path])}
    path.write_text("other")  # as long, and dated back
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert digest_of_files([path]) == plain([path])
    found.add(digest_of_files([path]))
    (tmp_path / "new").write_text("third")
    (tmp_path / "new").replace(path)
    assert digest_of_files([path]) == plain([path])
    assert len(found | {digest_of_files([path])}) == 3
