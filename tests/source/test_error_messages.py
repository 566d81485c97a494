"""Error messages keep one form: ``argument: expected X, got Y; do Z``, without a final period.

A message of several sentences ends with a period.
"""

import ast
import re

from source_modules import LIBRARY, parsed


def text_of(node):
    """A literal message, with ``{}`` for what is filled in; None if it is computed."""
    match node:
        case ast.Constant(str(text)):
            return text
        case ast.JoinedStr(parts):
            return "".join(p.value if isinstance(p, ast.Constant) else "{}" for p in parts)
    return None


def messages():
    """Every message of an error or a warning, with its place."""
    for path, module in parsed(LIBRARY).items():
        for node in ast.walk(module):
            match node:
                case ast.Call(ast.Name(name), [first, *_]) if name.endswith(("Error", "Exit")):
                    pass
                case ast.Call(ast.Attribute(ast.Name("warnings"), "warn"), [first, *_]):
                    pass
                case _:
                    continue
            text = text_of(first)
            if text:
                yield f"{path}:{node.lineno}", text


def test_only_messages_of_several_sentences_end_with_a_period():
    found = dict(messages())
    wrong = {
        place: text
        for place, text in found.items()
        if text.endswith(".") != bool(re.search(r"[\w)\]}\"'`]\. ", text))
    }
    assert len(found) > 700
    assert wrong == {}


def test_messages_do_not_begin_or_end_with_space():
    assert {place: text for place, text in messages() if text != text.strip()} == {}
