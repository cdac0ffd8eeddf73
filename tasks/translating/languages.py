"""What a model must be told of the languages: codes in its vocabulary, a first token to force, or words before a text.

M2M100, NLLB and mBART have a token for each language; multilingual Marian models expect ``>>fra<<`` before the source,
and T5 a task in words, which its configuration names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from tasks.errors import TaskError

SHOWN = 8  # most codes in an error message
CODE = re.compile(r"[a-z]{2,3}_([A-Z]{2}|[A-Z][a-z]{3})")  # as mBART and NLLB write languages
MARIAN = re.compile(r">>(.+)<<")


@dataclass(frozen=True)
class Languages:
    """What translation from one language to another needs of a model.

    prefix: words before each source. forced_bos_token_id: the first token of each translation. decoder_start_token_id:
        the token with which decoding begins, before that.
    """

    prefix: str = ""
    forced_bos_token_id: int | None = None
    decoder_start_token_id: int | None = None

    @property
    def of_generation(self) -> dict[str, int]:
        """Arguments of ``generate``."""
        given = {"forced_bos_token_id": self.forced_bos_token_id, "decoder_start_token_id": self.decoder_start_token_id}
        return {name: token for name, token in given.items() if token is not None}


def set_languages(
    tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig, codes: Sequence[str], name: str
) -> Languages:
    """Let ``tokenizer`` mark sources and targets with their languages, and say what else is needed.

    codes: of the source and the target; empty if none are given. name: of the model, for error messages.

    Raises TaskError for codes that the model needs and that are not given, for an unknown one, and for codes that a
    model has no use for.
    """
    if codes and len(codes) != 2:
        raise TaskError(f"--languages {','.join(codes)}: expected two codes, SOURCE,TARGET")
    target: Any = tokenizer
    if hasattr(tokenizer, "src_lang"):
        if not codes:
            raise TaskError(f"{name}: needs the languages of the data: give --languages SOURCE,TARGET")
        known = getattr(tokenizer, "lang_code_to_token", None) or {
            token: token for token in _special(tokenizer) if CODE.fullmatch(token)
        }
        _check(codes, known, name)
        target.src_lang, target.tgt_lang = codes
        language: Any = tokenizer.convert_tokens_to_ids(known[codes[1]])
        if tokenizer(text_target="a")["input_ids"][0] == language:
            return Languages(forced_bos_token_id=language)
        return Languages(decoder_start_token_id=language)  # the first mBART, whose targets end with their language
    marked = {match[1]: token for token in tokenizer.get_vocab() if (match := MARIAN.fullmatch(token))}
    if marked:
        if not codes:
            raise TaskError(f"{name}: translates to several languages: give --languages SOURCE,TARGET")
        _check(codes[1:], marked, name)
        return Languages(prefix=f"{marked[codes[1]]} ")
    pairs = _prefixes(config)
    if codes and (pair := "_to_".join(codes)) not in pairs:
        found = f"it translates {_shown([*pairs])}" if pairs else "it has no languages to choose from"
        raise TaskError(f"{name}: --languages {','.join(codes)}: {found}" + ("" if pairs else ": leave the flag out"))
    return Languages(prefix=pairs[pair]) if codes else Languages()


def remarks(config: PreTrainedConfig, codes: Sequence[str]) -> list[str]:
    """What a user may not expect of a model that translates without ``codes`` as well: at most one line."""
    if codes or not (pairs := _prefixes(config)):
        return []
    codes_of = [pair.replace("_to_", ",") for pair in pairs]
    return [f"no words before the sources say what to do, as --languages is not given ({'; '.join(codes_of[:SHOWN])})"]


def _prefixes(config: PreTrainedConfig) -> dict[str, str]:
    """The words that go before sources, as T5's configurations have them, by pair of languages such as ``en_to_de``."""
    tasks = getattr(config, "task_specific_params", None) or {}
    prefixes = {key.removeprefix("translation_"): value.get("prefix", "") for key, value in tasks.items()}
    return {key: prefix for key, prefix in sorted(prefixes.items()) if re.fullmatch(r"\w+_to_\w+", key)}


def _special(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Tokens that were added to the vocabulary, as those of languages are."""
    added: dict[int, Any] = tokenizer.added_tokens_decoder
    return [*map(str, added.values()), *tokenizer.all_special_tokens]


def _check(codes: Sequence[str], known: dict[str, str], name: str) -> None:
    for code in codes:
        if code not in known:
            raise TaskError(f"{name}: knows no language {code!r}; it knows {_shown(sorted(known))}")


def _shown(names: Sequence[str]) -> str:
    """``names`` as text, with at most ``SHOWN`` of them."""
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
