"""The description of all requests, in OpenAPI 3.1: written by hand, as data; a test compares it with the routes."""

from typing import Any

Data = dict[str, Any]


def _body(words: str, *types: str) -> Data:
    row = {"$ref": "#/components/schemas/Rows"}
    content: Data = {"application/json": {"schema": row}}
    content |= {each: {"schema": {"type": "string"}} for each in types}
    return {"description": words, "required": True, "content": content}


def _answer(words: str, schema: str) -> Data:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": words, "content": content}


def _option(name: str, words: str, schema: Data) -> Data:
    return {"name": name, "in": "query", "description": words, "required": False, "schema": schema}


TEXTS = ("application/x-ndjson", "text/x-libsvm", "text/x-vw", "application/vnd.apache.arrow.stream")
NAME = {
    "name": "name", "in": "path", "required": True, "description": "The name of the model.",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"},
}  # fmt: skip
KEY = {
    "name": "Idempotency-Key", "in": "header", "required": False, "schema": {"type": "string", "maxLength": 200},
    "description": "A request that is repeated with its key gets the same answer and is not learnt again.",
}  # fmt: skip
FORMAT = _option(
    "format", "The format of the body; found where it is not given.",
    {"type": "string", "enum": ["json", "libsvm", "vw", "arrow"]},
)  # fmt: skip
ON_ERROR = _option(
    "on_error", "stop: a row that cannot be used makes all of them refused; skip: it is left out.",
    {"type": "string", "enum": ["stop", "skip"], "default": "stop"},
)  # fmt: skip
YES = {"type": "boolean", "default": False}
ERRORS = {
    "400": "The request cannot be read.", "401": "A token is missing or wrong.",
    "403": "The token does not allow this.",
    "404": "There is no such model or prediction.", "408": "The body came too slowly.",
    "409": "This contradicts what is there.", "413": "The request is too large.",
    "415": "The format is not known.", "422": "The rows or settings cannot be used.",
    "429": "Too many requests wait; Retry-After says for how many seconds.",
    "500": "The service failed at this request; its log says why.",
    "503": "The disk fails, or the model is being closed; nothing was learnt.",
    "504": "There was no answer in time; repeat the request with its Idempotency-Key.",
    "507": "There are as many models as there may be.",
}  # fmt: skip

#: Every request: its summary, its options, its body and its answer.
PATHS: dict[tuple[str, str], Data] = {
    ("get", "/"): {"summary": "A page about all models.", "text": "text/html"},
    ("get", "/healthz"): {"summary": "Whether the service is there.", "answer": ("The service is there.", "Health")},
    ("get", "/readyz"): {
        "summary": "Whether no request will have to wait for a compiler; 503 until then.",
        "answer": ("The service is ready.", "Ready"),
    },
    ("get", "/openapi.json"): {"summary": "This description.", "answer": ("This description.", "Anything")},
    ("get", "/metrics"): {"summary": "Counts and times, for Prometheus.", "text": "text/plain"},
    ("get", "/models"): {"summary": "The names of all models.", "answer": ("The models.", "Models")},
    ("put", "/models/{name}"): {
        "summary": "Create a model. Nothing needs choosing: without settings, its first rows choose the loss.",
        "body": {"required": False, "description": "The options of giftrl train by name.",
                 "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Settings"}}}},
        "answer": ("There is a model of that name and of these settings.", "Created"),
    },
    ("get", "/models/{name}"): {
        "summary": "Counts, loss, certificate and experts of a model.",
        "options": [_option("certify", "Seconds to look for a bound on the loss of other models.",
                            {"type": "number", "minimum": 0, "maximum": 10})],
        "answer": ("The model.", "Anything"),
    },
    ("delete", "/models/{name}"): {
        "summary": "Delete a model with all that it has learnt.",
        "options": [_option("confirm", "The name of the model, again.", {"type": "string"})],
        "answer": ("It is deleted.", "Anything"),
    },
    ("post", "/models/{name}/learn"): {
        "summary": "Learn from rows with labels; answered when the disk has them.",
        "options": [FORMAT, ON_ERROR, KEY],
        "body": _body('One row, {"rows": [...]}, or lines; each with its label under "label".', *TEXTS),
        "answer": ("The predictions that were made before each label was used.", "Predictions"),
    },
    ("post", "/models/{name}/predict"): {
        "summary": "Predict for rows.",
        "options": [
            FORMAT, ON_ERROR, KEY,
            _option("label", "Answer with labels, as is usual.", YES),
            _option("proba", "Answer with the probability of each label.", YES),
            _option("scores", "Answer with scores.", YES),
            _option("remember", "Keep the rows, in JSON, until their labels come; answers with an id for each.", YES),
        ],
        "body": _body("One row, {\"rows\": [...]}, or lines.", *TEXTS),
        "answer": ("A prediction for each row.", "Predictions"),
    },
    ("post", "/models/{name}/label"): {
        "summary": "Learn rows that were remembered, as they were, now that their labels have come.",
        "options": [KEY],
        "body": {"required": True, "description": "The id of each prediction, and its label.",
                 "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Labels"}},
                             "application/x-ndjson": {"schema": {"type": "string"}}}},
        "answer": ("The predictions of the present model before the labels were used.", "Predictions"),
    },
    ("get", "/models/{name}/file"): {
        "summary": "The model file, as giftrl train --model writes it.", "text": "application/octet-stream",
    },
    ("get", "/models/{name}/events"): {
        "summary": "What the model does, every second, as server-sent events.", "text": "text/event-stream",
    },
}  # fmt: skip

