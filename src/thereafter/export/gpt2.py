"""The target `transformers`: a folder for `AutoModelForCausalLM.from_pretrained`, read again for the check.

A tokenizer becomes `tokenizer.json` of `tokenizers`, where that can say what ours does. A pre-norm Transformer with a
full softmax becomes GPT-2 (Radford et al. 2019), number by number.

    theirs:  x = wte[token] + wpe[position],  blocks,  f = ln_f(x),  logits = lm_head f          (no bias)
    ours:    x = sqrt(H) E[token] + p[position],  the same blocks,  f = g n(x) + b,  logits = W f + c

wte = sqrt(H) E and wpe = p; the maps of a block are stored turned, [in, out]. GPT-2 has no bias c. But n(x), a layer
norm without gain and shift, has the mean 0 for every x, so that with

    b' = b + t g,    t = 1 - mean(b / g),    v = 1 / (H g)         v . (g n(x) + b') = mean(n) + mean(b / g) + t = 1

and W' = W + (c - t W g) v^T gives W' f' = W f + c for every x. The row of `<s>`, which is read and never predicted, is
-10,000 v: its logit is -10,000 whatever was read.

Shapes: V words, H features, C positions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from thereafter.base import packages
from thereafter.base.config import Table
from thereafter.base.packages import require
from thereafter.base.storage import write_arrays, write_text
from thereafter.export.gpt2_reading import CONFIG, TOKENIZER, WEIGHTS, read_network
from thereafter.export.parts import EPSILON, Array, BlockPlan, SoftmaxPlan, WordingPlan
from thereafter.export.plan import Plan, TransformerPlan
from thereafter.export.targets import FLOAT32, WrittenFiles
from thereafter.models.base import Floats, Ids
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.text.tokenizers.byte_level import byte_alphabet


class TransformersTarget:
    """config.json, model.safetensors and, where it can be said, tokenizer.json: GPT-2 as transformers knows it."""

    ending: ClassVar[str] = ""
    program: ClassVar[str] = "reader of GPT-2 folders"
    tolerance: ClassVar[float] = FLOAT32

    def refuses(self, plan: Plan, int8: bool) -> str | None:
        if int8:
            return "transformers quantises what it loads by itself; try it without --int8"
        if not isinstance(plan, TransformerPlan):
            return (
                f"a model of kind {plan.kind!r} does not exist in transformers: only a Transformer does, as GPT-2; "
                "try --to onnx"
            )
        if not plan.pre or plan.norm is None:
            return (
                "this Transformer has norm='post', and GPT-2 normalises before; try training with norm='pre', or "
                "--to onnx"
            )
        if not isinstance(plan.head, SoftmaxPlan):
            return (
                "this Transformer has an adaptive softmax, and GPT-2 has none; try training with head='full', or "
                "--to onnx"
            )
        if not np.all(plan.norm[0]):
            return (
                "the last norm of this Transformer has a gain of 0, so its bias cannot be moved into GPT-2; try "
                "--to onnx"
            )
        return None

    def write(self, plan: Plan, path: Path, *, int8: bool) -> WrittenFiles:
        if not isinstance(plan, TransformerPlan):
            raise TypeError(plan.kind)
        path.mkdir()
        write_text(path / CONFIG, json.dumps(config_of(plan), indent=2) + "\n")
        write_arrays(path / WEIGHTS, arrays_of_gpt2(plan), {"format": "pt"})
        tokenizer = tokenizer_of(plan.wording)
        if tokenizer is not None:
            about = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": START, "model_max_length": plan.context}
            write_text(path / TOKENIZER, json.dumps(tokenizer, ensure_ascii=False))
            write_text(path / "tokenizer_config.json", json.dumps(about, indent=2) + "\n")
        facts: dict[str, object] = {
            "loads as": "GPT2LMHeadModel",
            "tokenizer": f"{TOKENIZER}, from {plan.wording.tokens}"
            if tokenizer is not None
            else f"not written: the library tokenizers has none like {plan.wording.tokens}; give it token ids",
            "a text begins with": f"the token {plan.wording.start} ({START})",
            "longest text": f"{plan.context} tokens; of a longer one read the last {plan.context // 2} again",
        }
        if plan.wording.restart is not None:
            facts["line ends"] = f"after the token {plan.wording.restart} begin again: every line starts afresh"
        return WrittenFiles((path,), facts)

    def runner(self, plan: Plan, written: WrittenFiles) -> Gpt2Runner:
        return Gpt2Runner(plan, written.paths[0])


class Gpt2Runner:
    """The folder, read again; lines begin anew where those of the model do."""

    name: ClassVar[str] = "our reader of GPT-2 folders"

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._model = read_network(folder).eval()
        self._words = plan.wording
        self._state = self._model.fresh(1)
        self._tokenizer = folder / TOKENIZER

    def start(self, rows: int) -> Floats:
        self._state = self._model.fresh(rows)
        return self._read(np.full(rows, self._words.start))

    def step(self, token_B: Ids) -> Floats:
        token_B = np.asarray(token_B)
        if self._words.restart is not None and bool((token_B == self._words.restart).all()):
            return self.start(len(token_B))
        return self._read(token_B)

    def encode(self, texts: Sequence[str]) -> list[list[int]] | None:
        """The tokens of each text by tokenizer.json, where there is one; <s> in a text is text."""
        if not self._tokenizer.exists():
            return None
        library = packages.require("tokenizers", "checking tokenizer.json")
        tokenizer = library.Tokenizer.from_file(str(self._tokenizer))
        tokenizer.encode_special_tokens = True
        return [encoding.ids for encoding in tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def _read(self, token_B: Ids) -> Floats:
        logp_BR, self._state = self._model.step(token_B, self._state)
        return np.asarray(logp_BR, dtype=np.float32)[:, : self._words.size]

    def close(self) -> None:
        self._state = self._model.fresh(0)


TARGET = TransformersTarget()


LEARNED = ("bpe", "wordpiece", "unigram")
START = "<s>"
_INLINE = "\t\v-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_LETTERS = r"\p{L}\p{Nl}\p{No}"
PROSE = rf"\n| ?[{_LETTERS}]+| ?\p{{Nd}}+| ?[^\n{_LETTERS}\p{{Nd}}_{_INLINE}]+| ?_+|[{_INLINE}]+"
"""The pattern of `prose` as the library says it: its \\w and \\s are not Python's."""


