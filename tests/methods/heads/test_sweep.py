"""The file of all model types, its documentation, and the way in which they are tried."""

from __future__ import annotations

import os
import random
import re
import time
from dataclasses import replace

import pytest
import transformers as t

from methods.heads import HeadMap
from tests.methods.heads import sweep
from tests.methods.heads.model_types import PAGE, WELL_KNOWN, Result, documented, read, section, write
from tests.methods.heads.small_models import build, model_types, randomize

SAMPLE = 24


def test_the_documentation_says_what_the_file_says():
    assert documented(PAGE.read_text(encoding="utf-8")) == section(*read())


def test_nothing_in_the_file_is_wrong():
    version, results = read()
    assert not [each for each in results if each.reason.startswith("WRONG")]
    if version == t.__version__:
        assert [each.model_type for each in results] == model_types()


# Of the well-known ones, those that are refused or were not built. Whatever leaves the list of supported ones must be
# added here by hand.
NOT_SUPPORTED = (
    "big_bird xlnet squeezebert convbert funnel ibert luke lilt pegasus_x bigbird_pegasus prophetnet fsmt "
    "openai-gpt ctrl gemma3n deepseek_v4 dbrx glm_moe_dsa jetmoe bitnet zamba2"
)


def test_which_well_known_models_are_not_supported():
    """MiniLM and other sentence encoders are bert, TinyLlama is llama, FLAN-T5 t5, NLLB m2m_100 and Phi 4 phi3."""
    exact = {each.model_type for each in read()[1] if each.status == "exact"}
    assert {name for names in WELL_KNOWN.values() for name in names.split()} - exact == set(NOT_SUPPORTED.split())


def test_each_well_known_model_is_listed_with_the_reason_where_it_is_not_supported():
    version, results = read()
    names = " ".join(WELL_KNOWN.values()).split()
    assert len(names) == len(set(names))
    listed = " ".join(section(version, results).split("### Supported")[0].split())
    supported, others = listed.split("These well-known types are not supported as they are by default:")
    for name in names:
        said = re.findall(rf"(?<![\w-]){re.escape(name)} \((refused|not built): [^)]+\)", others)
        assert len(said) == (name in NOT_SUPPORTED.split())
        assert bool(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", supported)) != bool(said)


def test_no_line_of_the_documentation_is_long():
    assert max(map(len, section(*read()).splitlines())) <= 120


def test_a_file_is_read_as_it_was_written(tmp_path):
    results = [Result("a", "exact", "A", 2, 8, 1, "visual audio", 'x, "y"'), Result("b", "not built", reason="z")]
    write("5.0", results, tmp_path / "file.csv")
    assert read(tmp_path / "file.csv") == ("5.0", results)


def test_removing_other_heads_than_are_gated_is_found(monkeypatch):
    model = build("bert", narrow=True)
    randomize(model)
    heads = HeadMap.of(model)
    assert sweep.check_exact(model, heads) == ""
    right = sweep.remove_heads
    monkeypatch.setattr(sweep, "remove_heads", lambda model, mask, heads: right(model, mask.roll(1), heads))
    with pytest.raises(AssertionError, match="WRONG: some"):
        sweep.check_exact(model, heads)


@pytest.mark.parametrize(
    ("model_type", "status", "reason"),
    [("llama", "exact", ""), ("convnext", "refused", "has no attention"), ("timm_backbone", "not built", "timm")],
)
def test_each_is_tried_in_a_process_of_its_own(model_type, status, reason):
    found = sweep.try_apart(model_type)
    assert found.status == status and reason in found.reason


def test_one_that_takes_too_long_or_dies_is_not_built(monkeypatch):
    monkeypatch.setattr(sweep, "SECONDS", 1)
    monkeypatch.setattr(sweep, "try_type", lambda model_type: time.sleep(20) if model_type == "slow" else os._exit(1))
    assert sweep.try_apart("slow").reason == "takes more than 1 seconds"
    assert sweep.try_apart("dies").reason == "takes too much memory, or ends its process"


@pytest.mark.slow
def test_a_sample_of_the_file_is_current():
    version, results = read()
    if version != t.__version__:
        pytest.skip(f"the file is about transformers {version}")
    for expected in random.Random(0).sample(results, SAMPLE):
        found = sweep.try_apart(expected.model_type)
        assert replace(found, reason="") == replace(expected, reason="")  # reasons name what else is known
