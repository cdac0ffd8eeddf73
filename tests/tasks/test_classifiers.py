"""Classifiers that are taken as they are: which token is padding, and how much of a text the model sees."""

from __future__ import annotations

import json
import random
import shutil

import pytest
import torch
from tokenizers import Tokenizer, models
from tokenizers.processors import TemplateProcessing
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    AlbertTokenizer,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BartConfig,
    BartForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    CanineConfig,
    CanineForSequenceClassification,
    CanineTokenizer,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    DistilBertTokenizer,
    GPT2Config,
    GPT2ForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from bench.suites.plugins import load_plugins
from methods.heads import HeadMap, load_pruned, remove_heads, save_pruned
from tasks.contract import TASKS
from tasks.data.dataset import SPLITS
from tasks.errors import TaskError
from tasks.models import classes, classifiers
from tasks.models.cache import Cache
from tasks.models.seeded import write_tokenizer
from tasks.request import TaskSpec

LABELS = ("negative", "positive")


def task_on(model, data, **more):
    load_plugins()
    return TASKS["classification"](TaskSpec(task="classification", data=str(data), model=str(model), **more))


def decoder(tiny_model, folder, positions=32, **config):
    """A folder with a random Llama that classifies, and the tokenizer of ``tiny_model``."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_model, model_max_length=positions)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 16}
    labels = {"id2label": dict(enumerate(LABELS)), "label2id": {name: number for number, name in enumerate(LABELS)}}
    torch.manual_seed(0)
    model = LlamaForSequenceClassification(
        LlamaConfig(
            vocab_size=len(tokenizer),
            max_position_embeddings=positions,
            initializer_range=0.5,
            **sizes,
            **labels,
            **config,
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def without_padding_token(folder):
    """The tokenizer in ``folder`` without its padding token, as many decoders have it."""
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    config.pop("pad_token")
    path.write_text(json.dumps(config | {"eos_token": "[SEP]"}))


def classes_one_by_one(folder, task):
    """The class of each test text, given to transformers' own model by itself, without any padding."""
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    model.config.pad_token_id = None  # so that the last token is read
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        found = [model(**tokenizer(example.texts[0], return_tensors="pt")).logits for example in task.dataset.test]
    return torch.cat(found).argmax(1)


@pytest.mark.parametrize(
    ("stated", "tokenizer_has_one"), [(None, True), (0, True), (5, True), (0, False), (5, False), (None, False)]
)
def test_the_class_of_a_decoder_is_read_at_the_last_token_of_a_text(
    tiny_model, tiny_data, tmp_path, stated, tokenizer_has_one
):
    folder = decoder(tiny_model, tmp_path / "llama", pad_token_id=stated)
    if not tokenizer_has_one:
        without_padding_token(folder)  # it ends each text with [SEP], its token for the end
    task = task_on(folder, tiny_data)
    task.validate()
    expected = classes_one_by_one(folder, task)
    assert 0 < expected.sum() < len(expected)
    right = expected == torch.tensor([example.label for example in task.dataset.test])
    model = task.open(0, Cache(tmp_path / "cache"), torch.device("cpu"))
    assert torch.equal(task.evaluate(model).correct, right)
    model.save_pretrained(tmp_path / "saved")
    task.save_tokenizer(tmp_path / "saved")
    again = task_on(tmp_path / "saved", tiny_data)
    assert torch.equal(again.evaluate(again.open(0, Cache(tmp_path / "cache"), torch.device("cpu"))).correct, right)


