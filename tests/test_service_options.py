"""What a request says and the service does not know is refused, and not passed over."""

import pytest

from giftrl.service.bodies import read_body
from giftrl.service.http import openapi, options_of
from tests.serving import QUICK, serving

pytestmark = pytest.mark.plain
#: The method and the path of every request.
REQUESTS = [
    (method, path) for path, operations in openapi()["paths"].items() for method in operations if method != "parameters"
]


def test_options_that_are_not_known_are_refused_with_the_known_ones(tmp_path):
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK).raise_for_status()
        for method, path in REQUESTS:
            where = path.replace("{name}", "m")
            said = client.request(method, f"{where}?confirmed=m&foo=1", content=b'{"label": 1, "a": 2}')
            assert said.status_code == 400, (method, path)
            problem, remedy = (said.json()["error"][each] for each in ("problem", "remedy"))
            assert "'confirmed'" in problem
            known = ", ".join(options_of(method, path)) or "no options"
            assert remedy == f"this request knows {known}"
        assert client.get("/models/m").json()["examples"] == 0


def test_options_that_are_known_are_taken_by_every_request(tmp_path):
    given = {"format": "json", "on_error": "skip", "certify": "0", "confirm": "m", "remember": "0"}
    with serving(tmp_path / "models") as (client, _):
        for method, path in [each for each in REQUESTS if "events" not in each[1]]:
            for name in options_of(method, path):
                client.put("/models/m", json=QUICK).raise_for_status()
                where = f"{path.replace('{name}', 'm')}?{name}={given.get(name, '1')}"
                said = client.request(method, where, content=b'{"label": 1, "a": 2}')
                assert said.status_code == 200, (method, where, said.text)


@pytest.mark.parametrize("rows", ["3", "null", '{"a": 1}', '"a"'])
def test_rows_that_are_no_list_are_refused_as_such(rows, tmp_path):
    with serving(tmp_path / "models") as (client, _):
        client.put("/models/m", json=QUICK).raise_for_status()
        for what in ("learn", "predict", "label"):
            said = client.post(f"/models/m/{what}", content=f'{{"rows": {rows}}}')
            assert said.status_code == 400 and "rows is no list" in said.json()["error"]["problem"], said.text


def test_a_feature_may_be_called_rows():
    assert read_body(b'{"label": 1, "rows": 3}').data == b'{"label":1,"rows":3}\n'


def test_bits_and_a_dictionary_exclude_each_other(tmp_path):
    with serving(tmp_path / "models") as (client, _):
        said = client.put("/models/m", json={"bits": 18, "dictionary": True})
        assert said.status_code == 422 and "dictionary" in said.json()["error"]["problem"]
        for number, given in enumerate(({"bits": 18, "dictionary": False}, {"bits": None, "dictionary": True})):
            client.put(f"/models/m{number}", json=given).raise_for_status()
