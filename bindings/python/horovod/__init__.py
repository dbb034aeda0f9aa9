# SPDX-License-Identifier: Apache-2.0
"""Horovod's Python interface over Reigen's runtime: `import horovod.torch as hvd`.

`horovod.run(func, np=4)` calls a function on several ranks.
"""
from horovod import _other

__version__ = '0.28.1+reigen'

_other.check()


def __getattr__(name: str):
    # Most scripts do not need it, and it imports much.
    if name == 'run':
        from horovod.runner import run
        return run
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