def changed_tokenizer(folder, specials, template):
    """Give the tokenizer in ``folder`` other special tokens, and other tokens around a text and a pair."""
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | specials))
    backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
    marks = [(token, backend.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    single, pair = template
    backend.post_processor = TemplateProcessing(single=single, pair=pair, special_tokens=marks)
    backend.save(str(folder / "tokenizer.json"))


PLAIN, ENDED, ENDED_PAIRS = ("$A", "$A $B"), ("$A [SEP]", "$A $B [SEP]"), ("$A", "$A [SEP] $B [SEP]")


@pytest.mark.parametrize("columns", [("text",), ("text", "other")])
@pytest.mark.parametrize(
    ("stated", "specials", "template"),
    [
        (3, {}, ENDED),  # the configuration pads with what ends texts: the model reads at the token before
        (None, {"pad_token": "[UNK]"}, PLAIN),  # texts end with unknown words
        (None, {"pad_token": "[UNK]"}, ENDED),
        (None, {"pad_token": None, "eos_token": "[SEP]"}, ENDED_PAIRS),
        (None, {"pad_token": "[SEP]", "eos_token": "[SEP]"}, ENDED),
        (0, {"pad_token": "[SEP]", "eos_token": "[SEP]"}, ENDED),
        (None, {"pad_token": "[NEW]"}, PLAIN),  # beyond the vocabulary of the model
        (-1, {}, ENDED),
        (5, {"pad_token": None}, PLAIN),  # the tokenizer has none, and no end either
    ],
)
def test_the_class_of_a_decoder_is_that_of_transformers_for_the_text_alone(
    tiny_model, tmp_path, columns, stated, specials, template
):
    folder = decoder(tiny_model, tmp_path / "llama", pad_token_id=stated)
    changed_tokenizer(folder, specials, template)
    draw = random.Random(0)
    words = ["good", "bad", "film", "very", "was", "unheard"]
    rows = [
        {name: " ".join(draw.choices(words, k=draw.randint(2, 8))) for name in ("text", "other")} for _ in range(150)
    ]
    lines = [json.dumps(row | {"label": LABELS[number % 2]}) + "\n" for number, row in enumerate(rows)]
    (tmp_path / "rows.jsonl").write_text("".join(lines))
    task = task_on(folder, tmp_path / "rows.jsonl", text=columns)
    task.validate()
    own = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        found = [own(**tokenizer(*each.texts, return_tensors="pt")).logits.argmax(1) for each in task.dataset.test]
    right = torch.cat(found) == torch.tensor([example.label for example in task.dataset.test])
    assert 0 < right.sum() < len(right)
    cache = Cache(tmp_path / "cache")
    model = task.open(0, cache, torch.device("cpu"))
    assert torch.equal(task.evaluate(model).correct, right)
    model.save_pretrained(tmp_path / "saved")
    task.save_tokenizer(tmp_path / "saved")
    again = task_on(tmp_path / "saved", tmp_path / "rows.jsonl", text=columns)
    assert torch.equal(again.evaluate(again.open(0, cache, torch.device("cpu"))).correct, right)


def test_a_tokenizer_that_drops_letters_it_does_not_know_pads_with_its_end():
    backend = Tokenizer(models.BPE(vocab={"<end>": 0, "b": 1}, merges=[]))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>")
    assert tokenizer("a")["input_ids"] == []
    assert classifiers.padding_for(tokenizer, LlamaConfig(vocab_size=2, pad_token_id=None)) == 0


def test_a_decoder_whose_texts_end_with_the_only_token_for_padding_is_refused_unless_it_is_trained(
    tiny_model, tiny_data, tmp_path
):
    folder = decoder(tiny_model, tmp_path / "llama", pad_token_id=None)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    specials = [name for name, token in settings.items() if name.endswith("_token") and isinstance(token, str)]
    for name in specials:
        settings.pop(name)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"eos_token": "[SEP]"}))
    state = json.loads((folder / "tokenizer.json").read_text())
    state["added_tokens"] = [token for token in state["added_tokens"] if token["content"] == "[SEP]"]
    (folder / "tokenizer.json").write_text(json.dumps(state))
    with pytest.raises(TaskError, match=r"no token for padding but \[SEP\], which texts may end with"):
        task_on(folder, tiny_data).validate()
    task, cache = task_on(folder, tiny_data, finetune=True, limit=32), Cache(tmp_path / "cache")
    task.prepare(0, cache, torch.device("cpu"))
    assert task.open(0, cache, torch.device("cpu")).config.pad_token_id == classifiers.load_tokenizer(
        task.place(0, cache)
    ).convert_tokens_to_ids("[SEP]")


