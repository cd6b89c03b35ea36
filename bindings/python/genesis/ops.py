"""The ops of the library as functions of values: ops.softmax(x, axis=-1). ops.pyi, which is made of the library's table, lists
them with their attributes and defaults."""

import functools
import json
from ctypes import byref, c_void_p

from . import _library as lib
from ._library import check, taken_text


@functools.cache
def table():
    """Returns the ops with their documentation and attributes, as a list of dicts."""
    text = c_void_p()
    check(lib.ops_describe(byref(text)))
    return json.loads(taken_text(text))


def __getattr__(name):
    row = next((row for row in table() if row['name'] == name), None) if not name.startswith('_') else None
    if row is None:
        raise AttributeError(f"there is no op '{name}'")

    def function(*inputs, **attributes):
        graph = next(value.graph for value in inputs if hasattr(value, 'graph'))
        return graph.op(name, *inputs, **attributes)

    function.__name__, function.__doc__ = name, row['doc']
    return function


def __dir__():
    return ['table'] + [row['name'] for row in table()]


def stub():
    """Returns the text of ops.pyi."""
    import keyword
    lines = ['from typing import Any', '', 'from ._model import Value', '', 'def table() -> list[dict[str, Any]]: ...']
    for row in table():
        if not row['name'].isidentifier() or keyword.iskeyword(row['name']):
            continue
        attributes = ', '.join(f'{name}: Any = {value!r}' for name, value in row['attributes'].items()
                               if name.isidentifier() and not keyword.iskeyword(name))
        separator = f', {attributes}' if attributes else ''
        lines += [f"def {row['name']}(*inputs: Value | Any{separator}) -> Any:", f"    {row['doc']!r}"]
    return '\n'.join(lines) + '\n'
