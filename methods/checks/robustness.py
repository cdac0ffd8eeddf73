"""Other dtypes and devices, and weights that are not numbers."""

from __future__ import annotations

import re

import torch

from methods.checks.case import ConfiguredMethod, Failure, NotApplicable, check
from methods.checks.compare import CLOSE, ROUGH, check_close, check_complete
from methods.checks.tiny_models import TinyModel, with_model
from methods.contract.schedule import NonFiniteScore


@check(ignores_schedule=True)
def works_in_bfloat16(configured: ConfiguredMethod, on: TinyModel) -> None:
    """On a model in bfloat16 all importances are finite, and close to those in float32."""
    seed = 7  # whose heads stand apart: some scores turn a small difference within a layer into a large one
    view = on.view(seed=seed, dtype=torch.bfloat16)
    result = configured.result(view)
    check_complete(view, result, "bfloat16")
    if configured.method.shape == "scorer":
        check_close(view, configured.result(on.view(seed=seed)), result, ROUGH, "bfloat16 against float32")


@check(ignores_schedule=True)
def works_on_cuda(configured: ConfiguredMethod, on: TinyModel) -> None:
    """Results on a GPU are those on the CPU."""
    if not torch.cuda.is_available():
        raise NotApplicable("no CUDA device here")
    view = on.view(seed=5, device="cuda")
    result = configured.result(view)
    check_complete(view, result, "CUDA")
    if configured.method.shape != "joint":  # training draws other random numbers for dropout on a GPU
        check_close(view, configured.result(on.view(seed=5)), result, CLOSE, "CUDA against CPU")


@check(ignores_schedule=True)
def nan_is_reported(configured: ConfiguredMethod, on: TinyModel) -> None:
    """A weight that is NaN or infinite raises an error, which for a score names the head, or does not matter."""
    expected = configured.result(on.view())
    for value in (torch.nan, torch.inf):
        view = on.view()
        path = view.heads.sites[0].projections["query"]
        with torch.no_grad():
            next(view.model.get_submodule(path).parameters())[0, 0] = value
        where = f"with a weight of {path} {value}"
        try:
            configured.select(view, [1])
        except NonFiniteScore as error:
            name = re.escape(configured.method.name)
            if not re.match(rf"method {name}: importance \S+ for (head|neuron) \d", str(error)):
                raise Failure(f"{where}, the error does not name the method and the head: {error}") from error
        except (ArithmeticError, ValueError):
            pass
        else:
            found = configured.result(with_model(on.view(), view.model))
            if any(not torch.equal(found[name], values) for name, values in expected.items()):
                raise Failure(
                    f"{where} the result is finite but differs: leave NaN and infinity in the importance, "
                    "and the run will name the head"
                )
