"""The verb `compare`: models on the same sentences, comparisons that were made before, and curves of any model."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fastapi import Path as InPath
from fastapi import Response
from pydantic import Field

from thereafter.serving.errors import NotThereError
from thereafter.serving.schema import Asked, ModelName
from thereafter.serving.shelf import READY, RUNS
from thereafter.studio.answers.comparison import ComparisonAnswer, CurveOfAnswer, KeptAnswer
from thereafter.studio.routes.common import LoadedStudio, TheVisitor, Visitor, as_json, make_router, reply
from thereafter.studio.studio import Studio

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel
    from thereafter.studio.verbs.comparison import ComparedModel

router = make_router()
_FILES = ("weights.safetensors", "log.jsonl")
Stamp = tuple[tuple[int, int], ...]


class Known:
    """What was measured, by the folder of the model, for as long as its files stay as they are."""

    def __init__(self) -> None:
        self._by_folder: dict[str, tuple[Stamp, ComparedModel]] = {}
        self._lock = threading.Lock()

    def get(self, run: Path) -> ComparedModel | None:
        with self._lock:
            stamp, measured = self._by_folder.get(str(run.absolute()), (None, None))
        return measured if stamp == _stamp(run) else None

    def keep(self, run: Path, stamp: Stamp, measured: ComparedModel) -> None:
        with self._lock:
            self._by_folder[str(run.absolute())] = stamp, measured


_known = Known()

Several = Annotated[list[ModelName], Field(min_length=1, max_length=16)]
ComparisonName = Annotated[
    str, InPath(pattern=r"^[^/\\\x00]{1,200}$", description="A comparison of the list, by its name.")
]


class CompareAsked(Asked):
    models: Several
    measure: Annotated[list[ModelName], Field(max_length=16)] | None = Field(
        default=None,
        description="Those that are measured where that was not done before, all by default. "
        "Of the others the answer has what is known without measuring; a model of which nothing is known is left out.",
    )


class CurvesAsked(Asked):
    models: Several


@router.post("/compare", response_model=ComparisonAnswer)
async def compare(asked: CompareAsked, visitor: TheVisitor) -> Response:
    """Models measured on the same test sentences; what was measured before is not measured again."""
    names = dict.fromkeys(asked.models)
    to_measure = names if asked.measure is None else asked.measure
    answers = [
        await (_measure_once(visitor, name) if name in to_measure else _known_of(visitor, name)) for name in names
    ]

    def work() -> bytes:
        from thereafter.studio.verbs.comparison import comparison_of

        return as_json(comparison_of([one for one in answers if one is not None]))

    return reply(await visitor.apart("comparison", work))


@router.get("/comparisons")
def comparisons(studio: LoadedStudio) -> list[KeptAnswer]:
    """The comparisons in the runs folder."""
    from thereafter.studio.verbs.comparison import list_kept

    return list_kept(studio.shelf.folders[RUNS])


@router.get("/comparisons/{name}")
def comparison(name: ComparisonName, studio: LoadedStudio) -> ComparisonAnswer:
    """One of the comparisons in the runs folder."""
    from thereafter.studio.verbs.comparison import read_kept

    return read_kept(studio.shelf.folders[RUNS], name)


@router.post("/curves")
def curves(asked: CurvesAsked, studio: LoadedStudio) -> list[CurveOfAnswer]:
    """How the training of each model went, by its log. One that is counted and not trained in steps has no points."""
    from thereafter.studio.verbs.curves import curve

    cards = {card.name: card for card in studio.shelf.cards()}
    answers = []
    for name in dict.fromkeys(asked.models):
        points = curve(studio.shelf.place(name))
        answers.append(CurveOfAnswer(model=name, label=cards[name].label, kind=cards[name].kind, **points.model_dump()))
    return answers


async def _measure_once(visitor: Visitor, name: str) -> ComparedModel:
    """What was measured of a model before, or is now. What is known is not waited for until the model is free."""
    known = await visitor.apart(f"known of {name}", lambda: _known.get(visitor.studio.shelf.place(name)))
    return await visitor.ask(name, lambda lm: _measure(visitor.studio, name, lm)) if known is None else known


async def _known_of(visitor: Visitor, name: str) -> ComparedModel | None:
    """What was measured of a model before, here or where it was made."""

    def look_up() -> ComparedModel | None:
        try:
            return _known.get(visitor.studio.shelf.place(name)) or _shipped(visitor.studio, name)
        except NotThereError:
            return None  # whoever asks to have it measured gets the error

    return await visitor.apart(f"known of {name}", look_up)


def _shipped(studio: Studio, name: str) -> ComparedModel | None:
    """What ships with a ready model. What a run of the user says of itself is not believed."""
    from thereafter.studio.verbs.comparison import read_shipped

    return read_shipped(studio.shelf.place(name)) if name.startswith(READY) else None


def _measure(studio: Studio, name: str, lm: LanguageModel) -> ComparedModel:
    from thereafter.ready import models as ready
    from thereafter.studio.verbs.comparison import measure

    run = studio.shelf.place(name)
    known = _known.get(run)  # another page may have asked meanwhile
    if known is not None:
        return known
    stamp, texts = _stamp(run), ready.compared_sentences(studio.shelf.folders[READY])
    label = name.partition(":")[2] if name.startswith(READY) else name
    shipped = _shipped(studio, name)
    measured = measure(lm, label, run, texts) if shipped is None else shipped.with_speed(lm, texts)
    _known.keep(run, stamp, measured)
    return measured


def _stamp(run: Path) -> Stamp:
    """Changes when the model or its log does."""
    facts = []
    for name in _FILES:
        try:
            status = (run / name).stat()
            facts.append((status.st_mtime_ns, status.st_size))
        except OSError:
            facts.append((0, 0))
    return tuple(facts)
