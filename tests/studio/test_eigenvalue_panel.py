"""The eigenvalue panel: the slider at 0.9 vanishes and at 1.1 explodes, and the numbers are powers of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thereafter
from thereafter.inspection.stability import repeated_multiplication
from thereafter.studio.panels.backprop import scale_trained


def opened(page: Any, link: str) -> None:
    page.goto(link)
    page.wait_for_selector("#gradients .main-svg")


def numbers(page: Any, chart: str) -> dict[str, list[float]]:
    return {one["name"]: one["y"] for one in page.locator(chart).evaluate("chart => chart.numbers")}


def reads(page: Any, *parts: str) -> None:
    """Wait for the verdict to say all of this."""
    page.wait_for_function(
        "parts => parts.every(part => document.querySelector('#verdict').textContent.includes(part))", arg=list(parts)
    )


def drawn(page: Any, last: float) -> None:
    """Wait for the linear curve to end at a number."""
    page.wait_for_function(
        "last => { const y = document.querySelector('#gradients').numbers?.[0].y;"
        " return y && Math.abs(y.at(-1) / last - 1) < 1e-3; }",
        arg=last,
    )


def test_the_slider_at_0_9_vanishes_and_at_1_1_explodes(page: Any) -> None:
    opened(page, "/#eigenvalue?radius=1&steps=50")
    slider = page.get_by_role("slider", name="Spectral radius")
    for radius, verdict, power in ((0.9, "Vanishing", "0.9⁵⁰ = 0.00515"), (1.1, "Exploding", "1.1⁵⁰ = 117")):
        slider.fill(str(radius))
        reads(page, verdict, power)
        drawn(page, radius**50)
        linear, powers = numbers(page, "#gradients")["linear RNN"], numbers(page, "#powers")["|Wᵏx| / |x|"]
        for curve in (linear, powers):
            np.testing.assert_allclose(np.array(curve) / curve[0], radius ** np.arange(51.0), rtol=1e-6)
        tanh = repeated_multiplication((radius,), steps=51, hidden=32)["tanh"][0]
        np.testing.assert_allclose(numbers(page, "#gradients")["tanh RNN"], tanh, rtol=1e-9)
        assert numbers(page, "#gradients")["stays 1"] == [1, 1]


@pytest.mark.wide
def test_an_lstm_is_multiplied_by_its_forget_gate(page: Any) -> None:
    opened(page, "/#eigenvalue?radius=0.9&steps=50&through=lstm")
    reads(page, "Kept", "LSTM, along c", "0.97⁵⁰ = 0.218", "0.9⁵⁰ = 0.00515")
    page.get_by_role("slider", name="Forget gate").fill("0.8")
    reads(page, "its forget gates alone give 0.8⁵⁰ = ")
    page.wait_for_function(
        "() => Math.abs(document.querySelector('#gradients').numbers?.[3].y.at(-1) / 0.8 ** 50 - 1) < 1e-3"
    )
    found = repeated_multiplication((0.9,), steps=51, hidden=32, forget=0.8)
    np.testing.assert_allclose(numbers(page, "#gradients")["LSTM along c"], found["lstm"][0], rtol=1e-9)
    np.testing.assert_allclose(numbers(page, "#gradients")["its forget gates alone"], 0.8 ** np.arange(51.0))


@pytest.mark.wide
def test_keys_move_the_slider_and_the_steps(page: Any) -> None:
    opened(page, "/#eigenvalue?radius=0.95&steps=20")
    reads(page, "0.95²⁰")
    page.get_by_role("slider", name="Spectral radius").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    reads(page, "Kept", "1²⁰ = 1")
    page.get_by_role("slider", name="Steps").focus()
    page.keyboard.press("End")
    reads(page, "1¹⁰⁰ = 1")
    page.get_by_role("button", name="1.10").click()
    reads(page, "Exploding", "1.1¹⁰⁰ = 13,781")
    drawn(page, 1.1**100)


@pytest.mark.wide
def test_the_arrows_of_the_network_carry_the_gradient(page: Any) -> None:
    opened(page, "/#eigenvalue?radius=0.9&steps=50")
    drawn(page, 0.9**50)

    def thickness() -> list[float]:
        return page.locator("[data-step] g line").evaluate_all(
            "lines => lines.map(line => parseFloat(line.style.strokeWidth))"
        )

    fading = thickness()
    assert len(fading) == 11
    assert fading == sorted(fading)
    texts = page.locator("[data-step]").evaluate_all(
        "steps => steps.map(step => [...step.querySelectorAll('text')].at(-1).textContent)"
    )
    assert float(texts[0]) == pytest.approx(0.9**50, rel=0.02)
    assert texts[-1] == "1"
    page.get_by_role("slider", name="Spectral radius").fill("1.1")
    drawn(page, 1.1**50)
    assert thickness() == sorted(thickness(), reverse=True)


def test_a_trained_rnn_scaled_by_the_slider(page: Any, server: Any) -> None:
    opened(page, "/#eigenvalue?radius=0.8&steps=20")
    page.locator("label:has-text('Gradient through') select").select_option("trained")
    page.wait_for_function("() => document.querySelector('#gradients').numbers.length === 6")
    lm = thereafter.load(server.studio.shelf.place("ready:rnn"))
    text = page.get_by_label("Text the gradient is measured on").input_value()
    for radius in (0.8, 1.3):
        page.get_by_role("slider", name="Spectral radius").fill(str(radius))
        drawn(page, radius**20)
        found = scale_trained(lm, radius, 20, text).model_dump()
        np.testing.assert_allclose(numbers(page, "#gradients")["trained RNN"], found["values"], rtol=1e-6)
        assert found["decay"]["verdict"] in page.locator("#verdict").inner_text().lower()
    assert f"spectral radius {found['own']:.3g}" in page.locator("#more").inner_text()


@pytest.mark.wide
def test_the_sweep_moves_by_itself_until_it_is_stopped(page: Any) -> None:
    opened(page, "/#eigenvalue")
    page.get_by_role("button", name="Sweep").click()
    page.wait_for_function("() => Number(document.querySelector('input[type=range]').value) > 0.93")
    page.get_by_role("button", name="Stop").click()
    radius = float(page.get_by_role("slider", name="Spectral radius").input_value())
    drawn(page, radius**50)
    assert page.get_by_role("button", name="Sweep").is_visible()
