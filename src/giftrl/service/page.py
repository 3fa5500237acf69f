"""The page at ``/``: one file, which asks for nothing but the service itself."""

import base64
import functools
import hashlib
import re
from importlib import resources

#: What a browser may do with the page: run its own script, and talk to the service that it came from.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'; connect-src 'self'; base-uri 'none'"


@functools.cache
def page() -> str:
    """The page, with its style and its script.

    >>> "http" in page().replace("http-equiv", "")
    False
    """
    style = resources.files("giftrl.reports").joinpath("page.css").read_text(encoding="utf-8")
    return (
        resources.files("giftrl.service")
        .joinpath("page.html")
        .read_text(encoding="utf-8")
        .replace("/* style */", style)
    )


@functools.cache
def headers() -> dict[str, str]:
    """The headers of the page."""
    (script,) = re.findall("<script>(.*?)</script>", page(), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {
        "Content-Security-Policy": POLICY.format(digest) + "; frame-ancestors 'none'; form-action 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }
