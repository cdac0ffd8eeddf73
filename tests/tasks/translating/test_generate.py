"""A translation is the same however it is computed: alone or in a batch, with a cache or without."""

from __future__ import annotations

import pytest
import torch
import transformers as t

from tasks.translating.generate import MORE, PER_TOKEN, cache_that_fits, translate
from tasks.translating.languages import Languages
from tasks.translating.pairs import batches
from tasks.translating.seq2seq import encode
from tests.fixtures.translation import POSITIONS, dataset


@pytest.fixture(scope="module")
def examples():
    return sorted(dataset().test, key=lambda example: len(example.texts[0]))[:100:20]


@pytest.fixture(scope="module")
def model(tiny_marian):
    return t.MarianMTModel.from_pretrained(tiny_marian).eval()


@pytest.fixture(scope="module")
def tokenizer(tiny_marian):
    return t.AutoTokenizer.from_pretrained(tiny_marian)


@pytest.fixture
def translated(model, tokenizer, examples):
    """Translations in batches of ``size``."""
    pairs = encode(examples, tokenizer, model, Languages(), POSITIONS)

    def run(size: int, **settings) -> list[str]:
        found = translate(
            model,
            tokenizer,
            batches(pairs, tokenizer, size, "cpu"),
            longest=POSITIONS,
            languages=Languages(),
            **settings,
        )
        return [found[index] for index in range(len(pairs))]

    return run


@pytest.mark.parametrize("beams", [1, 3])
def test_alone_as_in_a_batch(translated, beams, examples):
    together = translated(len(examples), beams=beams)
    assert translated(1, beams=beams) == together
    assert len(set(together)) > 1


def test_with_a_cache_as_without(translated, model, monkeypatch):
    cached = translated(2)
    generate = model.generate
    monkeypatch.setattr(model, "generate", lambda **given: generate(**given | {"use_cache": False}))
    assert translated(2) == cached


@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize(
    "own",
    [
        {"num_return_sequences": 2, "num_beams": 4},
        {"low_memory": True},
        {"is_assistant": True},
        {"num_return_sequences": 3, "do_sample": True},
        {"return_dict_in_generate": True, "output_scores": True},
        {"stop_strings": ["the"]},
        {"prompt_lookup_num_tokens": 3},
        {"penalty_alpha": 0.6, "top_k": 4},
        {"max_time": 1e-9},
        {"num_beam_groups": 2, "diversity_penalty": 0.5},
        {"force_words_ids": [[5]]},
        {"token_healing": True},
        {"guidance_scale": 2.0},
        {"dola_layers": "low"},
    ],
    ids=lambda own: next(iter(own)),
)
def test_of_the_models_own_settings_those_that_end_or_change_every_translation_are_unset(
    translated, model, monkeypatch, beams, own
):
    expected = translated(2, beams=beams)
    for name, value in own.items():
        monkeypatch.setattr(model.generation_config, name, value, raising=False)
    assert translated(2, beams=beams) == expected


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("layers", [1, 2, 4])
def test_a_decoder_may_have_more_layers_than_its_encoder(beams, layers):
    torch.manual_seed(0)
    sizes = {"vocab_size": 40, "d_model": 16, "d_kv": 4, "d_ff": 8, "num_heads": 4, "num_layers": 2}
    config = t.T5Config(**sizes, num_decoder_layers=layers, decoder_start_token_id=0, initializer_factor=5.0)
    model = t.T5ForConditionalGeneration(config).eval()
    settings = {"input_ids": torch.randint(2, 40, (3, 7)), "max_new_tokens": 9, "num_beams": beams}
    found = model.generate(**settings, **cache_that_fits(model))
    assert torch.equal(found, model.generate(**settings, use_cache=False))
    assert len(set(map(str, found))) > 1


def test_greedy_translations_are_those_of_the_likeliest_tokens_one_by_one(translated, model, tokenizer, examples):
    for example, text in zip(examples, translated(3), strict=True):
        (pair,) = encode([example], tokenizer, model, Languages(), POSITIONS)
        source, ids = torch.tensor([pair.source]), [model.config.decoder_start_token_id]
        for _ in range(min(PER_TOKEN * len(pair.source) + MORE, POSITIONS - 1)):
            with torch.no_grad():
                logits = model(input_ids=source, decoder_input_ids=torch.tensor([ids])).logits[0, -1]
            logits[model.config.pad_token_id] = -torch.inf  # as Marian's own generation has it
            ids.append(int(logits.argmax()))
            if ids[-1] == tokenizer.eos_token_id:
                break
        assert text == " ".join(tokenizer.decode(ids, skip_special_tokens=True).split())
