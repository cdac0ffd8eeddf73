"""Language models, tasks of lm-eval and texts that cannot be used end the command in one line, with nothing written."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
import transformers as t
from lm_eval.tasks import TaskManager
from transformers import AutoConfig, AutoTokenizer, LlamaForCausalLM

from methods.heads import HeadMap, remove_heads, save_pruned
from tasks.harness import files, loading, places

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}


@pytest.fixture
def folder(tmp_path, tiny_language_model):
    """A copy of the tiny language model, for a test to break."""
    return shutil.copytree(tiny_language_model, tmp_path / "broken")


@pytest.fixture
def refused(complaint, tiny_language_model, tiny_texts, tmp_path):
    def run(*flags: object, model: object = tiny_language_model, data: object = tiny_texts) -> str:
        own = ["--task", "harness", "--model", model, "--data", data, "--out", tmp_path / "out"]
        return complaint("run", *own, "--methods", "none", "--seeds", 1, "--jobs", 1, *flags)

    return run


def settings(folder, name: str = "config.json", **changed) -> None:
    """Change a JSON file of a model's folder; None takes a key out."""
    content = json.loads((folder / name).read_text()) | changed
    (folder / name).write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


# Tasks


@pytest.fixture
def small_index(monkeypatch):
    """An index of our own tasks in the place of one of all tasks of lm-eval, which takes long to make."""
    ours = TaskManager(include_path=loading.FOLDER, include_defaults=False)
    monkeypatch.setattr(loading, "_manager", lambda *_: ours)
    monkeypatch.setattr(places, "_index", lambda _: ours)


@pytest.mark.usefixtures("small_index")
def test_an_unknown_task_is_told_with_the_nearest(refused):
    said = refused("--harness-tasks", "headbench_copy,headbench_recal")
    assert said == "headbench_recal: lm-eval has no such task; did you mean headbench_recall?"


@pytest.mark.parametrize(
    ("name", "place"), [("hellaswag", "hellaswag_val"), ("wikitext", "lm_wikitext2"), ("arc_easy", "arc_easy_val")]
)
def test_a_task_whose_documents_are_out_of_reach_says_what_would_do(refused, monkeypatch, tmp_path, name, place):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (tmp_path / "mirror").mkdir()
    for flags in ((), ("--mirror", tmp_path / "mirror")):
        said = refused("--harness-tasks", f"headbench_copy,{name}", *flags)
        assert said.startswith(f"{name}: its documents (") and "cannot be loaded" in said
        assert "in a folder given by --mirror DIR" in said and place in said


def test_documents_with_other_columns(refused, tmp_path):
    (tmp_path / "mirror" / "piqa_val").mkdir(parents=True)
    (tmp_path / "mirror" / "piqa_val" / "validation.jsonl").write_text('{"goal": "a", "sol": "b"}\n')
    said = refused("--harness-tasks", "piqa", "--mirror", tmp_path / "mirror")
    assert "validation.jsonl: line 1: expected the columns goal, sol1, sol2, label, or goal, choices, label" in said


@pytest.mark.usefixtures("small_index")
def test_a_folder_without_a_task_file(refused, tmp_path):
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "notes.txt").write_text("none here")
    assert refused("--harness-tasks", tmp_path / "tasks") == (
        f"{tmp_path}/tasks: no task file (YAML with task: NAME) in this folder"
    )


@pytest.mark.parametrize("content", ["task: [", "task: mine\noutput_type: nothing\n", "task: mine\n"])
def test_a_broken_task_file(refused, tmp_path, content):
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "mine.yaml").write_text(content)
    said = refused("--harness-tasks", tmp_path / "tasks")
    assert "mine" in said or said.startswith(str(tmp_path / "tasks"))


