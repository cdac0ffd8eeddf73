"""What the hub reads at the head of a card, and the command that makes the checkpoint again."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from huggingface_hub import EvalResult, ModelCardData
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from bench.analysis.quality import ACCURACY, BLEU
from bench.prune.defaults import DEFAULTS
from methods import METHODS
from tasks.contract import Task
from tasks.data.location import is_path
from tasks.data.packages import PREFIX
from tasks.paths import expanded
from tasks.request import TaskSpec, flag_of

if TYPE_CHECKING:
    from bench.prune.card import Pruned
    from bench.prune.options import PruneOptions

CHRF = "chrF"


def front_matter(task: Task, model: Any, pruned: Pruned, name: str, plain: bool, onnx: bool) -> str:
    """The block of YAML at the head of the card of ``model``, saved in a folder called ``name``.

    plain: whether transformers alone loads it. onnx: whether ONNX files are beside it.
    """
    kind = "text-classification"
    if model.can_generate():
        kind = "translation" if model.config.is_encoder_decoder else "text-generation"
    data = None if _is_local(task.spec.data) else hub_id(task.spec.data.partition(":")[0])
    figures = _figures(pruned)
    results = [
        EvalResult(
            task_type=kind,
            # A language model's data are those that it was pruned on, and tasks are in no split that the hub knows.
            dataset_type=task.data_name if task.spec.harness_tasks else data or task.data_name,
            dataset_name=task.data_name,
            metric_type=name.replace(" ", "_").lower(),
            metric_name=name,
            metric_value=value,
        )
        for name, value in figures.items()
    ]
    card = ModelCardData(
        base_model=hub_id(task.spec.model),
        datasets=[data] if data else None,
        eval_results=results,
        library_name="transformers" if plain else "headbench",
        metrics=[name.lower() for name in figures if name in (ACCURACY, BLEU, CHRF)] or None,
        model_name=name,
        pipeline_tag=kind,
        tags=[
            "pruned",
            "attention-head-pruning",
            "headbench",
            pruned.method.partition(":")[0],
            *(["onnx"] if onnx else []),
        ],
    )
    return f"---\n{card.to_yaml()}\n---\n"


def _figures(pruned: Pruned) -> dict[str, float]:
    """Figures of the pruned model by their names on the hub; BLEU and chrF are out of 100 there, others out of 1."""
    if pruned.quality_name != BLEU:
        return {pruned.quality_name: round(pruned.quality[1], 4)}
    chrf = next(value for name, (_, value) in pruned.metrics.items() if name.endswith("/chrf"))
    return {BLEU: round(100 * pruned.quality[1], 2), CHRF: round(100 * chrf, 2)}


def command(options: PruneOptions) -> str:
    """The command that makes the checkpoint again, with the last part of local paths alone."""
    given, usual = options.task.without_folders(), TaskSpec(task=options.task.task).model_dump(mode="json")
    parts = ["headbench", "prune"]
    for name, value in given.items():
        if value != usual[name] or name == "task":
            parts += _given(name, value)
    parts += ["--method", options.method.label, "--keep", options.keep]
    for name, standard in DEFAULTS.items():
        if (value := getattr(options, name)) != standard:
            parts += _given(name, value)
    if METHODS[options.method.name].trains or options.task.finetune or not options.task.model:
        parts += ["--device", options.device]  # on another one, the same seed trains other weights
    if options.uniform:
        parts.append("--uniform")
    if options.export:
        parts += ["--export", options.export]
    return shlex.join(parts + _given("out", options.out.name or options.out.resolve().name))


def local_paths(options: PruneOptions) -> list[str]:
    """The flags, with what ``command`` gives them, of files and folders of the user."""
    asked, shown = options.task, options.task.without_folders()
    found = [name for name in ("data", "train", "validation", "test", "model") if _is_local(getattr(asked, name))]
    found += ["mirror"] if asked.mirror else []
    found += ["harness_tasks"] if any(map(_is_local, asked.harness_tasks)) else []
    return [shlex.join(_given(name, shown[name])) for name in found]


def _given(name: str, value: Any) -> list[str]:
    """The words that give ``value`` to the flag of a field."""
    flag = flag_of(name)
    if value is True:
        return [flag]
    if isinstance(value, list):
        plain = all(name == name.strip() and not set(name) & set(',"') for name in value)
        value = ",".join(value if plain else ('"' + name.replace('"', '""') + '"' for name in value))
    return [f"{flag}={value}"] if str(value).startswith("-") else [flag, str(value)]


def hub_id(name: str) -> str | None:
    """``name`` if it is an id of the hub, and not a folder, a file or an installed package."""
    if not name or f"{name}:".startswith(PREFIX) or _is_local(name):
        return None
    try:
        validate_repo_id(name)
    except HFValidationError:
        return None
    return name


def _is_local(name: str) -> bool:
    return bool(name) and not name.startswith(PREFIX) and (is_path(name) or expanded(name).exists())
