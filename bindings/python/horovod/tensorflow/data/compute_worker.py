# SPDX-License-Identifier: Apache-2.0
"""The program of the job that prepares data: see compute_service.py."""
import argparse

import horovod.tensorflow as hvd
from horovod.runner.common.util import secret
from horovod.tensorflow.data._registry import ComputeService
from horovod.tensorflow.data.compute_service import TfDataServiceConfig, compute_worker_fn


def main(dispatchers: int, dispatcher_side: str, configfile: str, timeout: int) -> None:
    """Write the file, and serve until someone calls shutdown() of the client."""
    hvd.init()
    if hvd.size() % dispatchers:
        raise ValueError(f'Each of the {dispatchers} dispatchers needs as many workers as the '
                         f'others, which {hvd.size()} processes cannot give.')
    service = config = None
    try:
        if hvd.rank() == 0:
            key = secret.make_secret_key()
            service = ComputeService(dispatchers, hvd.size() // dispatchers, key)
            config = TfDataServiceConfig(dispatchers, hvd.size() // dispatchers, dispatcher_side,
                                         service.addresses(), key, timeout)
            config.write(configfile)
        compute_worker_fn(hvd.broadcast_object(config, name='TfDataServiceConfig'))
    finally:
        if service is not None:
            service.shutdown()


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('configfile', help='where to write how the service is reached')
    parser.add_argument('--dispatchers', type=int, default=1,
                        help='how many dispatchers; each has as many workers (default: 1)')
    parser.add_argument('--dispatcher-side', default='compute', choices=['compute', 'training'],
                        help='the job in which they run (default: this one, compute)')
    parser.add_argument('--timeout', type=int, default=60,
                        help='seconds in which all must have come (default: 60)')
    given = parser.parse_args()
    main(given.dispatchers, given.dispatcher_side, given.configfile, given.timeout)
