"""The body of a language model, its word vectors and recurrent layers, as the network of a task takes it over.

Howard and Ruder 2018 (Universal Language Model Fine-tuning for Text Classification): what a model has learned of a
language by predicting it serves a task with few examples. The head is fresh. The words are those of the language model;
words of the examples that it does not know, met at least twice, get vectors of their own, which begin as the vector of
the unknown word, so that the untrained body reads a text exactly as the language model does.

Shapes: V words of the language model, W of the task, E the size of a vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base.kinds import KINDS, cell_of, listed
from thereafter.errors import OptionError
from thereafter.models.recurrent import RecurrentModel
from thereafter.models.task_net import CELLS
from thereafter.tasks.lexicon import PAD, READINGS, UNKNOWN, Lexicon, WordReading
from thereafter.text.pretokenised import style_of_run
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.training.protocol import Start, describe_unknown
from thereafter.training.weights import weights_of

RARE = 2
"""Words met less often in the examples have no vector of their own, unless the language model has one."""


@dataclass(frozen=True)
class Body:
    """Word vectors and forward layers of a language model."""

    start: Start
    model: RecurrentModel
    tokenizer: Tokenizer
    reading: WordReading

    @property
    def cell(self) -> str:
        return cell_of(type(self.model))

    @property
    def embed(self) -> int:
        return self.model.embedding.size

    @property
    def sizes(self) -> tuple[int, ...]:
        """The units of each layer."""
        return self.model.settings.sizes

    @cached_property
    def forms(self) -> dict[str, int]:
        """The words with their numbers in the language model."""
        ids = {form: number for number, form in enumerate(self.tokenizer.vocabulary.forms)}
        return {form: number for form, number in ids.items() if form not in (PAD, UNKNOWN)}

    def lexicon(self, counts: Mapping[str, int]) -> Lexicon:
        """The words of the language model, then those of the examples that it does not know and that are not rare."""
        new = [
            form for form, n in counts.items() if n >= RARE and form not in self.forms and form not in (PAD, UNKNOWN)
        ]
        new.sort(key=lambda form: (-counts[form], form))
        return Lexicon([*self.forms, *new], counts=counts, reading=self.reading)

    def notes(self, counts: Mapping[str, int], lexicon: Lexicon) -> list[str]:
        """How many words of the examples the language model does not know, and what becomes of them."""
        unknown = sum(n for form, n in counts.items() if form not in self.forms)
        what, remedy = "words of the examples", "try a language model that has read such text"
        return [
            f"beginning with the layers of {self.start.folder}",
            describe_unknown(unknown, sum(counts.values()), what, self.start.folder, remedy),
            f"{len(lexicon) - len(self.forms) - 2:,} words new to it, met twice or more, get vectors of their own",
        ]

    def weights(self, lexicon: Lexicon, stack: str) -> dict[str, NDArray[np.generic]]:
        """The weights of a network whose word vectors are `words` and whose layers are the module `stack`."""
        vectors_VE = self.model.embedding.weight.detach().cpu()
        unknown = self.tokenizer.unknown_id or 0
        rows_W = torch.tensor([self.forms.get(form, unknown) for form in lexicon.forms])
        words_WE = vectors_VE[rows_W].clone()
        words_WE[0] = 0.0
        layers = {f"{stack}.{name}": weight.cpu().numpy() for name, weight in weights_of(self.model.layers).items()}
        return {"words.weight": words_WE.numpy(), **layers}


def body_of(start: Start) -> Body:
    """The body of a language model; OptionError where the networks of tasks cannot hold it."""
    model, tokenizer = start.trained.model, start.trained.tokenizer
    kinds = [name for name, row in KINDS.items() if row.cell in CELLS]
    if start.model not in kinds or not isinstance(model, RecurrentModel):
        raise OptionError(
            f"{start.folder} is the model {start.model!r}; the network of a task can begin with {listed(kinds)}"
        )
    if tokenizer.name not in READINGS:
        raise OptionError(
            f"{start.folder} reads {tokenizer.name} tokens; the network of a task reads words; expected a language "
            f"model with tokens {listed(list(READINGS))}"
        )
    settings = model.settings
    plain = settings.variant()
    changed = {name: value for name, value in settings.cell_options().items() if value != vars(plain)[name]}
    changed |= {} if settings.connect is None else {"connect": settings.connect}
    changed.pop("forget_bias", None)  # where training began, not what the cell computes
    if changed:
        spelled = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        raise OptionError(
            f"{start.folder} is a model with {spelled}; the network of a task has plain layers; expected a language "
            "model without"
        )
    about = start.trained.config["text"]
    style = style_of_run(start.trained.config, tokenizer)
    style = None if style is None else replace(style, sentence_lines=False)
    reading = WordReading(tokenizer.name, bool(about["lower"]), bool(about["letters_only"]), style)
    return Body(start, model, tokenizer, reading)
