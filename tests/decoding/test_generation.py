"""Going on from a prompt: the same through every model and tokenizer, alone or several at once, at once or streamed."""

from __future__ import annotations

import inspect
import json
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from small_models import NAMES, WITH_TOKENS, counted, made

import thereafter
from breadth import core
from thereafter.decoding.generation import GenerationOptions, GenerationSettings
from thereafter.errors import OptionError
from thereafter.text.tokenizers import TOKENIZERS

PROMPTS = ["", "the", "the cat\n", "zebra 😀"]


@pytest.mark.parametrize(("name", "tokens"), WITH_TOKENS)
def test_every_model_says_the_same_again_and_streams_what_it_says(name: str, tokens: str):
    """Each model and each tokenizer with every prompt; a model with a tokenizer goes on from one of them."""
    lm = made(name, tokens)
    prompt = PROMPTS[(NAMES.index(name) + list(TOKENIZERS).index(tokens)) % len(PROMPTS)]
    options: dict[str, Any] = {"temperature": 1.3, "top_p": 0.95, "repetition_penalty": 1.1, "seed": 5}
    text = lm.generate(prompt, 12, **options)
    assert text == lm.generate(prompt, 12, **options)
    assert prompt + "".join(lm.stream_text(prompt, 12, **options)) == text
    assert text == lm.tokenizer.continuation(prompt, list(lm.stream(prompt, 12, **options)))
    assert len(set(lm.generate(prompt, 12, num_return_sequences=4, seed=1))) > 1


@pytest.mark.parametrize("name", NAMES)
def test_log_probs_are_the_models_own(name: str):
    lm = made(name)
    for options in ({"temperature": 2.0, "seed": 1, "top_k": 9}, {"num_beams": 3}, {"do_sample": False}):
        (one,) = lm.generate("the cat", 8, return_log_probs=True, repetition_penalty=1.3, **options)
        ids = np.concatenate([lm.tokenizer.encode("the cat"), one.tokens]).reshape(1, -1).astype(int)
        logp, _ = lm.model.log_probs(ids, lm.model.start(1))
        np.testing.assert_allclose(one.log_probs, np.asarray(logp)[0, -len(one.tokens) :], atol=2e-5)
        assert one.text == lm.tokenizer.continuation("the cat", one.tokens)
        assert one.log_prob == pytest.approx(sum(one.log_probs))
        assert json.loads(json.dumps(one.log_probs)) == one.log_probs


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_does_not_depend_on_how_many_there_are(name: str):
    lm = made(name, "word")
    options: dict[str, Any] = {"seed": 8, "stop_strings": "\n", "return_log_probs": True}
    six = lm.generate("the", 10, num_return_sequences=6, **options)
    three = lm.generate("the", 10, num_return_sequences=3, **options)
    (alone,) = lm.generate("the", 10, **options)
    assert [one.tokens for one in six[:3]] == [one.tokens for one in three]
    assert alone.tokens == six[0].tokens
    assert len({one.text for one in six}) > 1
    for one, again in zip(six, three, strict=False):
        np.testing.assert_allclose(one.log_probs, again.log_probs, atol=2e-5)


class Watched:
    """A model that notes how many rows it reads at a time."""

    def __init__(self, model: Any) -> None:
        self.model, self.rows = model, list[int]()
        self.vocabulary_size = model.vocabulary_size

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def step(self, tokens: Any, state: Any) -> Any:
        self.rows.append(len(tokens))
        return self.model.step(tokens, state)


def watched(lm: thereafter.LanguageModel, monkeypatch: pytest.MonkeyPatch) -> Watched:
    watch = Watched(lm.model)
    monkeypatch.setattr(lm.trained, "model", watch)
    return watch


