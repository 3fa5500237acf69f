"""The client in Python: retries are safe, refusals are exceptions."""

import httpx
import pytest

import giftrl
from giftrl.errors import Refused
from giftrl.service.server import background
from tests.serving import QUICK

pytestmark = pytest.mark.plain


class Losing(httpx.HTTPTransport):
    """A connection that loses two of three answers."""

    count = 0

    def handle_request(self, request):
        answer = super().handle_request(request)
        answer.read()
        self.count += 1
        if self.count % 3:
            raise httpx.ReadError("lost")
        return answer


def test_answers_that_are_lost_on_the_way_do_not_make_rows_be_learnt_twice(tmp_path):
    with background(tmp_path) as address, giftrl.Client(address) as client:
        client._http = httpx.Client(base_url=address, transport=Losing())
        client.create("m", **QUICK)
        for k in range(6):
            assert len(client.learn("m", {"label": k % 2, "a": k})) == 1
        with giftrl.Client(address) as direct:
            assert direct.show("m")["examples"] == 6


def test_what_a_service_can_do_a_client_can_ask(tmp_path):
    with background(tmp_path) as address, giftrl.Client(address) as client:
        assert client.create("m", **QUICK) and not client.create("m", **QUICK)
        assert client.models() == ["m"]
        assert client.learn("m", [{"label": 1, "a": 1.0}, {"label": 0, "a": -1.0}]) == [0, 0]
        assert client.predict("m", {"a": 2.0}) == [1]
        assert set(client.predict("m", {"a": 2.0}, "proba")[0]) == {"0", "1"}
        told = client.remember("m", [{"a": 1.0}, {"a": -3.0}])
        assert [prediction for _, prediction in told] == [1, 0]
        assert client.label("m", {name: 1 for name, _ in told}) == [1, 0]
        assert client.show("m")["examples"] == 4
        assert b"giftrl-model" in client.file("m")
        with pytest.raises(Refused) as refusal:
            client.learn("m", [{"label": 1, "a": 1}, {"label": 7, "a": 1}])
        assert refusal.value.status == 422 and refusal.value.more["rows"][0]["row"] == 2
        client.delete("m")
        with pytest.raises(Refused, match="no model 'm'") as refusal:
            client.predict("m", {"a": 1})
        assert refusal.value.status == 404


def test_nobody_there_is_an_error_after_the_retries():
    with giftrl.Client("http://127.0.0.1:9", retries=1) as client, pytest.raises(httpx.ConnectError):
        client.models()


@pytest.mark.parametrize("name", ["m?x=1", "m#", "x/../m", "m/file", "..", "", "m%2Ffile", "m\n", "é"])
def test_a_name_of_another_model_is_never_taken_for_this_one(name, tmp_path):
    with background(tmp_path) as address, giftrl.Client(address, retries=0) as client:
        client.create("m", **QUICK)
        with pytest.raises(Refused) as refusal:
            client.show(name)
        assert refusal.value.status in (404, 422)


@pytest.mark.parametrize("after", ["Wed, 21 Oct 2015 07:28:00 GMT", "soon", "", "nan", "-3", "0"])
def test_any_word_about_when_to_retry_is_understood(after):
    asked = []

    def busy(request):
        asked.append(request)
        return httpx.Response(503 if len(asked) == 1 else 200, headers={"Retry-After": after}, json={"models": []})

    with giftrl.Client() as client:
        client._http = httpx.Client(base_url="http://127.0.0.1", transport=httpx.MockTransport(busy))
        assert client.models() == []
    assert len(asked) == 2
