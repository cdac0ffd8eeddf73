"""Finding heads and naming the units in which they go."""

from __future__ import annotations

import pytest
import torch
import transformers as t
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import prune

from methods.heads import HeadMap, UnsupportedArchitecture, gated, remove_heads
from methods.heads.finding.numbers import may_count_heads


def test_sites_and_units_of_bert(zoo):
    heads = HeadMap.of(zoo.model("bert"))
    assert len(heads) == 12 and heads.shape == (4, 4, 4)
    site = heads.sites[1]
    assert (site.name, site.kind, site.layer, site.calls) == ("bert.encoder.layer.1.attention.self", "encoder", 1, 1)
    assert (site.num_heads, site.num_key_value_heads, site.head_dim) == (4, 4, 6)
    assert heads.units[5].site == 1 and heads.units[5].heads == (1,)
    assert heads.unit_of_head(1).tolist() == [4, 5, 6, 7]
    assert heads.site_of_unit.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert repr(heads) == "HeadMap(3 encoder sites, 12 units by group, shape (4, 4, 4))"


def test_units_of_grouped_heads(zoo):
    model = zoo.model("llama-gqa")
    groups, queries = HeadMap.of(model), HeadMap.of(model, unit="query")
    assert [unit.heads for unit in groups.units[:2]] == [(0, 1), (2, 3)]
    assert [unit.heads for unit in queries.units[:2]] == [(0, 2), (1, 3)]
    assert queries.unit_of_head(2).tolist() == [4, 5, 4, 5]
    fewer = HeadMap.of(remove_heads(model, queries.mask({site.name: [1, 3] for site in queries.sites}), queries))
    assert [(site.num_heads, site.num_key_value_heads) for site in fewer.sites] == [(2, 2)] * 3


def test_tied_layers_are_one_site(zoo):
    (site,) = HeadMap.of(zoo.model("albert")).sites
    assert site.layers == (0, 1, 2) and site.calls == 3
    config = t.AlbertConfig(num_hidden_layers=4, num_hidden_groups=2, hidden_size=24, num_attention_heads=4)
    assert [site.layers for site in HeadMap.of(t.AlbertModel(config)).sites] == [(0, 1), (2, 3)]


@pytest.mark.parametrize("unit", ["group", "query"])
@given(data=st.data())
def test_kept_and_mask_are_inverse(zoo, unit, data):
    heads = HeadMap.of(zoo.model("llama-gqa"), unit)
    mask = torch.tensor(data.draw(st.lists(st.booleans(), min_size=len(heads), max_size=len(heads))))
    kept = heads.kept(mask)
    assert list(kept) == [site.name for site in heads.sites]
    assert torch.equal(heads.mask(kept), mask)


def test_what_is_no_exact_unit_is_refused(zoo):
    heads = HeadMap.of(zoo.model("llama-gqa"))
    kept = heads.kept(heads.full_mask())
    name = heads.sites[0].name
    for wrong, message in (
        ({**kept, name: [0, 1, 2]}, "part of a unit"),
        ({**kept, name: [7]}, "heads 0 to 3"),
        ({**kept, "nowhere": [0]}, "unknown sites: nowhere"),
        ({name: [0, 1]}, "missing sites"),
    ):
        with pytest.raises(ValueError, match=message):
            heads.mask(wrong)
    queries = HeadMap.of(zoo.model("llama-gqa"), unit="query")
    with pytest.raises(ValueError, match="part of a unit"):
        queries.mask({**kept, name: [0, 1]})
    for mask in (torch.ones(5, dtype=torch.bool), torch.ones(len(heads)), torch.ones(len(heads), 1, dtype=torch.bool)):
        with pytest.raises(ValueError, match="a mask must be bool of shape"):
            heads.kept(mask)
    with pytest.raises(ValueError, match="unit must be one of"):
        HeadMap.of(zoo.model("bert"), unit="head")


def test_as_many_units_are_kept_as_there_are_to_choose_from(zoo):
    heads = HeadMap.of(zoo.model("bert"))
    importance, left = torch.rand(len(heads)), torch.arange(len(heads)) < 4
    assert [int(heads.best(importance, keep).sum()) for keep in (0, 3, len(heads))] == [0, 3, len(heads)]
    assert torch.equal(heads.best(importance, 4, left), left)
    for keep, some in (len(heads) + 1, None), (5, left), (-1, None):
        with pytest.raises(ValueError, match=rf"{keep} units cannot be kept: there are \d+ to choose from"):
            heads.best(importance, keep, some)


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_weights_that_are_made_anew_for_each_pass_are_refused(zoo, name):
    """As ``torch.nn.utils.prune`` makes them: what is cut would come back at its full size."""
    model = zoo.model("bert")
    query = model.get_submodule(HeadMap.of(model).sites[0].name).query
    prune.l1_unstructured(query, name, amount=0.5)
    with pytest.raises(
        UnsupportedArchitecture, match="query is a Linear whose weight or bias is made anew for each pass"
    ):
        HeadMap.of(model)
    prune.remove(query, name)
    assert HeadMap.of(model)


def test_unknown_architectures_are_refused(zoo):
    with pytest.raises(UnsupportedArchitecture, match="Linear has no attention module"):
        HeadMap.of(nn.Linear(2, 2))
    wrapped = zoo.model("bert")
    attention = wrapped.bert.encoder.layer[1].attention.self
    attention.query = nn.Sequential(attention.query)
    with pytest.raises(UnsupportedArchitecture, match="is a Sequential"):
        HeadMap.of(wrapped)
    tied = zoo.model("bert")
    tied.bert.encoder.layer[1].attention.self.query.weight = tied.bert.encoder.layer[0].attention.self.query.weight
    with pytest.raises(UnsupportedArchitecture, match="shares one weight"):
        HeadMap.of(tied)
    extended = zoo.model("bert")
    extended.bert.encoder.layer[0].attention.self.sinks = nn.Parameter(torch.zeros(4))
    with pytest.raises(UnsupportedArchitecture, match="parameter sinks"):
        HeadMap.of(extended)


@pytest.mark.parametrize(
    ("model_type", "reason"),
    [
        ("openai-gpt", "not checked to work the same way"),
        ("big_bird", "takes band_mask"),  # sparse attention draws random blocks for each head in turn
        ("groupvit", "by the width of its input"),
        ("blt", "parameter q_norm.weight"),  # of the input, not of the queries
        ("swin", "relative_position_bias_table"),
        ("bros", "takes bbox_pos_emb"),
        ("siglip_vision_model", "looks like attention"),  # the pooling head is torch's own attention
    ],
)
def test_what_depends_on_heads_elsewhere_is_refused(model_type, reason):
    config = t.AutoConfig.for_model(model_type)
    with torch.device("meta"):
        model = t.AutoModel.from_config(config)
    with pytest.raises(UnsupportedArchitecture, match=reason) as error:
        HeadMap.of(model)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (t.BloomConfig(n_layer=1, slow_but_exact=True), "slow_but_exact set"),
        (t.CodeGenConfig(n_embd=60, n_layer=1, n_head=4, rotary_dim=4), "has heads of width 15"),
        (t.GPTBigCodeConfig(n_layer=1, multi_query=False, add_cross_attention=True), "crossattention"),
        (t.DebertaConfig(num_hidden_layers=1, talking_head=True), "parameter head_logits_proj.weight"),
    ],
    ids=lambda value: getattr(value, "model_type", ""),
)
def test_settings_that_split_heads_otherwise_are_refused(config, reason):
    with torch.device("meta"):
        model = t.AutoModel.from_config(config)
    with pytest.raises(UnsupportedArchitecture, match=reason):
        HeadMap.of(model)


@pytest.mark.parametrize("name", ["falcon", "gpt-bigcode"])
@pytest.mark.parametrize("by", ["group", "query"])
def test_query_heads_that_share_one_key_head_go_one_by_one(zoo, name, by):
    model = zoo.model(name)
    heads = HeadMap.of(model, by)
    assert [each.heads for each in heads.units[:4]] == [(0,), (1,), (2,), (3,)]
    assert {(site.num_heads, site.num_key_value_heads) for site in heads.sites} == {(4, 1)}
    mask = torch.tensor([False, True, False, False, *[False] * 4, *[True] * 4])
    fewer = HeadMap.of(remove_heads(model, mask, heads), by)
    assert [(site.num_heads, site.num_key_value_heads) for site in fewer.sites] == [(1, 1), (0, 0), (4, 1)]


@pytest.mark.parametrize("shared", [True, False])
def test_a_position_bias_made_elsewhere_is_refused(shared):
    with torch.device("meta"):
        model = t.BeitModel(
            t.BeitConfig(use_relative_position_bias=not shared, use_shared_relative_position_bias=shared)
        )
    with pytest.raises(UnsupportedArchitecture, match="relative position bias per head"):
        HeadMap.of(model)


def test_a_layer_that_cannot_run_without_heads_is_refused():
    with torch.device("meta"):
        model = t.YolosModel(t.YolosConfig())
    heads = HeadMap.of(model)
    remove_heads(model, torch.arange(len(heads)) % 2 == 0, heads)
    with pytest.raises(UnsupportedArchitecture, match="cannot run without any head"):
        remove_heads(model, heads.site_of_unit != 0, heads)


class _Numbers(nn.Module):
    """Numbers that a constructor may set in these ways."""

    def __init__(self, config, layer_id, n, window):
        super().__init__()
        heads = config.num_attention_heads
        half = heads // 2
        self.halved = half
        self.pairs: int = self.halved + 1
        self.width = config.rank
        self.looked_up = getattr(config, "num_heads", 1)
        self.unnamed = n
        self.attention_dropout = config.attention_dropout
        self.use_rope = config.no_rope_layers[layer_id]
        self.layer_id = layer_id
        self.scale = 1
        self.span = self.last = window + self.layer_id


class _MoreNumbers(_Numbers):
    def __init__(self, config):
        super().__init__(config, 0, 1, 2)
        self.scale += config.hidden_size


@pytest.mark.parametrize("name", ["attention_dropout", "use_rope", "layer_id", "scale", "span", "last"])
def test_numbers_set_from_other_things_than_heads(name):
    assert not may_count_heads(_Numbers.__mro__, name)
    assert may_count_heads(_MoreNumbers.__mro__, name) == (name == "scale")


@pytest.mark.parametrize("name", ["halved", "pairs", "looked_up", "unnamed", "set_elsewhere"])
def test_numbers_that_may_count_heads(name):
    assert may_count_heads(_Numbers.__mro__, name)


SMALL = {
    "vocab_size": 40,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 20,
    "head_dim": 6,
    "pad_token_id": 0,
}


@pytest.mark.parametrize(
    "config",
    [
        t.LlamaConfig(attention_dropout=0, **SMALL),
        t.SmolLM3Config(**SMALL),
        t.GPTJConfig(vocab_size=40, n_embd=24, n_layer=2, n_head=4, rotary_dim=4, bos_token_id=1, eos_token_id=2),
        t.Llama4TextConfig(intermediate_size_mlp=20, num_local_experts=2, **SMALL),
        t.GPTNeoConfig(
            vocab_size=40, hidden_size=24, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]]
        ),
    ],
    ids=lambda config: config.model_type,
)
def test_flags_and_places_are_no_counts(config):
    torch.manual_seed(0)
    model = t.AutoModelForCausalLM.from_config(config).eval()
    heads = HeadMap.of(model)
    ids = torch.randint(3, 40, (2, 9))
    mask = torch.arange(len(heads)) % 2 == 0
    with torch.no_grad():
        with gated(model, mask, heads):
            expected = model(ids).logits
        torch.testing.assert_close(remove_heads(model, mask, heads)(ids).logits, expected, rtol=1e-4, atol=1e-5)


def test_cross_attention_that_never_runs_has_no_units():
    sizes = {"d_model": 24, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 20, "vocab_size": 40}
    with torch.device("meta"):
        alone = t.BartForCausalLM(t.BartConfig(**sizes))
        fed = t.BartForCausalLM(t.BartConfig(add_cross_attention=True, **sizes))
    assert {site.kind for site in HeadMap.of(alone).sites} == {"decoder"}
    assert {site.kind for site in HeadMap.of(fed).sites} == {"decoder", "cross"}
    assert HeadMap.of(remove_heads(alone, torch.arange(8) != 0)).shape == (3, 4)
