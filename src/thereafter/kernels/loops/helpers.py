"""Threads that help with a pass of microseconds: they wait for the next one by looking, then by sleeping.

OpenMP's threads meet at the end of a call: one that is not let onto its core holds up all others. A helper is never
waited for before it has begun. The pass is cut into panels, which are claimed one by one (`loops.steps`), and the
thread that called claims those that nobody else has: a helper that sleeps, or comes late, finds nothing left. The
caller waits for those alone that are inside, each with its last panel.

All speak through a board of whole numbers, those that several threads write to on lines of their own:

    TURN     how many passes there were; a helper looks at it
    GATE     OPEN while there is work, plus the number of helpers inside; one that adds itself and sees no OPEN leaves
    TAKEN    1 while a thread has the helpers; another one that comes meanwhile works alone
    STOP     1: the helpers are to end
    TASK, TEAM, CORE   the address of the pass, its number of threads, and the core of the thread that called
    FUNCTIONS          the addresses of C functions
    then for each helper a line with ASLEEP, its clock and the number of passes it WORKED at, one for the FLAG that it
    sleeps on, and room for sets of cores

Whoever calls adds to TURN and then looks who is ASLEEP; a helper adds to ASLEEP and then looks at TURN: one of them
sees the other, so that no helper sleeps through a turn for good.
"""

from __future__ import annotations

from thereafter.base.compiled import CFunction, c_function, compiled_once, jit
from thereafter.kernels.loops.atomics import add_if, add_to, pause, publish, read_in_turn, read_published
from thereafter.kernels.loops.calls import caller, whole_number_from
from thereafter.kernels.loops.cores import ROOM_BYTES, leave_core
from thereafter.kernels.loops.tiles import LINE, types
from thereafter.kernels.loops.waiting import be_patient

TURN, GATE, TAKEN, STOP, TASK, FUNCTIONS, HELPERS_AT = (LINE * line for line in range(7))
TEAM, CORE = TASK + 8, TASK + 16
GIVE_WAY, NAP, CLOCK, SLEEP, WAKE, CORE_OF, GET_CORES, SET_CORES = (FUNCTIONS + 8 * place for place in range(8))
ASLEEP, SECONDS, NANOSECONDS, WORKED, FLAG, ROOM, EACH_HELPER = 0, 8, 16, 24, LINE, 2 * LINE, 2 * LINE + ROOM_BYTES
OPEN = 1 << 32
_MONOTONIC = 1  # Linux's number of the clock that only goes forward
_LOOKS = 64  # between two looks at the clock
LOOKING, YIELDING = 20_000, 150_000
"""Nanoseconds after a pass in which a helper looks for the next one, and in which it offers its core to others between
looks; then it sleeps. Waking it takes some 50 us."""

_call_1, _call_2, _call_3 = caller(1), caller(2), caller(3)


def board_bytes(helpers: int) -> int:
    return HELPERS_AT + helpers * EACH_HELPER


@jit()
def begin(board: int, task: int, team: int) -> bool:
    """Call the helpers to a task; False if another thread has them."""
    if read_published(board + TAKEN) or add_if(board + TAKEN, 0, 1) != 0:
        return False
    publish(board + TASK, task)
    publish(board + TEAM, team)
    publish(board + CORE, whole_number_from(read_published(board + CORE_OF)))
    add_to(board + GATE, OPEN)
    add_to(board + TURN, 1)
    _wake(board, team - 1)
    return True


@jit()
def _wake(board: int, helpers: int) -> None:
    """Wake those of the first helpers that sleep."""
    for helper in range(helpers):
        at = board + HELPERS_AT + helper * EACH_HELPER
        if read_in_turn(at + ASLEEP) and add_if(at + ASLEEP, 1, -1) == 1:
            _call_1(read_published(board + WAKE), (at + FLAG,))


@jit()
def end(board: int) -> None:
    """Nothing is left to claim: wait for the helpers that are still inside."""
    add_to(board + GATE, -OPEN)
    looks = 0
    while read_published(board + GATE):
        pause()
        looks += 1
        be_patient(looks, read_published(board + GIVE_WAY), read_published(board + NAP))
    publish(board + TAKEN, 0)


@jit()
def _nanoseconds(board: int, at: int) -> int:
    _call_2(read_published(board + CLOCK), (_MONOTONIC, at + SECONDS))
    now: int = read_published(at + SECONDS) * 1_000_000_000 + read_published(at + NANOSECONDS)
    return now


@jit()
def _sleep(board: int, at: int, turn: int) -> None:
    """Sleep until somebody wakes this helper, unless there is another turn by now."""
    add_to(at + ASLEEP, 1)
    woken = read_in_turn(board + TURN) != turn or read_in_turn(board + STOP) != 0
    if woken and add_if(at + ASLEEP, 1, -1) == 1:
        return  # nobody had seen it asleep
    # one who did has waked it, or will; a signal alone leaves it ASLEEP
    _call_1(read_published(board + SLEEP), (at + FLAG,))
    while read_published(at + ASLEEP):
        _call_1(read_published(board + SLEEP), (at + FLAG,))


@jit()
def _work(board: int, at: int, number: int, share: int) -> bool:
    """Claim panels of the task that is on the board, if it is still open; False where so many threads are not wanted.

    One that runs on the caller's core leaves it first: who is inside is waited for.
    """
    if number >= read_published(board + TEAM):
        return False
    core = read_published(board + CORE)
    if core >= 0 and whole_number_from(read_published(board + CORE_OF)) == core:
        leave_core(core, read_published(board + GET_CORES), read_published(board + SET_CORES), at + ROOM)
    if add_to(board + GATE, 1) >= OPEN and number < read_published(board + TEAM):
        publish(at + WORKED, read_published(at + WORKED) + 1)
        _call_3(share, (read_published(board + TASK), number, read_published(board + TEAM)))
    add_to(board + GATE, -1)
    return True


@compiled_once
def dismiss() -> CFunction:
    """Tell the helpers to end: a C function of the board and their number."""

    def dismiss_helpers(board: int, helpers: int) -> None:
        add_to(board + STOP, 1)
        _wake(board, helpers)

    return c_function(types.void(types.int64, types.int64), dismiss_helpers)


@compiled_once
def helper() -> CFunction:
    """The life of a helper: a C function of the board, its number (the caller is 0) and the address of the C function
    `share(task, number, team)`."""

    def help_with_passes(board: int, number: int, share: int) -> None:
        at = board + HELPERS_AT + (number - 1) * EACH_HELPER
        turn, looks, since = 0, 0, _nanoseconds(board, at)
        while not read_published(board + STOP):
            now = read_published(board + TURN)
            if now != turn:
                turn, looks = now, 0
                if _work(board, at, number, share):
                    since = _nanoseconds(board, at)
            pause()
            looks += 1
            if looks % _LOOKS == 0:
                waited = _nanoseconds(board, at) - since
                if waited > YIELDING:
                    _sleep(board, at, turn)
                    since = _nanoseconds(board, at)
                elif waited > LOOKING:
                    whole_number_from(read_published(board + GIVE_WAY))

    return c_function(types.void(types.int64, types.int64, types.int64), help_with_passes)
