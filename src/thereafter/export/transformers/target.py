"""The target `transformers`: a folder for `AutoModelForCausalLM.from_pretrained`, read again for the check."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from thereafter import packages
from thereafter.export.plans import Plan, TransformerPlan
from thereafter.export.targets import FLOAT32, WrittenFiles
from thereafter.export.transformers import gpt2, tokens
from thereafter.models.base import Floats, Ids
from thereafter.storage import write_arrays, write_text
from thereafter.training.gpt2 import CONFIG, TOKENIZER, WEIGHTS, read_network


class TransformersTarget:
    """config.json, model.safetensors and, where it can be said, tokenizer.json: GPT-2 as transformers knows it."""

    ending: ClassVar[str] = ""
    program: ClassVar[str] = "reader of GPT-2 folders"

    def tolerance(self, int8: bool) -> float:
        return FLOAT32

    def refuses(self, plan: Plan, int8: bool) -> str | None:
        if int8:
            return "transformers quantises what it loads by itself; try it without --int8"
        return gpt2.refuses(plan)

    def write(self, plan: Plan, path: Path, *, int8: bool) -> WrittenFiles:
        if not isinstance(plan, TransformerPlan):
            raise TypeError(plan.kind)
        path.mkdir()
        write_text(path / CONFIG, json.dumps(gpt2.config_of(plan), indent=2) + "\n")
        write_arrays(path / WEIGHTS, gpt2.arrays_of_gpt2(plan), {"format": "pt"})
        tokenizer = tokens.tokenizer_of(plan.wording)
        if tokenizer is not None:
            about = tokens.tokenizer_config(plan.wording, plan.context)
            write_text(path / TOKENIZER, json.dumps(tokenizer, ensure_ascii=False))
            write_text(path / "tokenizer_config.json", json.dumps(about, indent=2) + "\n")
        facts: dict[str, object] = {
            "loads as": "GPT2LMHeadModel",
            "tokenizer": f"{TOKENIZER}, from {plan.wording.tokens}"
            if tokenizer is not None
            else f"not written: the library tokenizers has none like {plan.wording.tokens}; give it token ids",
            "a text begins with": f"the token {plan.wording.start} ({tokens.START})",
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
