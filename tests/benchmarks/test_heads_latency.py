"""Size and speed of a BERT-base against the heads it keeps, as in Figure 4 of Li, Cotterell & Sachan (2021).

Draws results/bert-base-latency.svg. Sizes are interleaved in every repeat, so that slow moments affect all of them.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import pytest
import torch
from matplotlib.figure import Figure
from transformers import BertConfig, BertForSequenceClassification

from methods.heads import HeadMap, count_parameters, gated, remove_heads

KEPT = tuple(range(144, 0, -12))
BATCH, LENGTH, REPEATS = 8, 128, 3
PICTURE = Path(__file__).parents[2] / "results" / "bert-base-latency.svg"


@torch.no_grad()
def test_fewer_heads_are_smaller_and_faster(benchmark):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig()).eval().to(device)
    heads = HeadMap.of(model)
    ids = torch.randint(1000, 2000, (BATCH, LENGTH), device=device)
    models = {}
    for kept in KEPT:
        mask = torch.arange(len(heads)) % 12 < kept // 12  # as many in every layer
        models[kept] = remove_heads(model, mask, heads)
        with gated(model, mask.float(), heads):
            expected = model(ids).logits
        torch.testing.assert_close(models[kept](ids).logits, expected, rtol=0, atol=1e-5 * max(1, expected.abs().max()))

    seconds: dict[int, list[float]] = {kept: [] for kept in KEPT}

    def repeat() -> None:
        for kept, smaller in models.items():
            begin = time.perf_counter()
            smaller(ids)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            seconds[kept].append(time.perf_counter() - begin)

    benchmark.pedantic(repeat, rounds=REPEATS, warmup_rounds=1)
    times = {kept: median(samples[1:]) for kept, samples in seconds.items()}  # the first is the warm-up
    sizes = {kept: count_parameters(smaller)["model"] for kept, smaller in models.items()}
    speedups = {kept: times[144] / times[kept] for kept in KEPT}
    shrunk = {kept: 1 - sizes[kept] / sizes[144] for kept in KEPT}
    for kept in KEPT:
        print(f"{kept:4} heads: {sizes[kept] * 4 / 2**20:6.1f} MB, {shrunk[kept]:6.1%} smaller, {speedups[kept]:.2f}x")
    benchmark.extra_info.update(speedups={str(k): round(v, 3) for k, v in speedups.items()})
    cpu = f"{torch.get_num_threads()} CPU thread" + ("s" if torch.get_num_threads() > 1 else "")
    _draw(speedups, shrunk, torch.cuda.get_device_name(device) if device.type == "cuda" else cpu)
    assert shrunk[12] == pytest.approx(0.24, abs=0.005)  # as published
    assert list(sizes.values()) == sorted(sizes.values(), reverse=True)
    assert speedups[12] > speedups[72] > 1


def _draw(speedups: dict[int, float], shrunk: dict[int, float], device: str) -> None:
    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axis = figure.subplots()
    axis.plot(KEPT, [100 * (speedups[kept] - 1) for kept in KEPT], "o-", color="#0072B2", label="faster (measured)")
    axis.plot(KEPT, [100 * shrunk[kept] for kept in KEPT], "s--", color="#D55E00", label="smaller (parameters)")
    axis.set(xlabel="heads kept", ylabel="%", title=f"BERT-base, batch {BATCH}, {LENGTH} tokens, {device}")
    axis.invert_xaxis()
    axis.set_xticks(KEPT[::2])
    axis.legend(frameon=False)
    figure.savefig(PICTURE, metadata={"Date": None})
