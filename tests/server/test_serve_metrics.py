"""/metrics can be read by Prometheus, and its figures are those of what was asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from thereafter.serving.server import metrics
from thereafter.serving.server.app import make_app
from thereafter.serving.server.metrics import BOUNDS, Metrics
from thereafter.serving.server.models import ServedModel, ServedModels

SAMPLE = re.compile(r'([a-z_:][a-z0-9_:]*)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')


@dataclass
class Figures:
    rows: int = 3
    waiting: int = 2
    steps: int = 100
    tokens: int = 640


def models_of(*names: str) -> ServedModels:
    engine: Any = Figures()
    return ServedModels([ServedModel(name, engine=engine) for name in names])


def parsed(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Samples by name and labels, by the grammar of the format; every one after the TYPE of its family."""
    samples: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    kinds: dict[str, str] = {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            assert name not in kinds
            kinds[name] = kind
            continue
        if line.startswith("# HELP "):
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        family = re.sub(r"_(bucket|sum|count)$", "", match[1])
        assert kinds.get(match[1]) in ("counter", "gauge") or kinds.get(family) == "histogram", line
        labels = tuple(LABEL.findall(match[2] or ""))
        assert labels not in samples.setdefault(match[1], {}), line
        samples[match[1]][labels] = float(match[3])
    return samples


def test_every_line_has_the_grammar_of_prometheus_and_the_histogram_adds_up():
    counted = Metrics(["/v1/completions", "/score", "/health"])
    seconds = [0.001, 0.005, 0.0051, 0.2, 3.0, 90.0]
    for one in seconds:
        counted.request("/v1/completions", 200, one)
    counted.request("/score", 404, 0.02)
    counted.tokens(7)
    counted.tokens(5)
    counted.abandoned()
    samples = parsed(counted.text(models_of('odd "name"\\', "book")))
    assert samples["thereafter_requests_total"][("path", "/v1/completions"), ("status", "200")] == len(seconds)
    assert samples["thereafter_requests_total"][("path", "/score"), ("status", "404")] == 1
    assert samples["thereafter_generated_tokens_total"][()] == 12
    assert samples["thereafter_abandoned_requests_total"][()] == 1
    for bound in BOUNDS:
        below = samples["thereafter_request_seconds_bucket"][("path", "/v1/completions"), ("le", str(bound))]
        assert below == sum(one <= bound for one in seconds)
    path = (("path", "/v1/completions"),)
    assert samples["thereafter_request_seconds_bucket"][(*path, ("le", "+Inf"))] == len(seconds)
    assert samples["thereafter_request_seconds_count"][path] == len(seconds)
    assert samples["thereafter_request_seconds_sum"][path] == pytest.approx(sum(seconds))
    assert samples["thereafter_rows"][(("model", r"odd \"name\"\\"),)] == 3
    assert samples["thereafter_drawn_tokens_total"][(("model", "book"),)] == 640


def test_what_clients_send_makes_no_new_series():
    counted = Metrics(["/v1/completions", "/score", "/health"])
    for number in range(1000):
        counted.request(f"/{number}", 404, 0.0)
    samples = parsed(counted.text(models_of("book")))
    assert samples["thereafter_requests_total"] == {(("path", "other"), ("status", "404")): 1000}


def test_every_address_of_the_server_is_counted_by_name():
    app = make_app(ServedModels([ServedModel("nobody")]))
    assert {*app.openapi()["paths"], "/openapi.json"} == app.state.metrics.paths


def test_health_and_metrics_are_answered():
    app = FastAPI()
    app.state.models, app.state.metrics = models_of("book", "tagger"), Metrics(["/v1/completions", "/score", "/health"])
    app.include_router(metrics.ROUTER)
    with TestClient(app) as client:
        health = client.get("/health").json()
        assert (health["status"], health["models"]) == ("ok", ["book", "tagger"])
        assert 0 <= health["seconds"] < 1e4
        answer = client.get("/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert parsed(answer.text)["thereafter_waiting"][(("model", "tagger"),)] == 2
