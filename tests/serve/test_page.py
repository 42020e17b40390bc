"""The page of the service, in a browser: controls move the prediction, its interval and its rows."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpexperts import DistributedGPRegressor
from gpexperts.cli import main


@pytest.fixture(scope="module")
def url(model: DistributedGPRegressor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The real command on a free port."""
    path = tmp_path_factory.mktemp("page") / "houses.gpx"
    model.save(path)
    command = [sys.executable, "-m", "gpexperts", "serve", str(path), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.match(r"(http://127\.0\.0\.1:\d+) shows the model", line)
        assert found, line
        yield found[1]
    finally:
        process.terminate()
        code = process.wait(100)
        process.stderr.close()
        assert code in (0, 128 + signal.SIGTERM)


def opened(browser: Any, url: str, width: int = 1200) -> Any:
    page = browser.new_page(viewport={"width": width, "height": 900}, bypass_csp=True)
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.goto(url)
    page.wait_for_selector("#rows tbody tr:nth-child(10)")
    return page


def settled(page: Any, change: Any) -> tuple[str, str]:
    """Make a change, wait until the prediction has changed, and return prediction and first row."""
    before = page.inner_text("#mean")
    change()
    page.wait_for_function("before => document.getElementById('mean').textContent !== before", arg=before)
    page.wait_for_timeout(300)
    return page.inner_text("#mean"), page.inner_text("#rows tbody tr:first-child")


def test_sliders_lists_and_boxes_move_the_prediction(browser: Any, url: str) -> None:
    page = opened(browser, url)
    first = page.inner_text("#mean"), page.inner_text("#rows tbody tr:first-child")
    slider = page.locator("#input-0-slider")
    slider.focus()
    moved = settled(page, lambda: slider.press("End"))  # by the keyboard
    assert float(moved[0]) > float(first[0])
    assert moved[1] != first[1]
    assert "95 % interval" in page.inner_text("#interval")
    assert page.inner_text("#curve-title") == "Effect of area"
    settled(page, lambda: page.locator("#input-1").click())
    town = page.input_value("#input-2")
    settled(page, lambda: page.select_option("#input-2", "south" if town == "north" else "north"))
    assert page.inner_text("#curve-title") == "Effect of </script>"
    settled(page, lambda: page.click("#reset"))
    assert page.inner_text("#mean") == first[0]
    assert page.problems == []


def test_wrong_input_is_named_and_mended(browser: Any, url: str) -> None:
    page = opened(browser, url)
    page.fill("#input-0", "")
    page.wait_for_selector("#error:not([hidden])")
    assert page.inner_text("#error") == "area: enter a value."
    page.fill("#input-0", "1e305")
    page.wait_for_function("document.getElementById('error').textContent.includes('at most 1e+300')")
    settled(page, lambda: page.fill("#input-0", "500"))
    assert page.is_hidden("#error")
    assert page.inner_text("#outside").startswith("Outside the training range: area.")
    assert page.problems == []


def test_a_narrow_screen_has_no_sideways_scrolling(browser: Any, url: str) -> None:
    page = opened(browser, url, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.problems == []


def test_the_page_needs_nothing_from_elsewhere(browser: Any, url: str) -> None:
    page = browser.new_page()
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url))
    page.goto(url)
    page.wait_for_selector("#rows tbody tr:nth-child(10)")
    assert all(address.startswith((url, "data:")) for address in seen)


def test_a_port_in_use_is_named(
    model: DistributedGPRegressor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "houses.gpx"
    model.save(path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        monkeypatch.setattr(sys, "argv", ["gpexperts", "serve", str(path), "--port", port])
        with pytest.raises(SystemExit) as end:
            main()
    assert end.value.code == 2
    assert "Choose another with --port" in capsys.readouterr().err
