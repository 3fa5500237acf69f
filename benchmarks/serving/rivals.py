"""River and Vowpal Wabbit's Python API behind Starlette and uvicorn, as ``giftrl serve`` is; nothing is kept on disk.

python -m benchmarks.serving.rivals river 8001
"""

import sys
from typing import Any

import orjson
import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router


class River:
    """River's logistic regression on scaled features."""

    def __init__(self) -> None:
        from river import linear_model, preprocessing

        self.model: Any = preprocessing.StandardScaler() | linear_model.LogisticRegression()

    def predict(self, row: dict[str, Any]) -> Any:
        """The label of a row."""
        return int(bool(self.model.predict_one(row)))

    def learn(self, row: dict[str, Any]) -> Any:
        """The label that was predicted before."""
        label = row.pop("label")
        said = self.predict(row)
        self.model.learn_one(row, bool(label))
        return said


class VowpalWabbit:
    """VW's logistic regression, from text as its Python API takes it."""

    def __init__(self) -> None:
        from vowpalwabbit import Workspace

        self.model: Any = Workspace("--loss_function logistic --quiet")

    def predict(self, row: dict[str, Any]) -> Any:
        """The label of a row."""
        return int(self.model.predict("| " + " ".join(f"{name}:{value}" for name, value in row.items())) > 0.0)

    def learn(self, row: dict[str, Any]) -> Any:
        """The label that was predicted before."""
        sign = 2 * row.pop("label") - 1
        example = self.model.example(f"{sign} | " + " ".join(f"{name}:{value}" for name, value in row.items()))
        self.model.learn(example)  # which predicts first
        said = int(example.get_simplelabel_prediction() > 0.0)
        self.model.finish_example(example)
        return said


def application(model: Any) -> Router:
    """The application of one model."""
    examples = 0

    async def predict(request: Request) -> Response:
        rows = _rows(await request.body())
        said = {"predictions": [model.predict(row) for row in rows], "examples": examples}
        return Response(orjson.dumps(said), media_type="application/json")

    async def learn(request: Request) -> Response:
        nonlocal examples
        rows = _rows(await request.body())
        examples += len(rows)
        said = {"predictions": [model.learn(row) for row in rows], "examples": examples}
        return Response(orjson.dumps(said), media_type="application/json")

    routes = {"predict": predict, "learn": learn}
    return Router([Route(f"/models/{{name}}/{path}", each, methods=["POST"]) for path, each in routes.items()])


def _rows(body: bytes) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in body.splitlines()]


if __name__ == "__main__":
    kinds: dict[str, Any] = {"river": River, "vw": VowpalWabbit}
    uvicorn.run(application(kinds[sys.argv[1]]()), port=int(sys.argv[2]), log_level="warning", access_log=False)
