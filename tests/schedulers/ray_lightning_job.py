# SPDX-License-Identifier: Apache-2.0
"""ray-lightning's Horovod strategy, which calls RayExecutor, trains on two workers of Ray's; a
function that names cudnn, as many do, is sent.

usage: ray_lightning_job.py FOLDER TEMP    TEMP: a short path, as Ray has sockets below it
"""
import os
import sys

FOLDER, TEMP = sys.argv[1:]
# Its driver asks Ray for results without a pause, and takes a core; Ray would have workers wait.
os.environ.update(RAY_USAGE_STATS_ENABLED='0', RAY_TMPDIR=TEMP, RAY_worker_niceness='0')

import pytorch_lightning  # noqa: E402
import ray  # noqa: E402
import torch  # noqa: E402
from ray_lightning import HorovodRayStrategy  # noqa: E402

from horovod.ray import RayExecutor  # noqa: E402


class Line(pytorch_lightning.LightningModule):
    """y = 3 x + 1; what both ranks have at the end is logged."""

    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(1, 1)

    def training_step(self, batch, index):
        x, y = batch
        return torch.nn.functional.mse_loss(self.line(x), y)

    def on_train_start(self):
        import horovod.torch as hvd
        self.log_ranks = hvd.allgather_object(hvd.rank())

    def on_train_end(self):
        import horovod.torch as hvd
        mine = [parameter.tolist() for parameter in self.parameters()]
        with open(f'{FOLDER}/rank{hvd.rank()}', 'w', encoding='utf-8') as file:
            print(self.log_ranks, len(self.trainer.train_dataloader), mine, file=file)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def train_dataloader(self):
        torch.manual_seed(7)
        x = torch.randn(64, 1)
        return torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(x, 3 * x + 1), batch_size=8)


def tunes():
    """cudnn is a module of a class of its own."""
    torch.backends.cudnn.benchmark = True
    return torch.backends.cudnn.benchmark


def sends_a_function_that_names_cudnn():
    executor = RayExecutor(RayExecutor.create_settings(), num_workers=1)
    executor.start()
    assert executor.run(tunes) == [True]
    executor.shutdown()


if __name__ == '__main__':
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80 << 20)
    sends_a_function_that_names_cudnn()
    model = Line()
    trainer = pytorch_lightning.Trainer(
        max_epochs=10, strategy=HorovodRayStrategy(num_workers=2), default_root_dir=FOLDER,
        enable_progress_bar=False, logger=False)
    trainer.fit(model)
    ray.shutdown()
    print('here', [parameter.tolist() for parameter in model.parameters()])
