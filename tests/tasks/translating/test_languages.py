"""What models must be told of languages, and which codes are refused."""

from __future__ import annotations

import json

import pytest
import torch
import transformers as t
from tokenizers import Tokenizer, models

from tasks.data.dataset import Example
from tasks.errors import TaskError
from tasks.request import TaskSpec
from tasks.translating.generate import translate
from tasks.translating.languages import Languages, remarks, set_languages
from tasks.translating.pairs import batches
from tasks.translating.seq2seq import encode
from tasks.translation import Translation
from tests.fixtures.translation import FAMILIES, save_family
from tests.fixtures.translation import tokenizer as own_tokenizer

CODES = ("eng_Latn", "fra_Latn", "deu_Latn")


def plain(*tokens: str) -> t.PreTrainedTokenizerFast:
    vocabulary = {token: place for place, token in enumerate(("<pad>", "</s>", "<unk>", *tokens))}
    return t.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>")),
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
    )


def nllb() -> t.NllbTokenizer:
    vocabulary = {token: place for place, token in enumerate(("<s>", "<pad>", "</s>", "<unk>", "▁a", "▁b"))}
    return t.NllbTokenizer(vocab=vocabulary, merges=[], extra_special_tokens=list(CODES))


def test_a_tokenizer_with_languages_marks_both_sides_and_the_first_token_is_forced():
    tokenizer = nllb()
    found = set_languages(tokenizer, t.M2M100Config(), ("fra_Latn", "deu_Latn"), "nllb")
    french, german = (tokenizer.convert_tokens_to_ids(code) for code in ("fra_Latn", "deu_Latn"))
    assert found == Languages(forced_bos_token_id=german)
    model = FAMILIES["m2m100"]()
    (pair,) = encode([Example(("a", "b"), 0)], tokenizer, model, found, 10)
    assert pair.source[0] == french and pair.target[0] == german
    assert pair.decoder == [model.config.decoder_start_token_id, *pair.target[:-1]]


@pytest.mark.parametrize("first", [True, False])
def test_mbart_begins_with_the_language_or_forces_it_where_its_targets_begin_with_it(first):
    kind = t.MBart50Tokenizer if first else t.MBartTokenizer
    tokenizer = kind(vocab=[(token, -1.0) for token in ("<s>", "<pad>", "</s>", "<unk>", "▁a", "▁b")])
    found = set_languages(tokenizer, t.MBartConfig(), ("en_XX", "de_DE"), "mbart")
    english, german = tokenizer.convert_tokens_to_ids(["en_XX", "de_DE"])
    assert found == (Languages(forced_bos_token_id=german) if first else Languages(decoder_start_token_id=german))
    (pair,) = encode([Example(("a", "b"), 0)], tokenizer, FAMILIES["mbart"](), found, 10)
    assert english in pair.source and german not in pair.source and german in pair.target
    assert pair.decoder[0] == (tokenizer.eos_token_id if first else german)


def test_m2m100_has_its_codes_between_underscores(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    (tmp_path / "texts").write_text("\n".join(f"{number} grams of it" for number in range(500)))
    prefix = tmp_path / "pieces"
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "texts"), model_prefix=str(prefix), vocab_size=40, minloglevel=2
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    special = ("<s>", "<pad>", "</s>", "<unk>")
    vocabulary = [*special, *(piece for i in range(40) if (piece := pieces.id_to_piece(i)) not in special)]
    (tmp_path / "vocab.json").write_text(json.dumps({piece: place for place, piece in enumerate(vocabulary)}))
    tokenizer = t.M2M100Tokenizer(str(tmp_path / "vocab.json"), f"{prefix}.model")
    found = set_languages(tokenizer, t.M2M100Config(), ("en", "hu"), "m2m")
    assert found == Languages(forced_bos_token_id=tokenizer.get_lang_id("hu"))
    source, target = tokenizer("5 grams")["input_ids"], tokenizer(text_target="5 grams")["input_ids"]
    assert (source[0], target[0]) == (tokenizer.get_lang_id("en"), tokenizer.get_lang_id("hu"))
    with pytest.raises(TaskError, match=r"^m2m: knows no language 'xx'; it knows af, am, "):
        set_languages(tokenizer, t.M2M100Config(), ("en", "xx"), "m2m")


