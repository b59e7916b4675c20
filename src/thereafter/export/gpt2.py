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

`read` is the way back: a GPT-2 checkpoint of transformers (`config.json`, `model.safetensors` and `tokenizer.json`) as
a trained model. The arrays are turned and scaled into ours: E = wte / sqrt(H), since ours multiplies word vectors by
sqrt(H); maps [in, out] become [out, in]. `<s>`, with which every text begins here, is the checkpoint's `bos_token_id`
(`<|endoftext|>`). Nothing in the folder is executed; sizes are checked before memory is taken.

Shapes: V words, H features, C positions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from thereafter.base import packages
from thereafter.base.config import Table
from thereafter.base.packages import require
from thereafter.base.storage import map_arrays, open_plain, write_arrays, write_text
from thereafter.errors import FormatError
from thereafter.export.plan import EPSILON, Array, BlockPlan, Plan, SoftmaxPlan, TransformerPlan, WordingPlan
from thereafter.export.targets import FLOAT32, WrittenFiles
from thereafter.layers.attention import Block
from thereafter.models.base import Floats, Ids
from thereafter.models.build import build
from thereafter.models.neural import NeuralModel
from thereafter.models.settings import TransformerSettings
from thereafter.runs.folder import FORMAT, is_file
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.text.tokenizers.byte_level import byte_alphabet
from thereafter.text.tokenizers.subword import Gpt2Tokenizer
from thereafter.training.kinds import Trained
from thereafter.training.weights import check_counts, restored

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
_APPROXIMATE = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}
_ALWAYS: Table = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False}
_LARGEST = {CONFIG: 4_000_000, TOKENIZER: 400_000_000}
Arrays = Mapping[str, NDArray[np.generic]]


def is_gpt2(folder: Path) -> bool:
    """Whether a folder looks like a checkpoint of transformers."""
    return is_file(folder / CONFIG) and not is_file(folder / "config.toml")


def read(folder: Path) -> Trained:
    """The model of a GPT-2 folder; FormatError for any other checkpoint, with what was expected."""
    config = _read_json(folder / CONFIG)
    model = read_network(folder)
    tokenizer = _tokenizer(folder, model.vocabulary_size)
    about: Table = {"tokens": tokenizer.name, "context": "stream", "lower": False, "letters_only": False}
    source: Table = {"name": str(config.get("_name_or_path") or folder.name)}
    settings = _settings(config, folder / CONFIG)
    own = {"hidden": settings.hidden, "layers": settings.layers, "heads": settings.heads, "context": settings.context}
    table: Table = {"format": FORMAT, "model": "transformer", "source": source, "text": about, "transformer": own}
    return Trained(model, tokenizer, table)


def read_network(folder: Path) -> NeuralModel:
    """The network alone, without a tokenizer."""
    config = _read_json(folder / CONFIG)
    settings = _settings(config, folder / CONFIG)
    if not is_file(folder / WEIGHTS):
        raise FormatError(
            f"{folder} has no {WEIGHTS}; expected a GPT-2 checkpoint in one safetensors file; try "
            "model.save_pretrained(folder, max_shard_size='100GB') in transformers"
        )
    arrays, _ = map_arrays(folder / WEIGHTS)
    size = _number(config, "vocab_size", folder / CONFIG)
    bos = config.get("bos_token_id")
    start = bos if isinstance(bos, int) and 0 <= bos < size else size - 1
    check_counts(settings, len(arrays))
    try:
        own = _own_arrays({name.removeprefix("transformer."): one for name, one in arrays.items()}, settings, start)
    except (KeyError, ValueError, IndexError) as error:
        raise FormatError(f"{folder / WEIGHTS} is not GPT-2: no array {error} as expected; try another") from error
    epsilon = _epsilon(config, folder / CONFIG)
    model = restored(partial(build, "transformer", settings, vocabulary_size=size), own)
    for norm in model.modules():
        if isinstance(norm, nn.LayerNorm):
            norm.eps = epsilon
        elif isinstance(norm, Block):
            norm.approximate = _APPROXIMATE[str(config.get("activation_function", "gelu_new"))]
    return model.eval()


def _settings(config: Table, path: Path) -> TransformerSettings:
    if config.get("model_type") != "gpt2":
        raise FormatError(
            f"{path} is of the architecture {str(config.get('model_type'))[:40]!r}; expected 'gpt2', which is all that "
            "can be read here; try transformers itself"
        )
    for name, value in _ALWAYS.items():
        if config.get(name, value) != value:
            raise FormatError(f"{path}: {name} is {str(config[name])[:40]}; expected {value}; try transformers itself")
    if str(config.get("activation_function", "gelu_new")) not in _APPROXIMATE:
        raise FormatError(
            f"{path}: activation_function is {str(config['activation_function'])[:40]!r}; expected one of "
            f"{', '.join(_APPROXIMATE)}; try transformers itself"
        )
    hidden = _number(config, "n_embd", path)
    inner = _number(config, "n_inner", path) if config.get("n_inner") is not None else 4 * hidden
    if inner % hidden:
        raise FormatError(f"{path}: n_inner is {inner}; expected a multiple of n_embd ({hidden})")
    return TransformerSettings(
        hidden=hidden,
        layers=_number(config, "n_layer", path),
        heads=_number(config, "n_head", path),
        inner=inner // hidden,
        positions="learned",
        context=_number(config, "n_positions", path),
        tied=False,
        dropout=0.0,
    )


