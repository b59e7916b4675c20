"""`ThereafterLM`, the class that the harness asks: a run as one of its models, under the name `thereafter`.

    lm_eval --model thereafter --model_args path=runs/book --tasks wikitext

finds it by the entry point `lm_eval.models` of this package where the harness reads entry points (its development
branch does, release 0.4.13 does not); `thereafter lm-eval` registers it for any release. The harness is imported when
the class is asked for, since its base class is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Generic, Protocol, TypeVar

from thereafter import __version__
from thereafter.config import Table
from thereafter.errors import OptionError, nearest
from thereafter.harness.answers import RunAnswers
from thereafter.language_model import load_language_model
from thereafter.packages import require

NAME = "thereafter"
"""What the harness calls these models: `--model thereafter`."""
PURPOSE = "evaluating a run with lm-evaluation-harness"
INSTALL = "'thereafter[harness]'"
OPTIONS = ("path", "tokens", "as_written", "max_gen_toks", "seed")
"""What `--model_args` may say of a run."""

Args = TypeVar("Args", covariant=True)


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
        for request, answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial("loglikelihood", request.args, answer)
        return answers

    def loglikelihood_rolling(self, requests: Sequence[HarnessRequest[tuple[str]]]) -> list[float]:
        """log p of each document as a whole, however long it is."""
        answers = self.answers.documents([request.args[0] for request in requests])
        for request, answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, answer)
        return answers

    def generate_until(self, requests: Sequence[HarnessRequest[tuple[str, Mapping[str, object]]]]) -> list[str]:
        """The text after each prompt, up to the first stop string."""
        answers = self.answers.texts([request.args for request in requests], most=self.max_gen_toks, seed=self.seed)
        for request, answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial("generate_until", request.args, answer)
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
