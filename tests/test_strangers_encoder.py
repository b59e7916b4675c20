"""An encoder that nobody foresaw, over arrays of numbers: what is decoded from it is searched, drawn, streamed and
traced by the code that serves language models, and so is what a translator says."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import thereafter
from refusals import assert_refused
from thereafter.decoding import generation, sources
from thereafter.decoding.beam import Search, beam_search
from thereafter.decoding.generation import GenerationSettings, Prompted
from thereafter.decoding.sources import AnswerSettings
from thereafter.decoding.writing import Detokenizer, UntilToken
from thereafter.errors import OptionError, ShapeError
from thereafter.inspection.trace import record
from thereafter.models.decoder import ConditionedState
from thereafter.models.task_net import Memory
from thereafter.models.transformer_decoder import TransformerDecoder
from thereafter.models.word_decoder import END, DecoderSettings, RecurrentDecoder, WordDecoder

WORDS, LIMIT, SIZE = 3, 3, 8
FORMS = ("</s>", "a", "b")
EVERY = ([*text, END] for n in range(LIMIT) for text in itertools.product((1, 2), repeat=n))
SEQUENCES = [tuple(one) for one in EVERY] + list(itertools.product((1, 2), repeat=LIMIT))
"""Every answer there is: up to its end, or cut short."""
BOTH = pytest.mark.parametrize("kind", ["gru", "lstm", "transformer"])


@dataclass(frozen=True)
class Series:
    """Rows of numbers [B, S, F], each real up to its length."""

    x_BSF: Tensor
    lengths_B: Tensor


class OfNumbers(nn.Module):
    """The stranger: a linear map of each place, and the mean of a row as its summary."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.place, self.whole = nn.Linear(features, SIZE), nn.Linear(features, SIZE)

    def encode(self, batch: Series) -> Memory:
        inside_BS = torch.arange(batch.x_BSF.shape[1]) < batch.lengths_B[:, None]
        mean_BF = (batch.x_BSF * inside_BS[:, :, None]).sum(1) / batch.lengths_B[:, None]
        h_BLH = torch.tanh(self.whole(mean_BF))[:, None]
        return Memory(torch.tanh(self.place(batch.x_BSF)), inside_BS, {"h": h_BLH, "c": h_BLH})


class Letters:
    """Ids as the text they stand for."""

    def continuation(self, prompt: str, ids: Sequence[int], /) -> str:
        return prompt + "".join(FORMS[number] for number in ids if number != END)


def made(kind: str, seed: int = 0, rows: int = 3) -> tuple[WordDecoder, Memory]:
    """A decoder with weights so great that its answers differ, and what it is given."""
    torch.manual_seed(seed)
    settings = DecoderSettings(embed=6, hidden=SIZE, heads=2, cell="gru" if kind == "transformer" else kind)
    network = TransformerDecoder if kind == "transformer" else RecurrentDecoder
    decoder, encoder = network(settings, words=WORDS, limit=LIMIT).eval(), OfNumbers(2)
    nn.init.normal_(decoder.words.weight, std=1.0)
    nn.init.normal_(decoder.head.bias, std=0.3)
    with torch.no_grad():
        return decoder, encoder.encode(Series(torch.randn(rows, 4, 2), torch.tensor([4, 1, 3])[:rows]))


def log_p(decoder: WordDecoder, memory: Memory) -> list[dict[tuple[int, ...], float]]:
    """Of every source log p of each answer there is, from the loss's own pass over all steps at once."""
    found: list[dict[tuple[int, ...], float]] = [{} for _ in range(len(memory))]
    for answer in SEQUENCES:
        with torch.no_grad():
            logp_BTV = decoder.scores_given(memory, torch.tensor([answer] * len(memory)))
        for row, logp_TV in enumerate(logp_BTV.double()):
            found[row][answer] = sum(float(logp_TV[t, word]) for t, word in enumerate(answer))
    return found