def tokenizer_of(words: WordingPlan) -> Table | None:
    """The whole of `tokenizer.json`; None where the library has no such tokenizer.

    That is so for `word` tokens, whose line ends are no text, for `prose` over scripts without spaces, and for text of
    which letters alone are kept.
    """
    known = words.tokens in (*LEARNED, "char", "byte", "prose") and not words.tokenizer.get("scripts")
    if words.letters_only or not known:
        return None
    stored = _learned(words) if words.tokens in LEARNED else _made(words)
    stored["normalizer"] = {"type": "Sequence", "normalizers": _normalizers(words.lower)}
    start: Table = {"id": words.start, "content": START, "special": True}
    start |= {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return stored | {"added_tokens": [start]}


def _normalizers(lower: bool) -> list[Table]:
    """A text as it is read in training: no byte order mark, LF between lines, lower case with the final sigma."""
    changes = [(r"\A\uFEFF", ""), (r"\r\n?", "\n")]
    if lower:
        passed = r"\p{Case_Ignorable}*"
        cased = r"[\p{Cased}&&[^\p{Case_Ignorable}]]"
        changes.append((rf"{cased}{passed}\KΣ(?!{passed}{cased})", "ς"))
    replaced = [{"type": "Replace", "pattern": {"Regex": pattern}, "content": text} for pattern, text in changes]
    return [*replaced, *([{"type": "Lowercase"}] if lower else [])]


def _learned(words: WordingPlan) -> Table:
    """The engine of learned pieces, given the forms that Python splits a text into, long ones cut at fixed places."""
    stored: Table = words.tokenizer["tokenizers"]
    longest = TOKENIZERS.load(words.tokens).longest_form
    forms = [_split(PROSE), _split(rf"[\s\S]{{1,{longest}}}"), *stored["pre_tokenizer"]["pretokenizers"]]
    return stored | {"pre_tokenizer": {"type": "Sequence", "pretokenizers": forms}}


def _split(pattern: str) -> Table:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _made(words: WordingPlan) -> Table:
    """The engine of a tokenizer that is not the library's own."""
    library = require("tokenizers", "writing tokenizer.json")
    split = library.pre_tokenizers.Split
    if words.tokens == "byte":
        engine = library.Tokenizer(library.models.BPE(vocab=dict(byte_alphabet()), merges=[]))
        engine.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        engine.decoder = library.decoders.ByteLevel()
    else:
        unknown = "" if words.unknown is None else words.forms[words.unknown]
        numbered = {form: number for number, form in enumerate(words.forms)}
        engine = library.Tokenizer(library.models.WordLevel(vocab=numbered, unk_token=unknown or "<unk>"))
        pattern = PROSE if words.tokens == "prose" else r"[\s\S]"
        engine.pre_tokenizer = split(library.Regex(pattern), "isolated")
        engine.decoder = library.decoders.Fuse()
    made: Table = json.loads(engine.to_str())
    return made


_NEVER = -10_000.0


def config_of(plan: TransformerPlan) -> Table:
    """config.json: what `AutoModelForCausalLM` builds the model from. Dropout is off, as it is at rest."""
    start = plan.wording.start
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": plan.wording.size + 1,
        "n_positions": plan.context,
        "n_embd": plan.embedding.shape[1],
        "n_layer": len(plan.blocks),
        "n_head": plan.heads,
        "n_inner": len(plan.blocks[0].widen[0]),
        "activation_function": "gelu_new" if plan.blocks[0].approximate else "gelu",
        "layer_norm_epsilon": EPSILON,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "tie_word_embeddings": False,
        "bos_token_id": start,
        "eos_token_id": start,
        "torch_dtype": "float32",
    }


