"""Programs of torch.export, loaded again, against the model itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from step_models import expected, ran, some_ids, toy

from thereafter.export.check import check
from thereafter.export.plan import plan_of
from thereafter.export.torch_program import TARGET, fresh


@pytest.mark.parametrize(
    ("case", "context"),
    [
        ("lstm peephole=True, coupled=True, layer_norm=True", "line"),
        pytest.param("window direct", "line", marks=pytest.mark.wide),
        pytest.param("transformer post", "line", marks=pytest.mark.wide),
    ],
)
def test_loaded_programs_compute_what_their_model_does(case: str, context: str, tmp_path: Path) -> None:
    lm = toy(case, context=context)
    plan = plan_of(lm)
    assert TARGET.refuses(plan, int8=False) is None
    written = TARGET.write(plan, tmp_path / "m.pt2", int8=False)
    ids = some_ids(plan.wording.size, 60)
    ids[[20, 40]] = plan.wording.line_end
    runner = TARGET.runner(plan, written)
    right = expected(lm.model, ids)
    np.testing.assert_allclose(ran(runner, ids), right, atol=1e-4)
    given = np.concatenate([[plan.wording.start], ids])
    for rows in (1, 5):  # the whole of it in pieces of other lengths, with the state carried
        several = runner.start(rows)
        np.testing.assert_allclose(several, np.repeat(right[:1], rows, axis=0), atol=1e-4)
        pieces = [runner.whole(np.repeat(piece[None], rows, axis=0)) for piece in np.split(given, [1, 24])]
        np.testing.assert_allclose(np.concatenate(pieces, axis=1), np.repeat(right[None], rows, axis=0), atol=1e-4)


def test_rows_of_a_program_end_at_their_lengths_and_a_difference_is_noticed(tmp_path: Path) -> None:
    lm = toy("rnn")
    plan = plan_of(lm)
    written = TARGET.write(plan, tmp_path / "m.pt2", int8=False)
    program = torch.export.load(written.paths[1]).module()
    tokens = torch.from_numpy(some_ids(plan.wording.size, 12)).view(2, 6)
    state = [fresh(part, 2) for part in plan.state()]
    both = program(tokens, torch.tensor([6, 2]), *state)
    alone = program(tokens[1:, :2], torch.tensor([2]), *(part[1:] for part in state))
    for one, other in zip(both[1:], alone[1:], strict=True):
        torch.testing.assert_close(one[1:], other)
    runner = TARGET.runner(plan, written)
    ids = some_ids(plan.wording.size, 30)
    assert check(lm, runner, ids, "x", 200).largest <= 1e-4
    runner.sequence = lambda *given: (program(*given)[0] + 0.01, *program(*given)[1:])
    assert check(lm, runner, ids, "x", 200).largest > 5e-3


def test_what_is_no_program_of_torch_is_refused() -> None:
    assert "--int8" in str(TARGET.refuses(plan_of(toy("lstm")), int8=True))
