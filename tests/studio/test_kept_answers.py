"""Answers of `next`: alone, among many or from memory they are the same to the bit, and only so many are kept."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

import thereafter
from thereafter.studio.panels.prediction import KEPT, KeptAnswers, predict, questions_of
from thereafter.studio.studio import Studio
from waiting import run_async


async def always() -> bool:
    return True


@pytest.mark.parametrize("model", ["ready:lstm", "ready:ngram", "ready:transformer"])
def test_an_answer_among_many_or_from_memory_is_the_one_alone_to_the_bit(
    ready_folder: Path, tmp_path: Path, model: str
):
    texts = ["the nurse" + " near the farmers" * (number % 6) + " \n the" * (number % 3) for number in range(30)]
    lm = thereafter.load(ready_folder / model.partition(":")[2])
    expected = [predict(lm, text, 8, name=model).model_dump() for text in texts]

    async def main() -> list[bytes]:
        studio = Studio(tmp_path, ready_folder)
        questions = questions_of(studio)
        answers = await asyncio.gather(*(questions.ask(model, (text, 8), always) for text in [*texts, *texts]))
        studio.lanes.close()
        return answers

    assert [json.loads(answer) for answer in run_async(main())] == [*expected, *expected]


def test_kept_answers_are_bounded_and_those_of_the_model_that_is_there(ready_folder: Path, tmp_path: Path):
    shutil.copytree(ready_folder / "ngram", tmp_path / "run")
    predictions = KeptAnswers(Studio(tmp_path, ready_folder))
    first = predictions.answer("runs:run", [("the", 3)])
    assert predictions.answer("runs:run", [("the", 3)]) == first
    predictions.answer("runs:run", [(f"the {number}", 1) for number in range(KEPT + 10)] + [("the " * 5_000, 1)])
    (kept,) = predictions._kept.values()
    assert len(kept) == KEPT
    shutil.rmtree(tmp_path / "run")
    shutil.copytree(ready_folder / "lstm", tmp_path / "run")
    assert predictions.answer("runs:run", [("the", 3)]) != first
