# SPDX-License-Identifier: Apache-2.0
"""The backend's name, for torch.distributed.

This file stands alone: `import torch` loads it by itself (_reigen_torch.py), as the package reigen
loads the runtime, which is for those who name the backend in init_process_group.
"""
import importlib
import os
import sys

#: The oldest PyTorch whose interface this is written for.
OLDEST = (2, 13)
NAME = 'reigen'


def supported():
    """None, or why this PyTorch cannot have the backend."""
    import torch
    version = tuple(int(part) for part in torch.__version__.split('+')[0].split('.')[:2])
    if version < OLDEST:
        return (f'The backend "reigen" of torch.distributed needs PyTorch {OLDEST[0]}.{OLDEST[1]} '
                f'or newer; this is PyTorch {torch.__version__}. horovod.torch works with it.')
    if not torch.distributed.is_available():
        return 'This PyTorch was built without torch.distributed.'
    return None


def _create(options, backend_options=None):
    # The caller knows whether other devices have other backends, and does not tell.
    from reigen.distributed import _groups
    return _groups.create(options, backend_options)


def _asked_for():
    """The backend that init_process_group, which has called a rendezvous, is to use; or ''."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != 'init_process_group':
        frame = frame.f_back
    return str(frame.f_locals.get('backend') or '') if frame else ''


def _meet_by_epochs(handlers):
    """In an elastic job the numbers of the ranks are not those that the environment had first:
    distributed/_elastic.py. Other backends go by it, as ever."""
    by_environment = handlers['env']

    def rendezvous(url, **kwargs):
        if NAME not in _asked_for():
            return by_environment(url, **kwargs)
        from reigen.distributed import _elastic
        return _elastic.rendezvous(kwargs['timeout'])

    handlers['env'] = rendezvous


def register():
    """Let torch.distributed know the name, where this PyTorch can. Cheap, any number of times."""
    if supported() is not None:
        return
    backend = sys.modules['torch'].distributed.Backend
    if NAME.upper() in backend._plugins:
        return
    backend.register_backend(NAME, _create, extended_api=True, devices=['cpu', 'cuda'])
    if os.environ.get('REIGEN_ELASTIC') == '1':
        _meet_by_epochs(importlib.import_module('torch.distributed.rendezvous')
                        ._rendezvous_handlers)
