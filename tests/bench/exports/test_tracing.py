"""Torch traces models whose layers differ, some without any head, as one graph."""

from __future__ import annotations

import json

import pytest
import torch

from bench.exports.tracing import traceable
from tests.fixtures.slow import slow_cases


@pytest.fixture
def compiled():
    """Compile a model as one graph, without generating code for it; a break in the graph is an error."""
    torch._dynamo.reset()
    return lambda model: torch.compile(model, backend="eager", fullgraph=True)


@pytest.mark.parametrize("family", ["bert", *slow_cases("t5")])
@torch.no_grad()
def test_a_model_compiles_without_a_break(uneven, texts, compiled, family):
    model, inputs = uneven(family), texts(3, 5)
    if family == "t5":
        inputs["decoder_input_ids"] = inputs["input_ids"]
    torch.testing.assert_close(compiled(model)(**inputs).logits, model(**inputs).logits)


@pytest.mark.slow
@torch.no_grad()
def test_a_language_model_compiles_with_its_cache(uneven, texts, compiled):
    """The first tokens, then one more; the first layer stores nothing."""
    model, inputs = uneven("llama"), texts(2, 5)
    inputs["attention_mask"][:] = 1
    expected = model(**inputs).logits
    step, cache = compiled(model), None
    for start, end in ((0, 4), (4, 5)):
        ids, mask = inputs["input_ids"][:, start:end], inputs["attention_mask"][:, :end]
        found = step(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True)
        torch.testing.assert_close(found.logits, expected[:, start:end])
        cache = found.past_key_values


@torch.no_grad()
def test_a_traceable_copy_is_exported_for_any_number_of_texts_and_tokens(uneven, texts):
    model, free = uneven("gpt2"), {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    sizes = {"input_ids": free, "attention_mask": free, "use_cache": None}
    example = {**texts(2, 4), "use_cache": False}
    program = torch.export.export(traceable(model), (), example, dynamic_shapes=sizes, strict=False)
    for inputs in (texts(1, 7), texts(5, 3)):
        found = program.module()(**inputs, use_cache=False).logits
        torch.testing.assert_close(found, model(**inputs).logits)


# transformers is imported for the class of the outputs, which a program has by name.
TORCH_EXPORT = """
import json, torch, transformers.modeling_outputs
program = torch.export.load(sys.argv[1]).module()
for inputs in json.loads(sys.argv[2]):
    tensors = {name: torch.tensor(values) for name, values in inputs.items()}
    print(json.dumps(program(**tensors, use_cache=False).logits.tolist()))
"""


@pytest.mark.slow
@torch.no_grad()
def test_an_exported_program_runs_where_this_project_cannot_be_imported(uneven, texts, elsewhere, tmp_path):
    model, free = uneven("gpt2"), {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    sizes = {"input_ids": free, "attention_mask": free, "use_cache": None}
    example = {**texts(2, 4), "use_cache": False}
    program = torch.export.export(traceable(model), (), example, dynamic_shapes=sizes, strict=False)
    torch.export.save(program, tmp_path / "model.pt2")
    others = [texts(1, 7), texts(5, 3)]
    given = json.dumps([{name: value.tolist() for name, value in inputs.items()} for inputs in others])
    for inputs, line in zip(others, elsewhere(TORCH_EXPORT, tmp_path / "model.pt2", given).splitlines(), strict=True):
        torch.testing.assert_close(torch.tensor(json.loads(line)), model(**inputs).logits)
