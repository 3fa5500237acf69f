"""The requests of the service, from its OpenAPI description."""

import json
from typing import Any

from giftrl.service.http import openapi


def _text(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}" if "items" in schema else "list"
    if "properties" in schema:
        return "object with " + ", ".join(f"`{name}`" for name in schema["properties"])
    return str(schema.get("type", f"`{json.dumps(schema['const'])}`" if "const" in schema else "anything"))


def _table(head: str, rows: list[str]) -> str:
    columns = head.count("|") - 1
    return "\n".join([head, "|---" * columns + "|", *rows])


def _parameters(given: list[dict[str, Any]]) -> str:
    rows = [
        f"| `{each['name']}` | {each['in']} | {_kind(each['schema'])} | {_text(each.get('description', ''))} |"
        for each in given
    ]
    return _table("| parameter | in | type | |", rows)


def _operation(method: str, path: str, said: dict[str, Any], shared: list[dict[str, Any]]) -> str:
    parts = [f"## {method.upper()} {path}", said["summary"]]
    parameters = [*shared, *said.get("parameters", [])]
    if parameters:
        parts.append(_parameters(parameters))
    if "requestBody" in said:
        body = said["requestBody"]
        kinds = ", ".join(
            f"`{kind}`: {_kind(each['schema'])}" if "$ref" in each["schema"] else f"`{kind}`"
            for kind, each in body["content"].items()
        )
        parts.append(f"**Body** ({kinds}). {_text(body['description'])}")
    for status, answer in said["responses"].items():
        if status.startswith("2"):
            kinds = ", ".join(
                _kind(each["schema"]) if "$ref" in each["schema"] else f"`{kind}`"
                for kind, each in answer["content"].items()
            )
            parts.append(f"**{status}**: {_text(answer['description'])} ({kinds})")
    return "\n\n".join(parts)


def _schema(name: str, schema: dict[str, Any]) -> str:
    parts = [
        f"### {name}",
        _text(schema["description"]) if "description" in schema else _kind(schema).capitalize() + ".",
    ]
    if "properties" in schema:
        rows = [
            f"| `{field}` | {_kind(each)} | {_text(each.get('description', ''))} |"
            for field, each in schema["properties"].items()
        ]
        parts.append(_table("| field | type | |", rows))
    return "\n\n".join(parts)


def requests() -> str:
    """Every request in Markdown: its parameters, body and answer; then errors, and the shapes of bodies.

    >>> "## POST /models/{name}/learn" in requests()
    True
    """
    page = openapi()
    parts, errors = [], {}
    for path, methods in page["paths"].items():
        for method, said in methods.items():
            if method != "parameters":
                parts.append(_operation(method, path, said, methods.get("parameters", [])))
                errors |= {s: r["description"] for s, r in said["responses"].items() if not s.startswith("2")}
    parts.append("## Errors\n\nAny request may be answered with one of these, and an [Error](#error) as its body.")
    parts.append(_table("| status | |", [f"| {status} | {_text(words)} |" for status, words in errors.items()]))
    parts.append("## Shapes of bodies and answers")
    parts += [_schema(name, schema) for name, schema in page["components"]["schemas"].items()]
    return "\n\n".join(parts)