def test_codes_that_are_missing_or_unknown_are_told():
    with pytest.raises(TaskError, match=r"^nllb: needs the languages of the data: give --languages SOURCE,TARGET$"):
        set_languages(nllb(), t.M2M100Config(), (), "nllb")
    with pytest.raises(TaskError, match=r"^nllb: knows no language 'de'; it knows deu_Latn, eng_Latn, fra_Latn$"):
        set_languages(nllb(), t.M2M100Config(), ("fra_Latn", "de"), "nllb")
    with pytest.raises(TaskError, match=r"^--languages deu_Latn: expected two codes, SOURCE,TARGET$"):
        set_languages(nllb(), t.M2M100Config(), ("deu_Latn",), "nllb")


def test_a_marian_model_of_several_languages_reads_the_wanted_one_first():
    tokenizer = plain(">>fra<<", ">>deu<<")
    assert set_languages(tokenizer, t.MarianConfig(), ("eng", "deu"), "opus").prefix == ">>deu<< "
    with pytest.raises(TaskError, match=r"^opus: knows no language 'de'; it knows deu, fra$"):
        set_languages(tokenizer, t.MarianConfig(), ("eng", "de"), "opus")
    with pytest.raises(TaskError, match=r"^opus: translates to several languages: give --languages"):
        set_languages(tokenizer, t.MarianConfig(), (), "opus")


def test_t5_is_told_in_words():
    tasks = {"translation_en_to_de": {"prefix": "translate English to German: "}, "summarization": {"prefix": "s"}}
    config = t.T5Config(task_specific_params=tasks)
    assert set_languages(plain(), config, ("en", "de"), "t5").prefix == "translate English to German: "
    assert set_languages(plain(), config, (), "t5") == Languages()
    with pytest.raises(TaskError, match=r"^t5: --languages en,hu: it translates en_to_de$"):
        set_languages(plain(), config, ("en", "hu"), "t5")


def test_a_model_that_is_not_told_what_to_do_although_it_could_be_is_remarked_on(tiny_pairs, tmp_path):
    folder = save_family("t5", tmp_path / "tiny-t5")
    config = json.loads((folder / "config.json").read_text())
    config["task_specific_params"] = {"translation_en_to_de": {"prefix": "translate English to German: "}}
    (folder / "config.json").write_text(json.dumps(config))
    given = {"task": "translation", "model": str(folder), "text": ("en", "hu")}
    for data in (str(tiny_pairs), ""):
        own = {"data": data} if data else {"text": ()}
        (told,) = (line for line in remarks_of(**given | own) if "--languages" in line)
        assert told.endswith("as --languages is not given (en,de)")
    assert not [line for line in remarks_of(**given, data=str(tiny_pairs), languages=("en", "de")) if "--lang" in line]
    assert remarks(t.MarianConfig(), ()) == []


def remarks_of(**given) -> tuple[str, ...]:
    """What a run says of the data before it begins."""
    return Translation(TaskSpec(**given)).own_data.remarks


def test_codes_for_a_model_without_a_choice_are_refused():
    with pytest.raises(
        TaskError, match=r"^m: --languages en,hu: it has no languages to choose from: leave the flag out$"
    ):
        set_languages(plain(), t.MarianConfig(), ("en", "hu"), "m")


def test_the_forced_token_begins_every_translation():
    tokenizer, model = own_tokenizer(), FAMILIES["marian"]().eval()
    word = next(token for token in sorted(tokenizer.get_vocab()) if token.startswith("▁"))
    languages = Languages(forced_bos_token_id=tokenizer.convert_tokens_to_ids(word))
    pairs = encode([Example((text, text), 0) for text in ("in 3 years", "5 grams")], tokenizer, model, languages, 20)
    with torch.no_grad():
        found = translate(model, tokenizer, batches(pairs, tokenizer, 2, "cpu"), longest=20, languages=languages)
    assert sorted(found) == [0, 1] and all(text.startswith(word[1:]) for text in found.values())
