"""The training loop, for small models from scratch and for fine-tuning pretrained ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedTokenizerBase

from tasks.data.dataset import Dataset
from tasks.data.encode import Batch, Encoded, batches, collate, encode, padding_id
from tasks.models.steps import Steps
from tasks.seeds import Seeds, drawn_from

if TYPE_CHECKING:  # slow to import
    from transformers import PreTrainedModel

EVALUATION_BATCH = 128
# Batches whose examples are sorted by length together. With many more, the batches of a language task are each of few
# languages, as length tells those apart, and accuracy suffers.
SORTED = 4


@dataclass(frozen=True)
class Recipe:
    """How to train: AdamW, linear warm-up, then linear decay to zero at ``max_steps``."""

    learning_rate: float
    max_steps: int
    batch_size: int = 64
    warmup_steps: int = 50
    beta2: float = 0.98
    weight_decay: float = 0.01  # on matrices only, not on biases and norms
    clip: float = 1.0  # largest norm of the gradient over all parameters
    max_length: int = 64  # tokens per example
    evaluate_every: int = 50  # steps between evaluations on the validation split
    target: float | None = None  # validation accuracy, 0 to 1, at which training stops early

    def shortened(self, share: float) -> Recipe:
        """The same recipe with that share of its steps and warm-up; at least one step."""
        steps = max(1, round(share * self.max_steps))
        return replace(self, max_steps=steps, warmup_steps=round(share * self.warmup_steps))


def fine_tuning(examples: int, *, epochs: int = 3, batch_size: int = 32, max_length: int = 128) -> Recipe:
    """Recipe to fine-tune a pretrained encoder of about BERT-base's size on ``examples`` training examples.

    It evaluates on validation twice per epoch.
    """
    steps_per_epoch = -(-examples // batch_size)
    max_steps = epochs * steps_per_epoch
    return Recipe(
        learning_rate=5e-5,
        max_steps=max_steps,
        batch_size=batch_size,
        warmup_steps=max_steps // 10,
        beta2=0.999,
        max_length=max_length,
        evaluate_every=max(1, -(-steps_per_epoch // 2)),
    )


class TrainingSetup:
    """Training examples in shuffled batches, and the optimizer of a recipe.

    The seed determines the order of the examples: each call of ``batches`` yields the same ones. initial: the weights
    that the task's own training starts from; None if the task trains no model.
    """

    def __init__(
        self,
        examples: Sequence[Encoded],
        tokenizer: PreTrainedTokenizerBase,
        recipe: Recipe,
        seed: int,
        device: torch.device | str,
        initial: Callable[[], Mapping[str, Tensor]] | None = None,
    ):
        self.steps, self.clip = recipe.max_steps, recipe.clip
        self.epoch_steps = -(-len(examples) // recipe.batch_size)
        self._initial = initial
        self._examples, self._tokenizer, self._recipe = examples, tokenizer, recipe
        self._seed, self._device = seed, device

    def in_batches_of(self, size: int) -> TrainingSetup:
        """As many epochs in batches of ``size`` examples; the steps, warm-up included, change to match."""
        examples, recipe = len(self._examples), self._recipe
        share = -(-examples // size) / -(-examples // recipe.batch_size)
        steps, warmup = max(1, round(share * recipe.max_steps)), round(share * recipe.warmup_steps)
        recipe = replace(recipe, batch_size=size, max_steps=steps, warmup_steps=warmup)
        return TrainingSetup(self._examples, self._tokenizer, recipe, self._seed, self._device, self._initial)

    def batches(self) -> Iterator[Batch]:
        """Batches without end, epoch after epoch, one for each step; one of each epoch may be smaller.

        Examples of like length are put together among ``SORTED`` batches at a time, which leaves less padding to
        compute; the batches of an epoch come in random order.
        """
        steps = Steps(self.steps)
        pad_id, side = padding_id(self._tokenizer), self._tokenizer.padding_side
        generator = torch.Generator().manual_seed(self._seed)
        lengths = torch.tensor([len(example.tokens["input_ids"]) for example in self._examples])
        size = self._recipe.batch_size
        while True:
            drawn = torch.randperm(len(self._examples), generator=generator).split(SORTED * size)
            batches = [batch for some in drawn for batch in some[lengths[some].argsort(stable=True)].split(size)]
            for place in torch.randperm(len(batches), generator=generator).tolist():
                steps.begin()
                yield collate(self._examples, batches[place].tolist(), pad_id, side, self._device)

    def optimizer(self, model: nn.Module) -> tuple[torch.optim.AdamW, LambdaLR]:
        """AdamW over the weights of ``model`` that require gradients, and its schedule over ``steps``."""
        optimizer = _optimizer(model, self._recipe)
        return optimizer, LambdaLR(optimizer, lambda step: _rate(step, self._recipe))

    def with_steps(self, steps: int) -> TrainingSetup:
        """The same training with another number of steps, 1 or more, and as large a share of them for warm-up."""
        recipe = self._recipe.shortened(steps / self.steps)
        return TrainingSetup(self._examples, self._tokenizer, recipe, self._seed, self._device, self._initial)

    def initial_weights(self) -> Mapping[str, Tensor]:
        """The weights that the task's own training starts from. Raises ValueError if the task trains no model."""
        if self._initial is None:
            raise ValueError("the model is taken as it is, so there is no model that its training started from")
        return self._initial()


