"""Train a small Marian on Multi30k, German to English, to prune it: a translation model of one's own, in an hour.

    python docs/studies/multi30k.py FOLDER OUT [--steps 4000] [--threads 1]

FOLDER has train.jsonl, valid.jsonl and test2016.jsonl with the columns ``de`` and ``en``. OUT becomes a model folder,
whose training.json says how well it translates. What is pruned of it, and the commands, are in docs/translation.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import sacrebleu
import torch
from transformers import MarianConfig, MarianMTModel

from tasks.builtin import translator
from tasks.data.encode import Batch
from tasks.data.source import load_pairs
from tasks.models.seeded import write_tokenizer
from tasks.models.train import Recipe, fit
from tasks.seeds import Seeds
from tasks.translating import generate, pairs, seq2seq, teacher_forcing
from tasks.translating.languages import Languages

PIECES, POSITIONS = 5000, 96
SMOOTHING = 0.1
SHAPE: dict[str, Any] = {  # as the smallest that Wu et al. 2021 (arXiv:2105.14462) found best for these data
    "d_model": 128,
    **{f"{side}_layers": 4 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 4 for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": 256 for side in ("encoder", "decoder")},
    "dropout": 0.2,
    "activation_function": "relu",
}
NAMES = {"train": "train.jsonl", "validation": "valid.jsonl", "test": "test2016.jsonl"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=4000, help="of 128 pairs; 227 are an epoch (default: 4000)")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.out.exists():
        parser.error(f"{options.out}: exists already")
    torch.set_num_threads(options.threads)
    data = load_pairs({split: str(options.folder / name) for split, name in NAMES.items()}, ("de", "en"))
    tokenizer, _ = translator.build(data, 0, pieces=PIECES, max_length=POSITIONS)
    model = untrained(tokenizer)
    training, validation, test = (
        seq2seq.encode(getattr(data, split), tokenizer, model, Languages(), POSITIONS) for split in NAMES
    )
    recipe = Recipe(
        learning_rate=3e-3,
        max_steps=options.steps,
        batch_size=128,
        warmup_steps=options.steps // 10,
        max_length=POSITIONS,
        evaluate_every=max(1, options.steps // 20),
    )
    started = time.perf_counter()
    report = fit(
        model,
        pairs.PairTraining(training, tokenizer, recipe, 0, "cpu"),
        lambda batch: loss(model, batch),
        lambda: teacher_forcing.tokens_right(model, validation, tokenizer),
        recipe,
        Seeds("translation", data.name, "multi30k", 0),
        name=data.name,
        progress=lambda step, steps, right: print(
            f"step {step} of {steps}: {right:.4f} of the tokens right, {time.perf_counter() - started:.0f} s",
            file=sys.stderr,
            flush=True,
        ),
    )
    found = generate.translate(
        model, tokenizer, pairs.batches(test, tokenizer, 64, "cpu"), longest=POSITIONS, languages=Languages(), beams=1
    )
    texts = [found[index] for index in range(len(test))]
    report["test2016_bleu"] = sacrebleu.corpus_bleu(texts, [[example.texts[1] for example in data.test]]).score
    report["parameters"] = model.num_parameters()
    options.out.mkdir(parents=True)
    model.save_pretrained(options.out)
    write_tokenizer(tokenizer, options.out)
    (options.out / "training.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    print(json.dumps(report, indent=1))


def untrained(tokenizer: Any) -> MarianMTModel:
    """The model before training: 4 layers of 4 heads on each side, so 16 heads of each kind of attention."""
    torch.manual_seed(0)
    pad = tokenizer.pad_token_id
    return MarianMTModel(
        MarianConfig(
            vocab_size=len(tokenizer),
            max_position_embeddings=POSITIONS,
            scale_embedding=True,
            pad_token_id=pad,
            decoder_start_token_id=pad,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            forced_eos_token_id=None,
            **SHAPE,
        )
    )


def loss(model: Any, batch: Batch) -> torch.Tensor:
    """Smoothed cross-entropy, averaged over the tokens of the targets."""
    of_pairs = teacher_forcing.loss(teacher_forcing.logits(model, batch), batch, SMOOTHING)  # (B,)
    tokens = batch.inputs["decoder_attention_mask"].sum(1)
    return (of_pairs * tokens).sum() / tokens.sum()


if __name__ == "__main__":
    main()
