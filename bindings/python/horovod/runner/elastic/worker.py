# SPDX-License-Identifier: Apache-2.0
"""How a rank of an elastic job hears of hosts; the classes live in horovod.common.elastic."""
from horovod.common.elastic import HostUpdateResult, WorkerNotificationManager

HOROVOD_GLOO_RENDEZVOUS_ADDR = 'HOROVOD_GLOO_RENDEZVOUS_ADDR'
HOROVOD_GLOO_RENDEZVOUS_PORT = 'HOROVOD_GLOO_RENDEZVOUS_PORT'
HOROVOD_GLOO_IFACE = 'HOROVOD_GLOO_IFACE'
HOROVOD_HOSTNAME = 'HOROVOD_HOSTNAME'
HOROVOD_LOCAL_RANK = 'HOROVOD_LOCAL_RANK'

__all__ = ['HostUpdateResult', 'WorkerNotificationManager']

_ABSENT = ('HostsUpdatedRequest', 'WorkerNotificationService', 'WorkerNotificationClient')


def __getattr__(name: str) -> object:
    if name in _ABSENT:
        raise ImportError(f'horovod.runner.elastic.worker.{name} is not offered by Reigen: its '
                          'services exchange pickled objects. A State hears of hosts by its '
                          'on_hosts_updated().')
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