def test_a_word_that_is_padding_is_a_word_of_texts_still_in_what_is_saved(tiny_model, tiny_data, tmp_path):
    """A tokenizer of word pieces, which loaded with one of them as a special token would cut all words around it."""
    folder = decoder(tiny_model, tmp_path / "llama", pad_token_id=5)
    without_padding_token(folder)
    word = AutoTokenizer.from_pretrained(folder).convert_ids_to_tokens(5)
    task = task_on(folder, tiny_data)
    task.open(0, Cache(tmp_path / "cache"), torch.device("cpu"))
    task.save_tokenizer(tmp_path / "saved")
    before, after = AutoTokenizer.from_pretrained(folder), AutoTokenizer.from_pretrained(tmp_path / "saved")
    text = f"{word} good {word}{word} film"
    assert after(text)["input_ids"] == before(text)["input_ids"] and after.pad_token is None
    assert task.fingerprints(0)["model"]["padding"] == "the configuration's"


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_text_is_read_alike_whatever_is_in_its_batch_and_its_tokenizer_is_saved_as_it_was(
    tiny_model, tiny_data, tmp_path, side
):
    """A decoder of absolute positions, which are counted from the first token, be it padding."""
    folder = tmp_path / "gpt"
    tokenizer = AutoTokenizer.from_pretrained(tiny_model, padding_side=side)
    labels = {"id2label": dict(enumerate(LABELS)), "label2id": {name: number for number, name in enumerate(LABELS)}}
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "initializer_range": 0.5}
    torch.manual_seed(0)
    GPT2ForSequenceClassification(GPT2Config(vocab_size=len(tokenizer), **sizes, **labels)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    task = task_on(folder, tiny_data)
    model = task.open(0, Cache(tmp_path / "cache"), torch.device("cpu"))
    (together,) = task.calibration(0, 16, torch.device("cpu"))
    with torch.no_grad():
        logits = task.logits(model, together)
        for row, mask in enumerate(together.inputs["attention_mask"].bool()):
            alone = {name: values[row : row + 1, mask] for name, values in together.inputs.items()}
            torch.testing.assert_close(model(**alone).logits[0], logits[row], rtol=1e-4, atol=1e-4)
    assert ("padding side" in task.fingerprints(0)["model"]) == (side == "left")
    task.save_tokenizer(tmp_path / "saved")
    assert AutoTokenizer.from_pretrained(tmp_path / "saved").padding_side == side


def test_models_that_used_to_be_read_at_padding_have_a_key_of_their_own(tiny_model, tiny_data, tmp_path):
    same, other = (decoder(tiny_model, tmp_path / str(stated), pad_token_id=stated) for stated in (0, 5))
    assert "padding" not in task_on(same, tiny_data).fingerprints(0)["model"]
    assert "padding" in task_on(other, tiny_data).fingerprints(0)["model"]
    ending = decoder(tiny_model, tmp_path / "ending", pad_token_id=None)
    without_padding_token(ending)
    assert "padding" in task_on(ending, tiny_data).fingerprints(0)["model"]


def test_a_model_as_it_is_sees_all_of_a_text_and_what_is_cut_is_told(tiny_model, tmp_path):
    """The class depends on the last words, behind as many tokens as are seen in fine-tuning."""
    folder = decoder(tiny_model, tmp_path / "llama", positions=600, pad_token_id=0)
    rows = [
        {"text": " ".join(["film"] * 200 + [word] * 3 + [str(number)]), "label": label}
        for number in range(40)
        for word, label in (("good", "positive"), ("bad", "negative"))
    ]
    rows.append({"text": " ".join(["film"] * 700), "label": "positive"})
    (tmp_path / "long").mkdir()
    for split, chosen in (("train", rows[:40]), ("test", rows[40:])):
        (tmp_path / "long" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in chosen))
    task = task_on(folder, tmp_path / "long")
    assert [remark for remark in task.own_data.remarks if "cut" in remark] == [
        "1 of 41 texts of test cut to 512 tokens"
    ]
    task.open(0, Cache(tmp_path / "cache"), torch.device("cpu"))
    (batch,) = task.calibration(0, 8, torch.device("cpu"))
    assert batch.inputs["input_ids"].shape == (8, 206)  # 204 words, [CLS] and [SEP]
    trained = task_on(folder, tmp_path / "long", finetune=True)
    assert "41 of 41 texts of test cut to 128 tokens" in trained.own_data.remarks


