"""Texts as token ids and back, at the addresses that vLLM has for it.

lm-evaluation-harness asks them where it is given no tokenizer (`local-completions` with a remote one), so that every
run can be measured by it. Its prefix before a text without a context is the start mark: `/tokenize` of `<s>` alone is
that mark, which a prompt of ids may begin with.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from thereafter.serving.schema import Answer, Asked
from thereafter.serving.server.prompts import START, read_ids
from thereafter.serving.server.verbs import served_model
from thereafter.serving.server.wire import RunName, Text, TokenIds

ROUTER = APIRouter(tags=["tokens"])


class TokenizeRequest(Asked):
    """`add_special_tokens`: put the start mark first."""

    model: RunName = None
    prompt: Text
    add_special_tokens: bool = False


class TokenizeAnswer(Answer):
    count: int
    max_model_len: int | None
    tokens: list[int]


class DetokenizeRequest(Asked):
    model: RunName = None
    tokens: TokenIds


class DetokenizeAnswer(Answer):
    prompt: str


class TokenizerAnswer(Answer):
    """`bos_token` is read before every text; none ends one."""

    tokenizer_class: str
    vocab_size: int
    bos_token: str
    eos_token: str | None
    chat_template: str | None


@ROUTER.post("/tokenize")
async def tokenize(asked: TokenizeRequest, request: Request) -> TokenizeAnswer:
    """The token ids of a text, as the run's model reads it."""
    lm = served_model(request, asked.model).language_model_for("/tokenize")
    start = [lm.tokenizer.start_id]
    if asked.prompt == START:
        ids = start
    else:
        encoded = await run_in_threadpool(lm.encode, asked.prompt)
        ids = (start if asked.add_special_tokens else []) + encoded.tolist()
    return TokenizeAnswer(count=len(ids), max_model_len=None, tokens=ids)


@ROUTER.post("/detokenize")
async def detokenize(asked: DetokenizeRequest, request: Request) -> DetokenizeAnswer:
    """The text of token ids."""
    lm = served_model(request, asked.model).language_model_for("/detokenize")
    prompt = await run_in_threadpool(read_ids, asked.tokens, lm)
    return DetokenizeAnswer(prompt=prompt.text)


@ROUTER.get("/tokenizer_info")
async def tokenizer_info(
    request: Request, model: Annotated[str | None, Field(max_length=200)] = None
) -> TokenizerAnswer:
    """Facts of a run's tokenizer."""
    tokenizer = served_model(request, model).language_model_for("/tokenizer_info").tokenizer
    return TokenizerAnswer(
        tokenizer_class=tokenizer.name, vocab_size=tokenizer.size, bos_token=START, eos_token=None, chat_template=None
    )
