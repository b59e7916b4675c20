"""A run as a model of the harness, named `thereafter`: the class it asks, what it answers, and its command line.

    lm_eval --model thereafter --model_args path=runs/book --tasks wikitext

finds the class `ThereafterLM` by the entry point `lm_eval.models` of this package where the harness reads entry points
(its development branch does, release 0.4.13 does not); `thereafter lm-eval` registers it for any release. The harness
is imported when the class is asked for, since its base class is theirs.

A harness asks three questions, which `RunAnswers` answers:

    continuation      log p(continuation | context) = sum of log p of its tokens - spelling of its unknown words
    document          log p of a whole text, -(nats + spelling) of `thereafter score`
    generated text    the text after a prompt, up to the first stop string

The tokens of a continuation are those of context and continuation together after as many as the context has alone, and
white space at the end of a context belongs to the continuation: the rule of the harness itself
(`lm_eval.api.model.TemplateLM._encode_pair`). What comes first is predicted after `<s>`, where other models have a
token of their own for the beginning of a text.

Shapes: T tokens, P of them at once, V words that can be predicted.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from thereafter import __version__
from thereafter.base import config as toml
from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.packages import require
from thereafter.decoding import beam
from thereafter.decoding.beam import Candidate
from thereafter.decoding.generation import GenerationSettings
from thereafter.errors import EmptyCorpusError, OptionError, ThereafterError, nearest
from thereafter.evaluation.scores import spelling_of
from thereafter.language_model import LanguageModel, load_language_model
from thereafter.models.base import NOT_NORMALISED, Logs, State
from thereafter.text.tokenizers.base import Ids, join_ids

NAME = "thereafter"
"""What the harness calls these models: `--model thereafter`."""
PURPOSE = "evaluating a run with lm-evaluation-harness"
INSTALL = "'thereafter[harness]'"
OPTIONS = ("path", "tokens", "as_written", "max_gen_toks", "seed")
"""What `--model_args` may say of a run."""

Args = TypeVar("Args", covariant=True)
T = TypeVar("T")


class HarnessRequest(Protocol, Generic[Args]):
    """A question of the harness: `lm_eval.api.instance.Instance`."""

    @property
    def args(self) -> Args: ...


class _CacheHook(Protocol):
    """Where the harness keeps answers, with `--use_cache`."""

    def add_partial(self, attr: str, req: tuple[object, ...], res: object) -> None: ...


class RunBackend:
    """What is asked of a model, over the answers of a run; the harness' own base class stands beside it.

    `path`: a run folder, an ARPA file or a GPT-2 folder. `tokens`: those of an ARPA file. `as_written`: read plain text
    as it is. `max_gen_toks`: the most tokens to generate where a task does not say; `seed`: of tasks that sample.
    `device`: "cpu", else a GPU where there is one. Batch sizes and trust are given by the harness to all models; a run
    reads equal lengths together.
    """

    cache_hook: _CacheHook

    def __init__(
        self,
        path: str,
        tokens: str = "word",
        as_written: bool = False,
        max_gen_toks: int = 256,
        seed: int = 1234,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        device: str | None = None,
        trust_remote_code: bool = False,
        **unknown: object,
    ) -> None:
        super().__init__()
        for name in unknown:
            raise OptionError(f"--model_args has no {name!r}; {nearest(name, list(OPTIONS))}")
        self.path, self.max_gen_toks, self.seed = str(path), max_gen_toks, seed
        place = "cpu" if device == "cpu" else "auto"  # without --device the harness says "cuda:0" on every machine
        self.answers = RunAnswers(load_language_model(self.path, tokens, as_written=as_written, device=place))

    def loglikelihood(self, requests: Sequence[HarnessRequest[tuple[str, str]]]) -> list[tuple[float, bool]]:
        """log p of each continuation after its context, and whether greedy decoding would write it."""
        continued = self.answers.continuations([request.args for request in requests])
        answers = [(one.log_prob, one.greedy) for one in continued]
        return self._kept("loglikelihood", requests, answers)

    def loglikelihood_rolling(self, requests: Sequence[HarnessRequest[tuple[str]]]) -> list[float]:
        """log p of each document as a whole, however long it is."""
        answers = self.answers.documents([request.args[0] for request in requests])
        return self._kept("loglikelihood_rolling", requests, answers)

    def generate_until(self, requests: Sequence[HarnessRequest[tuple[str, Mapping[str, object]]]]) -> list[str]:
        """The text after each prompt, up to the first stop string."""
        answers = self.answers.texts([request.args for request in requests], most=self.max_gen_toks, seed=self.seed)
        return self._kept("generate_until", requests, answers)

    def _kept(self, question: str, requests: Sequence[HarnessRequest[tuple[object, ...]]], answers: list[T]) -> list[T]:
        """Answers to requests, after the harness has noted them for another run."""
        for request, answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial(question, request.args, answer)
        return answers

    @property
    def tokenizer_name(self) -> str:
        """What tells the requests of one tokenizer from those of another, in the harness' cache of requests."""
        tokenizer = self.answers.lm.tokenizer
        return f"{NAME}-{tokenizer.name}-{tokenizer.fingerprint()[:16]}"

    def apply_chat_template(self, chat_history: Sequence[Table], add_generation_prompt: bool = True) -> str:
        """Refused: these models were trained on running text."""
        raise OptionError(
            f"{self.path} continues texts and knows no chat template; try it without --apply_chat_template"
        )

    def get_model_info(self) -> Table:
        """What the harness writes beside its results."""
        lm = self.answers.lm
        return {"run": self.path, "run_model": str(lm), "thereafter_version": __version__}


