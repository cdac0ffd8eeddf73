"""The built-in documents of a language model: sound splits, questions that only reading in order answers, a model."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer

from methods.heads import HeadMap, remove_heads
from tasks.builtin import abilities, decoder
from tasks.builtin.abilities import ABILITIES, RECIPE, SIZES, Document
from tasks.data.encode import collate
from tasks.seeds import Seeds

pytestmark = pytest.mark.slow  # what they are of is made by code that hardly ever changes
every = pytest.mark.parametrize("ability", ABILITIES)


@pytest.fixture(scope="module")
def documents():
    return abilities.documents()


@pytest.fixture(scope="module")
def small(documents):
    return decoder.build(documents["train"], 0)


def accuracy(choose, questions):
    return sum(choose(question) == question.words[question.target] for question in questions) / len(questions)


def test_is_full_balanced_and_the_same_each_time(documents):
    fingerprint = abilities.fingerprint()
    for function in (abilities.documents, abilities.fingerprint):
        function.cache_clear()
    assert abilities.fingerprint() == fingerprint
    for split, size in SIZES.items():
        counts = Counter(document.ability for document in documents[split])
        assert counts.total() == size and set(counts) == set(ABILITIES)
        if split != "train":
            assert set(counts.values()) == {size // 4}


def test_nothing_told_in_one_split_is_told_in_another(documents):
    told = {split: {document.statement for document in documents[split]} for split in SIZES}
    assert not told["test"] & (told["train"] | told["validation"])
    assert not told["validation"] & told["train"]
    assert len(told["test"]) == len(documents["test"])


@every
def test_a_question_cannot_be_answered_by_elimination(ability, documents):
    for document in documents["validation"] + documents["test"]:
        if document.ability == ability:
            words = document.context.split()
            if ability == "agreement":  # a noun of each pronoun is there, once
                kinds = [kind for word in words for kind, nouns in abilities.NOUNS.items() if word in nouns]
                assert sorted(kinds) == sorted(document.endings)
            else:
                assert [words.count(ending) for ending in document.endings] == [1] * 4
            assert len(set(document.endings)) == 4 and document.target in document.predictable


@given(st.sampled_from(sorted(ABILITIES)), st.randoms(use_true_random=False))
def test_answers_follow_from_the_words_before(ability, rng):
    document = abilities._draw(rng, ability)
    for place in document.predictable:
        assert solve(document.words[:place]) == document.words[place]


def solve(words: tuple[str, ...]) -> str:
    """The answer by a reading of its own: by the rules of each ability, as one would explain them to a person."""
    text = " ".join(words)
    if text.startswith("row "):
        return words[len(words) - 1 - abilities.ROW]
    if "?" not in words:
        free = [place for place, word in enumerate(words) if word == "the" and not _governed(words, place)]
        kinds = {noun: pronoun for pronoun, nouns in abilities.NOUNS.items() for noun in nouns}
        return next(kinds[word] for word in words[free[0] :] if word in kinds)
    told, asked = text.split(" ? ")[0].split(), words[-1]
    if asked in abilities.ROOMS:
        return told[told.index(asked) + 1]
    passive = told[1] == "was"
    if asked == "whom":
        return told[0] if passive else told[2]
    return told[0] if asked == "by" and not passive else told[told.index(asked) + 1]


def _governed(words: tuple[str, ...], place: int) -> bool:
    return place > 0 and words[place - 1] in abilities.PREPOSITIONS


@pytest.fixture(scope="module")
def counted(documents):
    """Answers of the training split, as often as they are had: alone, after the word before, with each word before."""
    answers, pairs, bags = Counter(), Counter(), Counter()
    for document in documents["train"]:
        for place in document.predictable:
            answer, context = document.words[place], document.words[:place]
            answers[answer] += 1
            pairs[context[-1], answer] += 1
            bags.update((word, answer) for word in set(context))
    return answers, pairs, bags


@every
def test_shallow_answers_are_hardly_better_than_chance(ability, counted, documents):
    """The endings by themselves, bigrams, and a bag of words (naive Bayes), counted on the training split."""
    answers, pairs, bags = counted
    questions = [each for each in documents["test"] if each.ability == ability]

    def by_itself(question: Document) -> str:
        return max(question.endings, key=lambda ending: answers[ending])

    def after_the_last(question: Document) -> str:
        return max(question.endings, key=lambda ending: pairs[question.words[question.target - 1], ending])

    def after_a_bag(question: Document) -> str:
        def log_odds(ending: str) -> float:
            seen = [(bags[word, ending] + 1) / (answers[ending] + 2) for word in set(question.context.split())]
            return sum(map(math.log, seen)) + math.log(answers[ending])

        return max(question.endings, key=log_odds)

    assert accuracy(by_itself, questions) <= 0.34  # chance and three standard errors
    assert accuracy(after_the_last, questions) <= 0.34
    assert accuracy(after_a_bag, questions) <= 0.34


@every
def test_no_place_in_the_text_holds_the_answer_much_more_often(ability, documents):
    questions = [each for each in documents["test"] if each.ability == ability != "copy"]  # that: a fixed distance
    firsts, lasts = Counter(), Counter()
    for question in questions:
        context = question.context.split()
        right = question.words[question.target]
        places = [place for place, word in enumerate(context) if word in abilities.NOUNS.get(right, (right,))]
        firsts[places[0]] += 1
        lasts[len(context) - places[0]] += 1
    assert not questions or max(*firsts.values(), *lasts.values()) / len(questions) <= 0.45


def test_loss_is_that_of_the_answers_and_little_else(small, documents):
    tokenizer, model = small
    some = documents["train"][:6]
    encoded = decoder.encode(some, tokenizer)
    batch = collate(encoded, range(6), tokenizer.pad_token_id)
    with torch.no_grad():
        found = decoder.loss(model(batch.inputs["input_ids"]).logits, batch)
        for place, (document, each) in enumerate(zip(some, encoded, strict=True)):
            ids = torch.tensor(each.tokens["input_ids"])
            told = F.cross_entropy(model(ids[None]).logits[0, :-1], ids[1:], reduction="none")
            begun = place % 2  # the first word is foretold where [BEGIN] stands before it
            assert (ids[0] == tokenizer.bos_token_id) == begun
            expected = 0.0
            for word in range(1 - begun, len(document.words)):
                weight = 1 / len(document.predictable) if word in document.predictable else 0.05
                expected += weight * told[word - 1 + begun].item()
            assert found[place].item() == pytest.approx(expected, rel=1e-5)


def test_choice_is_the_likeliest_ending_alone(small, documents):
    tokenizer, model = small
    found = decoder.choose(model, tokenizer, documents["test"][:40])
    for question, chosen in zip(documents["test"][:40], found.tolist(), strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([tokenizer.encode(question.context)])).logits[0, -1]
        told = [logits[tokenizer.encode(ending)].item() for ending in question.endings]
        assert told[chosen] == max(told)


def test_tokenizer_adds_nothing_and_knows_every_word(small, tmp_path, documents):
    tokenizer, model = small
    for document in documents["test"][:100]:
        ids = tokenizer.encode(document.text)
        assert tokenizer.decode(ids) == document.text and tokenizer.unk_token_id not in ids
        assert len(ids) == len(document.words) < RECIPE.max_length
    tokenizer.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    test = documents["test"]
    assert AutoTokenizer.from_pretrained(tmp_path).encode(test[0].text) == tokenizer.encode(test[0].text)
    assert torch.equal(decoder.choose(again, tokenizer, test), decoder.choose(model, tokenizer, test))


def test_model_has_the_shape_and_is_drawn_from_its_seed_alone(documents):
    state = torch.random.get_rng_state()
    _, first = decoder.build(documents["train"][:500], 1)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.rand(3)
    _, again = decoder.build(documents["train"][:500], 1)
    _, other = decoder.build(documents["train"][:500], 2)
    weights = [model.model.layers[0].self_attn.q_proj.weight for model in (first, again, other)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    config = first.config
    assert (config.num_attention_heads, config.num_key_value_heads, config.head_dim) == (8, 4, 16)
    assert len(HeadMap.of(first)) == 16
    embeddings = first.get_input_embeddings().weight.detach()  # half of their variance is the same in all words
    shared = embeddings.mean(0)
    assert shared.std().item() == pytest.approx(decoder.EMBEDDING_STD, rel=0.3)
    assert (embeddings - shared).std().item() == pytest.approx(decoder.EMBEDDING_STD, rel=0.05)


def test_training_learns_repeats_itself_and_needs_heads(small, documents):
    """Copying alone is learned in seconds; with no head left it is not there."""
    splits = {name: tuple(each for each in part if each.ability == "copy") for name, part in documents.items()}
    recipe = replace(RECIPE, max_steps=150, evaluate_every=25, batch_size=32)
    models = []
    for _ in range(2):
        tokenizer, model = decoder.build(documents["train"], 0)
        report = decoder.fit(model, tokenizer, splits, recipe, Seeds("harness", "abilities", "small", 0))
        models.append(model)
    assert report["target_met"] and report["validation_accuracy"] >= 0.98
    assert all(torch.equal(a, b) for a, b in zip(*(each.parameters() for each in models), strict=True))
    questions = splits["test"]
    labels = torch.tensor([each.label for each in questions])
    bare = remove_heads(model, torch.zeros(16, dtype=torch.bool), HeadMap.of(model))
    assert (decoder.choose(model, tokenizer, questions) == labels).double().mean() >= 0.95
    assert (decoder.choose(bare, tokenizer, questions) == labels).double().mean() <= 0.35
