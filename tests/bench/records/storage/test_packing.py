"""Packed records are read as those in a folder, and an archive that is not one of records is refused."""

from __future__ import annotations

import io
import lzma
import os
import shutil
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from bench.records.arrays import read_arrays
from bench.records.errors import CorruptRecord, InputError
from bench.records.protocol import PROTOCOL
from bench.records.schema import FailedRecord
from bench.records.storage import packed
from bench.records.storage.current import read_current
from bench.records.storage.merge import merge
from bench.records.storage.packing import pack, unpack
from bench.records.storage.store import Store
from tests.fixtures.files import files_of


@pytest.fixture
def run(tmp_path, make_record):
    """The folder of a run: three records, one of them of a failure."""
    store = Store(tmp_path / "run")
    for seed in range(2):
        outcomes = np.random.default_rng(seed).random((1, 3, 100)) < 0.5
        record = make_record(seed=seed).model_copy(update={"key": str(seed)})
        store.write(f"t/m/seed{seed}", record, {"outcomes": outcomes, "scores.0": np.ones((1, 4), np.float32)})
    cell = record.cell.model_copy(update={"label": "n", "seed": 0})
    failed = FailedRecord(cell=cell, provenance=record.provenance, reason="ValueError: no")
    store.write("t/n/seed0", failed)
    return tmp_path / "run"


@pytest.fixture
def archive(run):
    """The archive of the run, whose folder of records is gone."""
    found = pack(run).archive
    shutil.rmtree(run / "records")
    return found


def test_what_is_packed_is_read_as_before(run):
    before = read_current(run)
    arrays = {path: read_arrays(path) for path in before[0] if "seed" in path.name and "/n/" not in str(path)}
    packed = pack(run)
    assert (packed.records, packed.archive) == (3, run / "records.tar.xz")
    shutil.rmtree(run / "records")
    assert read_current(run) == before
    assert list(read_current(run)[0]) == list(before[0])
    for path, expected in arrays.items():
        found = read_arrays(path)
        assert found.keys() == expected.keys()
        assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_the_same_records_give_the_same_bytes(run):
    first = pack(run).archive.read_bytes()
    for path in (run / "records").rglob("seed*"):
        path.touch()
    assert pack(run).archive.read_bytes() == first


def test_it_unpacks_to_the_same_files(run):
    before = files_of(run)
    archive = pack(run).archive
    shutil.rmtree(run / "records")
    assert unpack(run) == (run / "records", 3)
    assert files_of(run) == before | {"records.tar.xz": archive.read_bytes()}
    with pytest.raises(InputError, match="exists already"):
        unpack(run)


def test_a_record_that_only_the_archive_has_is_not_lost(run):
    before = pack(run).archive.read_bytes()
    path = run / "records/t/m/seed0.json"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(InputError, match=r"would lose what .* does not, such as t/m/seed0.json: move it away"):
        pack(run)
    assert (run / "records.tar.xz").read_bytes() == before


def test_a_file_that_is_no_archive_is_not_replaced(run):
    (run / "records.tar.xz").write_text("notes")
    with pytest.raises(InputError, match="not an archive of records"):
        pack(run)
    assert (run / "records.tar.xz").read_text() == "notes"


def test_what_would_not_be_read_again_is_not_packed(run):
    (run / "records" / "t").rename(run / "records" / "t\u00a0copy")
    with pytest.raises(InputError, match=r"cannot hold 't\\xa0copy/m/seed0.json': rename its folder"):
        pack(run)
    assert not (run / "records.tar.xz").exists() and len(files_of(run)) == 5


def test_the_folder_comes_first(run, make_record):
    pack(run)
    Store(run).write("t/m/seed7", make_record(seed=7), {"outcomes": np.zeros((1, 3, 100), bool)})
    assert len(read_current(run)[0]) == 4


def test_a_corrupt_record_is_not_packed(run, capsys):
    (run / "records/t/m/seed1.json").write_text("{")
    assert pack(run).records == 2
    assert "seed1.json" in capsys.readouterr().err


def test_records_of_another_protocol_are_counted(run, make_record):
    record = make_record(cell={"protocol": PROTOCOL - 1})
    Store(run).write("t/m/seed9", record, {"outcomes": np.zeros((1, 3, 100), bool)})
    found = pack(run)
    assert (found.records, found.other_protocol) == (3, 1)


def test_what_could_not_be_read_again_is_not_packed(run, monkeypatch):
    monkeypatch.setattr(packed, "MOST", 10_000)
    with pytest.raises(InputError, match="would hold more than"):
        pack(run)
    assert set(files_of(run)) == {name for name in files_of(run) if name.startswith("records/")}


def test_arrays_beside_the_record_of_a_failure_are_not_its_own(run):
    (run / "records/t/n/seed0.safetensors").mkdir()
    assert pack(run).records == 3


def test_damage_within_an_archive_is_found_when_read(run, archive):
    content = dict(packed.contents(archive))
    content["t/m/seed1.json"] = content["t/m/seed1.json"].replace(b'"key"', b'"kez"', 1)
    del content["t/m/seed0.safetensors"]
    packed.write_archive(archive, content)
    store = Store(run)
    for seed in range(2):
        with pytest.raises(CorruptRecord):
            store.read(store.path(f"t/m/seed{seed}"))


def test_packed_runs_can_be_merged(run, archive, tmp_path, make_record):
    other = Store(tmp_path / "other")
    other.write("t/m/seed5", make_record(seed=5), {"outcomes": np.zeros((1, 3, 100), bool)})
    merged = merge([run, tmp_path / "other"], tmp_path / "both")
    assert len(merged.kept) == 4 and len(read_current(tmp_path / "both")[0]) == 4
    assert not (run / "records").exists()


def test_nothing_is_written_beside_an_archive(run, archive, make_record):
    before = files_of(run)
    store = Store(run)
    for write in (
        lambda: store.write("t/m/seed0", make_record(), {"outcomes": np.zeros((1, 3, 100), bool)}),
        lambda: store.update("t/m/seed0", make_record()),
        lambda: store.set_aside(store.path("t/m/seed0")),
    ):
        with pytest.raises(InputError, match="headbench unpack"):
            write()
    with pytest.raises(InputError, match="packed already"):
        pack(run)
    assert files_of(run) == before


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz", format=tarfile.PAX_FORMAT) as out:
        for member, data in members:
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))
    return content.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def sparse(name: str, size: int) -> tarfile.TarInfo:
    """A file that claims to be so large, of holes."""
    info = member(name)
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(size)}
    return info


def old_sparse(name: str, size: int) -> bytes:
    """The same as old versions of GNU tar write it, with data that claims to be as large."""
    header = bytearray(member(name, tarfile.GNUTYPE_SPARSE).tobuf(tarfile.GNU_FORMAT))
    for place in (124, 483):  # size of the data and of the file, in base 256
        header[place : place + 12] = b"\x80" + size.to_bytes(11, "big")
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    return lzma.compress(bytes(header) + bytes(1024))


def endless_headers(number: int) -> bytes:
    """Long names of long names."""
    one = member("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    one.size = 8
    return lzma.compress((one.tobuf(tarfile.GNU_FORMAT) + b"t/m/a" + bytes(507)) * number)


ODD = {
    "text": b"not an archive",
    "empty": b"",
    "no tar": lzma.compress(b"x" * 10_000),
    "another file": tar((member("README.md"), b"")),
    "a path out of the folder": tar((member("../a/b.json"), b"{}")),
    "an absolute path": tar((member("/t/m/seed0.json"), b"{}")),
    "a link": tar((member("t/m/seed0.json", tarfile.SYMTYPE, "/etc/passwd"), b"")),
    "a device": tar((member("t/m/seed0.json", tarfile.CHRTYPE), b"")),
    "too much": tar((member("t/m/seed0.json"), b" " * 3_000_000)),
    "nothing": tar(),
    "a name of control characters": tar((member("t/m\n/seed0.json"), b"{}")),
    "a sparse file": tar((sparse("t/m/seed0.json", 2**62), b"0\n")),
    "a sparse file of old": old_sparse("t/m/seed0.json", 2**62),
    "headers without end": endless_headers(1500),
    "more after its end": tar((member("t/m/seed0.json"), b"{}")) + b"x",
    "cut short": tar((member("t/m/seed0.json"), bytes(np.random.default_rng(0).bytes(100_000))))[:50_000],
}


@pytest.mark.parametrize("what", ODD)
def test_an_archive_of_something_else_is_refused(run, what, monkeypatch):
    monkeypatch.setattr(packed, "MOST", 2_000_000)
    shutil.rmtree(run / "records")
    (run / "records.tar.xz").write_bytes(ODD[what])
    for read in (lambda: read_current(run), lambda: unpack(run)):
        with pytest.raises(InputError, match="not an archive of records") as refused:
            read()
        assert "\n" not in str(refused.value)
    assert set(files_of(run)) == {"records.tar.xz"}


def test_an_archive_that_is_written_over_is_read_again(archive):
    """The same file, of the same size."""
    first = packed.contents(archive)
    there = archive.stat()
    with archive.open("r+b") as file:
        file.write(bytes(there.st_size))
    os.utime(archive, ns=(there.st_atime_ns, there.st_mtime_ns + 1))
    assert first and archive.stat().st_ino == there.st_ino
    with pytest.raises(InputError, match="not an archive of records"):
        packed.contents(archive)


def test_a_link_that_leads_nowhere_is_not_written_through(run, archive, tmp_path):
    (run / "records").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="exists already"):
        unpack(run)
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_in_place_of_the_archive_is_refused(run):
    shutil.rmtree(run / "records")
    (run / "records.tar.xz").mkdir()
    with pytest.raises(InputError, match="not a file"):
        read_current(run)