def arrays_of_gpt2(plan: TransformerPlan) -> dict[str, Array]:
    """The arrays by GPT-2's names."""
    gain_H, shift_H, head_RH = _last(plan)
    arrays: dict[str, Array] = {
        "transformer.wte.weight": plan.embedding * np.float32(plan.scale),
        "transformer.wpe.weight": plan.positions,
        "transformer.ln_f.weight": gain_H,
        "transformer.ln_f.bias": shift_H,
        "lm_head.weight": head_RH,
    }
    for number, block in enumerate(plan.blocks):
        arrays |= {f"transformer.h.{number}.{name}": array for name, array in _block(block).items()}
    return {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in arrays.items()}


def _block(block: BlockPlan) -> dict[str, Array]:
    named: dict[str, Array] = {}
    for name, (gain, shift) in (("ln_1", block.norm_attention), ("ln_2", block.norm_forward)):
        named |= {f"{name}.weight": gain, f"{name}.bias": shift}
    maps = {"attn.c_attn": block.into, "attn.c_proj": block.out, "mlp.c_fc": block.widen, "mlp.c_proj": block.narrow}
    for name, (weight, bias) in maps.items():
        named |= {f"{name}.weight": weight.T, f"{name}.bias": bias}
    return named


def _last(plan: TransformerPlan) -> tuple[Array, Array, Array]:
    """The last norm and the head [V + 1, H], with the bias of the head inside."""
    if plan.norm is None or not isinstance(plan.head, SoftmaxPlan):
        raise TypeError(plan.kind)
    gain_H, shift_H = (part.astype(np.float64) for part in plan.norm)
    matrix_VH = plan.head.matrix[: plan.wording.size].astype(np.float64)
    bias_V = plan.head.bias.astype(np.float64)
    moved = 1 - float(np.mean(shift_H / gain_H))
    one_H = 1 / (len(gain_H) * gain_H)
    head_VH = matrix_VH + (bias_V - moved * (matrix_VH @ gain_H))[:, None] * one_H
    head_RH = np.concatenate([head_VH, _NEVER * one_H[None]])
    return plan.norm[0], (shift_H + moved * gain_H).astype(np.float32), head_RH.astype(np.float32)
