# SPDX-License-Identifier: Apache-2.0
"""The charts of a model in Chromium: they follow the server while somebody sees them."""

import pytest

from servekit.testing import ServedModel

from .console_page import LOOKS, MARKS, open_page, read, wait_for, write_model

pytestmark = MARKS
SERIES, STREAM = "/console/models/digits/series.json", "/console/live"
PANEL = "getComputedStyle(document.querySelector('.panel')).backgroundColor"
POINT_S = 10  #: between two points of a chart
#: how many pixels of the first chart have the colour of its first line
LINE = """(() => {
    const canvas = document.querySelector(".uplot canvas"), context = canvas.getContext("2d")
    const {data} = context.getImageData(0, 0, canvas.width, canvas.height)
    const probe = document.createElement("i")
    probe.style.color = getComputedStyle(document.documentElement).getPropertyValue("--info")
    document.body.append(probe)
    const wanted = getComputedStyle(probe).color.match(/\\d+/g).map(Number)
    probe.remove()
    let found = 0
    for (let at = 0; at < data.length; at += 4)
        if (wanted.every((value, place) => Math.abs(data[at + place] - value) < 8)) found++
    return found
})()"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server that has been used since before its first point."""
    model = write_model(tmp_path_factory.mktemp("live") / "digits", "digits")
    with ServedModel(model, grace=2) as started:
        started.wait_ready()
        wait_for(lambda: is_drawn(started), "point")
        yield started


def is_drawn(served):
    """Send a request, and return whether the charts have a line."""
    served.predict(0.001)
    rates = read(served, "models/digits/series.json")["requests_per_s"]
    return sum(bool(each) for each in rates) > 1


def asked(browser, path):
    """Return how often the page has asked for *path*."""
    browser.run("0")  # reads what has happened in the meantime
    return sum(url.endswith(path) for url in browser.requested)


def pause(browser, seconds):
    browser.run(f"new Promise(done => setTimeout(done, {1000 * seconds}))")


def test_charts_are_drawn_and_get_new_points(browser, served):
    open_page(browser, served, "models/digits")
    browser.wait_for(f"{LINE} > 20")
    before = asked(browser, SERIES)
    wait_for(lambda: asked(browser, SERIES) > before, "new point")

    assert browser.run("document.querySelectorAll('.uplot canvas').length") == 4


def test_nothing_is_asked_for_while_the_tab_is_hidden(browser, served):
    open_page(browser, served, "models/digits")
    browser.wait_for(f"{LINE} > 20")
    browser.hide()
    hidden = asked(browser, SERIES), asked(browser, STREAM)
    pause(browser, 1.5 * POINT_S)
    assert (asked(browser, SERIES), asked(browser, STREAM)) == hidden

    browser.show()
    wait_for(lambda: asked(browser, STREAM) > hidden[1], "stream")
    wait_for(lambda: asked(browser, SERIES) > hidden[0] + 1, "point after the first")


def test_charts_take_the_colours_of_the_theme(browser, served):
    open_page(browser, served, "models/digits")
    browser.wait_for(f"{LINE} > 20")
    light = browser.run(PANEL)
    width, height, _ = LOOKS[0]
    browser.look_like(width=width, height=height, scheme="dark")
    browser.wait_for(f"{LINE} > 20")

    assert browser.run(PANEL) != light


def test_charts_fit_a_phone_that_is_turned(browser, served):
    open_page(browser, served, "models/digits", LOOKS[2])
    browser.wait_for("document.querySelector('.uplot').clientWidth > 0")
    browser.look_like(width=844, height=390)
    chart, panel = (
        "document.querySelector('.uplot').clientWidth",
        "document.querySelector('.charts figure').clientWidth",
    )
    browser.wait_for(f"{chart} > {panel} - 40")
    browser.look_like(width=390, height=844)
    browser.wait_for(f"{chart} < {panel}")

    assert browser.run("document.documentElement.scrollWidth") <= 390
