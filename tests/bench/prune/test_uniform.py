"""The same number of heads in every layer: what transformers alone loads, and what is refused."""

from __future__ import annotations

import json
import re

import pytest
import torch
import transformers
from transformers import AutoTokenizer, LlamaConfig, LlamaForSequenceClassification
from transformers.integrations.heterogeneity.configuration_utils import AmbiguousGlobalPerLayerAttributeError

from bench.prune.uniform import check_expressible, even_units_to_keep
from bench.records.errors import InputError
from methods.heads import HeadMap, load_pruned, remove_neurons

STOCK = """
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
model, tokenizer = (kind.from_pretrained(sys.argv[1]) for kind in (AutoModelForSequenceClassification, AutoTokenizer))
with torch.no_grad():
    texts = tokenizer(["good film", "a very bad book"], padding=True, return_tensors="pt")
    print(model.eval()(**texts).logits.tolist())
"""


@pytest.mark.parametrize("unit", ["group", "query"])
@pytest.mark.slow
def test_transformers_alone_loads_the_checkpoint(prune, tiny_qwen, tmp_path, elsewhere, capsys, unit):
    flags = ("--method", "magnitude", "--keep", "0.5", "--uniform", "--unit", unit)
    assert prune(*flags, model=tiny_qwen) == 0
    folder = tmp_path / "small"
    config = json.loads((folder / "config.json").read_text())
    assert (config["num_attention_heads"], config["num_key_value_heads"]) == ((2, 1) if unit == "group" else (2, 2))
    assert config["head_dim"] == 8
    texts = AutoTokenizer.from_pretrained(folder)(["good film", "a very bad book"], padding=True, return_tensors="pt")
    with torch.no_grad():
        ours = load_pruned(folder)(**texts).logits
    torch.testing.assert_close(torch.tensor(json.loads(elsewhere(STOCK, folder))), ours)
    printed = capsys.readouterr().out
    assert "Every attention module keeps 2 heads." in printed and "by `magnitude:allocation=layer`" in printed


def test_the_loss_against_the_free_choice_is_that_of_two_prunings(prune, tiny_qwen, tmp_path):
    def accuracies(out: str) -> tuple[float, str]:
        card = (tmp_path / out / "README.md").read_text()
        return float(re.search(r"accuracy \(%\) *\| +[\d.]+ +\| +([\d.]+)", card)[1]), card

    method = ("--method", "magnitude", "--keep", "2")
    assert prune(*method, model=tiny_qwen, out="free") == 0
    assert prune(*method, "--uniform", model=tiny_qwen) == 0
    assert "self_attn: 0 of 4" in (tmp_path / "free" / "README.md").read_text()
    (free, _), (even, card) = accuracies("free"), accuracies("small")
    found = re.search(r"the accuracy is ([\d.]+) %: .* difference of ([-+.\d]+) points", card)
    assert float(found[1]) == free
    assert float(found[2]) == pytest.approx(even - free, abs=0.1001)  # of rounded numbers


def test_what_the_configuration_cannot_say_is_refused_before_anything_is_scored(prune, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("bench.prune.prune.evaluate_model", None)
    assert prune("--method", "magnitude", "--keep", "0.5", "--uniform") == 2
    said = capsys.readouterr().err
    assert "the configuration of BertForSequenceClassification has no place for" in said and said.count("\n") == 1
    assert "load_pruned" in said and not (tmp_path / "small").exists()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--method", "voita", "--keep", "0.5"), "voita itself decides how many heads each layer keeps"),
        (("--method", "michel", "--keep", "3"), "a multiple of the 2 attention modules, such as 2 or 4"),
        (("--method", "michel", "--keep", "1"), "a multiple of the 2 attention modules, such as 2"),
        (("--method", "michel", "--keep", "7"), "a multiple of the 2 attention modules, such as 6 or 8"),
        (("--method", "michel", "--keep", "9"), "--keep 9: expected a share"),
        (("--method", "michel:allocation=global", "--keep", "4"), "leave allocation=global out"),
    ],
)
def test_bad_input_is_one_line(prune, tmp_path, capsys, flags, said):
    assert prune(*flags, "--uniform") == 2
    complaint = capsys.readouterr().err
    assert said in complaint and complaint.count("\n") == 1 and not (tmp_path / "small").exists()


def llama(heads: int) -> LlamaForSequenceClassification:
    sizes = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 3, "intermediate_size": 20}
    return LlamaForSequenceClassification(LlamaConfig(**sizes, num_attention_heads=heads))


def test_the_numbers_that_a_configuration_can_say_are_named():
    """Llama requires its width, 32, to be a multiple of its heads."""
    model = llama(8)
    heads = HeadMap.of(model)
    check_expressible(model, heads, 3 * 4)
    for wanted in (0, 5):
        with pytest.raises(InputError, match=rf"cannot say {wanted} units .* of 8 it can say 1, 2, 4"):
            check_expressible(model, heads, 3 * wanted)


@pytest.mark.parametrize(("text", "kept"), [("0.5", 6), ("60%", 6), ("1.0", 12), ("9", 9), ("0.0", 0)])
def test_a_share_is_taken_of_each_module(text, kept):
    assert even_units_to_keep(text, HeadMap.of(llama(4))) == kept


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Qwen3", "Gemma2", "Bert"])
def test_transformers_builds_no_model_whose_layers_have_numbers_of_their_own(name):
    """When it does, uneven checkpoints can say what they are in ``per_layer_config``."""
    sizes = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 3, "intermediate_size": 20}
    fewer = {"num_attention_heads": 2} if name == "Bert" else {"num_attention_heads": 2, "num_key_value_heads": 2}
    more = dict.fromkeys(fewer, 4)
    config, model = (getattr(transformers, f"{name}{part}") for part in ("Config", "Model"))
    model(config(**sizes, **more))
    with pytest.raises(AmbiguousGlobalPerLayerAttributeError, match="num_attention_heads"):
        model(config(**sizes, **more, per_layer_config={1: fewer}))


def test_a_checkpoint_that_no_configuration_describes_is_refused_though_nothing_goes():
    model = remove_neurons(llama(8), {f"model.layers.{layer}.mlp": range(20 - layer) for layer in range(3)})
    for keep in (24, 12):
        with pytest.raises(InputError, match="no place for the numbers of heads and neurons that its layers have"):
            check_expressible(model, HeadMap.of(model), keep)


@pytest.mark.parametrize(
    ("heads", "keep", "said"),
    [
        (4, "1.5", "from 0 to 12"),
        (4, "4", "such as 3 or 6$"),
        (1, "1", "such as 3$"),
        (4, "0.1", "less than half of one of 4 units"),
    ],
)
def test_numbers_that_cannot_be_kept_are_told_with_those_that_can(heads, keep, said):
    with pytest.raises(InputError, match=said):
        even_units_to_keep(keep, HeadMap.of(llama(heads)))


def test_neurons_alone_are_removed_where_heads_could_not_be(prune, tmp_path):
    flags = ("--method", "amp-mlp", "--keep", "0.5", "--uniform")
    assert prune(*flags) == 0
    card = (tmp_path / "small" / "README.md").read_text()
    assert "Load it" in card and "chosen freely" not in card
    config = json.loads((tmp_path / "small" / "config.json").read_text())
    smaller = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "small")
    assert config["intermediate_size"] == smaller.config.intermediate_size
