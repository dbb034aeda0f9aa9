# SPDX-License-Identifier: Apache-2.0
"""torch.compile leaves Reigen's own functions alone.

Dynamo compiles whatever Python code runs below a compiled function: also a group's methods, which
DDP calls out of a backward pass, and there is nothing in them for it but ctypes. So each of our
code objects is marked as one to skip, with all that it calls, and each function as one that is not
to be traced into: a graph ends before it and the next one begins behind it, as with PyTorch's own
collectives. None of it imports Dynamo, which takes longer to load than PyTorch itself.
"""
import sys
import types
from typing import Any, Callable, Iterator, Set

import torch


def _marker() -> Callable[[types.CodeType], None]:
    """What makes Dynamo skip a code object, in the PyTorch that there is."""
    frames = getattr(getattr(torch._C, '_dynamo', None), 'eval_frame', None)
    if hasattr(frames, '_FrameExecStrategy'):
        skip = frames._FrameAction.SKIP
        strategy = frames._FrameExecStrategy(skip, skip)
        return lambda code: frames.set_code_exec_strategy(code, strategy)
    return getattr(frames, 'skip_code', lambda code: None)


_mark = _marker()


def _functions(space: Any, module: str, seen: Set[int]) -> Iterator[types.FunctionType]:
    """The functions of a module or class, and of its classes; those of this module alone."""
    for value in list(vars(space).values()):
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if isinstance(value, property):
            yield from (each for each in (value.fget, value.fset, value.fdel)
                        if isinstance(each, types.FunctionType))
        elif getattr(value, '__module__', None) != module or id(value) in seen:
            continue
        elif isinstance(value, types.FunctionType):
            yield value
            while isinstance(getattr(value, '__wrapped__', None), types.FunctionType):
                value = value.__wrapped__
                if value.__module__ == module:  # what it wraps may be the user's
                    yield value
        elif isinstance(value, type):
            seen.add(id(value))
            yield from _functions(value, module, seen)


def _hide_code(code: types.CodeType) -> None:
    """Also that of the functions and classes which are made in it."""
    _mark(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _hide_code(constant)


def hide(*packages: str) -> None:
    """Hide all functions of what has been loaded of these packages."""
    for name, module in list(sys.modules.items()):
        if module is None or not any(f'{name}.'.startswith(f'{package}.') for package in packages):
            continue
        for function in _functions(module, name, set()):
            function._torchdynamo_disable = True
            _hide_code(function.__code__)
