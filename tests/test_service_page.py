"""The page of the service, drawn and clicked through in a real browser."""

import time

import pytest

import giftrl
from giftrl.service.request_limits import Tokens
from giftrl.service.server import background
from tests.serving import QUICK

pytestmark = pytest.mark.plain


def until(browser, expression, seconds=20.0):
    """The value of an expression once it is true."""
    end = time.monotonic() + seconds
    while not (found := browser.evaluate(expression)):
        assert time.monotonic() < end, (expression, browser.evaluate("document.body.innerText"), browser.complaints())
        time.sleep(0.1)
    return found


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_the_page_is_live_and_predicts(browser, tmp_path, width, dark):
    with background(tmp_path / "models") as address, giftrl.Client(address) as client:
        client.create("m", loss="logistic", labels=[0, 1], bits=5)
        client.learn("m", [{"label": k % 2, "a": k % 2 - 0.5} for k in range(30)])
        with pytest.raises(giftrl.GiftrlError):
            client.learn("m", {"label": 9, "a": 1})
        browser.open(f"{address}/", width=width, dark=dark)
        until(browser, "document.getElementById('examples').textContent === '30'")
        client.learn("m", [{"label": k % 2, "a": k % 2 - 0.5} for k in range(12)])
        until(browser, "document.getElementById('examples').textContent === '42'")
        assert browser.evaluate("document.querySelectorAll('#chart polyline').length") == 1
        assert browser.evaluate("document.getElementById('experts').rows.length") > 1
        assert "the label 9" in browser.evaluate("document.getElementById('rejected').innerText")
        until(browser, "Number(document.getElementById('best').textContent) >= 0")
        browser.evaluate("document.getElementById('row').value = '{\"a\": 0.5}'")
        browser.evaluate("document.querySelector('#try button').click()")
        until(browser, "document.getElementById('said').textContent === '[1]'")
        assert browser.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "it does not fit"
        colour = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (colour == "rgb(13, 17, 23)") is dark
        assert not browser.complaints()
        assert all(each.startswith(address) for each in browser.requests())
        browser.screenshot(tmp_path / "page.png")
        assert (tmp_path / "page.png").stat().st_size > 10_000
        browser.open("about:blank")


def test_a_token_is_asked_for(browser, tmp_path):
    tokens = Tokens("learn-0123456789", "read-0123456789a")
    with background(tmp_path / "models", tokens=tokens) as address, giftrl.Client(address, tokens.learn) as client:
        client.create("m", **QUICK)
        browser.open(f"{address}/")
        until(browser, "!document.getElementById('key').hidden")
        browser.evaluate(f"document.getElementById('token').value = '{tokens.read}'")
        browser.evaluate("document.querySelector('#key button').click()")
        until(browser, "document.getElementById('examples').textContent === '0'")
        browser.open("about:blank")