@pytest.mark.parametrize(
    ("labels", "remark"),
    [
        ((0, 1), ["labels are numbers of classes: 0 is negative, 1 is positive"]),
        ((True, False), ["labels are numbers of classes: False is negative, True is positive"]),
        (("Negative", "positive"), []),
    ],
)
def test_numbers_that_are_taken_for_classes_are_told(tiny_model, tmp_path, labels, remark):
    rows = [{"text": f"film {number}", "label": labels[number % 2]} for number in range(99)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = task_on(tiny_model, tmp_path / "rows.jsonl").own_data.remarks
    assert [each for each in told if "number" in each] == remark
    told = task_on(tiny_model, tmp_path / "rows.jsonl", finetune=True).own_data.remarks
    assert not [each for each in told if "number" in each]


def test_a_saved_tokenizer_gives_whole_texts(tiny_model, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer("good film", truncation=True, max_length=3, padding="max_length")
    write_tokenizer(tokenizer, tmp_path)
    state = json.loads((tmp_path / "tokenizer.json").read_text())
    assert state["truncation"] is None and state["padding"] is None


def test_a_pruned_classifier_can_be_trained_on(tiny_model, tiny_data, tmp_path):
    model = AutoModelForSequenceClassification.from_pretrained(tiny_model)
    heads = HeadMap.of(model)
    mask = torch.ones(len(heads), dtype=torch.bool)
    mask[:3] = False
    save_pruned(remove_heads(model, mask, heads), tmp_path / "pruned")
    for file in tiny_model.glob("tokenizer*"):
        shutil.copy(file, tmp_path / "pruned")
    task, cache = task_on(tmp_path / "pruned", tiny_data, finetune=True, limit=32), Cache(tmp_path / "cache")
    report = task.prepare(0, cache, torch.device("cpu"))
    trained = task.open(0, cache, torch.device("cpu"))
    assert HeadMap.of(trained).shape == (1, 4)
    before = remove_heads(model, mask, heads).state_dict()
    assert any(not torch.equal(weight, before[name]) for name, weight in trained.state_dict().items())
    assert task.prepare(0, cache, torch.device("cpu")) == report  # found in the cache, undamaged


@pytest.mark.parametrize("names", [("positive", "negative"), ("good", "bad")])
def test_a_pruned_classifier_that_is_trained_on_has_the_classes_of_the_data(tiny_model, tiny_data, tmp_path, names):
    """The classes of the model that was pruned had another order, or other names."""
    model = AutoModelForSequenceClassification.from_pretrained(tiny_model)
    model.config.id2label, model.config.label2id = dict(enumerate(names)), {name: i for i, name in enumerate(names)}
    heads = HeadMap.of(model)
    save_pruned(remove_heads(model, torch.arange(len(heads)) > 0, heads), tmp_path / "pruned")
    for file in tiny_model.glob("tokenizer*"):
        shutil.copy(file, tmp_path / "pruned")
    task, cache = task_on(tmp_path / "pruned", tiny_data, finetune=True, limit=32), Cache(tmp_path / "cache")
    task.prepare(0, cache, torch.device("cpu"))
    trained = task.open(0, cache, torch.device("cpu"))
    ordered = names if set(names) == set(LABELS) else LABELS
    assert trained.config.id2label == dict(enumerate(ordered)) and trained.config.label2id == {
        name: number for number, name in enumerate(ordered)
    }
    assert "classes" in task.fingerprints(0)["model"]
    assert "classes" not in task_on(tiny_model, tiny_data, finetune=True).fingerprints(0)["model"]


def test_a_model_whose_positions_count_from_padding_is_saved_as_it_was(tiny_model, tiny_data, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 16}
    config = RobertaConfig(
        vocab_size=len(tokenizer), max_position_embeddings=64, initializer_range=0.5, pad_token_id=1, **sizes
    )
    config.id2label, config.label2id = dict(enumerate(LABELS)), {name: i for i, name in enumerate(LABELS)}
    assert tokenizer.pad_token_id == 0
    for part in (tokenizer, RobertaForSequenceClassification(config)):
        part.save_pretrained(tmp_path / "roberta")
    task = task_on(tmp_path / "roberta", tiny_data)
    model = task.open(0, Cache(tmp_path / "cache"), torch.device("cpu"))
    heads = HeadMap.of(model)
    smaller = remove_heads(model, torch.arange(len(heads)) > 0, heads)
    save_pruned(smaller, tmp_path / "smaller")
    (batch,) = task.calibration(0, 4, torch.device("cpu"))
    inputs = {name: value for name, value in batch.inputs.items() if name != "token_type_ids"}
    with torch.no_grad():
        torch.testing.assert_close(load_pruned(tmp_path / "smaller").eval()(**inputs).logits, smaller(**inputs).logits)
    assert "padding" not in task.fingerprints(0)["model"]


def test_a_pruned_language_model_is_no_classifier(tiny_language_model, tiny_data, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(tiny_language_model)
    heads = HeadMap.of(model)
    mask = torch.ones(len(heads), dtype=torch.bool)
    mask[0] = False
    save_pruned(remove_heads(model, mask, heads), tmp_path / "pruned")
    for file in tiny_language_model.glob("tokenizer*"):
        shutil.copy(file, tmp_path / "pruned")
    for more in ({}, {"finetune": True}):
        with pytest.raises(TaskError, match="a pruned LlamaForCausalLM, which is not a sequence classifier"):
            task_on(tmp_path / "pruned", tiny_data, **more).validate()


def test_names_of_data_and_model_of_any_length_fit_into_the_name_of_a_folder(tiny_model, tiny_data, tmp_path):
    data = shutil.copy(tiny_data, tmp_path / f"{'é' * 120}.jsonl")
    task, cache = task_on(tiny_model, data, finetune=True, limit=32), Cache(tmp_path / "cache")
    task.prepare(0, cache, torch.device("cpu"))
    assert task.place(0, cache).is_dir()


NLI = ("entailment", "neutral", "contradiction")


def pairs_of(folder, rows, **fields):
    """An inference task on ``rows`` of (premise, hypothesis, label), and its model in ``folder``."""
    folder.mkdir(exist_ok=True)
    for split in ("train", "validation", "test"):
        lines = [
            json.dumps({"premise": f"{split} {premise}", "hypothesis": hypothesis, "label": label}) + "\n"
            for premise, hypothesis, label in rows
        ]
        (folder / f"{split}.jsonl").write_text("".join(lines))
    load_plugins()
    return TASKS["mnli"](TaskSpec(task="mnli", data=str(folder), **fields))


def named(config, names):
    config.update({"id2label": dict(enumerate(names)), "label2id": {name: number for number, name in enumerate(names)}})
    torch.manual_seed(0)
    return config


def albert(folder, names=NLI, version="4.57.1"):
    """A random ALBERT with tied layers, and its tokenizer, which marks the second text only if it is asked to.

    version: of transformers, with which the model was saved.
    """
    words = [f"▁{word}" for word in ("good", "bad", "film", *SPLITS, *map(str, range(60)))]
    pieces = [(piece, -2.0) for piece in ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "▁", *words)]
    tokenizer = AlbertTokenizer(vocab=pieces, model_max_length=32)
    assert "token_type_ids" not in tokenizer("good", "bad")
    sizes = {"embedding_size": 16, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48}
    config = AlbertConfig(
        vocab_size=len(pieces), num_hidden_layers=3, num_hidden_groups=1, initializer_range=0.5, **sizes
    )
    AlbertForSequenceClassification(named(config, names)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"transformers_version": version}))
    return folder


ROWS = [(f"good film {number}", f"bad film {number % 7}", NLI[number % 3]) for number in range(60)]


def test_a_pair_has_token_types_though_its_tokenizer_leaves_them_out(tmp_path):
    """As one text after another with types made by hand."""
    folder = albert(tmp_path / "albert")
    task = pairs_of(tmp_path / "data", ROWS, model=str(folder))
    cache = Cache(tmp_path / "cache")
    model = task.open(0, cache, torch.device("cpu"))
    plain = AutoTokenizer.from_pretrained(folder)
    (batch,) = task.calibration(0, 60, torch.device("cpu"))
    assert set(batch.inputs) == {"input_ids", "attention_mask", "token_type_ids"}
    for row in range(len(batch.labels)):
        length = int(batch.inputs["attention_mask"][row].sum())
        ids = batch.inputs["input_ids"][row, :length]
        first = ids.tolist().index(plain.sep_token_id) + 1
        types = torch.tensor([[0] * first + [1] * (length - first)])
        expected = model(input_ids=ids[None], token_type_ids=types).logits
        assert torch.allclose(task.logits(model, batch)[row], expected[0], atol=1e-5)
        assert not torch.allclose(model(input_ids=ids[None]).logits, expected, atol=1e-3)
    assert any("token types" in remark for remark in task.own_data.remarks)
    assert task.fingerprints(0)["model"]["token types"] == "given"
    task.save_tokenizer(tmp_path / "saved")
    assert "token_type_ids" in AutoTokenizer.from_pretrained(tmp_path / "saved").model_input_names


