"""Saving a smaller model with its card, completely or not at all."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from typing import Any

import torch

from bench.prune.card import Pruned, card
from bench.prune.loading import check_loading
from bench.prune.metadata import front_matter
from bench.prune.onnx import export_onnx
from bench.prune.options import PruneOptions
from bench.prune.precision import saved_as
from bench.records.errors import InputError
from methods.heads import save_pruned
from tasks.contract import Task
from tasks.models.cache import system_errors


def save(smaller: Any, task: Task, pruned: Pruned, out: Path, options: PruneOptions) -> str:
    """Write checkpoint, exports, tokenizer and card to a temporary folder, then make it ``out``; the card.

    Raises InputError, with nothing written, for a checkpoint that should be uniform and is not.
    """
    place = out if out.exists() else out.parent  # the same file system in any case
    with tempfile.TemporaryDirectory(dir=place, prefix=".headbench-") as temporary, system_errors(out):
        folder = Path(temporary) / "whole"
        for module in smaller.modules():
            if hasattr(module, "_hf_hook"):  # of --device-map, which would send what it reads to its GPU
                module._hf_hook.execution_device = torch.device("cpu")
        try:
            with saved_as(smaller, pruned.half):
                plain = save_pruned(smaller.cpu(), folder)
        except ValueError as error:  # a class that is not one of transformers, or that its configuration does not build
            raise InputError(f"nothing was saved: {error}") from error
        if options.uniform and not plain:
            raise InputError(
                f"--uniform: the configuration of {type(smaller).__name__} has no place for the numbers of neurons "
                "that are left: leave --uniform out"
            )
        check_loading(task, smaller, folder, plain)
        int8 = options.export == "onnx-int8"
        onnx = export_onnx(task, smaller, pruned, folder, int8=int8) if options.export else None
        text = card(pruned, out.name, plain, onnx)
        task.save_tokenizer(folder)
        head = front_matter(task, smaller, pruned, out.name, plain, bool(onnx))
        (folder / "README.md").write_text(f"{head}\n{text}", encoding="utf-8")
        if not _moved(folder, out):
            raise InputError(
                f"--out {options.out}: something else has been put there while this model was pruned, so it is not "
                "saved: prune it again to another folder"
            )
    return text


def _moved(folder: Path, out: Path) -> bool:
    """Make ``folder`` the new folder ``out``; False, with nothing moved, where somebody else has put something there.

    An empty ``out``, which ``folder`` is in then, is filled: it may be a mount, or where a shell is. The configuration
    comes last, as a folder without it is no model, should the process be killed meanwhile.
    """
    if out not in folder.parents:
        try:
            folder.rename(out)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            return False
        return True
    if any(path != folder.parent for path in out.iterdir()):
        return False
    for path in sorted(folder.iterdir(), key=lambda path: path.name == "config.json"):
        path.rename(out / path.name)
    return True