@pytest.mark.usefixtures("small_index")
def test_a_task_file_without_a_name(refused, tmp_path):
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "mine.yaml").write_text("- a\n- b\n")
    assert refused("--harness-tasks", tmp_path / "tasks").startswith(f"{tmp_path}/tasks: no task file")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: 1\ntask: [mine\n", "line 3: not valid YAML: expected ',' or ']', but got '<stream end>'"),
        (b"task: mine\n  doc_to_text: x\n", "line 2: not valid YAML: mapping values are not allowed here"),
        (b"\xff\xfe\x00", "not valid YAML: "),
        (b"a: 1\ntask: 5\n", "line 2: task: 5 is not a name: expected text, if need be in quotes"),
        (b"task: x\ngroup: set\n", "line 1: task: x beside a group, which lm-eval reads alone: say tag: NAME"),
        (b"task: x\ninclude: [no.yaml]\n", "line 2: include names "),
        (b"task: piqa\n", f"line 1: task: piqa is also the task in {files.LM_EVAL}/piqa/piqa.yaml: rename one"),
        (b"task: headbench_copy\n", f"line 1: task: headbench_copy is also the task in {files.FOLDER}/"),
    ],
)
@pytest.mark.parametrize("flags", [(), ("--trust-task-code",)])
def test_a_task_file_that_is_not_one_is_named_with_the_line(refused, tmp_path, content, said, flags):
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "mine.yaml").write_bytes(content)
    (tmp_path / "tasks" / "other.yaml").write_text("task: other\n")
    assert refused("--harness-tasks", tmp_path / "tasks", *flags).startswith(f"{tmp_path}/tasks/mine.yaml: {said}")


def test_two_task_files_with_one_name(refused, tmp_path):
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "task.yaml").write_text("task: mine\n")
    said = f"line 1: task: mine is also the task in {tmp_path}/a/task.yaml: rename one"
    assert refused("--harness-tasks", f"{tmp_path}/a,{tmp_path}/b") == f"{tmp_path}/b/task.yaml: {said}"


def test_own_texts_without_any(complaint):
    said = complaint("run", "--task", "harness", "--harness-tasks", "headbench_own_texts", "--methods", "none")
    assert said == "headbench_own_texts: the likelihood of your own texts: add --data and --model"


def test_a_folder_of_task_files_may_be_below_the_users_own(refused, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "mine.yaml").write_text("task: 5\n")
    said = refused("--harness-tasks", "headbench_copy,~/tasks")
    assert said.startswith(f"{tmp_path}/tasks/mine.yaml: line 1: ")


def test_a_task_file_in_the_place_of_its_folder(refused, tmp_path):
    (tmp_path / "mine.yaml").write_text("task: mine\n")
    said = f"{tmp_path}/mine.yaml: a file; give the folder that it is in, or the name of a task"
    assert refused("--harness-tasks", f"{tmp_path}/mine.yaml") == said