@BOTH
def test_all_answers_together_are_certain_and_steps_are_the_whole_pass(kind: str) -> None:
    decoder, memory = made(kind)
    model = decoder.given(memory)
    for row, all_log_p in enumerate(log_p(decoder, memory)):
        assert sum(map(np.exp, all_log_p.values())) == pytest.approx(1.0, abs=1e-5)
        for answer, total in all_log_p.items():
            state = model.start(3).select(np.array([row]))
            together, after = model.log_probs(np.array([answer]), state)
            assert together.sum() == pytest.approx(total, abs=1e-4)
            logp_1V = model.predict(state)
            for step, word in enumerate(answer):
                assert logp_1V[0, word] == pytest.approx(together[0, step], abs=1e-5)
                logp_1V, state = model.step(np.array([word]), state)
            np.testing.assert_allclose(model.predict(after), logp_1V, atol=1e-5)


@BOTH
def test_rows_change_places_with_their_sources(kind: str) -> None:
    decoder, memory = made(kind)
    model = decoder.given(memory)
    state = model.start(3)
    logp_BV, after = model.step(np.array([1, 2, 1]), state)
    index = np.array([2, 0, 0, 1])
    np.testing.assert_allclose(model.predict(after.select(index)), logp_BV[index], atol=1e-5)
    assert after.select(index).row_R.tolist() == index.tolist()
    again, _ = model.step(np.array([1, 2, 1])[index], state.select(index))
    np.testing.assert_allclose(again, logp_BV[index], atol=1e-5)
    np.testing.assert_allclose(model.predict(state), model.predict(model.start(3)), atol=0)  # a value
    several = model.start(6)  # two rows for each source
    assert several.row_R.tolist() == [0, 0, 1, 1, 2, 2]
    with assert_refused(OptionError, 4, 3):
        model.start(4)


@BOTH
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_greedy_and_a_beam_of_five_against_all_answers_there_are(kind: str, penalty: float) -> None:
    for seed in range(6):
        decoder, memory = made(kind, seed)
        greedy = sources.decode_answers(decoder, memory, AnswerSettings())
        together = sources.search_answers(decoder, memory, 5, penalty)
        model = decoder.given(memory)
        for row, all_log_p in enumerate(log_p(decoder, memory)):
            answer: tuple[int, ...] = ()
            while len(answer) < LIMIT and END not in answer:
                # p of a beginning is that of all answers that begin so
                p = [
                    sum(np.exp(total) for one, total in all_log_p.items() if one[: len(answer) + 1] == (*answer, word))
                    for word in range(WORDS)
                ]
                answer = (*answer, int(np.argmax(p)))
            assert greedy[row] == [word for word in answer if word != END]
            by_score = {one: total / len(one) ** penalty for one, total in all_log_p.items()}
            likeliest = max(by_score, key=by_score.__getitem__)
            assert together[row][0].tokens == likeliest
            state = model.start(3).select(np.array([row]))
            best = beam_search(model, state, UntilToken(END), Search(5, LIMIT, length_penalty=penalty))
            assert best[0].tokens == likeliest
            for one in best:
                assert one.total == pytest.approx(all_log_p[one.tokens], abs=1e-4)


@BOTH
def test_several_answers_are_searched_for_at_once(kind: str) -> None:
    decoder, memory = made(kind)
    for row, texts in enumerate(sources.search_answers(decoder, memory, len(SEQUENCES), best=4)):
        by_score = {one: total / len(one) for one, total in log_p(decoder, memory)[row].items()}
        assert [one.tokens for one in texts] == sorted(by_score, key=by_score.__getitem__, reverse=True)[:4]


def prompt_of(decoder: WordDecoder, memory: Memory, detokenizer: Detokenizer) -> Prompted[ConditionedState]:
    """One source as the start of `generation`: its answer can be generated, searched and streamed like any text."""
    model, forbidden = decoder.given(memory), () if decoder.unknown is None else (decoder.unknown,)
    return Prompted(model, detokenizer, "", np.empty(0, np.int64), model.start(1), forbidden, until=END)