OBJECT = {"type": "object"}
ROW = OBJECT | {"description": "A row: numbers, texts, lists and nested objects by their names, as in JSON lines."}
SCHEMAS: Data = {
    "Anything": OBJECT,
    "Health": OBJECT | {"properties": {"status": {"const": "ok"}}},
    "Ready": OBJECT | {"properties": {"status": {"const": "ready"}}},
    "Models": OBJECT | {"properties": {"models": {"type": "array", "items": OBJECT}}},
    "Settings": OBJECT | {"examples": [{}, {"loss": "squared"}, {"labels": ["no", "yes"]}]},
    "Created": OBJECT | {"properties": {
        "name": {"type": "string"}, "created": {"type": "boolean"}, "settings": OBJECT,
    }},
    "Row": ROW,
    "Rows": {"anyOf": [{"$ref": "#/components/schemas/Row"},
                       OBJECT | {"properties": {"rows": {"type": "array", "items": ROW}}, "required": ["rows"]}]},
    "Labels": {"anyOf": [
        OBJECT | {"properties": {"id": {"type": "string"}, "label": {}}, "required": ["id", "label"]},
        OBJECT | {"properties": {"rows": {"type": "array", "items": OBJECT}}, "required": ["rows"]},
    ]},
    "Predictions": OBJECT | {
        "required": ["predictions", "examples"],
        "properties": {
            "predictions": {"type": "array", "description": "One for each row; null where there is none."},
            "examples": {"type": "integer", "description": "How many examples the model has learnt."},
            "waiting": {"type": "integer", "description": "Rows kept until there are labels to choose a loss by."},
            "rejected": {"type": "array", "items": OBJECT, "description": "Rows that were left out, and why."},
            "ids": {"type": "array", "items": {"type": "string"}, "description": "Of predictions that are remembered."},
            "seconds": {"type": "number", "description": "For how long they are remembered."},
        },
    },
    "Error": OBJECT | {"properties": {"error": OBJECT | {"properties": {
        "status": {"type": "integer"}, "problem": {"type": "string"}, "remedy": {"type": "string"},
        "rows": {"type": "array", "items": OBJECT},
        "labelled": {"type": "array", "items": {"type": "string"}, "description": "Ids that have their labels."},
    }}}},
}  # fmt: skip


def options_of(method: str, path: str) -> tuple[str, ...]:
    """The names of the query options that a request knows.

    >>> options_of("POST", "/models/{name}/learn")
    ('format', 'on_error')
    """
    options = PATHS[method.lower(), path].get("options", [])
    return tuple(each["name"] for each in options if each["in"] == "query")


def described() -> Data:
    """The whole description.

    >>> sorted(described()["paths"]["/models/{name}"])
    ['delete', 'get', 'parameters', 'put']
    """
    from giftrl import __version__

    paths: Data = {}
    for (method, path), each in PATHS.items():
        said = _answer(*each["answer"]) if "answer" in each else {
            "description": each["summary"], "content": {each["text"]: {"schema": {"type": "string"}}}
        }  # fmt: skip
        operation: Data = {"summary": each["summary"], "responses": {"200": said}}
        if method == "put":
            operation["responses"]["201"] = said
        operation["responses"] |= {status: _answer(words, "Error") for status, words in ERRORS.items()}
        if "options" in each:
            operation["parameters"] = each["options"]
        if "body" in each:
            operation["requestBody"] = each["body"]
        paths.setdefault(path, {"parameters": [NAME]} if "{name}" in path else {})[method] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "giftrl", "version": __version__, "description": "Models that learn from a stream."},
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }
