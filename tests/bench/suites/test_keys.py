"""The part of a key that belongs to a model: what was found in it, and the code that its peculiarities need."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from functools import cache

import pytest
import torch
import transformers as t
from torch import nn

from bench.suites import keys
from bench.suites.keys import FINDING, heads_part, modules_of, shared_code
from bench.suites.plugins import load_plugins
from methods import METHODS
from methods.heads import HeadMap
from methods.heads.finding import match, verify
from methods.heads.finding.layout import Layout, UnsupportedArchitecture
from methods.heads.mechanisms import every
from methods.heads.mechanisms.mechanism import Mechanism
from methods.heads.orders import every as orders
from tasks import digest
from tasks.contract import TASKS
from tasks.digest import digest_of, digest_of_source, modules_below, source_of
from tasks.request import TaskSpec
from tasks.same_results import ENTRIES
from tests.fixtures.slow import slow_cases

SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 8}
T5 = {"vocab_size": 40, "d_model": 16, "d_kv": 4, "d_ff": 8, "num_layers": 2, "num_heads": 4}
MODELS = {
    "bert": lambda: t.BertModel(t.BertConfig(**SIZES)),
    "llama": lambda: t.LlamaModel(t.LlamaConfig(**SIZES, num_key_value_heads=2)),
    "olmo2": lambda: t.Olmo2Model(t.Olmo2Config(**SIZES)),
    "phi3": lambda: t.Phi3Model(t.Phi3Config(**SIZES, pad_token_id=0)),
    "gpt-neox": lambda: t.GPTNeoXModel(t.GPTNeoXConfig(**SIZES)),
    "t5": lambda: t.T5EncoderModel(t.T5Config(**T5)),
    "longformer": lambda: t.LongformerModel(t.LongformerConfig(**SIZES, attention_window=4)),
    "bloom": lambda: t.BloomModel(t.BloomConfig(vocab_size=40, hidden_size=16, n_layer=2, n_head=4)),
    "codegen": lambda: t.CodeGenModel(t.CodeGenConfig(vocab_size=40, n_embd=16, n_layer=2, n_head=4, rotary_dim=4)),
}
ORDINARY = ("bert", "llama")


@cache
def model_of(family: str) -> nn.Module:
    with torch.device("meta"):
        return MODELS[family]()


def key_of(model: nn.Module, heads: HeadMap | None = None) -> str:
    """All that a key has of the model's heads."""
    return digest_of([shared_code(), heads_part(model, HeadMap.of(model) if heads is None else heads)])


@pytest.fixture
def changed(monkeypatch):
    """Change the code of modules, as far as digests see it."""
    read = digest.source_of

    def change(*modules: str) -> None:
        digest_of_source.cache_clear()
        shared_code.cache_clear()
        how = lambda asked: read(asked) + ("\nNEW = 1\n" if asked in modules else "")  # noqa: E731
        monkeypatch.setattr(digest, "source_of", how)

    yield change
    digest_of_source.cache_clear()
    shared_code.cache_clear()


def test_code_that_gives_the_results_of_earlier_code_is_the_present_one():
    """Else the entry is one of code that has changed again, and must go."""
    load_plugins()
    training = "tasks.models.train", "tasks.data.calibration", "tasks.seeds"  # of a model that is given
    asked = {shared_code(), digest.digest_of_source(*training), digest.digest_of_source(training[0])}
    modules = {each.function.__module__ for each in METHODS.values()} | {"methods.recovery.choosing"}
    asked |= {digest.digest_of_source(*modules_of(each)) for each in modules}
    for name in ("classification", "harness", "translation"):
        asked |= set(re.findall("[0-9a-f]{64}", repr(TASKS[name](TaskSpec(task=name)).fingerprints(0))))
    assert [each.code for each in ENTRIES if each.then not in asked] == []


def test_code_that_divides_examples_or_scores_endings_is_in_keys(changed):
    load_plugins()
    task = TASKS["harness"](TaskSpec(task="harness"))
    before = shared_code(), task.fingerprints(0)
    changed("tasks.models.seeded")
    assert shared_code() != before[0]
    changed("tasks.harness.endings")
    assert task.fingerprints(0) != before[1]


OWN = """
from methods import scorer
from methods.magnitude import magnitude

@scorer("own", source="test")
def own(view):
    return -magnitude(view)
"""


def test_a_method_of_another_package_has_the_code_of_this_one_that_it_uses_in_its_key(plugin):
    plugin(OWN)
    module = METHODS["own"].function.__module__
    assert module.startswith("third_party_")
    assert set(modules_of(module)) == {module, *modules_of("methods.magnitude")}


@pytest.mark.parametrize("family", MODELS)
def test_what_was_found_is_plain_data_and_the_same_each_time(family):
    first, second = (HeadMap.of(model_of(family)).description for _ in range(2))
    assert first == second
    assert json.loads(json.dumps(first))["units"] == first["units"]


@pytest.mark.parametrize("family", ORDINARY)
def test_a_new_layout_changes_no_key_of_other_models(monkeypatch, changed, family):
    before = key_of(model_of(family))
    new = Layout("new_q", "new_k", "new_v", "new_o", needs_heads=True)
    wider = [replace(each, arguments=(*each.arguments, "new")) for each in match.LAYOUTS]
    monkeypatch.setattr(match, "LAYOUTS", (new, *wider))
    changed("methods.heads.finding.layouts", "methods.heads.finding.layout")
    assert key_of(model_of(family)) == before


