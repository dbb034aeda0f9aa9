# SPDX-License-Identifier: Apache-2.0
"""Words of the ranks for the callbacks of run() and execute(), which the driver calls."""
import os
import warnings
from typing import Any, Callable, Dict, Optional

#: What takes them while a function runs whose caller has given callbacks.
_send: Optional[Callable[[Any], None]] = None
_warned = False


def configure(send: Optional[Callable[[Any], None]]) -> None:
    """For horovod.ray's own workers: what log() calls from now on."""
    global _send
    _send = send


def log(info_dict: Dict[str, Any], chief_only: bool = True) -> None:
    """Hand a dictionary to the callbacks; only rank 0's, unless chief_only is False. Warns once
    where nobody has given callbacks."""
    global _warned
    if chief_only and os.environ.get('HOROVOD_RANK') != '0':
        return
    if _send is not None:
        _send(info_dict)
    elif not _warned:
        _warned = True
        warnings.warn('ray_logger.log() is called, and nobody listens: run() and execute() of '
                      'RayExecutor take callbacks=[...]')