def test_an_ending_longer_than_the_context(refused, folder, tmp_path):
    settings(folder, max_position_embeddings=4)
    rows = [{"goal": "the king", "choices": ["attic", ending], "label": 0} for ending in ("red", "red " * 6)]
    (tmp_path / "piqa_val").mkdir()
    (tmp_path / "piqa_val" / "validation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = refused("--harness-tasks", "piqa", "--mirror", tmp_path, model=folder)
    assert said.startswith("piqa: document 1 has an ending of ")
    assert said.endswith(
        "tokens, the model has 4 positions: lm-eval cannot score that; leave the task out, or use --limit"
    )


def test_an_ending_without_a_context_longer_than_the_positions(refused, folder, tmp_path):
    settings(folder, max_position_embeddings=4)
    choices = "doc_to_choice: ['red', 'red red red red red red']"
    write_text_task(tmp_path / "tasks", "output_type: multiple_choice", choices, "doc_to_text: ''")
    said = refused("--harness-tasks", tmp_path / "tasks", model=folder)
    assert said.startswith("mine: document 0 has an ending of 6 tokens, the model has 4 positions")


def test_answers_longer_than_the_context(refused, folder, tmp_path):
    settings(folder, max_position_embeddings=64)
    write_text_task(tmp_path / "tasks", "output_type: generate_until", "generation_kwargs: {max_gen_toks: 64}")
    said = refused("--harness-tasks", tmp_path / "tasks", model=folder)
    assert said == (
        "mine: it asks for answers of up to 64 tokens (max_gen_toks), the model has 64 positions: lower that in "
        "generation_kwargs of a task file of your own, or leave the task out"
    )


def test_more_examples_in_a_prompt_than_there_are(refused, tmp_path):
    write_text_task(tmp_path / "tasks", "output_type: generate_until", "num_fewshot: 2")
    said = refused("--harness-tasks", tmp_path / "tasks")
    assert said.startswith("mine: lm-eval cannot make requests of its documents (num_fewshot: 2): ValueError: Sample")


def write_text_task(tasks, *lines: str) -> None:
    """A task file with the name mine, and its documents."""
    tasks.mkdir()
    (tasks / "docs.jsonl").write_text(json.dumps({"question": "the king", "answer": "red"}) + "\n")
    fixed = ("task: mine", "dataset_path: json", f"dataset_kwargs: {{data_files: {{test: {tasks}/docs.jsonl}}}}")
    fixed += ("test_split: test", "doc_to_text: '{{question}}'", "doc_to_target: '{{answer}}'")
    metric = "metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]"
    (tasks / "mine.yaml").write_text("\n".join([*fixed, *lines, metric, ""]))


def test_no_name_among_the_tasks(refused):
    assert "--harness-tasks 'a,,b': expected TASK, or TASK,TASK" in refused("--harness-tasks", "a,,b")


# Flags


@pytest.mark.parametrize(
    ("flags", "name"), [(["--harness-tasks", "piqa"], "harness-tasks"), (["--device-map", "auto"], "device-map")]
)
def test_flags_of_language_models_go_with_a_task(complaint, flags, name):
    assert complaint("run", *flags) == f"--{name} is for a task of your own: add --task NAME"


@pytest.mark.parametrize("flags", [["--harness-tasks", "piqa"], ["--dtype", "bfloat16"], ["--device-map", "auto"]])
def test_flags_of_language_models_go_with_no_other_task(complaint, tiny_data, tiny_model, flags):
    said = complaint("run", "--task", "classification", "--model", tiny_model, "--data", tiny_data, *flags)
    assert said == f"classification: {flags[0]} is for language models: use --task harness"


@pytest.mark.parametrize("flag", ["--model", "--data"])
def test_a_model_goes_with_texts_and_texts_with_a_model(complaint, tiny_language_model, tiny_texts, flag):
    value = {"--model": tiny_language_model, "--data": tiny_texts}[flag]
    other = {"--model": "--data", "--data": "--model"}[flag]
    assert complaint("run", "--task", "harness", flag, value) == (
        f"harness: {flag} without {other}: a language model needs texts for calibration, and they need one"
    )


@pytest.mark.parametrize("flags", [["--label", "x"], ["--finetune"]])
def test_flags_of_classifiers(refused, flags):
    assert refused(*flags) == f"harness: {flags[0]} is not for language models"


def test_an_unknown_dtype_or_device_map(refused, complaint):
    assert refused("--dtype", "int8") == "dtype 'int8': expected one of float32, bfloat16, float16, auto"
    assert refused("--device-map", "cuda:0") == "device map 'cuda:0': expected auto, or leave it out"
    assert complaint("run", "--task", "harness", "--dtype", "half").startswith("dtype 'half': expected one of")


# Models


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (t.BertForMaskedLM, t.BertConfig(vocab_size=700, **SIZES)),
        (t.RobertaForMaskedLM, t.RobertaConfig(vocab_size=700, **SIZES)),
        (t.BertLMHeadModel, t.BertConfig(vocab_size=700, **SIZES)),
    ],
)
def test_a_model_that_reads_ahead(refused, folder, kind, config):
    config.pad_token_id, config.bos_token_id, config.eos_token_id = 0, 1, 2
    torch.manual_seed(0)
    kind(config).save_pretrained(folder)
    assert "attends to later tokens: it is not a causal language model" in refused(model=folder)