def test_nothing_to_unpack(tmp_path):
    with pytest.raises(InputError, match="nothing to unpack"):
        unpack(tmp_path)


def test_a_result_that_another_replaced_is_not_lost_from_the_archive(run, make_record):
    """The folder has a record of the same name, made under other settings, or of a failure."""
    content = pack(run).archive.read_bytes()
    store = Store(run)
    path = store.path("t/m/seed1")
    record = store.read(path)
    failed = FailedRecord(cell=record.cell, provenance=record.provenance, reason="ValueError: no")
    for other in (record.model_copy(update={"key": "other"}), failed):
        store.write("t/m/seed1", other, read_arrays(path) if other is not failed else {})
        with pytest.raises(InputError, match=r"would lose .*, such as t/m/seed1\.json: move it away"):
            pack(run)
        assert (run / "records.tar.xz").read_bytes() == content


def test_timings_that_only_the_archive_has_are_not_lost(run):
    content = pack(run).archive.read_bytes()
    store = Store(run)
    path = store.path("t/m/seed1")
    record = store.read(path)
    assert record.measured.latency
    store.write("t/m/seed1", record.updated(measured=record.measured.updated(latency=None)), read_arrays(path))
    with pytest.raises(InputError, match=r"would lose .*, such as t/m/seed1\.json: move it away"):
        pack(run)
    assert (run / "records.tar.xz").read_bytes() == content


@pytest.mark.parametrize("damaged", [b"{", b"[]", b'{"status": "done"}', b"\xff"])
def test_a_damaged_record_in_the_archive_is_no_result_to_lose(run, damaged):
    archive = pack(run).archive
    files = {**packed.contents(archive), "t/m/seed1.json": damaged}
    packed.write_archive(archive, files)
    assert pack(run).records == 3
    assert packed.contents(archive)["t/m/seed1.json"] != damaged


def test_of_two_that_unpack_at_once_one_does(archive):
    """The other waits, and then says what is there."""
    run = archive.parent
    with ThreadPoolExecutor(4) as pool:
        ended = [pool.submit(unpack, run) for _ in range(4)]
        errors = [each.exception() for each in ended]
    assert len([error for error in errors if error is None]) == 1
    assert all(isinstance(error, InputError) and "exists already" in str(error) for error in errors if error)
    assert len(read_current(run)[0]) == 3


def test_an_empty_folder_beside_an_archive_is_told(archive):
    (archive.parent / "records").mkdir()
    with pytest.raises(InputError, match=r"to read those of .*records\.tar\.xz, remove that empty folder"):
        read_current(archive.parent)


def test_a_folder_that_cannot_be_read_is_not_left_out(run, monkeypatch):
    iterdir = Path.iterdir

    def refused(path):
        if path.name == "n":
            raise PermissionError(13, "Permission denied", str(path))
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", refused)  # root may read all
    with pytest.raises(PermissionError, match="t/n"):
        pack(run)