def test_samples_are_one_batch_and_leave_it_as_they_end(monkeypatch: pytest.MonkeyPatch):
    lm = counted("word")
    watch = watched(lm, monkeypatch)
    found = lm.generate("the", 30, num_return_sequences=8, stop_strings="\n", seed=2, return_log_probs=True)
    lengths = [len(one.tokens) for one in found]
    assert len(set(lengths)) > 1
    # after its n-th token a row is read on only if it has more to say
    assert watch.rows == [sum(length > n for length in lengths) for n in range(1, max(lengths))]


def test_no_token_is_read_in_vain(monkeypatch: pytest.MonkeyPatch):
    lm = counted("word")
    watch = watched(lm, monkeypatch)
    lm.generate("the", 5, seed=1)
    assert watch.rows == [1] * 4
    watch.rows.clear()
    stream = lm.stream_text("the", 5, seed=1)
    assert watch.rows == []
    next(stream)
    assert watch.rows == []
    next(stream)
    assert watch.rows == [1]


@pytest.mark.parametrize("tokens", core(TOKENIZERS, ["word", "byte", "unigram"]))
def test_stop_strings_cut_the_text(tokens: str):
    lm = counted(tokens)
    for stop in ("\n", "t s", "cat", "é", " o"):
        for seed in range(4):
            options: dict[str, Any] = {"seed": seed, "stop_strings": [stop, "never said"]}
            said = lm.generate("the", 60, seed=seed).removeprefix("the")
            text = lm.generate("the", 60, **options)
            assert text == "the" + said.split(stop)[0]
            assert "the" + "".join(lm.stream_text("the", 60, **options)) == text
        assert not any(stop in text[3:] for text in lm.generate("the", 30, num_return_sequences=5, stop_strings=stop))
        assert stop not in lm.generate("the", 10, num_beams=3, stop_strings=stop)[3:]
    assert lm.generate("cat\n", 0, stop_strings="\n") == "cat\n"  # what the prompt says does not stop anything


def test_the_token_that_completes_a_stop_string_is_the_last():
    lm = counted("prose")
    (one,) = lm.generate("the cat", 60, seed=1, stop_strings="\n", return_log_probs=True)
    pieces = [lm.tokenizer.piece(token) for token in one.tokens]
    assert pieces[-1] == "\n"
    assert "\n" not in pieces[:-1]
    assert len(one.log_probs) == len(one.tokens)


def test_greedy_in_every_way_of_saying_it():
    lm = counted("word")
    greedy = lm.generate("the", 8, temperature=0)
    assert greedy == lm.generate("the", 8, do_sample=False, temperature=1.7) == lm.generate("the", 8, top_k=1, seed=3)
    tokens, state = [], lm.model.log_probs(lm.tokenizer.encode("the").reshape(1, -1), lm.model.start(1))[1]
    for _ in range(8):
        logp = np.array(lm.model.predict(state))[0]
        logp[0] = -np.inf
        tokens.append(int(logp.argmax()))
        _, state = lm.model.step(np.array(tokens[-1:]), state)
    assert greedy == lm.tokenizer.continuation("the", tokens)


def test_a_penalty_makes_it_repeat_less():
    lm = counted("word")
    plain, bent = (
        lm.generate("the", 300, seed=1, repetition_penalty=penalty, return_log_probs=True)[0].tokens
        for penalty in (1.0, 3.0)
    )
    assert len(set(bent[:12])) > len(set(plain[:12]))
    # penalised out of sight, neither what the prompt said nor what followed is said again
    prompt = lm.tokenizer.encode("the cat").tolist()
    said = lm.generate("the cat", 3, temperature=0, repetition_penalty=1e6, return_log_probs=True)[0].tokens
    assert not set(said) & set(prompt)
    assert len(set(said)) == 3


def test_beams_give_several_texts_best_first():
    lm = counted("word")
    found = lm.generate("the", 12, num_beams=5, num_return_sequences=3, stop_strings="\n", return_log_probs=True)
    means = [one.log_prob / len(one.tokens) for one in found]
    assert means == sorted(means, reverse=True)
    assert len({one.text for one in found}) == 3
    assert lm.generate("the", 12, num_beams=5, stop_strings="\n") == found[0].text
    short, long = (
        len(lm.generate("the", 12, num_beams=9, length_penalty=p, stop_strings="\n").split()) for p in (-2.0, 4.0)
    )
    assert short < long


