"""Powers that are known, and a trained matrix scaled by hand: what the eigenvalue panel is told."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

import thereafter
from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.inspection.gradients import last_loss
from thereafter.studio.panels.backprop import multiply, scale_trained

TEXT = "the farmers near the author are old .\n"


@pytest.fixture(scope="module")
def rnn(ready_folder: Any) -> Any:
    return thereafter.load(ready_folder / "rnn")


@pytest.mark.parametrize(("radius", "verdict"), [(0.9, "vanishing"), (1.0, "kept"), (1.1, "exploding")])
def test_the_linear_curves_are_powers_of_the_radius(radius: float, verdict: str) -> None:
    found = multiply(radius, 100, units=16, seed=3).model_dump()
    for name in ("power", "linear"):
        np.testing.assert_allclose(found[name]["values"], radius ** np.arange(101.0), rtol=1e-9)
        assert found[name]["decay"]["verdict"] == verdict
        assert found[name]["decay"]["rate"] == pytest.approx(radius, rel=1e-9)
    assert found["tanh"]["values"][-1] < radius**100


def test_a_trained_matrix_is_scaled_on_a_copy(rnn: Any) -> None:
    before = deepcopy(rnn.model.state_dict())
    found = scale_trained(rnn, 0.7, 30, TEXT).model_dump()
    for name, weight in rnn.model.state_dict().items():
        assert torch.equal(weight, before[name])
    own = torch.linalg.eigvals(rnn.model.layers.weight_hh_l0.detach().double()).abs().max().item()
    assert found["own"] == pytest.approx(own)
    # the same by hand: scale, read the text from four places on, take the last loss back, and average
    scaled = deepcopy(rnn.model)
    with torch.no_grad():
        scaled.layers.weight_hh_l0.mul_(0.7 / own)
    ids = rnn.encode(TEXT)
    rows = [np.resize(np.roll(ids, -start), 31) for start in np.linspace(0, len(ids), 4, endpoint=False).astype(int)]
    norm_D = np.mean([last_loss(scaled, row[None])["norm"][-1, ::-1, 1] for row in rows], axis=0)
    np.testing.assert_allclose(found["values"], norm_D / norm_D[0], rtol=1e-6)
    assert found["decay"]["verdict"] == "vanishing"


def test_its_own_radius_gives_the_model_itself(rnn: Any) -> None:
    own = scale_trained(rnn, 1.0, 12, TEXT).model_dump()["own"]
    ids = np.resize(rnn.encode("the"), 13)
    norm_D = last_loss(rnn.model, ids)["norm"][-1, ::-1, 1]
    np.testing.assert_allclose(scale_trained(rnn, own, 12, "the").model_dump()["values"], norm_D / norm_D[0], rtol=1e-5)


def test_what_cannot_be_scaled_says_so(rnn: Any, ready_folder: Any) -> None:
    with assert_refused(OptionError, "lstm", "rnn"):
        scale_trained(thereafter.load(ready_folder / "lstm"), 0.9, 20, TEXT).model_dump()
    with assert_refused(OptionError, "empty"):
        scale_trained(rnn, 0.9, 20, "").model_dump()
    for value in (0.0, float("nan")):
        broken = thereafter.load(ready_folder / "rnn")
        with torch.no_grad():
            broken.model.layers.weight_hh_l0.fill_(value)
        with assert_refused(OptionError, "eigenvalue"):
            scale_trained(broken, 0.9, 20, TEXT).model_dump()


def post(server: Any, path: str, body: Any) -> tuple[int, Any]:
    asked = urllib.request.Request(
        server.address + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_over_the_wire(server: Any) -> None:
    status, found = post(server, "/api/eigenvalue", {"radius": 1, "steps": 10})
    assert status == 200
    assert found["trained"] is None
    np.testing.assert_allclose(found["linear"]["values"], 1.0)
    status, found = post(server, "/api/eigenvalue", {"radius": 1.2, "model": "ready:rnn", "text": TEXT})
    assert (status, len(found["trained"]["values"])) == (200, 51)
    refused = {
        400: {"radius": 0.9, "model": "ready:lstm", "text": TEXT},
        404: {"radius": 0.9, "model": "runs:nowhere", "text": TEXT},
        422: {"radius": 1.6},
    }
    for expected, body in refused.items():
        status, found = post(server, "/api/eigenvalue", body)
        assert (status, list(found)) == (expected, ["error"])
    assert post(server, "/api/eigenvalue", {"radius": 1, "forget": 1.1})[0] == 422
    assert post(server, "/api/verb-gradients", {"models": ["ready:letters"]})[0] == 400
    status, found = post(server, "/api/verb-gradients", {"models": ["ready:lstm"], "between": 4, "count": 5})
    assert (status, found[0]["sentences"]) == (200, 5)
    assert [(one["field"], len(one["norm"])) for one in found[0]["states"]] == [("h", 5), ("c", 5)]
    assert post(server, "/api/backprop", {"models": ["ready:ngram"], "text": TEXT})[0] == 400
    assert post(server, "/api/backprop", {"models": ["ready:rnn"], "text": TEXT, "limit": 2})[0] == 422
    status, found = post(server, "/api/backprop", {"models": ["ready:rnn", "ready:gru"], "text": TEXT})
    assert (status, [one["model"] for one in found]) == (200, ["ready:rnn", "ready:gru"])
