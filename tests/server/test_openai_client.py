"""The real client of OpenAI against a real server: what it gets is what the library gives in Python."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

import thereafter
from breadth import core
from refusals import assert_refused
from served_runs import ServedRuns, served_language_model, served_runs
from thereafter.api import LanguageModel
from thereafter.serving.server.models import ServedModel
from waiting import run_async

OLD_RUNS = Path(__file__).resolve().parents[1] / "old_runs"
PLAIN = "Die Lösung – ein „Rätsel“ – heißt 😀.\nÜber 7 Öfen fährt kein Zug.\n" * 4
PROSE = "The old cat (a tom) sat on a mat, didn't it? A dog saw the old cat; the dog ran.\nAn old dog sat.\n" * 3
PROMPTS = {"words": "the old cat", "prose": "The old cat", "bytes": "Die L"}


@pytest.fixture(scope="module")
def lms() -> dict[str, LanguageModel]:
    """Words under an LSTM, prose and bytes under n-grams: bytes cut characters in two."""
    lstm = thereafter.load(OLD_RUNS / "lstm" / "finished")
    assert isinstance(lstm, LanguageModel)
    return {
        "words": lstm,
        "prose": thereafter.train(text=PROSE, tokens="prose", order=3),
        "bytes": thereafter.train(text=PLAIN, tokens="byte", order=4),
    }


@pytest.fixture(scope="module")
def server(lms: dict[str, LanguageModel]) -> Iterator[ServedRuns]:
    tagger = thereafter.load(OLD_RUNS / "tag" / "finished")
    assert not isinstance(tagger, LanguageModel)
    runs = [served_language_model(lm, name) for name, lm in lms.items()]
    with served_runs([*runs, ServedModel("tagger", task=tagger)]) as served:
        yield served


@pytest.fixture(scope="module")
def client(server: ServedRuns) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0, timeout=60) as one:
        yield one


def test_the_client_lists_the_runs(client: openai.OpenAI):
    assert [model.id for model in client.models.list()] == ["words", "prose", "bytes", "tagger"]
    assert client.models.retrieve("prose").owned_by == "thereafter"
    with assert_refused(openai.NotFoundError, "verse", "prose"):
        client.models.retrieve("verse")


SETTINGS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.7},
    {"temperature": 0},
    {"top_p": 0.6},
    {"extra_body": {"top_k": 3}},
    {"extra_body": {"min_p": 0.2, "repetition_penalty": 1.5}},
]


@pytest.mark.parametrize(
    ("name", "settings"),
    core(product(PROMPTS, SETTINGS), [*(("words", one) for one in SETTINGS), ("prose", SETTINGS[5]), ("bytes", {})]),
    ids=str,
)
def test_a_completion_is_what_generate_gives_with_the_same_seed(
    name: str, settings: dict[str, object], client: openai.OpenAI, lms: dict[str, LanguageModel]
):
    prompt = PROMPTS[name]
    asked = [client.completions.create(model=name, prompt=prompt, seed=3, max_tokens=20, **settings) for _ in "12"]
    options = {**settings, **settings.get("extra_body", {})}
    options.pop("extra_body", None)
    expected = lms[name].generate(prompt, 20, seed=3, **options)
    assert [prompt + one.choices[0].text for one in asked] == [expected, expected]
    assert asked[0].choices[0].finish_reason == "length"
    assert asked[0].usage.completion_tokens == 20
    assert asked[0].usage.prompt_tokens == len(lms[name].encode(prompt))


@pytest.mark.parametrize("name", PROMPTS)
def test_prompts_may_be_texts_ids_and_lists_of_either(name: str, client: openai.OpenAI, lms: dict[str, LanguageModel]):
    lm = lms[name]
    texts = [PROMPTS[name], PROMPTS[name][:5]]
    ids = [lm.encode(text).tolist() for text in texts]
    expected = [
        text[len(prompt) :] for prompt in texts for text in lm.generate(prompt, 9, seed=5, num_return_sequences=2)
    ]
    for prompts in (texts, ids):
        answer = client.completions.create(model=name, prompt=prompts, n=2, seed=5, max_tokens=9)
        assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
        assert [choice.text for choice in answer.choices] == expected
        assert answer.usage.prompt_tokens == sum(map(len, ids))
        assert answer.usage.total_tokens == sum(map(len, ids)) + 36
    for prompt in (texts[0], ids[0]):
        alone = client.completions.create(model=name, prompt=prompt, n=2, seed=5, max_tokens=9)
        assert [choice.text for choice in alone.choices] == expected[:2]


@pytest.mark.parametrize(
    ("name", "text"),
    [("words", "the old cat saw a zebra .\n"), ("prose", "A dog sat on the moon."), ("bytes", "7 Öfen 😀")],
)
def test_echo_with_logprobs_is_the_score(name: str, text: str, client: openai.OpenAI, lms: dict[str, LanguageModel]):
    lm = lms[name]
    answer = client.completions.create(model=name, prompt=text, max_tokens=0, echo=True, logprobs=2)
    (choice,) = answer.choices
    assert (choice.text, choice.finish_reason) == (text, "length")
    score = lm.score(text=text)
    assert len(choice.logprobs.token_logprobs) == score.tokens == answer.usage.total_tokens
    assert -math.fsum(choice.logprobs.token_logprobs) == pytest.approx(score.nats, rel=1e-6)
    first = {lm.tokenizer.piece(token): p for token, p in lm.next_ids(lm.encode(""), 1)}
    best = max(choice.logprobs.top_logprobs[0].items(), key=lambda pair: pair[1])
    assert math.exp(best[1]) == pytest.approx(next(iter(first.values())), rel=1e-5)


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_of_ids_may_begin_with_the_start_mark(name: str, client: openai.OpenAI, lms: dict[str, LanguageModel]):
    ids = lms[name].encode(PROMPTS[name]).tolist()
    plain, started = [
        client.completions.create(model=name, prompt=one, max_tokens=3, seed=1, echo=True, logprobs=1).choices[0]
        for one in (ids, [lms[name].tokenizer.start_id, *ids])
    ]
    assert started.text == plain.text
    assert started.logprobs.token_logprobs == [None, *plain.logprobs.token_logprobs]
    assert started.logprobs.tokens == ["<s>", *plain.logprobs.tokens]
    assert len(plain.logprobs.tokens) == len(ids) + 3


def test_tokens_joined_are_the_text_and_offsets_lead_to_them(client: openai.OpenAI):
    choice = client.completions.create(model="prose", prompt="the old", max_tokens=20, seed=2, logprobs=3).choices[0]
    assert "".join(choice.logprobs.tokens) == choice.text
    whole = "the old" + choice.text
    for token, place in zip(choice.logprobs.tokens, choice.logprobs.text_offset, strict=True):
        assert whole[place : place + len(token)] == token
    for token, own, top in zip(
        choice.logprobs.tokens, choice.logprobs.token_logprobs, choice.logprobs.top_logprobs, strict=True
    ):
        assert top[token] == own <= max(top.values())
        assert 3 <= len(top) <= 4


def test_tokens_that_are_parts_of_characters_are_written_as_bytes(client: openai.OpenAI):
    choice = client.completions.create(model="bytes", prompt="ö😀", max_tokens=0, echo=True, logprobs=1).choices[0]
    assert choice.text == "ö😀"
    assert choice.logprobs.tokens == [f"bytes:\\x{byte:02x}" for byte in "ö😀".encode()]
    assert choice.logprobs.text_offset == [0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("name", "stop"), [("words", " cat"), ("prose", [" dog", "."]), ("bytes", "n")])
def test_a_text_ends_before_a_stop_string(
    name: str, stop: str | list[str], stream: bool, client: openai.OpenAI, lms: dict[str, LanguageModel]
):
    prompt = PROMPTS[name]
    expected = lms[name].generate(prompt, 60, seed=1, stop_strings=stop)
    options = {"model": name, "prompt": prompt, "max_tokens": 60, "seed": 1, "stop": stop, "logprobs": 0}
    if stream:
        parts = [chunk.choices[0] for chunk in client.completions.create(stream=True, **options)]
        text, finish = "".join(part.text for part in parts), parts[-1].finish_reason
        tokens = [token for part in parts for token in part.logprobs.tokens]
    else:
        (choice,) = client.completions.create(**options).choices
        text, finish, tokens = choice.text, choice.finish_reason, choice.logprobs.tokens
    assert prompt + text == expected
    assert finish == "stop"
    assert not any(one in "".join(tokens) for one in ([stop] if isinstance(stop, str) else stop))


@pytest.mark.parametrize("name", PROMPTS)
def test_a_stream_joined_is_the_whole_answer(name: str, client: openai.OpenAI):
    options = {"model": name, "prompt": [PROMPTS[name], ""], "n": 2, "max_tokens": 25, "seed": 7, "echo": True}
    options |= {"logprobs": 2}
    whole = client.completions.create(**options)
    chunks = list(client.completions.create(stream=True, stream_options={"include_usage": True}, **options))
    assert (chunks[-1].choices, chunks[-1].usage) == ([], whole.usage)
    assert len({chunk.id for chunk in chunks}) == 1
    for choice in whole.choices:
        parts = [part for chunk in chunks for part in chunk.choices if part.index == choice.index]
        assert "".join(part.text for part in parts) == choice.text
        assert [part.finish_reason for part in parts][-1] == choice.finish_reason == "length"
        assert not any(part.finish_reason for part in parts[:-1])
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            assert [one for part in parts for one in getattr(part.logprobs, name)] == getattr(choice.logprobs, name)


def test_many_clients_at_once_each_get_their_own_text(server: ServedRuns, lms: dict[str, LanguageModel]):
    async def ask_all() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{server.address}/v1", api_key="none") as many:

            async def ask(seed: int) -> str:
                if seed % 2:
                    answer = await many.completions.create(model="words", prompt="a dog", max_tokens=30, seed=seed)
                    return answer.choices[0].text
                stream = await many.completions.create(
                    model="words", prompt="a dog", max_tokens=30, seed=seed, stream=True
                )
                return "".join([chunk.choices[0].text async for chunk in stream])

            return await asyncio.gather(*map(ask, range(24)))

    texts = run_async(ask_all())
    assert texts == [lms["words"].generate("a dog", 30, seed=seed)[len("a dog") :] for seed in range(24)]


def test_what_is_left_out_has_the_defaults_of_the_protocol(client: openai.OpenAI):
    for prompt in ("", None, []):
        answer = client.completions.create(model="prose", prompt=prompt)
        assert answer.usage.completion_tokens == answer.usage.total_tokens == 16
        assert answer.choices[0].logprobs is None
    accepted = {"best_of": 2, "n": 2, "suffix": None, "presence_penalty": 0, "frequency_penalty": 0.0, "user": "me"}
    assert len(client.completions.create(model="prose", prompt="a", **accepted).choices) == 2


WRONG = [
    ({"temperature": 3}, "temperature", "less than or equal to 2; got 3"),
    ({"temperature": "hot"}, "temperature", "valid number; got 'hot'"),
    ({"top_p": 0}, "top_p", "greater than 0; got 0"),
    ({"n": 0}, "n", "greater than or equal to 1"),
    ({"n": 100, "prompt": ["a", "b"]}, "n", "200 texts; expected at most 128"),
    ({"max_tokens": -1}, "max_tokens", "greater than or equal to 0"),
    ({"max_tokens": 10**9}, "max_tokens", "less than or equal to 32768"),
    ({"max_tokens": 32768, "n": 5}, "max_tokens", "try several requests"),
    ({"logprobs": 21}, "logprobs", "less than or equal to 20"),
    ({"seed": -1}, "seed", "greater than or equal to 0"),
    ({"stop": ""}, "stop", "at least 1 character"),
    ({"stop": ["a"] * 17}, "stop", "at most 16 items"),
    ({"prompt": {"text": "a"}}, "prompt", "expected a text, a list of texts, a list of token ids"),
    ({"prompt": ["a", 1]}, "prompt", "valid string; got 1"),
    ({"prompt": [1, "a"]}, "prompt", "valid integer; got 'a'"),
    ({"prompt": [0, 10**6]}, "prompt", "token id 1000000 is outside the vocabulary"),
    ({"prompt": [-1]}, "prompt", "greater than or equal to 0; got -1"),
    ({"best_of": 3}, "best_of", "try n=3"),
    ({"suffix": "end"}, "suffix", "from left to right"),
    ({"logit_bias": {"5": 1}}, "logit_bias", "try top_k"),
    ({"presence_penalty": 1}, "presence_penalty", "expected 0; try repetition_penalty"),
    ({"frequency_penalty": -0.5}, "frequency_penalty", "is -0.5; expected 0"),
    ({"stream_options": {"include_usage": True}}, None, "try stream=true"),
    ({"extra_body": {"guided": 1}}, "guided", "no such field"),
]


@pytest.mark.parametrize(
    ("field", "param", "sentence"), WRONG, ids=lambda value: str(value)[:40].encode("ascii", "replace").decode()
)
def test_a_wrong_request_raises_the_clients_own_error_with_our_sentence(
    field: dict[str, object], param: str | None, sentence: str, client: openai.OpenAI
):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(**{"model": "prose", "prompt": "a", **field})
    assert sentence in caught.value.body["message"]
    assert (caught.value.type, caught.value.param) == ("invalid_request_error", param)


def test_what_is_not_there_is_not_found(client: openai.OpenAI, server: ServedRuns):
    with assert_refused(openai.NotFoundError) as unknown:
        client.completions.create(model="gpt-3.5-turbo-instruct", prompt="a")
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with assert_refused(openai.NotFoundError, "tag", "/v1/completions", "/tag"):
        client.completions.create(model="tagger", prompt="a")
    with assert_refused(openai.NotFoundError, "/v1/completions"):
        client.chat.completions.create(model="prose", messages=[{"role": "user", "content": "hello"}])
    with assert_refused(openai.NotFoundError):
        client.embeddings.create(model="prose", input="a")
    unnamed = httpx.post(f"{server.address}/v1/completions", json={"prompt": "a"})
    assert unnamed.status_code == 404
    assert "a request names one; known are" in unnamed.json()["error"]["message"]


def test_a_body_that_is_no_json_is_refused_in_the_same_shape(server: ServedRuns):
    for body in (
        b"{",
        b"[1]",
        b'{"prompt": "\\ud800"}',
        b'{"\\ud800": 1}',
        b'"a"',
        b"",
        b"\xff\xfe",
        b'{"prompt": ' + b"[" * 100,
    ):
        answer = httpx.post(
            f"{server.address}/v1/completions", content=body, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code in (400, 422), (body, answer.text)
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


def test_texts_become_ids_and_ids_texts(server: ServedRuns, lms: dict[str, LanguageModel]):
    with httpx.Client(base_url=server.address) as plain:
        for name, lm in lms.items():
            text = PROMPTS[name]
            answer = plain.post("/tokenize", json={"model": name, "prompt": text}).json()
            assert answer["tokens"] == lm.encode(text).tolist()
            back = plain.post("/detokenize", json={"model": name, "tokens": answer["tokens"]}).json()
            assert back == {"prompt": text}
            facts = plain.get("/tokenizer_info", params={"model": name}).json()
            start = plain.post("/tokenize", json={"model": name, "prompt": facts["bos_token"]}).json()["tokens"]
            assert start == [lm.tokenizer.start_id] == [facts["vocab_size"]]
        assert plain.post("/tokenize", json={"model": "tagger", "prompt": "a"}).status_code == 404
