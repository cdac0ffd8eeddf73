"""The tokenizer and the small, untrained encoder for classification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from tasks.builtin.weights import sharpen_attention
from tasks.data.dataset import Dataset
from tasks.seeds import drawn_from

if TYPE_CHECKING:  # slow to import
    from transformers import BertForSequenceClassification

PAD, UNKNOWN, CLASSIFY, SEPARATE = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def build(
    dataset: Dataset, seed: int, *, pieces: int | None = None, max_length: int = 64
) -> tuple[PreTrainedTokenizerFast, BertForSequenceClassification]:
    """Tokenizer learned from ``dataset.train``, and an encoder of 4 layers with 4 heads each drawn from ``seed``.

    Args:
        pieces: size of a vocabulary of word pieces; None for one token per word.
        max_length: most tokens per example, including special ones.
    """
    from transformers import BertConfig, BertForSequenceClassification

    tokenizer = _tokenizer(dataset, pieces, max_length)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=max_length,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.09,
        pad_token_id=tokenizer.pad_token_id,
        id2label=dict(enumerate(dataset.labels)),
        label2id={label: index for index, label in enumerate(dataset.labels)},
    )
    with drawn_from(seed):
        model = BertForSequenceClassification(config)
        sharpen_attention(model)
    return tokenizer, model.eval()


def _tokenizer(dataset: Dataset, pieces: int | None, max_length: int) -> PreTrainedTokenizerFast:
    texts = [text for example in dataset.train for text in example.texts]
    trainer: trainers.Trainer
    if pieces is None:
        tokenizer = Tokenizer(models.WordLevel(unk_token=UNKNOWN))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        trainer = trainers.WordLevelTrainer(special_tokens=list(SPECIAL), show_progress=False)
    else:
        tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.BpeTrainer(vocab_size=pieces, special_tokens=list(SPECIAL), show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    classify, separate = SPECIAL.index(CLASSIFY), SPECIAL.index(SEPARATE)  # trainers number special tokens first
    tokenizer.post_processor = processors.BertProcessing((SEPARATE, separate), (CLASSIFY, classify))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        cls_token=CLASSIFY,
        sep_token=SEPARATE,
        model_max_length=max_length,
    )
