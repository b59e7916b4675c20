"""The generation options of a task (`generation_kwargs`, `--gen_kwargs`) as those of `LanguageModel.generate`.

Where a task says neither `do_sample` nor `temperature`, or `do_sample: false`, decoding is greedy, as everywhere in the
harness. Options that `generate` does not have are refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from thereafter import config as toml
from thereafter.decoding.generation import GenerationOptions, GenerationSettings
from thereafter.errors import OptionError

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


def options_of(settings: GenerationSettings) -> GenerationOptions:
    """The settings as `LanguageModel.generate` takes them, beside the prompt and the number of tokens."""
    return {
        "do_sample": settings.do_sample,
        "temperature": settings.temperature,
        "top_k": settings.top_k,
        "top_p": settings.top_p,
        "min_p": settings.min_p,
        "repetition_penalty": settings.repetition_penalty,
        "num_beams": settings.num_beams,
        "length_penalty": settings.length_penalty,
        "early_stopping": settings.early_stopping,
        "stop_strings": settings.stop_strings,
        "seed": settings.seed,
        "weights": settings.weights,
    }


def _stops(given: Mapping[str, object]) -> tuple[str, ...]:
    """The stop strings; an empty one, which some tasks have, stops nothing."""
    until = given.get("until") or ()
    several = (until,) if isinstance(until, str) else until
    if not isinstance(several, list | tuple) or not all(isinstance(one, str) for one in several):
        raise OptionError(f"until of gen_kwargs is {until!r}; expected a text or several; try ['\\n']")
    return tuple(one for one in several if one)
