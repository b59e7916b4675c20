"""The verb `generate`: a text that grows token by token, with what the model knows and expects at each."""

from __future__ import annotations

import numpy as np

from thereafter.decoding.sampling import draw, generators
from thereafter.decoding.warping import Warping
from thereafter.decoding.writing import Written
from thereafter.language_model import LanguageModel
from thereafter.models.neural import NeuralModel
from thereafter.models.state import NeuralState
from thereafter.studio.answers.generation import LikelyAnswer, PieceAnswer
from thereafter.studio.verbs.numbers import number, rows
from thereafter.text.pretokenised_words import Restorer

MOST_UNITS = 512
"""Units of a layer that are shown: more than a strip on a screen has pixels for."""
_DIGITS = 3
_TOP = 10


class GrowingText:
    """A model that goes on from a prompt, for as long as somebody asks; how it draws may change between two tokens.

    With settings that stay the same it says what `lm.generate` says with them.
    """

    def __init__(
        self,
        lm: LanguageModel,
        prompt: str,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        seed: int | None = None,
    ) -> None:
        begin = lm.begin(prompt)
        self.lm = lm
        self.tokens = 0
        """How many were drawn so far."""
        self.ended = False
        """Nothing can follow, or `end` was called."""
        self._state, self._forbidden = begin.state, begin.forbidden
        self._logp_V = np.asarray(lm.model.predict(begin.state))[0]
        self._written = Written(lm.tokenizer, last=prompt[-1:])
        whole = lm.tokenizer.name == "word"
        self._restorer = None if lm.style is None else Restorer(lm.style, prompt, whole=whole)
        self._rng = generators(seed, 1)[0]
        self.set(temperature, top_k)

    def set(self, temperature: float, top_k: int | None) -> None:
        """Draw so from the next token on."""
        self._warping = Warping(temperature=temperature, top_k=top_k)

    def step(self) -> str:
        """Draw one token and read it: the text that is certain by it, which may be none."""
        warping = self._warping
        weights_V = None if self.ended else warping.weights(self._logp_V, forbidden=self._forbidden)
        if weights_V is None:
            return self.end()
        token = int(np.argmax(weights_V)) if warping.temperature == 0 else draw(weights_V, self._rng)
        text, self._written = self._written.add(token)
        logp, self._state = self.lm.model.step(np.array([token]), self._state)
        self._logp_V = np.asarray(logp)[0]
        self.tokens += 1
        return text if self._restorer is None else self._restorer.add(text)

    def end(self) -> str:
        """The rest of the text, since no more tokens come: the bytes of a character that was not finished."""
        rest = "" if self.ended else self._written.end()
        if self._restorer is not None:
            rest = self._restorer.add(rest) + self._restorer.end()
        self.ended = True
        return rest

    def write(self, count: int) -> list[PieceAnswer]:
        """`count` tokens, a piece for each; fewer where the text ends."""
        pieces: list[PieceAnswer] = []
        while len(pieces) < count and not self.ended:
            text = self.step()
            if text or not self.ended:
                pieces.append(self.piece(text))
        return pieces

    def piece(self, text: str = "") -> PieceAnswer:
        """What there is to see now; `text` came with the token that was drawn last."""
        likeliest = self.lm.likeliest(self._logp_V, _TOP)
        top = [LikelyAnswer(text=self.lm.tokenizer.piece(token), p=number(p)) for token, p in likeliest]
        return PieceAnswer(number=self.tokens, text=text, state=self._state_rows(), top=top)

    def _state_rows(self) -> list[list[float | None]]:
        model = self.lm.model
        if not isinstance(model, NeuralModel) or not isinstance(self._state, NeuralState):
            return []
        carried = model.carried(self._state)
        hidden = [carried[f"{layer}.{model.fields[0]}"][0, :MOST_UNITS] for layer in model.cells]
        # in float64, where 0.1 is written as 0.1
        return rows(np.round(h_U.double().cpu().numpy(), _DIGITS) for h_U in hidden)
