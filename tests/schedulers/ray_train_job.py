# SPDX-License-Identifier: Apache-2.0
"""Ray Train's trainers on a cluster of one node; what became of each, as a line of JSON in the file
`told`.

usage: ray_train_job.py FOLDER TEMP    TEMP: a short path, as Ray has sockets below it
"""
import json
import os
import signal
import sys
from pathlib import Path

FOLDER, TEMP = map(Path, sys.argv[1:])
os.environ.update(RAY_USAGE_STATS_ENABLED='0', RAY_TMPDIR=str(TEMP), RAY_worker_niceness='0',
                  RAY_TRAIN_HEALTH_CHECK_INTERVAL_S='0.1')

import ray  # noqa: E402
from ray import train  # noqa: E402
from ray.train.torch import TorchConfig, TorchTrainer  # noqa: E402

from horovod.ray.train import DataParallelTrainer, HorovodConfig, HorovodTrainer  # noqa: E402


def line(config):
    """y = 3 x + 1, of which each rank sees its own half; what all have at the end goes to a file of
    the rank's."""
    import torch

    import horovod.torch as hvd

    hvd.init()
    place = train.get_context()
    assert [hvd.rank(), hvd.size(), hvd.local_rank()] == [
        place.get_world_rank(), place.get_world_size(), place.get_local_rank()]
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(1, 1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                         named_parameters=model.named_parameters())
    for _ in range(config['steps']):
        x = torch.randn(16, 1)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), 3 * x + 1).backward()
        optimizer.step()
    total = hvd.allreduce(torch.tensor(1.0 + hvd.rank()), op=hvd.Sum)
    found = [hvd.rank(), total.item(), *(one.item() for one in model.parameters())]
    (FOLDER / f'{config["name"]}-{hvd.rank()}').write_text(json.dumps(found), encoding='utf-8')
    train.report({'total': total.item()})


def dies(config):
    """The first process of rank 1 is killed while the other one waits for it."""
    import numpy as np

    import reigen

    reigen.init()
    marks = FOLDER / config['name']
    marks.mkdir(exist_ok=True)
    (marks / f'{reigen.rank()}-{os.getpid()}').touch()
    if reigen.rank() == 1 and len(list(marks.glob('1-*'))) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    total = reigen.allreduce(np.ones(1), op=reigen.Sum)
    (marks / f'total-{reigen.rank()}').write_text(str(total[0]), encoding='utf-8')


def raises(config):
    import reigen

    reigen.init()
    if reigen.rank() == 1:
        raise KeyError('a bad column')
    reigen.barrier()


def fit(trainer, name, function, failures=0, **others):
    """How it ended: '', or the class and the text of an error."""
    said = ''
    try:
        trainer(function, train_loop_config={'name': name, 'steps': 40}, **others,
                scaling_config=train.ScalingConfig(num_workers=2),
                run_config=train.RunConfig(
                    name=name, storage_path=str(FOLDER / 'runs'),
                    failure_config=train.FailureConfig(max_failures=failures))).fit()
    except Exception as error:
        said = f'{type(error).__name__}: {error}'
    with open(FOLDER / 'told', 'a', encoding='utf-8') as file:
        print(json.dumps({'name': name, 'said': said}), file=file)


def main():
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80 << 20)
    fit(HorovodTrainer, 'trainer', line)
    fit(HorovodTrainer, 'dies', dies)
    fit(DataParallelTrainer, 'again', dies, 1, backend_config=HorovodConfig(timeout_s=60))
    fit(HorovodTrainer, 'raises', raises)
    fit(TorchTrainer, 'torch', line, torch_config=TorchConfig(backend='reigen'))
    fit(TorchTrainer, 'gloo', line)
    ray.shutdown()


if __name__ == '__main__':
    main()
