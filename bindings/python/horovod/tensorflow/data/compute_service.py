# SPDX-License-Identifier: Apache-2.0
"""tf.data's service: a job of workers prepares the data that another job trains with.

    horovodrun -np 4 python -m horovod.tensorflow.data.compute_worker /shared/service.json

    config = TfDataServiceConfig.read('/shared/service.json', wait_for_file_creation=True)
    dataset = dataset.send_to_data_service(config, hvd.rank(), hvd.size())

TensorFlow's own servers move the data, without any check of who asks; the file and the registry
only tell where they are.
"""
import contextlib
import dataclasses
import json
import os
import time
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

import horovod.tensorflow as hvd
from horovod.runner._call import write_private
from horovod.runner.util.network import get_driver_ip
from horovod.tensorflow.data._registry import ComputeClient

_service = tf.data.experimental.service


@dataclasses.dataclass(frozen=True)
class TfDataServiceConfig:
    """How to reach a data service. dispatcher_side: 'compute' or 'training', the job in which the
    dispatchers run; timeout: seconds in which all must have come."""

    dispatchers: int
    workers_per_dispatcher: int
    dispatcher_side: str
    addresses: Mapping[str, Sequence[Tuple[str, int]]]
    key: bytes
    timeout: int = 60

    def compute_client(self, verbose: int = 1) -> ComputeClient:
        """One who asks the service."""
        return ComputeClient(self.addresses, self.key, verbose=verbose)

    def to_dict(self) -> Dict[str, Any]:
        """What JSON takes; the key in hexadecimal."""
        return {**dataclasses.asdict(self), 'key': self.key.hex()}

    @staticmethod
    def from_dict(config: Mapping[str, Any]) -> 'TfDataServiceConfig':
        """What to_dict() was called for."""
        addresses = {name: [(host, port) for host, port in found]
                     for name, found in config['addresses'].items()}
        return TfDataServiceConfig(**{**config, 'key': bytes.fromhex(config['key']),
                                      'addresses': addresses})

    def write(self, filename: str) -> None:
        """Write it to a file, which is whole from the moment it is there. Only its owner can read
        it: it holds the key."""
        write_private(filename, json.dumps(self.to_dict()).encode())

    @staticmethod
    def read(filename: str, wait_for_file_creation: bool = False) -> 'TfDataServiceConfig':
        """What write() has written, or is going to write."""
        while wait_for_file_creation and not os.path.exists(filename):
            time.sleep(0.5)
        with open(filename) as file:
            return TfDataServiceConfig.from_dict(json.load(file))


def _dispatcher(client: ComputeClient, number: int) -> Any:
    """A new dispatcher, registered by an address that other hosts can reach."""
    server = _service.DispatchServer()
    protocol, _, address = server.target.partition('://')
    client.register_dispatcher(number, f'{protocol}://{get_driver_ip()}:{address.split(":")[-1]}')
    return server


def _stop(server: Any) -> None:
    if server is not None:
        server._stop()  # TensorFlow has no other way
        server.join()


@contextlib.contextmanager
def tf_data_service(compute_config: TfDataServiceConfig, rank: int) -> Iterator[str]:
    """The address of the dispatcher for this rank, for the time of a with block; that dispatcher,
    where they run in the job that trains."""
    client, server = compute_config.compute_client(), None
    several = compute_config.dispatchers > 1
    if compute_config.dispatcher_side == 'training' and (several or rank == 0):
        server = _dispatcher(client, rank)
    number = rank if several else 0
    try:
        address = client.wait_for_dispatcher_registration(number, compute_config.timeout)
        client.wait_for_dispatcher_worker_registration(number, compute_config.timeout)
        yield address
    finally:
        _stop(server)


def send_to_data_service(dataset: tf.data.Dataset, compute_config: TfDataServiceConfig, rank: int,
                         size: Optional[int] = None, processing_mode: str = 'distributed_epoch',
                         reuse_dataset: bool = False, round_robin: bool = False) -> tf.data.Dataset:
    """The dataset as the service's workers prepare it. reuse_dataset: all ranks draw from one pass
    through it, and with round_robin in turns."""
    if compute_config.dispatcher_side == 'training':
        raise RuntimeError('The dispatchers run in this job: use tf_data_service() and '
                           'tf.data.experimental.service.distribute() within it.')
    in_turns = reuse_dataset and round_robin
    with tf_data_service(compute_config, rank) as address:
        return dataset.apply(_service.distribute(
            processing_mode=processing_mode, service=address,
            job_name='job' if reuse_dataset else None, consumer_index=rank if in_turns else None,
            num_consumers=size if in_turns else None))


tf.data.Dataset.send_to_data_service = send_to_data_service


def compute_worker_fn(compute_config: TfDataServiceConfig) -> None:
    """Be a worker (and every n-th rank a dispatcher too) until someone calls shutdown() of the
    client."""
    hvd.init()
    client, server = compute_config.compute_client(), None
    number, place = divmod(hvd.rank(), compute_config.workers_per_dispatcher)
    if compute_config.dispatcher_side == 'compute' and place == 0:
        server = _dispatcher(client, number)
    address = client.wait_for_dispatcher_registration(number, compute_config.timeout)
    worker = _service.WorkerServer(_service.WorkerConfig(
        dispatcher_address=address.partition('://')[2], worker_address=f'{get_driver_ip()}:%port%',
        heartbeat_interval_ms=1000, dispatcher_timeout_ms=compute_config.timeout * 1000))
    worker.start()
    client.register_worker_for_dispatcher(number, hvd.rank())
    client.wait_for_shutdown()
    _stop(worker)
    _stop(server)
