"""ONNX Runtime keeps no log of its use where it is run here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CODE = """
import sys
from pathlib import Path
import onnx
from onnx import TensorProto, helper
from bench.exports.runner import Runner

x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "one", [x], [y])
file = Path(sys.argv[1])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), file)
Runner([file])
"""


def test_it_writes_nothing_to_home_and_temporary_files(tmp_path):
    places = [tmp_path / name for name in ("home", "temporary", "cache")]
    for place in places:
        place.mkdir()
    names = ("HOME", "TMPDIR", "XDG_CACHE_HOME")
    environment = os.environ | dict(zip(names, map(str, places), strict=True)) | {"PYTHONPATH": str(Path.cwd())}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    subprocess.run([sys.executable, "-c", CODE, str(tmp_path / "a.onnx")], env=environment, check=True)
    assert [path for place in places for path in place.rglob("*") if path.is_file()] == []
