"""Programs of torch.export, loaded again, against the model itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from step_models import expected, ran, some_ids, toy

from thereafter.export.plan import plan_of
from thereafter.export.torch.target import TARGET


@pytest.mark.parametrize(
    ("case", "context"),
    [
        ("lstm peephole=True, coupled=True, layer_norm=True", "line"),
        ("lstm highway", "stream"),
        ("window direct", "line"),
    ],
)
def test_a_loaded_program_computes_what_its_model_does(case: str, context: str, tmp_path: Path) -> None:
    lm = toy(case, context=context)
    plan = plan_of(lm)
    assert TARGET.refuses(plan, int8=False) is None
    written = TARGET.write(plan, tmp_path / "m.pt2", int8=False)
    ids = some_ids(plan.wording.size, 60)
    ids[[20, 40]] = plan.wording.line_end
    runner = TARGET.runner(plan, written)
    np.testing.assert_allclose(ran(runner, ids), expected(lm.model, ids), atol=1e-4)
    several = runner.start(5)
    np.testing.assert_allclose(several, np.repeat(several[:1], 5, axis=0), atol=1e-6)
    assert several.shape == (5, plan.wording.size)


def test_what_is_no_program_of_torch_is_refused() -> None:
    assert "--to onnx" in str(TARGET.refuses(plan_of(toy("transformer")), int8=False))
    assert "--int8" in str(TARGET.refuses(plan_of(toy("lstm")), int8=True))
