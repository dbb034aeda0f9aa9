# SPDX-License-Identifier: Apache-2.0
"""Horovod's Python interface over Reigen's runtime: `import horovod.torch as hvd`.

`horovod.run(func, np=4)` calls a function on several ranks.
"""
from horovod import _other

#: As Horovod writes it: programs read its numbers. The distribution's has '+reigen' behind it.
__version__ = '0.28.1'

_other.check()


def __getattr__(name: str):
    # Most scripts do not need it, and it imports much.
    if name == 'run':
        from horovod.runner import run
        return run
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