@cache
def harness_class() -> type:
    """`ThereafterLM`: `RunBackend` with the harness' base class."""
    base = require("lm_eval.api.model", PURPOSE, install=INSTALL).LM
    return type("ThereafterLM", (RunBackend, base), {"__module__": __name__, "__doc__": RunBackend.__doc__})


def register() -> None:
    """Make `--model thereafter` known to the harness, where its entry points have not done so."""
    require("lm_eval.models", PURPOSE, install=INSTALL)  # those of its own are listed before any other
    registry = require("lm_eval.api.registry", PURPOSE, install=INSTALL)
    if NAME not in registry.MODEL_REGISTRY:
        registry.register_model(NAME)(harness_class())


def __getattr__(name: str) -> type:
    if name == "ThereafterLM":
        return harness_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def run_harness(run: str, arguments: Sequence[str], *, tokens: str = "word", as_written: bool = False) -> None:
    """Call `lm_eval` with these arguments (`--tasks ...`) and the model of a run; OptionError where it refuses them."""
    if any(one.partition("=")[0] in ("--model", "-M") for one in arguments):
        raise OptionError(f"got --model; the model is the run {run}; try it without --model, or call lm_eval itself")
    if not Path(run).exists():
        load_language_model(run, tokens)  # says what is wrong before the harness is imported
    register()
    command = require("lm_eval.__main__", PURPOSE, install=INSTALL)
    about = {"path": run, "tokens": tokens, "as_written": as_written}
    with _arguments(["lm_eval", "--model", NAME, "--model_args", json.dumps(about), *arguments]):
        try:
            command.cli_evaluate()
        except ThereafterError:
            raise
        except ValueError as error:  # how the harness refuses tasks and options
            raise OptionError(f"lm_eval: {error}; try: lm_eval --help, or lm_eval ls tasks") from error


@contextmanager
def _arguments(given: list[str]) -> Iterator[None]:
    """The arguments of the process for a while: the harness takes them from there alone."""
    before, sys.argv = sys.argv, given
    try:
        yield
    finally:
        sys.argv = before


@dataclass(frozen=True)
class Continued:
    """How likely a continuation is: log p in nats, and whether greedy decoding would write exactly this."""

    log_prob: float
    greedy: bool


@dataclass(frozen=True)
class _Read:
    """A text as the run reads it: its ids and, in order, the unknown words whose spelling is charged."""

    ids: Ids
    unknown_forms: tuple[str, ...]


