"""Generation with a cache of keys and values must work on smaller decoders."""

from __future__ import annotations

import pytest
import torch
import transformers as t

from methods.heads import HeadMap, gated, remove_heads, restarting
from tests.fixtures.slow import slow_cases
from tests.methods.heads.conftest import each

SIZES = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 20, "vocab_size": 40}
TOKENS = {"pad_token_id": 0, "bos_token_id": None, "eos_token_id": None}
ROPE_ON_4_OF_6 = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.7}
DECODERS = {
    "gpt2": (t.GPT2Config, t.GPT2LMHeadModel, {"n_positions": 32}),
    "gpt-neox": (t.GPTNeoXConfig, t.GPTNeoXForCausalLM, {}),
    "gptj": (t.GPTJConfig, t.GPTJForCausalLM, {"rotary_dim": 4, "n_positions": 32}),
    "codegen": (t.CodeGenConfig, t.CodeGenForCausalLM, {"hidden_size": 32, "rotary_dim": 4, "n_positions": 32}),
    "gpt-bigcode": (t.GPTBigCodeConfig, t.GPTBigCodeForCausalLM, {"n_positions": 32}),
    "falcon": (t.FalconConfig, t.FalconForCausalLM, {}),
    "falcon-alibi": (t.FalconConfig, t.FalconForCausalLM, {"alibi": True, "multi_query": False}),
    "bloom": (t.BloomConfig, t.BloomForCausalLM, {}),
    "opt": (t.OPTConfig, t.OPTForCausalLM, {"ffn_dim": 20, "word_embed_proj_dim": 24, "max_position_embeddings": 32}),
    "phi": (t.PhiConfig, t.PhiForCausalLM, {"num_key_value_heads": 2, "rope_parameters": ROPE_ON_4_OF_6}),
    "phi3": (t.Phi3Config, t.Phi3ForCausalLM, {"num_key_value_heads": 2}),
    "llama": (t.LlamaConfig, t.LlamaForCausalLM, {"num_key_value_heads": 2}),
    "mistral": (t.MistralConfig, t.MistralForCausalLM, {"num_key_value_heads": 2, "head_dim": 6, "sliding_window": 5}),
    "qwen2": (t.Qwen2Config, t.Qwen2ForCausalLM, {"num_key_value_heads": 2}),
    "qwen3": (t.Qwen3Config, t.Qwen3ForCausalLM, {"num_key_value_heads": 2, "head_dim": 6}),
    "gemma2": (t.Gemma2Config, t.Gemma2ForCausalLM, {"num_key_value_heads": 2, "head_dim": 6, "sliding_window": 5}),
}


GENERATING = (*DECODERS, "bart", "marian", "t5", "mt5", "umt5", "switch")
# Those whose positions and caches are not those of another one.
OWN_CACHES = {
    "gpt2",
    "gpt-bigcode",
    "falcon",
    "bloom",
    "llama",
    "gemma2",
    "bart",
    "t5",
}


def _decoder(name):
    config_class, model_class, own = DECODERS[name]
    return model_class(config_class(**{**SIZES, **TOKENS, **own}))


@pytest.mark.parametrize("beams", [*slow_cases(1), 2])
@pytest.mark.parametrize("name", each(GENERATING, OWN_CACHES))
def test_generation_with_a_cache(zoo, name, beams):
    torch.manual_seed(0)
    model = (_decoder(name) if name in DECODERS else zoo.model(name)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.2)
    padding = "left" if name in DECODERS else "right"
    batch = {key: values for key, values in zoo.batch(name, padding).items() if key != "decoder_input_ids"}
    heads = HeadMap.of(model)
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "num_beams": beams}
    for what, mask in zoo.masks(heads).items():
        smaller = remove_heads(model, mask)
        cached = smaller.generate(**batch, **options)
        assert torch.equal(cached, smaller.generate(**batch, **options, use_cache=False)), what
        with gated(model, mask):
            assert torch.equal(cached, model.generate(**batch, **options, use_cache=False)), what


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("name", DECODERS)
@torch.no_grad()
def test_generation_while_passes_restart(zoo, name, told):
    """With padding before the text, which ``generate`` prepares for as the model's own signature tells it to."""
    torch.manual_seed(0)
    model, batch = _decoder(name).eval(), zoo.batch(name, "left")
    for parameter in model.parameters():
        parameter.normal_(std=0.2)
    options = {"max_new_tokens": 6, "do_sample": False} | ({"attention_mask": batch["attention_mask"]} if told else {})
    expected = model.generate(batch["input_ids"], **options)
    with restarting(model, HeadMap.of(model)):
        for _ in range(2):
            assert torch.equal(model.generate(batch["input_ids"], **options), expected)


def test_whisper_times_words_by_the_same_heads_as_before():
    """The settings of generation name heads of cross attention by their places."""
    config = t.WhisperConfig(
        vocab_size=50, d_model=16, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=16, decoder_ffn_dim=16, num_mel_bins=8, max_source_positions=12,
        max_target_positions=20, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3,
    )  # fmt: skip
    model = t.WhisperForConditionalGeneration(config).eval()
    model.generation_config.alignment_heads = [[0, 1], [1, 0], [1, 2], [1, 3]]
    heads = HeadMap.of(model)
    cross = [index for index, site in enumerate(heads.sites) if site.kind == "cross"]
    mask = heads.full_mask()
    (units,) = (heads.site_of_unit == cross[1]).nonzero(as_tuple=True)
    mask[units[[0, 3]]] = False
    smaller = remove_heads(model, mask, heads)
    assert smaller.generation_config.alignment_heads == [[0, 1], [1, 1]]  # heads 0 and 3 of the second are gone
    assert model.generation_config.alignment_heads == [[0, 1], [1, 0], [1, 2], [1, 3]]
