# SPDX-License-Identifier: Apache-2.0
"""What of a function, or of a value, cannot be pickled: an error of pickle's names a type alone,
and the user wants to know which variable of his that is.

Each part is tried by itself, and so are the parts of the first that fails. This takes as long as
pickling takes, and happens after that has failed.
"""
import dis
import functools
import itertools
import reprlib
import types
from typing import Any, Callable, Iterator, List, Optional, Set, Tuple

_DEPTH_MAX = 12
_PARTS_MAX = 1000  # of one value that are tried


def _names(code: types.CodeType) -> Iterator[str]:
    """Of the global variables that a function uses, or those inside it."""
    yield from (str(step.argval) for step in dis.get_instructions(code)
                if step.opname in ('LOAD_GLOBAL', 'LOAD_NAME'))
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _names(const)


def _variables(func: types.FunctionType) -> Iterator[Tuple[str, Any]]:
    for name in dict.fromkeys(_names(func.__code__)):
        if name in func.__globals__:
            yield name, func.__globals__[name]
    for name, cell in zip(func.__code__.co_freevars, func.__closure__ or ()):
        try:
            yield name, cell.cell_contents
        except ValueError:  # it has no value yet
            pass
    names = func.__code__.co_varnames[:func.__code__.co_argcount]
    values = func.__defaults__ or ()
    yield from zip(names[len(names) - len(values):], values)
    yield from (func.__kwdefaults__ or {}).items()


def _parts(value: Any) -> Iterator[Tuple[str, Any]]:
    """Each with what stands behind the value's name to name it."""
    if isinstance(value, functools.partial):
        yield '', value.func
        yield from ((f'argument {i + 1}', arg) for i, arg in enumerate(value.args))
        yield from ((f'argument {name}', arg) for name, arg in value.keywords.items())
    elif isinstance(value, types.MethodType):
        yield 'self', value.__self__
    elif isinstance(value, types.FunctionType):
        yield from _variables(value)
    elif isinstance(value, dict):
        yield from ((f'[{reprlib.repr(key)}]', part) for key, part in list(value.items()))
    elif isinstance(value, (list, tuple)):
        yield from ((f'[{i}]', part) for i, part in enumerate(value))
    elif not isinstance(value, (type, types.ModuleType)):
        yield from ((f'.{name}', part)
                    for name, part in list(getattr(value, '__dict__', {}).items()))


def _some_parts(value: Any) -> List[Tuple[str, Any]]:
    """None where they cannot be looked at: a user's object may do anything when it is asked."""
    try:
        return list(itertools.islice(_parts(value), _PARTS_MAX))
    except Exception:
        return []


def _fails(value: Any, dumps: Callable[[Any], bytes]) -> bool:
    try:
        dumps(value)
    except Exception:
        return True
    return False


def _name_of(func: Any) -> str:
    return getattr(func, '__qualname__', type(func).__name__).rpartition('<locals>.')[2]


def _find(value: Any, dumps: Callable[[Any], bytes], user: Optional[str], path: str,
          seen: Set[int], depth: int) -> Tuple[Optional[str], str, Any]:
    """The function that uses it, its name there, and the innermost part that fails."""
    if isinstance(value, types.FunctionType):
        user, path = _name_of(value), ''
    seen.add(id(value))
    for label, part in _some_parts(value) if depth < _DEPTH_MAX else ():
        if id(part) not in seen and _fails(part, dumps):
            return _find(part, dumps, user, path + label, seen, depth + 1)
    return user, path, value


def describe(value: Any, dumps: Callable[[Any], bytes], what: str) -> str:
    """A sentence about the part of it that cannot be pickled. what: how to call the value itself,
    where no part of it is at fault."""
    user, path, part = _find(value, dumps, None, '', set(), 0)
    kind = type(part)
    kind_name = kind.__name__ if kind.__module__ == 'builtins' \
        else f'{kind.__module__}.{kind.__name__}'
    if path.startswith('argument '):
        return f'{path[0].upper()}{path[1:]}, {_with_article(kind_name)}, cannot be sent'
    name = what if not path else f'{what}: {path}' if path[0] in '[.' else path
    used = f' which {user}() uses,' if user and path else ''
    return f'{name}, {_with_article(kind_name)},{used} cannot be sent'


def _with_article(noun: str) -> str:
    return f'{"an" if noun.lstrip("_")[:1].lower() in "aeiou" else "a"} {noun}'
