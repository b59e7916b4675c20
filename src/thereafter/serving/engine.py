"""Continuous batching: texts that are generated at the same time share every step of their model.

An engine has one thread. Between two steps rows come and go: those that were submitted read their prompts, a piece at a
time, and join; those that have their tokens, or were cancelled, leave (iteration-level scheduling: Yu et al. 2022,
"Orca"). A step of many rows costs little more than a step of one, since the weights are read once for all of them.

A row whose receiver falls behind (`TextRequest.most_unread`) pauses: it leaves the batch with its state, takes none of
the places of `most_rows`, and returns when `acknowledge` says that the receiver has caught up.

A row draws from its own generator and sees nothing of the others, so its text is that of `lm.generate` with the same
seed, whoever is in the batch. Of recurrent models of some size the rows of a step have the same bits however many they
are, from two on (`kernels.switches`). A row that is alone goes through products of a vector, which round in another
order: log p differs by about 1e-6, and a draw that falls between two words within that may differ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from threading import Condition, Thread, current_thread
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError
from thereafter.models.any_model import AnyModel
from thereafter.models.base import State, checked_tokens
from thereafter.serving.engine_prompts import (
    Deliver,
    Events,
    PausedRow,
    PromptReader,
    RowBatch,
    RowEvent,
    ScoredTokens,
    ScoreJob,
    TextRequest,
    TextRow,
    end_by_error,
)
from thereafter.serving.schema import EndingError, FullError

MOST_ROWS = 64
MOST_WAITING = 256


class Engine:
    """Generates rows of one model, up to `most_rows` at once; `most_waiting` more may wait, and as many to be scored.

    Its methods may be called from any thread; what it delivers comes from its own.
    """

    def __init__(self, model: AnyModel, *, most_rows: int = MOST_ROWS, most_waiting: int = MOST_WAITING) -> None:
        if most_rows < 1 or most_waiting < 1:
            raise OptionError(
                f"most_rows is {most_rows} and most_waiting {most_waiting}; expected 1 or more; try {MOST_ROWS}"
            )
        self._model, self._most_rows, self._most_waiting = model, most_rows, most_waiting
        self._stackable = _can_stack(model)
        self._changed = Condition()
        self._waiting: deque[TextRow] = deque()
        self._jobs: deque[ScoreJob] = deque()
        self._prompts, self._batches = PromptReader(model), [RowBatch(model)]
        self._joining: list[TextRow] = []
        self._paused: list[PausedRow] = []
        self._closed, self._until = False, 0.0
        self.steps = 0
        """Steps of the model so far, each of all rows that were being written."""
        self.tokens = 0
        """Tokens written so far."""
        self._rows = 0
        self._thread = Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    @property
    def rows(self) -> int:
        """Rows that read their prompts, are being written, or are paused."""
        return self._rows + len(self._paused)

    @property
    def waiting(self) -> int:
        """Rows and texts to be scored that wait for their turn."""
        return len(self._waiting) + len(self._jobs)

    def submit(self, request: TextRequest, deliver: Deliver) -> TextRow:
        """Have a row generated. `deliver` is called once a step with the events of all rows submitted with it."""
        checked_tokens(request.prompt.reshape(1, -1), self._model.vocabulary_size)
        row = TextRow(request, deliver, self._model.vocabulary_size)
        with self._changed:
            self._check_room(len(self._waiting))
            self._waiting.append(row)
            self._changed.notify()
        return row

    def score(self, prompts: Sequence[NDArray[np.int32]], top: int = 0) -> Future[list[ScoredTokens]]:
        """log p of every token of some texts, each from its beginning, and the `top` likeliest in every place.

        Texts are read piece by piece between the steps of the rows. Cancel the future where nobody waits any more; in
        a coroutine: `await asyncio.wrap_future(engine.score(...))`.
        """
        for prompt in prompts:
            checked_tokens(prompt.reshape(1, -1), self._model.vocabulary_size)
        job = ScoreJob(self._model, prompts, top)
        with self._changed:
            self._check_room(len(self._jobs))
            self._jobs.append(job)
            self._changed.notify()
        return job.future

    def cancel(self, row: TextRow) -> None:
        """The row leaves before the next step; nothing more is heard of it but what is under way."""
        row.gone = True
        with self._changed:
            if row in self._waiting:
                self._waiting.remove(row)
            self._changed.notify()  # it may be paused: its state is not needed any more

    def acknowledge(self, tokens: Mapping[TextRow, int]) -> None:
        """Receivers have dealt with that many more tokens of these rows."""
        with self._changed:
            for row, count in tokens.items():
                row.read += count
            self._changed.notify()

    def close(self, patience: float = 0.0) -> None:
        """Take nothing more, give rows so many seconds to end by themselves, end all others, and join the thread.

        Rows that are ended say so by an event; who waits for a score gets an EndingError.
        """
        with self._changed:
            self._closed, self._until = True, monotonic() + patience
            self._changed.notify()
        if self._thread is not current_thread():
            self._thread.join()

    def _check_room(self, waiting: int) -> None:
        if self._closed:
            raise EndingError("the engine is ending; try again when the server has been started again")
        if waiting >= self._most_waiting:
            raise FullError(
                f"{waiting} texts wait for this model already; expected fewer than {self._most_waiting}; "
                "try again in a moment"
            )

    # ---- on the engine's thread

    def _run(self) -> None:
        while self._admit():
            try:
                self._advance()
            except Exception as error:  # of no row in particular: all of them end, and others may come
                self._deliver([end_by_error(row, error) for row in self._clear()])
        self._end()

    def _advance(self) -> None:
        """A piece of the prompts, a step of all rows, a piece of a score."""
        rows, states, events = self._prompts.read()
        self._deliver(events)
        if rows:
            self._joining = rows
            self._deliver(self._join(rows, states))
            self._joining = []
        self._resume()
        for batch in self._batches:
            if batch.rows:
                self._deliver(batch.step())
                self.steps += 1
                self._paused += batch.pause()
        if not self._stackable:
            self._batches = [batch for batch in self._batches if batch.rows] or [RowBatch(self._model)]
        if self._jobs and self._jobs[0].advance():
            self._jobs.popleft()
        elif len(self._jobs) > 1:
            self._jobs.rotate(-1)

    def _admit(self) -> bool:
        """Let rows in that wait, or wait for one; False at the end."""
        admitted: list[TextRow] = []
        with self._changed:
            while True:
                self._count()
                if self._closed and (monotonic() >= self._until or not (self.rows or self._waiting or self._jobs)):
                    return False
                if self._rows or self._jobs or (self._waiting and self._has_room(0)) or self._ready():
                    break
                self._clear()  # rows that were cancelled, with their states
                self._changed.wait(max(0.0, self._until - monotonic()) if self._closed else None)
            while self._waiting and self._has_room(len(admitted)):
                admitted.append(self._waiting.popleft())
        for row in admitted:
            self._deliver(self._prompts.add(row))
        self._count()
        return True

    def _has_room(self, admitted: int) -> bool:
        """Whether one more row may begin. Paused rows keep their states, so that their number is limited too."""
        rows = self._rows + admitted
        places = self._most_rows - len(self._ready())
        return rows < places and rows + len(self._paused) < self._most_rows + self._most_waiting

    def _ready(self) -> list[PausedRow]:
        """Paused rows that go on with the next step, before any that wait."""
        return [one for one in self._paused if one.row.may_resume][: max(0, self._most_rows - self._rows)]

    def _resume(self) -> None:
        ready = self._ready()
        if not ready:
            return
        self._joining = [one.row for one in ready]
        self._paused = [one for one in self._paused if one.row not in self._joining]
        if self._stackable:
            self._batches[0].resume(ready)
        else:
            for one in ready:
                self._batches.append(RowBatch(self._model))
                self._batches[-1].resume([one])
        self._joining = []

    def _count(self) -> None:
        self._paused = [one for one in self._paused if not one.row.gone]
        reading = sum(not row.gone for row in self._prompts.rows)
        self._rows = reading + sum(not row.gone for batch in self._batches for row in batch.rows)

    def _join(self, rows: list[TextRow], states: list[State]) -> Events:
        if self._stackable:
            return self._batches[0].join(rows, states)
        events: Events = []
        for row, state in zip(rows, states, strict=True):
            batch = RowBatch(self._model)
            events += batch.join([row], [state])
            self._batches.append(batch)
        return events

    def _deliver(self, events: Events) -> None:
        """Give each receiver what belongs to it; one that fails gets nothing more."""
        by_receiver: dict[Deliver, Events] = {}
        for row, event in events:
            self.tokens += event.token is not None
            if not row.gone or event.end:
                by_receiver.setdefault(row.deliver, []).append((row, event))
        for deliver, own in by_receiver.items():
            try:
                deliver(own)
            except Exception:  # its rows have nobody to go to; the others go on
                for row, _ in own:
                    row.gone = True

    def _clear(self) -> list[TextRow]:
        """Take all rows out that read or are written: those that nobody has cancelled."""
        rows = [*self._prompts.rows, *(row for batch in self._batches for row in batch.rows), *self._joining]
        once = dict.fromkeys(rows)  # an error may come while rows join: they are in a batch then, and joining
        self._prompts.clear()
        self._batches, self._joining, self._rows = [RowBatch(self._model)], [], 0
        return [row for row in once if not row.gone]

    def _end(self) -> None:
        with self._changed:
            paused, self._paused = [one.row for one in self._paused], []
            rows, jobs = [*self._clear(), *paused, *self._waiting], list(self._jobs)
            self._waiting.clear()
            self._jobs.clear()
        events: Events = [(row, RowEvent(None, end="ending")) for row in rows if not row.gone]
        for row in rows:
            row.gone = True
        self._deliver(events)
        for job in jobs:
            job.fail(EndingError("the engine has ended; try again when the server has been started again"))


def _can_stack(model: AnyModel) -> bool:
    """Whether rows of this model can share their steps."""
    try:
        model.stack([model.start(1), model.start(1)])
    except OptionError:
        return False
    return True