@pytest.mark.wide
@BOTH
def test_draws_come_as_often_as_they_are_likely(kind: str) -> None:
    decoder, memory = made(kind, rows=1)
    begin = prompt_of(decoder, memory, Letters())
    draws = 1500
    for temperature in (1.0, 2.0):
        options: Any = {"max_new_tokens": LIMIT, "num_return_sequences": draws, "temperature": temperature, "seed": 3}
        texts = generation.generate(begin, GenerationSettings(**options))
        assert texts == generation.generate(begin, GenerationSettings(**options))
        counts = Counter(tuple(text.tokens) for text in texts)
        expected = bent(log_p(decoder, memory)[0], temperature)
        assert sum(expected.values()) == pytest.approx(1.0, abs=1e-5)
        # the 99.9 % point of 14 degrees of freedom; answers that hardly ever come are counted as one
        rare = [one for one, p in expected.items() if p * draws < 5]
        pairs = [(counts[one], p * draws) for one, p in expected.items() if one not in rare]
        pairs.append((sum(counts[one] for one in rare), sum(expected[one] for one in rare) * draws + 1e-9))
        assert sum((count - mean) ** 2 / max(mean, 1.0) for count, mean in pairs) < 36.1
        assert all(text.text == Letters().continuation("", text.tokens) for text in texts)


def bent(all_log_p: dict[tuple[int, ...], float], temperature: float) -> dict[tuple[int, ...], float]:
    """p of every answer where each of its words is drawn with p^(1/temperature)."""

    def of_beginning(beginning: tuple[int, ...]) -> float:
        return sum(np.exp(total) for one, total in all_log_p.items() if one[: len(beginning)] == beginning)

    found = {}
    for answer in all_log_p:
        found[answer] = 1.0
        for step, word in enumerate(answer):
            shares = [of_beginning((*answer[:step], other)) ** (1 / temperature) for other in range(WORDS)]
            found[answer] *= shares[word] / sum(shares)
    return found


@BOTH
def test_an_answer_is_streamed(kind: str) -> None:
    decoder, memory = made(kind, seed=1, rows=1)
    begin = prompt_of(decoder, memory, Letters())
    for seed in range(5):
        settings = GenerationSettings(max_new_tokens=LIMIT, seed=seed)
        pieces = list(generation.pieces(begin, settings))
        (text,) = generation.generate(begin, settings)
        assert "".join(piece.text for piece in pieces) == text.text
        assert END not in text.tokens[:-1]


@BOTH
def test_a_trace_shows_the_look_at_each_place_and_the_likeliest_words(kind: str) -> None:
    decoder, memory = made(kind, rows=3)
    one = Memory(memory.h_BSH[2:], memory.inside_BS[2:], {name: part[2:] for name, part in memory.summary.items()})
    model = decoder.given(one)
    ids = np.array([2, 1, 2, END])
    trace = record(model, ids, [FORMS[number] for number in ids], list(FORMS))
    logp_1T, _ = model.log_probs(ids[None], model.start(1))
    np.testing.assert_allclose(trace["log_prob"], logp_1T[0], atol=1e-5)
    assert trace.axes["attention"] == ("step", "source")
    np.testing.assert_allclose(trace["attention"].sum(1), 1.0, atol=1e-5)
    assert (trace["attention"][:, 3] == 0).all()  # behind the end of this source
    assert trace["top_token"].shape == (4, WORDS)
    ranks = [trace["top_token"][step].tolist().index(word) for step, word in enumerate(ids)]
    np.testing.assert_allclose(trace["top_log_prob"][np.arange(4), ranks], trace["log_prob"], atol=1e-5)
    assert ("l0.h" in trace.arrays) == (kind != "transformer")
    halfway = model.read(ids[None, :2], model.start(1))
    for name, (_, array) in model.record(ids[2:], halfway).items():
        np.testing.assert_allclose(array, trace[name][2:], atol=1e-5, err_msg=name)


