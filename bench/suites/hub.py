"""What the hub, or the caches of what came from it, have of an id: looked up before anything is loaded."""

from __future__ import annotations

import json
import shutil
from functools import cache
from glob import escape
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tasks.errors import first_line
from tasks.models.vocabularies import PATTERNS

Kind = Literal["model", "dataset"]
# Beginnings of ids with a licence to accept, for when the hub cannot be asked. There are more such models on the hub.
GATED = ("meta-llama/", "google/gemma")
GB = 1e9
TIMEOUT = 5.0  # seconds to wait for an answer of the hub


class Found(NamedTuple):
    """Where something is, with its size in bytes if it is to be downloaded and that is known; or why it is nowhere."""

    place: str = ""
    fault: str = ""
    download: int = 0


def find(kind: Kind, name: str) -> Found:
    """Where ``name``, an id that no folder here stands for, can be loaded from: a cache of the hub, or the hub.

    name: of a data set, perhaps with its configuration, as in ``glue:cola``. The hub is not asked for that.
    """
    name, _, configuration = name.partition(":")
    if not name:
        return Found(fault="and before the configuration there is no id")
    if _is_cached(kind, name, configuration):
        return Found("cache of the hub")
    if reason := out_of_reach():
        licence = f"; {_licence(name)}" if name.startswith(GATED) else ""
        return Found(fault=f"not in the cache of the hub, which cannot be reached ({reason}){licence}")
    return _asked(kind, name)


def _is_cached(kind: Kind, name: str, configuration: str) -> bool:
    if kind == "model":
        from huggingface_hub import snapshot_download

        try:
            folder = Path(snapshot_download(name, allow_patterns=list(PATTERNS), local_files_only=True))
        except Exception:  # nothing of it is there, or it is no id
            return False
        return (folder / "config.json").is_file() and _has_weights(folder)
    import datasets  # takes seconds to import
    from datasets.naming import camelcase_to_snakecase

    owner, _, last = name.rpartition("/")
    prepared = "___".join(filter(None, (owner, camelcase_to_snakecase(last))))
    version = f"{escape(prepared)}/{escape(configuration) or '*'}/*/*"
    cached = Path(datasets.config.HF_DATASETS_CACHE).expanduser().glob(version)
    return any(path.is_dir() for path in cached)


def _has_weights(folder: Path) -> bool:
    """Whether all safetensors of a model are there; a download that was stopped may have left some."""
    shards: set[str] = set()
    for index in folder.glob("*.safetensors.index.json"):
        try:
            shards |= set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
    return all((folder / shard).is_file() for shard in shards) and any(folder.glob("*.safetensors"))


@cache
def out_of_reach() -> str:
    """Why the hub cannot be reached; empty if it can. Asked once in a process."""
    import huggingface_hub

    if huggingface_hub.constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    try:
        huggingface_hub.utils.get_session().head(huggingface_hub.constants.ENDPOINT, timeout=TIMEOUT)
    except Exception as error:
        return first_line(error)
    return ""


def _asked(kind: Kind, name: str) -> Found:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    api = HfApi()
    try:
        info: Any = api.repo_info(name, repo_type=kind, timeout=TIMEOUT, files_metadata=True)
        if info.gated:
            api.auth_check(name, repo_type=kind)
    except GatedRepoError:
        return Found(fault=_licence(name))
    except RepositoryNotFoundError:
        return Found(fault=f"the hub has no such {kind}, or it is private: hf auth login")
    except Exception as error:
        return Found(fault=f"the hub does not give it ({first_line(error)})")
    if kind == "dataset":
        return Found("hub")  # it is streamed
    files = info.siblings or []
    if not any(file.rfilename.endswith(".safetensors") for file in files):
        return Found(fault="the hub has no .safetensors weights of it, which save_pretrained makes of those it has")
    wanted = [file.size or 0 for file in files if any(Path(file.rfilename).match(pattern) for pattern in PATTERNS)]
    return Found("hub", download=sum(wanted), fault=no_room(sum(wanted)))


def no_room(size: int) -> str:
    """Why a download of so many bytes does not fit into the cache of the hub; empty if it does."""
    from huggingface_hub import constants

    cache = Path(constants.HF_HUB_CACHE).expanduser().absolute()
    there = next(folder for folder in (cache, *cache.parents) if folder.exists())
    if size <= (free := shutil.disk_usage(there).free):
        return ""
    return (
        f"{size / GB:.1f} GB would be downloaded to {cache}, where {free / GB:.1f} GB are free: make room, or set "
        "HF_HUB_CACHE"
    )


def _licence(name: str) -> str:
    return f"its licence has to be accepted on https://huggingface.co/{name}, then: hf auth login"