def train(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    dataset: Dataset,
    recipe: Recipe,
    seeds: Seeds,
    *,
    device: torch.device | str = "cpu",
    progress: Callable[[int, int, float], None] | None = None,
) -> dict[str, Any]:
    """Train ``model`` in place on ``dataset.train`` and leave it, in eval mode on ``device``, at its best weights.

    Best means the highest accuracy on ``dataset.validation``, the earliest on a tie. Training ends at the recipe's
    target or at its last step, whichever comes first. The same seeds on the same machine gives the same weights; the
    global random state is restored.

    Args:
        progress: called as ``progress(step, max_steps, accuracy)`` after each evaluation on validation.

    Returns:
        ``steps`` taken, ``best_step``, ``examples`` seen, wall ``seconds``, ``validation_accuracy`` (0 to 1) at
        the best step, the ``target`` and ``target_met`` (both None without a target).

    Raises:
        FloatingPointError: the loss is not finite.
    """
    nn.Module.to(model, torch.device(device))
    validation_set = encode(dataset.validation, tokenizer, recipe.max_length)
    train_set = encode(dataset.train, tokenizer, recipe.max_length)
    labels = torch.tensor([example.label for example in validation_set])

    def loss(batch: Batch) -> Tensor:
        return F.cross_entropy(model(**batch.inputs).logits.float(), batch.labels)

    def accuracy() -> float:
        return (predict(model, tokenizer, validation_set) == labels).double().mean().item()

    setup = TrainingSetup(train_set, tokenizer, recipe, seeds.of("training order"), device)
    return fit(model, setup, loss, accuracy, recipe, seeds, name=dataset.name, progress=progress)


def fit(
    model: PreTrainedModel,
    setup: TrainingSetup,
    loss_of: Callable[[Batch], Tensor],
    validate: Callable[[], float],
    recipe: Recipe,
    seeds: Seeds,
    *,
    name: str,
    progress: Callable[[int, int, float], None] | None = None,
) -> dict[str, Any]:
    """The loop of ``train`` for any loss and accuracy. Trains ``model``, which is on its device already, in place.

    Args:
        loss_of: mean loss of ``model`` over a batch, a scalar that requires grad.
        validate: accuracy of ``model``, 0 to 1, on held-out examples.
        name: of the data, for error messages.

    Returns and raises what ``train`` does.
    """
    started = time.perf_counter()
    optimizer, schedule = setup.optimizer(model)
    best_accuracy, best_step = -1.0, 0
    best_weights: dict[str, Tensor] = {}
    step = examples = 0

    with drawn_from(seeds.of("training noise"), model.device):
        batches = setup.batches()
        while step < recipe.max_steps and not _met(best_accuracy, recipe.target):
            model.train()
            batch = next(batches)
            loss = loss_of(batch)
            step += 1
            examples += len(batch.labels)
            if not torch.isfinite(loss):
                raise FloatingPointError(
                    f"loss is {loss.item()} at step {step} of {recipe.max_steps} on {name}, seed {seeds.seed}"
                )
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            if step % recipe.evaluate_every == 0 or step == recipe.max_steps:
                model.eval()
                accuracy = validate()
                if accuracy > best_accuracy:
                    best_accuracy, best_step = accuracy, step
                    best_weights = {key: value.detach().clone() for key, value in model.state_dict().items()}
                if progress is not None:
                    progress(step, recipe.max_steps, accuracy)

    model.load_state_dict(best_weights)
    model.eval()
    return {
        "steps": step,
        "best_step": best_step,
        "examples": examples,
        "seconds": time.perf_counter() - started,
        "validation_accuracy": best_accuracy,
        "target": recipe.target,
        "target_met": _met(best_accuracy, recipe.target) if recipe.target is not None else None,
    }


@torch.no_grad()
def predict(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, encoded: Sequence[Encoded]) -> Tensor:
    """Label with the highest logit for each example: (N,) int64 on the CPU, in the order of ``encoded``.

    Leaves the model in eval mode.
    """
    model.eval()
    predicted = torch.empty(len(encoded), dtype=torch.long)
    for batch in batches(encoded, tokenizer, EVALUATION_BATCH, by_length=True, device=model.device):
        predicted[batch.indices] = model(**batch.inputs).logits.argmax(-1).cpu()
    return predicted


def _optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.AdamW:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": recipe.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, recipe.beta2), fused=True)


def _rate(step: int, recipe: Recipe) -> float:
    """Factor on the learning rate after ``step`` steps; above zero, so that the first step has an effect."""
    if step < recipe.warmup_steps:
        return (step + 1) / (recipe.warmup_steps + 1)
    return (recipe.max_steps - step) / max(1, recipe.max_steps - recipe.warmup_steps)


def _met(accuracy: float, target: float | None) -> bool:
    return target is not None and accuracy >= target