@pytest.mark.parametrize("family", ORDINARY)
def test_a_new_mechanism_or_order_changes_no_key_of_models_without_it(monkeypatch, changed, family):
    class New(Mechanism):
        __module__ = "methods.heads.mechanisms.new"

        def applies(self, site):
            return site.layout.query == "new_q"

    before = key_of(model_of(family))
    monkeypatch.setattr(every, "MECHANISMS", (*every.MECHANISMS, New()))
    new = ["methods.heads.mechanisms.new", "methods.heads.orders.new"]  # a digest of these would raise an error
    monkeypatch.setattr(keys, "modules_below", lambda package: [*modules_below(package), *new])
    changed("methods.heads.mechanisms.every", "methods.heads.orders.every")
    assert key_of(model_of(family)) == before


@pytest.mark.parametrize("family", ORDINARY)
def test_a_new_refusal_changes_no_key_of_models_that_are_not_refused(monkeypatch, changed, family):
    before = key_of(model_of(family))
    monkeypatch.setattr(verify, "ARGUMENTS", verify.ARGUMENTS - {"layer_past"})
    changed("methods.heads.finding.verify", "methods.heads.finding.numbers", "methods.heads.finding.match")
    with pytest.raises(UnsupportedArchitecture):
        HeadMap.of(model_of("codegen"))
    assert key_of(model_of(family)) == before


@pytest.mark.parametrize(
    ("module", "users"),
    [
        ("methods.heads.mechanisms.wide_norms", {"olmo2"}),
        ("methods.heads.mechanisms.position_bias", {"t5"}),
        ("methods.heads.mechanisms.quarters", {"codegen"}),
        ("methods.heads.orders.groups", {"bloom", "gpt-neox"}),
        ("methods.heads.mechanisms.mechanism", set(MODELS)),
        ("methods.heads.incremental.restart", set(MODELS)),
        *slow_cases(
            ("methods.heads.mechanisms.own_config", {"phi3"}),
            ("methods.heads.mechanisms.input_width", {"longformer"}),
            ("methods.heads.mechanisms.parameters", {"longformer"}),
            ("methods.heads.mechanisms.arguments", {"bloom"}),
            ("methods.heads.orders.quarters", {"codegen"}),
            ("methods.heads.orders.fused", set(MODELS)),
            ("methods.heads.surgery.head_counts", set(MODELS)),
        ),
    ],
)
def test_code_changes_the_keys_of_the_models_that_it_is_run_on(changed, module, users):
    before = {family: key_of(model_of(family)) for family in MODELS}
    changed(module)
    assert {family for family in MODELS if key_of(model_of(family)) != before[family]} == users


def test_another_map_is_another_key():
    model = model_of("llama")
    heads = HeadMap.of(model)
    site = heads.sites[0]
    others = [
        HeadMap.of(model, "query"),
        replace(heads, units=heads.units[1:]),
        replace(heads, left_alone={"vision_tower": "has no layout"}),
        *(
            replace(heads, sites=(replace(site, **other), *heads.sites[1:]))
            for other in (
                {"head_dim": 8},
                {"widths": {**site.widths, "key": 8}},
                {"num_heads": 8},
                {"kind": "encoder"},
                {"name": "other"},
                {"never_empty": True},
                {"replaced": True},
                {"counts": {}},
                {"layout": replace(site.layout, order="groups")},
                {"layout": replace(site.layout, time_first=True)},
            )
        ),
    ]
    assert len({key_of(model, each) for each in (heads, *others)}) == 1 + len(others)


def test_wider_feed_forward_layers_are_another_key():
    with torch.device("meta"):
        wider = t.LlamaModel(t.LlamaConfig(**{**SIZES, "intermediate_size": 12}, num_key_value_heads=2))
    assert HeadMap.of(wider).description == HeadMap.of(model_of("llama")).description
    assert key_of(wider) != key_of(model_of("llama"))


def test_every_mechanism_and_order_can_be_in_a_key():
    """A file that is in no list would be in no key."""
    listed = {type(mechanism).__module__ for mechanism in every.MECHANISMS}
    listed |= {order.__module__ for order in orders.ORDERS.values()}
    files = {*modules_below("methods.heads.mechanisms"), *modules_below("methods.heads.orders")}
    assert {name for name in files if not name.endswith(".every")} == listed | set(keys.ALWAYS_USED)


def test_what_is_in_no_description_is_read_by_code_that_finds_alone():
    """Code that is in a key goes by what the description has: no other field of a layout, no function that finds."""
    assert modules_below("methods.heads.finding") and set(modules_below("methods.heads.finding")) > FINDING
    kinds = {"Layout", "Site", "Unit", "Mlp", "UnsupportedArchitecture"}
    whole = {"find_sites", "survey", "find_mlps", "heads_of_units"}  # give the map, or the neurons
    for module in {*modules_below("methods")} - FINDING:
        for node in ast.walk(ast.parse(source_of(module))):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("layout"):
                assert node.attr not in Layout.FOR_FINDING, f"{module} reads {node.attr}"
            if isinstance(node, ast.ImportFrom) and node.module in FINDING:
                names = {alias.name for alias in node.names}
                assert names <= kinds | whole | {"UNITS", "check_names"}, f"{module} imports {names}"


def test_source_is_read_in_its_own_encoding(tmp_path, monkeypatch):
    """As Python reads it."""
    code = "name = 'é'\n"
    for name, content in {
        "plain_source": code.encode(),
        "source_with_a_mark": code.encode("utf-8-sig"),
        "source_of_latin_1": ("# coding: latin-1\n" + code).encode("latin-1"),
    }.items():
        (tmp_path / f"{name}.py").write_bytes(content)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert len({digest_of_source(name) for name in ("plain_source", "source_with_a_mark", "source_of_latin_1")}) == 1