@pytest.mark.parametrize("outputs", [None, ["input_ids", "attention_mask"], ["input_ids", "token_type_ids"]])
@pytest.mark.parametrize("version", ["4.57.1", "5.0.0"])
def test_a_pair_has_the_token_types_that_the_model_was_trained_with_or_its_files_name(tmp_path, version, outputs):
    """A model that was saved by transformers 5 was trained with what its tokenizer gives there."""
    folder = albert(tmp_path / "albert", version=version)
    path = folder / "tokenizer_config.json"
    if outputs:
        path.write_text(json.dumps(json.loads(path.read_text()) | {"model_input_names": outputs}))
    task = pairs_of(tmp_path / "data", ROWS, model=str(folder))
    task.open(0, Cache(tmp_path / "cache"), torch.device("cpu"))
    given = "token_type_ids" in task.calibration(0, 8, torch.device("cpu"))[0].inputs
    assert given == ("token_type_ids" in outputs if outputs else version < "5")
    assert ("token types" in task.fingerprints(0)["model"]) == (outputs is None and version < "5")
    told = [remark for remark in task.own_data.remarks if "token types" in remark]
    assert bool(told) == (outputs is None) and all(("gets no" in remark) == (version > "5") for remark in told)
    trained = pairs_of(tmp_path / "data", ROWS, model=str(folder), finetune=True)
    _, tokenizer = trained.initial(0)
    assert ("token_type_ids" in tokenizer("good", "bad")) == ("token_type_ids" in outputs if outputs else True)


def test_models_without_token_types_and_tokenizers_of_no_family_are_left_alone(tiny_model, tmp_path):
    """A BERT with a tokenizer of no family, as the built-in models are, may have been trained without token types."""
    words = list(AutoTokenizer.from_pretrained(tiny_model).get_vocab())
    tokenizer = DistilBertTokenizer(vocab={word: number for number, word in enumerate(words)}, model_max_length=32)
    config = DistilBertConfig(vocab_size=len(words), dim=32, n_layers=1, n_heads=4, hidden_dim=48)
    distil = tmp_path / "distil"
    DistilBertForSequenceClassification(named(config, NLI)).save_pretrained(distil)
    tokenizer.save_pretrained(distil)
    bert = shutil.copytree(tiny_model, tmp_path / "bert")
    config = BertConfig.from_pretrained(bert)
    BertForSequenceClassification(named(config, NLI)).save_pretrained(bert)
    for folder in (distil, bert):
        task = pairs_of(tmp_path / "data", ROWS, model=str(folder))
        task.open(0, Cache(tmp_path / "cache"), torch.device("cpu"))
        assert set(task.calibration(0, 8, torch.device("cpu"))[0].inputs) == {"input_ids", "attention_mask"}
        assert "token types" not in task.fingerprints(0)["model"]


def test_a_classifier_that_is_trained_on_keeps_the_order_of_its_classes(tmp_path):
    """Its head was trained in that order, and so it begins with the accuracy that it has as it is."""
    own = ("contradiction", "entailment", "neutral")
    folder = albert(tmp_path / "albert", own)
    cache = Cache(tmp_path / "cache")
    taken = pairs_of(tmp_path / "data", ROWS, model=str(folder))
    before = taken.evaluate(taken.open(0, cache, torch.device("cpu")))
    trained = pairs_of(tmp_path / "data", ROWS, model=str(folder), finetune=True)
    start, tokenizer = trained.initial(0)
    assert list(start.config.id2label.values()) == list(own)
    start.save_pretrained(tmp_path / "start")
    tokenizer.save_pretrained(tmp_path / "start")
    again = pairs_of(tmp_path / "data", ROWS, model=str(tmp_path / "start"))
    assert torch.equal(again.evaluate(again.open(0, cache, torch.device("cpu"))).correct, before.correct)
    given = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.models.train.train", lambda model, tokenizer, data, *rest, **more: given.update(data=data))
        trained.fit(0, torch.device("cpu"))
    assert {
        (own[example.label], NLI[original.label])
        for example, original in zip(given["data"].test, trained.dataset.test, strict=True)
    } == {(name, name) for name in NLI}
    assert trained.fingerprints(0)["model"]["order of classes"] == list(own)
    same = albert(tmp_path / "same")
    assert (
        "order of classes"
        not in pairs_of(tmp_path / "data", ROWS, model=str(same), finetune=True).fingerprints(0)["model"]
    )


