"""Docstrings as Markdown: they are written to be read as plain text, with examples that doctest runs.

An extension of Griffe, which mkdocstrings reads docstrings with. Formulas stay as they are written: a star or an angle
bracket is never markup.
"""

import re
from typing import Any

import griffe

from website.names import anchors

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n\1.*\S.*)*", re.M)
LITERAL = re.compile(r"^( *)(.*?)::\n\n((?:\1 +.*\n?|\n)+)", re.M)
CODE = re.compile(r"(```pycon.*?\n *```|```text.*?\n *```|`[^`\n]+`)", re.S)
ROLE = re.compile(r":\w+:`~?([\w.]+)`")


def _role(match: re.Match[str]) -> str:
    path = match[1]
    return f"[`{path.rpartition('.')[2]}`][{anchors()[path]}]" if path in anchors() else f"`{path}`"


def _fenced(match: re.Match[str]) -> str:
    indent = match[1]
    return f"{indent}```pycon\n{match[0]}\n{indent}```"


def _literal(match: re.Match[str]) -> str:
    indent = match[1]
    lead = f"{indent}{match[2]}:\n\n" if match[2] else ""
    return f"{lead}{indent}```text\n{match[3].rstrip()}\n{indent}```\n\n"


def markdown(text: str) -> str:
    """A docstring as Markdown.

    >>> markdown("psi* of ``x``: <s, x>\\n\\n>>> 1 + 1\\n2").splitlines()
    ['psi\\\\* of `x`: &lt;s, x>', '', '```pycon', '>>> 1 + 1', '2', '```']
    """
    text = ROLE.sub(_role, re.sub("(?<!`)``(?!`)", "`", text))
    text = EXAMPLE.sub(_fenced, LITERAL.sub(_literal, text))
    parts = CODE.split(text)
    parts[::2] = [part.replace("*", "\\*").replace("<", "&lt;") for part in parts[::2]]
    return "".join(parts)


def _comment(attribute: griffe.Attribute) -> str:
    """The lines ``#: ...`` above a constant."""
    above = attribute.filepath.read_text("utf-8").splitlines()[: (attribute.lineno or 1) - 1]
    lines: list[str] = []
    while above and above[-1].lstrip().startswith("#:"):
        lines.insert(0, above.pop().lstrip().removeprefix("#:").strip())
    return "\n".join(lines)


def _constructor(cls: griffe.Class) -> griffe.Function:
    """The signature of a NamedTuple, from its fields."""
    fields = [each for each in cls.members.values() if isinstance(each, griffe.Attribute) and each.annotation]
    kind = griffe.ParameterKind.positional_or_keyword
    parameters = [
        griffe.Parameter(each.name, annotation=each.annotation, kind=kind, default=each.value) for each in fields
    ]
    return griffe.Function("__init__", parameters=griffe.Parameters(griffe.Parameter("self"), *parameters))


class Docstrings(griffe.Extension):
    """Rewrites every docstring that is loaded. That of a constant is the comment above it."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Griffe calls this for each object, when it is complete."""
        if isinstance(obj, griffe.Attribute) and obj.docstring is None and obj.parent and obj.parent.is_module:
            comment = _comment(obj)
            if comment:
                obj.docstring = griffe.Docstring(comment, lineno=obj.lineno, parent=obj)
        if isinstance(obj, griffe.Class) and "NamedTuple" in map(str, obj.bases) and "__init__" not in obj.members:
            obj.set_member("__init__", _constructor(obj))
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
