# SPDX-License-Identifier: Apache-2.0
"""How a rank of an elastic job hears of hosts; the classes live in horovod.common.elastic."""
from horovod.common.elastic import HostUpdateResult, WorkerNotificationManager

HOROVOD_GLOO_RENDEZVOUS_ADDR = 'HOROVOD_GLOO_RENDEZVOUS_ADDR'
HOROVOD_GLOO_RENDEZVOUS_PORT = 'HOROVOD_GLOO_RENDEZVOUS_PORT'
HOROVOD_GLOO_IFACE = 'HOROVOD_GLOO_IFACE'
HOROVOD_HOSTNAME = 'HOROVOD_HOSTNAME'
HOROVOD_LOCAL_RANK = 'HOROVOD_LOCAL_RANK'

__all__ = ['HostUpdateResult', 'WorkerNotificationManager']