class RunAnswers:
    """A language model as a harness asks it."""

    def __init__(self, lm: LanguageModel) -> None:
        self.lm = lm
        self._spelling = spelling_of(lm.tokenizer)
        self._read = lru_cache(maxsize=16)(self._read_text)  # the choices of a question share their context

    def continuations(self, asked: Sequence[tuple[str, str]]) -> list[Continued]:
        """The likelihood of each (context, continuation); those after one context are read together."""
        contexts: dict[bytes, Ids] = {}
        by_context: defaultdict[bytes, list[int]] = defaultdict(list)
        candidates: list[Candidate] = []
        for place, (context, continuation) in enumerate(asked):
            before, candidate = self.split(context, continuation)
            key = before.tobytes()
            contexts[key] = before
            by_context[key].append(place)
            candidates.append(candidate)
        answers = [Continued(0.0, True)] * len(asked)  # what holds no tokens is certain
        with progress.task("likelihoods", total=len(asked), unit="requests") as advance:
            for key, places in by_context.items():
                some = [place for place in places if len(candidates[place].ids)]
                state = self.lm.state_after(contexts[key])
                continued = self._after(state, [candidates[place] for place in some])
                for place, answer in zip(some, continued, strict=True):
                    answers[place] = answer
                advance(len(places))
        return answers

    def split(self, context: str, continuation: str) -> tuple[Ids, Candidate]:
        """The tokens of a context, and those of the continuation with what its unknown words cost.

        Where the continuation adds no token, since it only lengthens the last word before it, it is read by itself.
        """
        stripped = context.rstrip()
        before, whole = self._read(stripped), self._read_text(context + continuation)
        after = _Read(whole.ids[len(before.ids) :], whole.unknown_forms[len(before.unknown_forms) :])
        if not len(after.ids):
            after = self._read_text(continuation)
        forms = list(after.unknown_forms)
        spelling = self._spelling.total(forms) if self._spelling is not None and forms else 0.0
        return before.ids, Candidate(after.ids, spelling, len(continuation))

    def documents(self, texts: Sequence[str]) -> list[float]:
        """log p of each text as a whole, in nats: what `thereafter score` finds, with its sign turned."""
        answers = []
        with progress.task("documents", total=len(texts), unit="documents") as advance:
            for text in texts:
                answers.append(self._document(text))
                advance(1)
        return answers

    def texts(self, asked: Sequence[tuple[str, Mapping[str, object]]], *, most: int, seed: int) -> list[str]:
        """What is generated after each prompt; `most` tokens where the options do not say, drawn from seed + place."""
        answers = []
        with progress.task("texts", total=len(asked), unit="texts") as advance:
            for place, (prompt, given) in enumerate(asked):
                options = toml.as_table(settings_of(given, most=most, seed=seed + place))
                (text,) = self.lm.generate(prompt, **options, return_log_probs=True)
                answers.append(text.text[len(prompt) :])
                advance(1)
        return answers

    def _document(self, text: str) -> float:
        try:
            score = self.lm.score(text=text)
        except EmptyCorpusError:
            return 0.0
        if not score.normalised:
            raise OptionError(f"{NOT_NORMALISED}; try tasks that compare choices, or a run with another smoothing")
        return -(score.nats + score.spelling_nats)

    def _after(self, state: State, candidates: Sequence[Candidate]) -> list[Continued]:
        """The likelihoods of continuations, each with at least one token, after a state of one row."""
        if not candidates:
            return []
        log_probs = beam.log_probs(self.lm.model, state, candidates, "sentence")
        first = int(self._likeliest(np.asarray(self.lm.model.predict(state)))[0])
        greedy = [int(one.ids[0]) == first and self._is_greedy(state, one.ids) for one in candidates]
        return [Continued(log_prob, best) for log_prob, best in zip(log_probs, greedy, strict=True)]

    def _is_greedy(self, state: State, ids_T: NDArray[np.integer]) -> bool:
        """Whether each token is the likeliest one at its place."""
        place = 0
        for logp_PV in self.lm.model.predictions(ids_T, state):
            best_P = self._likeliest(logp_PV)
            if (best_P != ids_T[place : place + len(best_P)]).any():
                return False
            place += len(best_P)
        return True

    def _likeliest(self, logp_PV: Logs) -> NDArray[np.intp]:
        """The token that greedy decoding takes, which is never the unknown word."""
        unknown = self.lm.tokenizer.unknown_id
        if unknown is not None:
            logp_PV = logp_PV.copy()
            logp_PV[:, unknown] = -np.inf
        best_P: NDArray[np.intp] = logp_PV.argmax(axis=1)
        return best_P

    def _read_text(self, text: str) -> _Read:
        parts = list(self.lm.tokenizer.measure_stream([self.lm.normalise(text)], whole=False))
        forms = tuple(form for part in parts for form in part.unknown_forms)
        return _Read(join_ids(part.ids for part in parts), forms)


# The generation options of a task (`generation_kwargs`, `--gen_kwargs`) as those of `LanguageModel.generate`.
#
# Where a task says neither `do_sample` nor `temperature`, or `do_sample: false`, decoding is greedy, as everywhere in
# the harness. Options that `generate` does not have are refused.


LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""What tasks call the most tokens to add; the first that is given counts."""


def settings_of(given: Mapping[str, object], *, most: int, seed: int) -> GenerationSettings:
    """The options of a request as settings; OptionError for one that this package does not have.

    >>> settings_of({"until": ["\\n"], "max_gen_toks": 8}, most=256, seed=1).greedy
    True
    """
    rest = {name: value for name, value in given.items() if value is not None and name not in (*LENGTHS, "until")}
    lengths = [given[name] for name in LENGTHS if given.get(name) is not None]
    temperature = rest.pop("temperature", None)
    if rest.get("do_sample") is not False and (temperature or rest.get("do_sample")):
        rest["temperature"] = 1.0 if temperature is None else temperature
    else:
        rest["do_sample"] = False
    table = {"seed": seed, **rest, "max_new_tokens": (lengths or [most])[0], "stop_strings": _stops(given)}
    return toml.build(GenerationSettings, table, "gen_kwargs")


def _stops(given: Mapping[str, object]) -> tuple[str, ...]:
    """The stop strings; an empty one, which some tasks have, stops nothing."""
    until = given.get("until") or ()
    several = (until,) if isinstance(until, str) else until
    if not isinstance(several, list | tuple) or not all(isinstance(one, str) for one in several):
        raise OptionError(f"until of gen_kwargs is {until!r}; expected a text or several; try ['\\n']")
    return tuple(one for one in several if one)
