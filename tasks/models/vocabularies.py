"""Model folders with all their vocabularies: those of some tokenizers have file names of their own, as Marian's."""

from __future__ import annotations

from pathlib import Path

from tasks.data.location import resolve
from tasks.errors import TaskError, first_line
from tasks.models import checkpoint

OTHERS = ("*.spm", "*.codes", "*.tokenizer")  # of Marian; of PhoBERT and BERTweet; of ProphetNet
PATTERNS = (*checkpoint.PATTERNS, *OTHERS)


def locate(model: str, mirror: str = "") -> Path:
    """``checkpoint.locate``, where a download from the hub brings these vocabularies too. Raises TaskError."""
    folder = checkpoint.locate(model, mirror)
    if not resolve(model, mirror).exists():
        from huggingface_hub import snapshot_download

        try:
            snapshot_download(model, allow_patterns=list(OTHERS))  # into the same folder
        except Exception as error:
            raise TaskError(f"{model}: its vocabulary cannot be loaded from the hub ({first_line(error)})") from error
    return folder


def model_files(folder: Path) -> list[Path]:
    """Files of a model folder that determine its outputs, vocabularies included, sorted."""
    return sorted(file for pattern in PATTERNS for file in folder.glob(pattern) if file.is_file())
