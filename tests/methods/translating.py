"""Random models that translate, pairs of texts with padding on both sides, and slow looks at their attention."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import transformers as t
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from methods import View
from methods.checks.tiny import Batch
from methods.heads import HeadMap

IDS = {"vocab_size": 30, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": 2, "decoder_start_token_id": 1}
SIDES = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
FAMILIES = {
    "marian": lambda: t.MarianMTModel(
        t.MarianConfig(
            d_model=16, encoder_ffn_dim=12, decoder_ffn_dim=12, max_position_embeddings=16, dropout=0.0, **SIDES, **IDS
        )
    ),
    "t5": lambda: t.T5ForConditionalGeneration(
        t.T5Config(d_model=16, d_kv=4, d_ff=12, num_layers=2, num_heads=4, dropout_rate=0.0, **IDS)
    ),
}


def translating(family: str, seed: int, kinds: tuple[str, ...] = ()) -> tuple[View, list[Batch]]:
    """A view of a random model and random pairs in two padded batches; and each pair as a batch of its own.

    Sources for T5, whose positions are relative, are padded on the left in one of them.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = FAMILIES[family]().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 2:
                    parameter.normal_(std=0.4)
    generator = torch.Generator().manual_seed(seed)

    def text() -> torch.Tensor:
        length = int(torch.randint(1, 9, (), generator=generator))
        return torch.randint(3, 30, (length,), generator=generator)

    pairs = [(text(), text(), text(), label) for label in (0, 1, 1, 0, 2, 2, 1)]
    pairs = [(source, read, torch.cat([read[1:], other[:1]]), label) for source, read, other, label in pairs]
    heads = HeadMap.of(model, kinds=kinds)
    view = View(
        model=model,
        heads=heads,
        batches=[_batch(pairs[:3], "left" if family == "t5" else "right"), _batch(pairs[3:])],
        kept=heads.full_mask(),
        generator=torch.Generator().manual_seed(seed),
        forward=_logits,
        loss_of_logits=_loss,
    )
    return view, [_batch([pair]) for pair in pairs]


def maps_of(view: View, pairs: list[Batch]) -> Iterator[tuple[int, int, list[list[float]]]]:
    """Index of site and head, and its attention map, (T, S), for each of ``pairs``, as the model returns them."""
    view.model.set_attn_implementation("eager")
    for pair in pairs:
        inputs = {name: values for name, values in pair.inputs.items() if name != "targets"}
        with torch.no_grad():
            found = view.model(**inputs, output_attentions=True)
        of_kinds = {
            "encoder": iter(found.encoder_attentions),
            "decoder": iter(found.decoder_attentions),
            "cross": iter(found.cross_attentions),
        }
        for index, site in enumerate(view.heads.sites):
            for head, rows in enumerate(next(of_kinds[site.kind])[0].double().tolist()):
                yield index, head, rows


def _batch(pairs: list, side: str = "right") -> Batch:
    def padded(rows: list[torch.Tensor], side: str = "right") -> torch.Tensor:
        return pad_sequence(rows, batch_first=True, padding_side=side)

    sources, read, targets, labels = zip(*pairs, strict=True)
    inputs = {
        "input_ids": padded(sources, side),
        "attention_mask": padded([torch.ones_like(row) for row in sources], side),
        "decoder_input_ids": padded(read),
        "decoder_attention_mask": padded([torch.ones_like(row) for row in read]),
        "targets": padded(targets),
    }
    return Batch(inputs, torch.tensor(labels))


def _logits(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    return model(**{name: values for name, values in batch.inputs.items() if name != "targets"}, use_cache=False).logits


def _loss(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    real = batch.inputs["decoder_attention_mask"]
    losses = F.cross_entropy(logits.flatten(0, 1), batch.inputs["targets"].flatten(), reduction="none").view_as(real)
    return (losses * real).sum(1) / real.sum(1)