def test_unknown_words_are_never_said():
    for tokens in ("word", "prose", "char"):
        lm = counted(tokens)
        for one in lm.generate("zebra", 200, temperature=9.0, num_return_sequences=3, seed=2, return_log_probs=True):
            assert lm.tokenizer.unknown_id not in one.tokens
        (beam,) = lm.generate("zebra", 5, num_beams=4, return_log_probs=True)
        assert lm.tokenizer.unknown_id not in beam.tokens


def test_the_options_are_those_of_the_settings():
    own = {field.name for field in fields(GenerationSettings)}
    assert set(GenerationOptions.__annotations__) | {"max_new_tokens", "num_return_sequences"} == own
    assert "repetition_penalty" in (inspect.getdoc(thereafter.LanguageModel.generate) or "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_beams": 0}, "num_beams is 0; expected 1"),
        ({"num_return_sequences": 0}, "num_return_sequences is 0; expected 1 or more"),
        ({"num_beams": 2, "num_return_sequences": 3}, "expected no more than num_beams; try num_beams=3"),
        ({"num_beams": 2, "do_sample": True}, "do_sample is True with a beam search"),
        ({"num_beams": 2, "top_k": 3}, "top_k is 3, but a beam search does not sample"),
        ({"num_beams": 2, "temperature": 0.5}, "temperature is 0.5, but a beam search does not sample"),
        ({"num_beams": 2, "length_penalty": 1e9}, "length_penalty is 1000000000.0; expected -10 to 10"),
        ({"length_penalty": 2.0}, "belong to beam search"),
        ({"early_stopping": True}, "belong to beam search"),
        ({"temperature": 0, "num_return_sequences": 2}, "greedy decoding has a single result"),
        ({"do_sample": False, "num_return_sequences": 2}, "try do_sample=True"),
        ({"stop_strings": ""}, "a stop string is empty"),
        ({"stop_strings": ["a", ""]}, "a stop string is empty"),
        ({"stop_strings": [3]}, "stop_strings of generate is"),
        ({"seed": -1}, "seed is -1; expected 0 or more"),
        ({"top_p": 3}, "top_p is 3; expected"),
        ({"min_p": -1}, "min_p is -1; expected"),
        ({"repetition_penalty": 0}, "repetition_penalty is 0; expected"),
        ({"temperature": "hot"}, "temperature of generate is 'hot', a str; expected float"),
        ({"top_kk": 3}, "generate has no setting 'top_kk'; did you mean 'top_k'"),
    ],
)
def test_settings_that_mean_nothing(options: dict[str, Any], said: str):
    lm = counted("word")
    with pytest.raises(OptionError, match=said):
        lm.generate("the", **options)
    if "num_return_sequences" not in options:
        with pytest.raises(OptionError, match=said):
            lm.stream_text("the", **options)  # at once, not at the first piece


def test_what_cannot_be_streamed():
    lm = counted("word")
    with pytest.raises(OptionError, match="knows its text only at its end"):
        lm.stream_text("the", num_beams=3)
    with pytest.raises(OptionError, match="one text can be streamed"):
        lm.stream("the", num_return_sequences=3)  # type: ignore[call-arg]


def test_long_texts_take_time_in_proportion(monkeypatch: pytest.MonkeyPatch):
    """What is looked at for each token must not grow with the text before it."""
    lm = counted("bpe")
    looked_at: list[int] = []
    plain = type(lm.tokenizer).continuation

    def continuation(self: Any, prompt: str, ids: Any) -> str:
        looked_at.append(len(prompt) + len(ids))
        return plain(self, prompt, ids)

    monkeypatch.setattr(type(lm.tokenizer), "continuation", continuation)
    lm.generate("the", 400, seed=1, temperature=3.0)
    assert max(looked_at) < 8
    assert len(looked_at) < 900