def _number(config: Table, name: str, path: Path) -> int:
    value = config.get(name)
    if type(value) is not int or not 0 < value < 1 << 40:
        raise FormatError(f"{path}: {name} is {str(value)[:40]}; expected a whole number above 0; try another folder")
    return value


def _epsilon(config: Table, path: Path) -> float:
    value = config.get("layer_norm_epsilon", 1e-5)
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise FormatError(
            f"{path}: layer_norm_epsilon is {str(value)[:40]}; expected a number from 0 to 1; try another folder"
        )
    return float(value)


def _own_arrays(theirs: Arrays, settings: TransformerSettings, start: int) -> dict[str, NDArray[np.generic]]:
    """Our arrays by our names; KeyError names the array that is not there."""

    def wide(name: str) -> NDArray[np.float32]:
        return np.asarray(theirs[name]).astype(np.float32)

    wte_VH = wide("wte.weight")
    word_RH = np.concatenate([wte_VH, wte_VH[start : start + 1]]) / np.float32(math.sqrt(settings.hidden))
    head_VH = wide("lm_head.weight") if "lm_head.weight" in theirs else wte_VH
    own: dict[str, NDArray[np.generic]] = {"embedding.weight": word_RH, "positions.table_CH": wide("wpe.weight")}
    own |= {"head.weight": head_VH, "head.bias": np.zeros(len(head_VH), np.float32)}
    own |= {"norm.weight": wide("ln_f.weight"), "norm.bias": wide("ln_f.bias")}
    names = {"attn.c_attn": "attention.into", "attn.c_proj": "attention.out", "mlp.c_fc": "widen"}
    names |= {"mlp.c_proj": "narrow"}
    for number in range(settings.layers):
        for name, ours in names.items():
            own[f"blocks.{number}.{ours}.weight"] = wide(f"h.{number}.{name}.weight").T
            own[f"blocks.{number}.{ours}.bias"] = wide(f"h.{number}.{name}.bias")
        for name, ours in (("ln_1", "norm_attention"), ("ln_2", "norm_forward")):
            own[f"blocks.{number}.{ours}.weight"] = wide(f"h.{number}.{name}.weight")
            own[f"blocks.{number}.{ours}.bias"] = wide(f"h.{number}.{name}.bias")
    return own


def _tokenizer(folder: Path, size: int) -> Gpt2Tokenizer:
    path = folder / TOKENIZER
    if not is_file(path):
        raise FormatError(
            f"{folder} has no {TOKENIZER}; expected one beside {WEIGHTS}; try tokenizer.save_pretrained(folder) in "
            "transformers"
        )
    model = _read_json(path).get("model")
    if not isinstance(model, dict) or model.get("type") not in (None, "BPE"):
        raise FormatError(f"{path} is no tokenizer of byte pairs; expected GPT-2's; try transformers itself")
    try:
        return Gpt2Tokenizer.of_pieces(model, size)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error


def _read_json(path: Path) -> Table:
    """A small file; a link is followed, since the cache of transformers is made of links."""
    try:
        with open_plain(path) as file:
            text = file.read(_LARGEST[path.name] + 1)
        if len(text) > _LARGEST[path.name]:
            raise FormatError(f"{path} has more than {_LARGEST[path.name]:,} bytes; expected fewer; try another folder")
        table = json.loads(text)
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror}; expected JSON; try another folder") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not JSON ({str(error)[:100]}); try another folder") from error
    if not isinstance(table, dict):
        raise FormatError(f"{path} is not a table; expected the file of a checkpoint; try another folder")
    return table


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
    config: Table = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": plan.wording.size + 1}
    config |= {"n_positions": plan.context, "n_embd": plan.embedding.shape[1], "n_layer": len(plan.blocks)}
    config |= {"n_head": plan.heads, "n_inner": len(plan.blocks[0].widen[0])}
    config |= {"activation_function": "gelu_new" if plan.blocks[0].approximate else "gelu"}
    config |= {"layer_norm_epsilon": EPSILON, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    config |= {"tie_word_embeddings": False, "bos_token_id": start, "eos_token_id": start}
    return config | {"torch_dtype": "float32"}


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