def test_what_cannot_be_a_memory_is_refused() -> None:
    decoder, memory = made("lstm")
    with assert_refused(ShapeError, "[sources, places, numbers]"):
        Memory(memory.h_BSH, memory.inside_BS.float())
    with assert_refused(ShapeError, "'h'", (1, 1, 8), 3):
        Memory(memory.h_BSH, memory.inside_BS, {"h": memory.summary["h"][:1]})
    with assert_refused(ShapeError, "'c'", [3, 1, 8]):
        decoder.given(Memory(memory.h_BSH, memory.inside_BS, {"h": memory.summary["h"]}))


@pytest.mark.parametrize("model", ["recurrent", "transformer"])
def test_translators_go_through_the_same_search_sampler_stream_and_trace(model: str, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{' '.join(one)}\t{' '.join(one[::-1])}\n" for one in ("ab", "abc", "ca", "b", "cb") * 8))
    options: Any = {"tokens": "prose", "min_count": 1, "embed": 8, "hidden": 8, "heads": 2, "batch": 8, "seed": 1}
    translator = thereafter.train(pairs, task="translate", model=model, epochs=3, rate=0.01, **options)
    net, task, wording = translator.net, translator.task, translator.codecs["target"]
    example = task.example("a b c")
    with net.quietly():
        memory = net.encode(task.batch([example], translator.codecs))
    begin = prompt_of(net, memory, wording)
    greedy = GenerationSettings(max_new_tokens=net.limit, do_sample=False)
    (text,) = generation.generate(begin, greedy)
    assert text.text.strip() == translator.predict("a b c")
    assert "".join(piece.text for piece in generation.pieces(begin, greedy)) == text.text
    (best,) = sources.search_answers(net, memory, 3)[0]
    assert wording.decode(best.tokens) == translator.predict("a b c", beam=3)
    conditioned = net.given(memory)
    logp, _ = conditioned.log_probs(np.array([best.tokens]), conditioned.start(1))
    assert logp.sum() == pytest.approx(best.total, abs=1e-4)
    trace = translator.trace("a b c")
    ids = np.array([*wording.encode(trace.about["answer"])]) if trace.about["answer"] else np.array([END])
    again = record(conditioned, ids, trace.tokens, trace.vocabulary)
    for name, array in again.arrays.items():
        np.testing.assert_allclose(trace[name], array, atol=1e-5, err_msg=name)


def test_a_translation_is_drawn(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a b\tb a\nb\tb\na a\tc c\nb a c\tc b a\n" * 4)
    options: Any = {"tokens": "word", "min_count": 1, "embed": 8, "hidden": 8, "epochs": 1, "seed": 1}
    model = thereafter.train(pairs, task="translate", **options)
    asked = ["a b", "b a c", "a b", "b"] * 20
    drawn = model.predict(asked, do_sample=True, temperature=1.5, seed=4)
    assert drawn == model.predict(asked, do_sample=True, temperature=1.5, seed=4)
    assert drawn != model.predict(asked, do_sample=True, temperature=1.5, seed=5)
    assert drawn[1] == model.predict("b a c", do_sample=True, temperature=1.5, seed=4)  # whatever is asked beside it
    assert len(set(drawn[::4])) > 1  # one sentence asked again and again
    assert model.predict(asked, do_sample=True, top_k=1, seed=4) == model.predict(asked)
    assert model.score(pairs, do_sample=True, seed=1) == model.score(pairs, do_sample=True, seed=1)
    wrongs: tuple[tuple[dict[str, Any], tuple[object, ...]], ...] = (
        ({"temperature": 0.5}, ("temperature", "do_sample=True")),
        ({"seed": 1}, ("seed", "do_sample=True")),
        ({"do_sample": True, "beam": 3}, ("beam", 3)),
        ({"do_sample": True, "top_k": 0}, ("top_k", 0, 1)),
        ({"do_sample": True, "seed": -1}, ("seed", -1, 0)),
    )
    for wrong, facts in wrongs:
        with assert_refused(OptionError, *facts):
            model.predict("a", **wrong)
