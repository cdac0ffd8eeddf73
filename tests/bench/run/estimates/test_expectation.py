"""What is expected of a model that no record knows, beside what tiny runs really take."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable

import pytest
import torch
import transformers as t
from transformers import AlbertConfig, AutoModelForSequenceClassification, BertConfig, GPT2Config, LlamaConfig

from bench.measure import evaluate
from bench.measure.cell import _ends, run_cell
from bench.measure.cost import counting
from bench.run.estimates.expectation import Expectation, expectations
from bench.run.estimates.passes import SHARED, over_calibration, over_test, trainings
from bench.run.estimates.shapes import Shape, shape_of
from bench.suites.cells import open_task, plan
from bench.suites.parse import MethodSpec, parse_methods
from bench.suites.plugins import load_plugins
from bench.suites.suite import Suite
from methods import METHODS
from methods.checks.tiny import Batch, Tiny
from methods.heads import HeadMap
from methods.recovery.choosing import select
from tasks.models import checkpoint
from tasks.models.cache import Cache
from tasks.request import TaskSpec
from tests.fixtures.slow import slow_cases
from tests.fixtures.translation import FAMILIES, save_family

load_plugins()
OPTIONS = (
    "michel:recompute=3,magnitude:recover=bias,random:draws=3,random:draws=3,recover=lstsq,ae:recover=scale,"
    "kwon:parts=both,path:rounds=20,points=2,path:along=layer,points=2,rounds=3,shapley:permutations=5,attr:steps=2,"
    "random-both:draws=2,amp:recover=lstsq,kwon:recover=scale-damped,none:recover=bias,none:recover=lstsq"
)
OFTEN = ("ae", "attr", "flap", "greedy-michel", "michel", "obs", "oracle-greedy", "random")  # of each kind of cost
TRAINING_FREE = sorted(name for name, method in METHODS.items() if not method.trains)
TRAINING = sorted(name for name, method in METHODS.items() if method.trains)


@pytest.fixture
def run(tiny_model, tiny_data, tmp_path, monkeypatch):
    """Run a method on the tiny model: its cell, what is expected of it, its result, and how often a model is evaluated.

    The evaluations with all heads and with none, which methods share, do not count.
    """
    evaluations = []
    monkeypatch.setattr(
        evaluate, "evaluate_model", lambda *args, real=evaluate.evaluate_model: evaluations.append(1) or real(*args)
    )
    spec = TaskSpec(task="classification", model=str(tiny_model), data=str(tiny_data), limit=40)

    def of(method: MethodSpec, training: float = 1.0):
        def cells(*methods):
            wanted = {"levels": (0, 0.25, 0.5, 1), "seeds": (0,), "calibration": 16, "training": training}
            return plan(Suite(name="tiny", tasks=(spec,), methods=methods, **wanted), "cpu")

        shared, cell = cells(*parse_methods("magnitude:inverse=true"), method)
        if (cell.task, cell.seed, cell.device) not in _ends:  # which it fills for all tests of this process
            run_cell(shared, Cache(tmp_path))
        evaluations.clear()
        record, _ = run_cell(cell, Cache(tmp_path))
        assert record.status == "done", record
        (expected,) = expectations([cell], {}, lambda dtype: 1e9)
        return cell, expected, record.result, len(evaluations)

    return of


def parsed(names: Iterable[str]) -> tuple[MethodSpec, ...]:
    return parse_methods(",".join(names))


@pytest.mark.parametrize(
    "method",
    [*parsed((*OFTEN, OPTIONS)), *slow_cases(*parsed(name for name in TRAINING_FREE if name not in OFTEN))],
    ids=lambda method: method.label,
)
def test_passes_are_those_that_a_run_takes(run, method):
    cell, expected, result, evaluations = run(method)
    if (passes := over_calibration(method, expected.shape, cell.removed)) is None:
        pytest.skip("a dry run calls what this method takes not known")
    taken = result.passes.forward / expected.calibration, result.passes.backward / expected.calibration
    assert expected.calibration == result.calibration == 16
    assert taken == passes[:2] if passes.exact else passes.forward >= taken[0] and passes.backward >= taken[1]
    assert over_test(method, cell.removed) >= evaluations
    if METHODS[method.name].shape == "scorer" and METHODS[method.name].base not in ("random", "shapley"):
        assert over_test(method, cell.removed) == evaluations


@pytest.mark.parametrize("name", [*TRAINING, "dsp-joint:epochs=1", *slow_cases("amp-recovered:choice=inverse")])
def test_trainings_are_those_that_a_run_takes(run, name):
    (method,) = parse_methods(name)
    share = 1.0 if "epochs" in name else 1 / 3  # of three epochs
    cell, expected, result, evaluations = run(method, training=share)
    assert expected.work(method).steps == -(-len(open_task(cell.task).dataset.train) // 32)
    texts, sent = len(open_task(cell.task).dataset.train), result.method_training.passes
    taken = sent.backward // texts
    assert trainings(method, cell.removed, 8) == taken if name != "voita" else taken <= 6
    scored = sent.forward % texts / expected.calibration, sent.backward % texts / expected.calibration
    assert over_calibration(method, expected.shape, cell.removed) == (*scored, True)
    # Gates without weights may be of the task's own model, which others evaluate too.
    assert over_test(method, cell.removed) == evaluations if name != "dsp-pipelined" else evaluations <= 3


def test_a_method_of_another_package_is_not_known(run, plugin, capsys):
    plugin(
        "import torch\nfrom methods import scorer\n\n@scorer('mine', source='test')\ndef mine(view):\n"
        "    return torch.arange(len(view.heads)).double()\n"
    )
    cell, expected, *_ = run(*parse_methods("mine"))
    assert over_calibration(cell.method, expected.shape, cell.removed) is None
    assert any("not known" in line and "mine" in line for line in expected.lines())


@pytest.mark.parametrize("finetune", [False, True])
def test_parameters_and_heads_are_those_of_the_model(tiny_model, tiny_data, finetune):
    task = open_task(TaskSpec(task="classification", model=str(tiny_model), data=str(tiny_data), finetune=finetune))
    shape, loaded = shape_of(task), task.validate()
    assert all(parameter.is_meta for parameter in shape.model.parameters())
    assert shape.parameters == sum(parameter.numel() for parameter in loaded.parameters())
    assert shape.weights == 4 * shape.parameters
    assert shape.heads.shape == HeadMap.of(loaded).shape


def test_a_head_for_the_labels_of_the_data_is_counted(tiny_model, tmp_path):
    rows = [{"text": f"film {number}", "label": f"label {number % 5}"} for number in range(100)]
    (tmp_path / "five.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = {"task": "classification", "model": str(tiny_model), "data": str(tmp_path / "five.jsonl")}
    task = open_task(TaskSpec(**given, finetune=True))
    assert shape_of(task).parameters == sum(parameter.numel() for parameter in task.validate().parameters())


@pytest.mark.slow
def test_a_language_model_has_its_shape_and_tested_texts(tiny_language_model, tiny_texts):
    given = {"task": "harness", "model": str(tiny_language_model), "data": str(tiny_texts)}
    for dtype, size in (("", 4), ("bfloat16", 2)):
        task = open_task(TaskSpec(**given, dtype=dtype))
        task.validate()
        shape = shape_of(task)
        assert shape.weights == size * shape.parameters
    assert shape.activations(4) is not None
    cells = plan(Suite(name="s", tasks=(task.spec,), methods=parse_methods("michel"), seeds=(0,)), "cpu")
    (expected,) = expectations(cells, {}, lambda dtype: 1e9)
    documents = len(task.texts.test)
    assert documents / 2 < expected.texts_tested < documents * 2


@pytest.mark.parametrize(("family", "beams"), [("marian", 0), ("t5", 3)])
def test_a_translation_model_has_its_shape_and_sees_a_text_for_the_loss_and_for_each_beam(
    family, beams, tiny_pairs, tmp_path
):
    given = {"task": "translation", "model": str(save_family(family, tmp_path)), "data": str(tiny_pairs)}
    task = open_task(TaskSpec(**given, text=("en", "hu"), beams=beams))
    shape, loaded = shape_of(task), task.validate()
    assert shape.parameters == sum(parameter.numel() for parameter in loaded.parameters())
    assert shape.heads.shape == HeadMap.of(loaded).shape and {site.kind for site in shape.heads.sites} > {"cross"}
    cells = plan(Suite(name="s", tasks=(task.spec,), methods=parse_methods("michel"), seeds=(0,)), "cpu")
    (expected,) = expectations(cells, {}, lambda dtype: 1e9)
    assert expected.texts_tested == len(task.dataset.test) * (2 if not beams else 4)
    tokenizer = t.AutoTokenizer.from_pretrained(tmp_path)
    texts = [text for example in (*task.dataset.train, *task.dataset.test) for text in example.texts]
    assert shape.batch == (64, max(len(ids) for ids in tokenizer(texts)["input_ids"]))


def shape(config, tokens: int = 16) -> Shape:
    model = checkpoint.skeleton(config, "test").eval()
    return Shape(model, HeadMap.of(model), torch.float32, tokens, (4, tokens))


SIZES = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128}


def test_operations_are_two_for_each_weight_of_a_layer_and_token_at_each_of_its_calls():
    layer = 4 * 64 * 64 + 2 * 64 * 128
    scores = 4 * 16 * 16 * 64  # products of queries and keys, and of attention and values
    bert = shape(BertConfig(vocab_size=50, **SIZES)).flops
    assert bert == pytest.approx(3 * (16 * 2 * layer + scores), rel=0.05)
    tied = shape(AlbertConfig(vocab_size=50, embedding_size=64, **SIZES)).flops
    assert tied == pytest.approx(bert, rel=0.05)


def kept_for_the_backward_pass(model, **inputs) -> int:
    """Bytes that a real forward pass keeps, without weights."""
    kept = {}
    own = {parameter.data_ptr() for parameter in model.parameters()}

    def keep(tensor):
        if tensor.untyped_storage().data_ptr() not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(**inputs)
    return sum(storage.nbytes() for storage in kept.values())


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("tokens", [16, 256])  # with so many, attention maps would be most of it
@pytest.mark.parametrize(
    "config",
    [
        BertConfig(vocab_size=50, **SIZES),
        LlamaConfig(vocab_size=50, pad_token_id=0, **SIZES),
        GPT2Config(vocab_size=50, n_embd=64, n_layer=3, n_head=4, pad_token_id=0),
    ],
    ids=lambda config: config.model_type,
)
def test_activations_are_what_a_real_forward_pass_keeps(config, tokens, trains):
    estimated = shape(config, tokens).activations(4, trains)
    model = AutoModelForSequenceClassification.from_config(config).train(trains)
    taken = kept_for_the_backward_pass(model.base_model, input_ids=torch.ones(4, tokens, dtype=torch.long))
    assert estimated == pytest.approx(taken, rel=0.2)


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_activations_of_a_translation_model_are_known_too(family, trains):
    model, tokens = FAMILIES[family](), 40
    for module in model.modules():
        if hasattr(module, "layerdrop"):
            module.layerdrop = 0.0  # otherwise training skips layers at random
    bare = copy.deepcopy(model).to("meta").eval()
    estimated = Shape(bare, HeadMap.of(bare), torch.float32, tokens, (4, tokens)).activations(4, trains)
    ids = torch.full((4, tokens), 5)
    taken = kept_for_the_backward_pass(model.train(trains), input_ids=ids, decoder_input_ids=ids)
    taken += 4 * tokens * model.config.vocab_size * 3 * 4  # logits, log-softmax and gradient
    assert estimated == pytest.approx(taken, rel=0.2)


SMALL = {"vocab_size": 50, "pad_token_id": 0, **SIZES}
GPT = {"vocab_size": 50, "n_embd": 64, "n_layer": 3, "n_head": 4, "pad_token_id": 0}


@pytest.mark.parametrize(
    ("config", "by_blocks"),
    [
        (BertConfig(**SMALL), True),
        (LlamaConfig(**SMALL), True),
        (GPT2Config(**GPT), True),
        (AlbertConfig(embedding_size=64, **SMALL), False),
        (t.GPTJConfig(rotary_dim=4, **GPT), False),
        (t.DebertaV2Config(relative_attention=True, pos_att_type=["p2c", "c2p"], **SMALL), False),
        (
            t.T5Config(
                vocab_size=50, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, decoder_start_token_id=0
            ),
            False,
        ),
    ],
    ids=lambda value: getattr(value, "model_type", None),
)
@pytest.mark.parametrize("how", ["scale-damped", "lstsq"])
def test_recovery_takes_no_more_passes_than_expected_of_the_model(config, by_blocks, how):
    (method,) = parse_methods(f"magnitude:recover={how}")
    model = AutoModelForSequenceClassification.from_config(config).eval().requires_grad_(False)
    known = shape(copy.deepcopy(config))
    assert known.by_blocks == by_blocks
    ids = torch.arange(48).view(8, 6) + 2
    ids[:, -1] = 1  # the end of a text, of which T5 asks for one
    view = Tiny().view(model, [Batch({"input_ids": ids, "attention_mask": ids > 0}, torch.zeros(8, dtype=torch.long))])
    with counting(model) as passes:
        select(METHODS["magnitude"], method.options, view, [len(view.heads) // 2])
    most = over_calibration(method, known, [len(view.heads) // 2]).forward
    assert passes.forward / 8 <= most
    assert by_blocks or len(view.heads.sites) == 1 or passes.forward / 8 > 2.75


def test_weights_of_a_smaller_model_are_those_that_it_does_not_share():
    found = shape(BertConfig(vocab_size=50, **SIZES))
    layer = 4 * (64 * 64 + 64)
    assert found.narrowed(neurons=False) == 4 * 3 * layer
    assert found.narrowed(neurons=True) == 4 * 3 * (layer + 2 * 64 * 128 + 64 + 128)


def test_memory_is_that_of_scores_or_of_a_training_whichever_is_more(tiny_model, tiny_data):
    def memory(methods: str, models: int = 0, finetune: bool = False):
        spec = TaskSpec(task="classification", model=str(tiny_model), data=str(tiny_data), finetune=finetune)
        suite = Suite(name="s", tasks=(spec,), methods=parse_methods(methods), seeds=(0,), calibration=9)
        (expected,) = expectations(plan(suite, "cpu"), {spec: models}, lambda dtype: 1e9)
        return expected.memory, expected.shape

    scored, of = memory("michel")
    assert scored.texts == 9  # fewer than a batch
    assert scored.most == of.weights + max(of.narrowed(neurons=False), of.activations(9))
    tuned, of = memory("michel", models=1, finetune=True)
    assert tuned.most == 5 * of.weights + of.activations(32, trains=True)
    trained, of = memory("dsp-joint")
    assert trained.most == 6 * of.weights + of.activations(32, trains=True)
    gates, of = memory("dsp-pipelined")  # the weights stay as they are
    assert gates.most == 2 * of.weights + of.activations(32, trains=True)
    kept, of = memory("voita")  # the models of the weights that some level takes so far
    assert kept.copies == (4 + 6) * of.weights
    few, of = memory("voita:most=3")
    assert few.copies == (4 + 3) * of.weights


def test_seconds_are_operations_over_speed(tiny_model, tiny_data):
    """By hand: what goes forward counts once, what goes backward twice more, at so many operations a second."""
    spec = TaskSpec(task="classification", model=str(tiny_model), data=str(tiny_data), finetune=True)
    suite = Suite(name="s", tasks=(spec,), methods=parse_methods("michel,none"), seeds=(0, 1), levels=(0, 0.5, 1))
    (expected,) = expectations(plan(suite, "cpu"), {spec: 2}, lambda dtype: 1000.0)
    data, held_out = open_task(spec).dataset, open_task(spec).held_out
    steps = 3 * -(-(len(data.train) - held_out) // 32)
    models = 2 * (3 * 32 * steps + 6 * len(data.validation))
    michel = 3 * held_out + len(data.test)  # scores on what is held out, and is tested at one level
    texts = models + 2 * michel + 2 * SHARED * len(data.test)
    assert expected.seconds == pytest.approx(texts * expected.shape.flops / 1000.0)
    in_a_row = 3 * 32 * steps + 6 * len(data.validation) + michel  # one model and its longest cell
    assert expected.seconds_in_a_row == pytest.approx(in_a_row * expected.shape.flops / 1000.0)
    assert isinstance(expected, Expectation) and f"{expected.shape.parameters:,} parameters" in "\n".join(
        expected.lines()
    )


def test_memory_and_passes_are_told_without_a_speed(tiny_model, tiny_data):
    """As of the GPUs of a cluster's nodes."""
    spec = TaskSpec(task="classification", model=str(tiny_model), data=str(tiny_data), finetune=True)
    suite = Suite(name="s", tasks=(spec,), methods=parse_methods("michel,dsp-joint"), seeds=(0,), levels=(0, 0.5, 1))
    planned = plan(suite, "cpu")
    (known,), (unknown,) = (expectations(planned, {spec: 1}, lambda dtype, s=speed: s) for speed in (1e3, None))
    said = "\n".join(unknown.lines())
    assert "1 + 1, and 1: michel" in said and "training: 1 model of" in said and "MB at the peak" in said
    assert re.sub(r", about [^,:]*?(?= each$|$|: )( each)?", "", "\n".join(known.lines()), flags=re.M) == said


def test_steps_are_of_the_batches_that_a_method_takes(tiny_model, tiny_data):
    spec = TaskSpec(task="classification", model=str(tiny_model), data=str(tiny_data))
    methods = parse_methods("amp-recovered,amp-recovered:batch_size=1,amp-recovered:batch_size=16")
    suite = Suite(name="s", tasks=(spec,), methods=methods, seeds=(0,))
    (expected,) = expectations(plan(suite, "cpu"), {}, lambda dtype: 1e9)
    usual, single, sixteen = map(expected.work, methods)
    assert (usual.batch, single.batch, sixteen.batch) == (32, 1, 16)
    assert single.steps == 32 * usual.steps and sixteen.steps == 2 * usual.steps
    times = [expected._texts(work) for work in (usual, single, sixteen)]
    assert times == pytest.approx([times[0]] * 3)
