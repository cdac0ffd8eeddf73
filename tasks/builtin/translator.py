"""The small encoder-decoder for translation: its tokenizer, initial weights and recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from tasks.builtin.weights import sharpen_attention
from tasks.data.dataset import Dataset
from tasks.models.train import Recipe
from tasks.seeds import drawn_from

if TYPE_CHECKING:  # slow to import
    from transformers import MarianMTModel

PAD, UNKNOWN, END = SPECIAL = ("<pad>", "<unk>", "</s>")
PIECES, POSITIONS = 1000, 96  # with these data, nearly every word is one piece
RECIPE = Recipe(learning_rate=3e-3, max_steps=750, max_length=POSITIONS, evaluate_every=150)
# Share of the validation targets' tokens that a trained model gets right. Training goes on, as it is translations that
# count: the seeds tried end between 0.997 and 1.
TARGET = 0.99


def build(
    dataset: Dataset, seed: int, *, pieces: int = PIECES, max_length: int = POSITIONS
) -> tuple[PreTrainedTokenizerFast, MarianMTModel]:
    """Tokenizer learned from both sides of ``dataset.train``, and a Marian model drawn from ``seed``.

    The model has 2 layers of 4 heads and width 64 on each side: 8 heads in each of encoder, decoder and cross
    attention. Source, target and output share their embeddings.

    Args:
        pieces: most pieces in the vocabulary.
        max_length: most tokens of a text, including that for its end.
    """
    from transformers import MarianConfig, MarianMTModel

    tokenizer = _tokenizer(dataset, pieces, max_length)
    end = tokenizer.eos_token_id
    config = MarianConfig(
        vocab_size=len(tokenizer),
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_position_embeddings=max_length,
        scale_embedding=True,
        dropout=0.0,
        init_std=0.09,
        pad_token_id=tokenizer.pad_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,  # as in Marian's own models
        bos_token_id=None,
        eos_token_id=end,
        forced_eos_token_id=None,
    )
    with drawn_from(seed):
        model = MarianMTModel(config)
        sharpen_attention(model)
    return tokenizer, model.eval()


def _tokenizer(dataset: Dataset, pieces: int, max_length: int) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.NFC()
    # Punctuation stands alone, so that a number is the same pieces with a comma behind it and without.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()])
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=pieces, special_tokens=list(SPECIAL), show_progress=False)
    tokenizer.train_from_iterator((text for example in dataset.train for text in example.texts), trainer)
    end = (END, SPECIAL.index(END))  # trainers number special tokens first
    tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {END}", special_tokens=[end])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, unk_token=UNKNOWN, eos_token=END, model_max_length=max_length
    )