def test_numbers_mean_the_classes_of_the_task_and_other_orders_are_told(tmp_path):
    rows = [(premise, hypothesis, NLI.index(label)) for premise, hypothesis, label in ROWS]
    folder = albert(tmp_path / "albert", ("contradiction", "entailment", "neutral"))
    meaning = "labels are numbers of classes: 0 is entailment, 1 is neutral, 2 is contradiction"
    told = pairs_of(tmp_path / "data", rows, model=str(folder)).own_data.remarks
    assert meaning in told
    assert any("otherwise (0 is contradiction, 1 is entailment, 2 is neutral)" in remark for remark in told)
    told = pairs_of(tmp_path / "data", rows, model=str(folder), finetune=True).own_data.remarks
    assert meaning in told and not any("otherwise" in remark for remark in told)
    told = pairs_of(tmp_path / "data", ROWS, model=str(folder)).own_data.remarks
    assert not any("number" in remark for remark in told)


def test_a_model_of_many_labels_for_a_text_is_refused_unless_it_is_trained(tiny_model, tiny_data, tmp_path):
    model = AutoModelForSequenceClassification.from_pretrained(tiny_model)
    model.config.problem_type = classes.MULTI_LABEL
    model.save_pretrained(tmp_path / "many")
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path / "many")
    with pytest.raises(TaskError, match="any number of its labels, where one is expected: add --finetune"):
        task_on(tmp_path / "many", tiny_data).validate()
    task = task_on(tmp_path / "many", tiny_data, finetune=True)
    cache = Cache(tmp_path / "cache")
    task.prepare(0, cache, torch.device("cpu"))
    assert task.open(0, cache, torch.device("cpu")).config.problem_type is None


def test_test_texts_of_classes_without_training_texts_are_told(tiny_model, tmp_path):
    for split, names in (("train", "ab"), ("validation", "ab"), ("test", "abc")):
        lines = [json.dumps({"text": f"{split} {n}", "label": names[n % len(names)]}) + "\n" for n in range(30)]
        (tmp_path / f"{split}.jsonl").write_text("".join(lines))
    told = task_on(tiny_model, tmp_path, finetune=True).own_data.remarks
    assert "10 of 30 test texts are of a class without training texts: c" in told


def test_a_text_with_the_token_at_which_a_model_reads_its_class_is_refused(tiny_model, tmp_path):
    """An encoder-decoder reads the class at the token that ends a text, and fails where a text has another one."""
    folder = tmp_path / "bart"
    tokenizer = AutoTokenizer.from_pretrained(tiny_model, eos_token="[SEP]")
    size = {"d_model": 32, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 32}
    layers = {f"{part}_{what}": 2 for part in ("encoder", "decoder") for what in ("layers", "attention_heads")}
    marks = {"pad_token_id": 0, "eos_token_id": tokenizer.sep_token_id, "decoder_start_token_id": 0}
    config = BartConfig(vocab_size=len(tokenizer), **size, **layers, **marks)
    BartForSequenceClassification(named(config, LABELS)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    rows = [{"text": f"film {number} good", "label": LABELS[number % 2]} for number in range(60)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task_on(folder, tmp_path / "rows.jsonl").validate()
    rows[7]["text"] = "film [SEP] good"
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(
        TaskError, match=r"text holds \[SEP\], which ends texts: .* take it out of \('film \[SEP\] good'"
    ):
        task_on(folder, tmp_path / "rows.jsonl").validate()
    task_on(tiny_model, tmp_path / "rows.jsonl").validate()
    changed_tokenizer(folder, {}, PLAIN)
    with pytest.raises(TaskError, match=r"the tokenizer does not end texts with \[SEP\]"):
        task_on(folder, tmp_path / "rows.jsonl").validate()


@pytest.mark.slow
def test_a_model_of_characters_has_no_vocabulary_to_check(tmp_path):
    """CANINE has embeddings of hashes of characters."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 32}
    config = CanineConfig(**sizes, num_hash_functions=4, num_hash_buckets=64, max_position_embeddings=128)
    CanineForSequenceClassification(named(config, LABELS)).save_pretrained(tmp_path / "canine")
    CanineTokenizer(model_max_length=128).save_pretrained(tmp_path / "canine")
    rows = [{"text": f"film {number} good", "label": LABELS[number % 2]} for number in range(60)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = task_on(tmp_path / "canine", tmp_path / "rows.jsonl")
    task.validate()
    model = task.open(0, Cache(tmp_path / "cache"), torch.device("cpu"))
    assert len(task.evaluate(model).correct) == len(task.dataset.test)