BART = {
    **{f"{side}_layers": 1 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 4 for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": 48 for side in ("encoder", "decoder")},
}


@pytest.mark.parametrize(
    ("name", "kind", "config"),
    [
        ("t5", t.T5ForConditionalGeneration, t.T5Config(vocab_size=700, d_model=32, d_kv=8, d_ff=48, num_layers=1)),
        ("bart", t.BartForConditionalGeneration, t.BartConfig(vocab_size=700, d_model=32, **BART)),
    ],
)
def test_an_encoder_with_a_decoder(refused, folder, name, kind, config):
    kind(config).save_pretrained(folder)
    assert refused(model=folder) == f"{folder}: an encoder with a decoder ({name}) is not a causal language model"


def test_an_encoder_without_a_head(refused, folder):
    t.BertModel(t.BertConfig(vocab_size=700, **SIZES)).save_pretrained(folder)
    assert "is not a language model: no trained weights for" in refused(model=folder)


def test_a_classifier_whole_or_pruned(refused, folder, tmp_path):
    classifier = t.LlamaForSequenceClassification(t.LlamaConfig(vocab_size=700, pad_token_id=0, **SIZES))
    classifier.save_pretrained(folder)
    assert "is not a language model: no trained weights for lm_head.weight" in refused(model=folder)
    heads = HeadMap.of(classifier)
    save_pruned(remove_heads(classifier, torch.arange(len(heads)) > 0, heads), tmp_path / "pruned")
    for file in folder.glob("token*"):
        shutil.copy(file, tmp_path / "pruned")
    assert refused(model=tmp_path / "pruned") == (
        f"{tmp_path}/pruned: a pruned LlamaForSequenceClassification, which is not a causal language model"
    )


def test_a_model_without_any_head(refused, folder, tmp_path):
    model = t.AutoModelForCausalLM.from_pretrained(folder)
    heads = HeadMap.of(model)
    save_pruned(remove_heads(model, torch.zeros(len(heads), dtype=torch.bool), heads), tmp_path / "headless")
    for file in folder.glob("token*"):
        shutil.copy(file, tmp_path / "headless")
    assert refused(model=tmp_path / "headless") == (
        "headless: no attention head is left in it, so there is nothing to remove"
    )


def test_a_tokenizer_without_a_first_token(refused, folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.bos_token = tokenizer.eos_token = None
    tokenizer.save_pretrained(folder)
    assert refused(model=folder) == (
        f"{folder}: its tokenizer has neither bos_token nor eos_token; lm-eval needs one of them"
    )


def test_a_tokenizer_that_cannot_pad(refused, folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = tokenizer.bos_token = tokenizer.eos_token = tokenizer.unk_token = None
    tokenizer.save_pretrained(folder)
    config = AutoConfig.from_pretrained(folder)
    config.pad_token_id = None
    config.save_pretrained(folder)
    assert f"{folder}: no usable tokenizer: " in refused(model=folder)


def test_a_tokenizer_of_another_model(refused, folder):
    model = LlamaForCausalLM(t.LlamaConfig(vocab_size=50, **SIZES))
    model.save_pretrained(folder)
    assert "tokens, the model 50: they do not belong together" in refused(model=folder)


def test_a_pruned_model_is_not_spread(refused, folder, tmp_path):
    model = LlamaForCausalLM.from_pretrained(folder)
    heads = HeadMap.of(model)
    save_pruned(remove_heads(model, torch.arange(len(heads)) > 0, heads), tmp_path / "pruned")
    for file in folder.glob("token*"):
        shutil.copy(file, tmp_path / "pruned")
    said = refused("--device-map", "auto", model=tmp_path / "pruned")
    assert said.endswith("a pruned model, which cannot be spread over GPUs: leave --device-map out")


# Texts


def test_texts_that_are_not_there_or_have_other_columns(refused, tmp_path):
    assert refused(data="/no/where.jsonl") == "/no/where.jsonl: no such file or folder"
    (tmp_path / "d.jsonl").write_text('{"body": "a"}\n' * 50)
    assert "d.jsonl: line 1: no column 'text'; it has 'body': give --text COLUMN" in refused(data=tmp_path / "d.jsonl")
    (tmp_path / "e.jsonl").write_text('{"text": ""}\n' * 50)
    assert str(tmp_path / "e.jsonl") in refused(data=tmp_path / "e.jsonl")


def test_a_suite_without_language_models_runs_no_code_of_tasks(complaint, tmp_path):
    said = complaint("run", "--suite", "dsp", "--trust-task-code", "--dry-run", "--out", tmp_path / "out")
    assert said == "--trust-task-code is for language models; dsp has none"
