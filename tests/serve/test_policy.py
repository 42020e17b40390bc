"""The page may run its own style and script, and no others."""

from __future__ import annotations

import base64
import hashlib
import re

from starlette.testclient import TestClient


def test_only_the_style_and_script_of_the_page_are_allowed(client: TestClient) -> None:
    answer = client.get("/")
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert "unsafe" not in str(policy)
    for element, name in (("style", "style-src"), ("script", "script-src")):
        (text,) = re.findall(rf"<{element}>(.*?)</{element}>", answer.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy[name] == f"'sha256-{digest}'"
