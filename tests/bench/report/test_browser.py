"""A report in a headless Chromium, by its own debugging protocol: it sorts, filters, opens, and asks for nothing."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

websocket = pytest.importorskip("websocket")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--remote-allow-origins=*")
LOADED, LONGEST = "Page.loadEventFired", 30  # seconds
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
ROWS = "[...document.querySelectorAll('table.board')[0].querySelectorAll('tbody tr:not(.group)')]"
SHOWN = f"{ROWS}.filter(row => !row.hidden).map(row => row.cells[0].dataset.v)"
SEARCH = """{
  const search = document.querySelector('input[type=search]');
  search.value = '%s';
  search.dispatchEvent(new Event('input', {bubbles: true}));
}"""
BUTTON = "[...document.querySelectorAll('table.board th button')].find(button => button.textContent === '%s').click()"
CHOSEN = "[...document.querySelectorAll('.choose > *')].filter(section => !section.hidden)"
CHOOSE = """{
  const select = document.querySelectorAll('.filter select')[%d];
  select.selectedIndex = %d;
  select.dispatchEvent(new Event('change'));
}"""
COLOURS = """[
  getComputedStyle(document.body).backgroundColor,
  getComputedStyle(document.querySelector('svg text')).fill,
]"""


class Browser:
    """One tab."""

    def __init__(self, address: str):
        self.socket = websocket.create_connection(address, timeout=LONGEST)
        self.numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []
        self.session: dict[str, str] = {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters} | self.session))
        while (answer := json.loads(self.socket.recv())).get("id") != number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, address: str) -> None:
        before = len(self.events)
        assert "errorText" not in self.call("Page.navigate", url=address)
        while not any(event.get("method") == LOADED for event in self.events[before:]):
            self.events.append(json.loads(self.socket.recv()))

    def run(self, script: str) -> Any:
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def size(self, width: int, scheme: str) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def complaints(self) -> list[Any]:
        """Whatever the console or the log said, and scripts that failed."""
        names = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event for event in self.events if event.get("method") in names]

    def requests(self) -> set[str]:
        sent = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return {event["params"]["request"]["url"] for event in sent}


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    assert CHROMIUM
    process = subprocess.Popen(
        [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "about:blank"], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr
        address = next(found[0] for line in process.stderr if (found := re.search(r"ws://\S+", line)))
        yield Browser(address)
    finally:
        process.terminate()
        process.wait(LONGEST)
        time.sleep(0.1)  # its children write to the profile until they see that it has gone


def test_a_report_in_a_browser(made, browser):
    first = made[0] / "index.html"
    browser.size(1280, "light")
    browser.open(first.as_uri())

    def click(heading: str) -> None:
        browser.run(BUTTON % heading)

    usual = browser.run(SHOWN)
    assert len(usual) == 7 and (usual[0], usual[-1]) == ("michel", "voita")  # scores, then what is trained
    click("at 75 %")
    values = browser.run(f"{ROWS}.map(row => Number(row.cells[5].dataset.v))")
    assert values[:6] == sorted(values[:6], reverse=True) and len(set(values)) > 3  # each kind by itself
    click("at 75 %")
    assert browser.run(SHOWN)[0] == "random"
    click("method")
    assert browser.run(SHOWN)[-2:] == ["random", "voita"]
    click("tier")
    assert {*browser.run(SHOWN)[-3:-1]} == {"none", "amp"}  # what is missing comes last
    click("tier")
    assert {*browser.run(SHOWN)[-3:-1]} == {"none", "amp"}

    browser.run(SEARCH % "MICH")
    assert browser.run(SHOWN) == ["michel"]
    browser.run(SEARCH % "")
    browser.run("document.querySelector('input[value=control]').click()")
    assert set(usual) - set(browser.run(SHOWN)) == {"random", "none"}
    assert browser.run("document.querySelector('output').textContent") == "5 of 7"
    headings = "[...document.querySelectorAll('table.board')[0].tBodies].filter(body => !body.hidden).length"
    assert browser.run(headings) == 2
    browser.run("document.querySelector('input[value=trained]').click()")
    assert browser.run(headings) == 1  # no heading without rows

    seen, waiting = set(), [first.as_uri()]
    while waiting:
        address = waiting.pop()
        if address not in seen:
            seen.add(address)
            browser.size(390, "dark" if len(seen) % 2 else "light")
            browser.open(address)
            assert browser.run(OVERFLOW) <= 0, address  # what is wide scrolls in its own box
            assert browser.run("document.querySelectorAll('h1').length") == 1
            links = browser.run("[...document.links].map(a => a.href.split('#')[0])")
            waiting += [link for link in links if link.endswith(".html")]
    assert len(seen) == 17
    assert all(address.startswith(("file://", "data:")) for address in browser.requests())
    assert browser.complaints() == []


def test_a_budget_and_a_level_are_chosen_in_the_page(made, browser):
    browser.open((made[0] / "budgets" / "mean.html").as_uri())
    assert browser.run(f"{CHOSEN}.length") == 1
    groups = browser.run("[...document.querySelector('.filter select').options].map(option => option.text)")
    assert groups == ["parameters left", "time, batch 1", "time, batch 8", "time, batch 32", "points lost"]
    browser.run(CHOOSE % (0, 4))
    assert browser.run(f"{CHOSEN}.map(each => each.dataset.group)") == ["points lost"]
    browser.run(CHOOSE % (1, 0))
    assert browser.run(f"{CHOSEN}.map(each => each.dataset.option)") == ["at most 1 point"]
    browser.open(next((made[0] / "heads").glob("*.html")).as_uri())
    assert browser.run(f"{CHOSEN}.length") == 1
    browser.run(CHOOSE % (0, 0))
    assert browser.run(f"{CHOSEN}.map(each => each.dataset.option)") == ["2 of 8 (25 %)"]
    shown = "[...document.querySelectorAll('.choose > :not([hidden]) img')].map(image => image.naturalWidth)"
    assert browser.run(shown) == [4] * 6
    assert browser.complaints() == []


def test_colours_follow_the_scheme(made, browser):
    first = made[0] / "index.html"
    found = {}
    for scheme in ("light", "dark"):
        browser.size(1280, scheme)
        browser.open(first.as_uri())
        found[scheme] = browser.run(COLOURS)
    assert found["light"] == ["rgb(255, 255, 255)", "rgb(27, 31, 36)"]
    assert found["dark"] == ["rgb(20, 23, 26)", "rgb(230, 233, 236)"]
