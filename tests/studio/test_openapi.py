"""The OpenAPI description: every verb is in it, and what it promises is kept, whatever is sent.

schemathesis makes requests from the description, right ones and wrong ones, and looks at every answer: no 5xx, no
status and no shape that is not described, nothing wrong accepted, nothing right refused as malformed (422). A request
that is well formed and cannot be answered, such as the gates of a model without gates, gets 400 and a sentence, which
is right. Nothing is left out:

- Random names lead to no model; in two of three requests they are replaced by names of models there are.
- `train` starts real trainings, one at a time, in a folder of their own; the end of the studio ends them.
- `export` takes seconds for a model there is, and keeps its random names (test_export_button.py exports real ones).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from serving_studio import SCALE, Served, served

from thereafter.ready import models as ready
from thereafter.ready import tasks as ready_tasks
from thereafter.studio import queue
from thereafter.studio.app import PAGE, ROUTER, make_app
from thereafter.studio.asking import ROUTERS
from thereafter.studio.panels import PANELS
from thereafter.studio.studio import Studio

# a thread of the server may draw a random number while hypothesis makes a request: it takes that for its own
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
NOWHERE = Path("/nonexistent")
MODELS = [f"ready:{one.name}" for one in ready.READY]
TASK_MODELS = [f"ready:{one.name}" for one in ready_tasks.READY_TASKS]
NAME = re.compile(r"(ready|runs):[^/\\\x00]{1,200}")
FEW = 2
"""Requests made of the description of a verb in `make test`; test_openapi_widely.py makes more."""
ANSWERED = ["2xx", "400", "404", "409"]
"""To a well-formed request."""
CONFIG = {"checks": {"positive_data_acceptance": {"expected-statuses": ANSWERED}}, "cache": {"enabled": False}}
schema = schemathesis.openapi.from_dict(
    make_app(Studio(NOWHERE, NOWHERE)).openapi(), config=schemathesis.Config.from_dict(CONFIG)
)


@schema.hook
def map_body(context: Any, body: Any) -> Any:
    """Names of models there are, in two of three requests."""
    if not isinstance(body, dict):
        return body
    number = zlib.crc32(repr(sorted(body.items(), key=repr)).encode("utf-8", "replace"))
    if number % 3 == 0 or context.operation.path == "/api/export":
        return body

    models = TASK_MODELS if context.operation.path.startswith("/api/tasks") else MODELS

    def real(name: Any, place: int = 0) -> Any:
        return models[(number + place) % len(models)] if isinstance(name, str) and NAME.fullmatch(name) else name

    changed = dict(body)
    if "model" in body:
        changed["model"] = real(body["model"])
    if isinstance(body.get("models"), list):
        changed["models"] = [real(name, place) for place, name in enumerate(body["models"])]
    return changed


@pytest.fixture(scope="module")
def api(ready_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue, "MOST_RUNNING", 1)
        patch.setenv("THEREAFTER_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        yield from served(Studio(tmp_path_factory.mktemp("api"), ready_folder, scale=SCALE))


def promise(path: str, method: str, requests: int) -> Any:
    """A test of one verb. schemathesis would give the tests of all one id, and pytest-xdist runs one test of an id."""

    @schema.include(path=path, method=method).parametrize()
    @settings(max_examples=requests, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def test(case: Any, api: Served) -> None:
        case.call_and_validate(base_url=api.address, timeout=60)

    return test


CORE = ("get_models", "post_next", "post_train", "post_tasks_forecast", "post_tasks_tag", "post_surprisal")
"""Verbs that get requests with every change."""

VERBS = {
    "_".join([method, *re.findall(r"[a-z]+", path.removeprefix("/api"))]): (path, method)
    for path, methods in schema.raw_schema["paths"].items()
    for method in methods
}
for name in CORE:
    globals()[f"test_the_description_of_{name}_is_kept"] = promise(*VERBS[name], FEW)


def test_every_verb_is_described(server: Served):
    described = httpx.get(f"{server.address}/openapi.json").json()
    paths = set(described["paths"])
    verbs = {"train", "next", "step", "trace", "generate", "compare"}
    assert {f"/api/{verb}" for verb in verbs} <= paths
    routers = {name.rpartition(".")[2]: router for name, router in ROUTERS.items()}
    assert routers.keys() == PANELS.keys()
    for panel, begins in PANELS.items():
        assert all(route.path.startswith(tuple(f"/api{begin}" for begin in begins)) for route in routers[panel].routes)
    routes = [route for router in (ROUTER, *routers.values()) for route in router.routes]
    assert {route.path for route in routes if hasattr(route, "methods")} == paths
    assert len(VERBS) == sum(len(methods) for methods in described["paths"].values()), "two verbs have one name"
    for path, methods in described["paths"].items():
        for one in methods.values():
            assert one["description"], f"{path} says nothing of itself"
            assert {"200", "400", "403", "404", "413", "422", "503"} <= set(one["responses"])


def test_the_description_is_valid_openapi():
    schema.validate()


def test_the_manual_names_every_verb_and_every_panel():
    manual = (Path(__file__).parents[2] / "docs" / "studio.md").read_text(encoding="utf-8")
    described = {
        f"{method.upper()} {path}" for path, methods in schema.raw_schema["paths"].items() for method in methods
    }
    assert set(re.findall(r"^\| `((?:GET|POST) [^`]+)`", manual, re.MULTILINE)) == described
    panels = [path.stem for path in (PAGE / "panels").glob("*.js") if path.stem != "index"]
    assert sorted(re.findall(r"\| `#(\w+)` \|", manual)) == sorted(panels)
