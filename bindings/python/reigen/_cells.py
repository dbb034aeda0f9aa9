# SPDX-License-Identifier: Apache-2.0
"""Source that no file has, as that of a notebook's cells: it travels with the function, so that
tracebacks of ranks have its lines, and is called by the cell's number."""
import linecache
import os
import re
import sys
import types
from typing import Any, Dict

_NBYTES_MAX = 256 << 10  # of one job's


def _files(func: Any) -> Dict[str, None]:
    """Where the function, and what the main module defines, were written; newest last."""
    main = sys.modules.get('__main__')
    found: Dict[str, None] = {}
    for value in [*vars(main).values(), func] if main else [func]:
        parts = list(vars(value).values()) if isinstance(value, type) else [value]
        for part in parts:
            code = getattr(part, '__code__', None)
            if isinstance(code, types.CodeType):
                found[code.co_filename] = None
    return found


def sources(func: Any) -> Dict[str, str]:
    """The text of each file of func and the main module that exists in this process alone."""
    found: Dict[str, str] = {}
    left = _NBYTES_MAX
    for name in reversed(list(_files(func))):
        text = '' if os.path.exists(name) else ''.join(linecache.getlines(name))
        if text and len(text) <= left:
            found[name] = text
            left -= len(text)
    return found


def know(texts: Dict[str, str]) -> None:
    """In a rank: let tracebacks find the lines."""
    for name, text in texts.items():
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)


def name_cells(text: str) -> str:
    """A traceback that calls a notebook's cells by their numbers, as IPython does."""
    try:
        compiler = sys.modules['IPython'].get_ipython().compile
    except (KeyError, AttributeError):
        return text

    def named(match: Any) -> str:
        try:
            kind, name = compiler.format_code_name(match[1])
            return f'{kind} {name}'
        except (AttributeError, TypeError):  # it is no cell, or an older IPython
            return match[0]

    return re.sub(r'File "([^"\n]+)"', named, text)
