"""A real Chromium, where one is on PATH: none is downloaded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needed = pytest.mark.skipif(PROGRAM is None, reason="no Chromium is on PATH")
FLAGS = ["--no-sandbox", "--disable-quic", "--disable-background-networking"]


@contextmanager
def chromium() -> Iterator[Any]:
    # A machine that tests in parallel is slow.
    sync.expect.set_options(timeout=30_000)
    with sync.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=PROGRAM, args=FLAGS)
        yield browser
        browser.close()
