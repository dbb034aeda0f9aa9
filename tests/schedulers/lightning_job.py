# SPDX-License-Identifier: Apache-2.0
"""LightningEstimator; what became of it, as JSON.

usage: lightning_job.py FOLDER modern|spark
"""
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import estimator_job
import pyarrow as pa
import pytorch_lightning as pl
import torch
from pyarrow import parquet
from pyspark.sql import SparkSession
from pytorch_lightning.callbacks import Callback, EarlyStopping, ModelCheckpoint
from torch import nn

from horovod.spark.common.backend import LocalBackend
from horovod.spark.common.store import Store
from horovod.spark.lightning import (LightningEstimator, LightningModel, TorchEstimator,
                                     hooks)


def modules():
    """(a module, a class of data modules, a callback), whose classes travel, since they are made in
    a function."""
    class Net(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(784, 32), nn.BatchNorm1d(32), nn.ReLU(),
                                      nn.Linear(32, 10))

        def forward(self, pixels):
            return self.body(pixels)

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.8)]

        def training_step(self, batch, number):
            loss = nn.functional.cross_entropy(self(batch['pixels']), batch['digit'])
            self.log('rate', self.trainer.optimizers[0].param_groups[0]['lr'])
            self.log('train_loss', loss, on_step=False, on_epoch=True)
            self.log('epochs', float(self.current_epoch))
            return loss

        def validation_step(self, batch, number):
            outputs = self(batch['pixels'])
            loss = nn.functional.cross_entropy(outputs, batch['digit'])
            self.log('val_loss', loss, sync_dist=True)
            self.log('right', (outputs.argmax(1) == batch['digit']).float().mean())
            return {'rows': len(outputs)}

        def validation_epoch_end(self, outputs):  # of Lightning 1
            self.log('rows', float(sum(one['rows'] for one in outputs)))

    class Rows(pl.LightningDataModule):
        """Reads the rows itself."""

        def __init__(self, train_dir, cur_shard, shard_count, train_batch_size):
            super().__init__()
            from pyarrow import parquet
            self.told = parquet.read_table(train_dir[len('file://'):]).to_pylist()[:64]
            self.mine = self.told[cur_shard::shard_count]
            self.size = train_batch_size

        def train_dataloader(self):
            rows = [{'pixels': torch.zeros(784), 'digit': one['digit']} for one in self.mine]
            return torch.utils.data.DataLoader(rows, batch_size=self.size)

    class Watch(Callback):
        """Compares what the ranks have, and counts by a hook of Lightning 1."""

        def __init__(self):
            self.ends = 0

        def on_epoch_end(self, trainer, module):
            self.ends += 1

        def on_train_epoch_end(self, trainer, module):
            import horovod.torch as hvd
            mine = torch.cat([one.detach().flatten() for one in module.state_dict().values()])
            every = hvd.allgather(mine[None])
            module.log('apart', float((every - every[:1]).abs().max()))
            module.log('ends', float(self.ends))
    return Net, Rows, Watch


def modern(folder):
    """A LightningModule, as most have it, on two ranks that reigen.run() starts, from Parquet that
    lies there; then it goes on. The last 300 rows are to validate with."""
    Net, _, Watch = modules()
    images, labels = estimator_job.digits()
    for name, part in [('train', slice(0, -300)), ('val', slice(-300, None))]:
        there = folder / f'store/intermediate_{name}_data'
        there.mkdir(parents=True)
        parquet.write_table(pa.table({'pixels': list(images[part].astype('float32')),
                                      'digit': pa.array(labels[part].astype('int32'))}),
                            there / 'part.parquet', row_group_size=300)
    torch.manual_seed(1)
    model = Net()
    before = model.body[0].weight.clone()
    estimator = LightningEstimator(
        backend=LocalBackend(2), store=Store.create(str(folder / 'store')), model=model,
        callbacks=[Watch(), ModelCheckpoint(monitor='val_loss')], run_id='lightning', epochs=2,
        feature_cols=['pixels'], label_cols=['digit'], validation='last', batch_size=16,
        random_seed=5, terminate_on_nan=True, verbose=0,
        trainer_args={'accumulate_grad_batches': 2, 'gradient_clip_val': 5.,
                      'sync_batchnorm': True})
    first = estimator.fit_on_parquet()
    second = estimator.setEpochs(3).fit_on_parquet()  # goes on
    with torch.no_grad():
        found = second.getModel()(torch.tensor(images[-300:], dtype=torch.float32)).argmax(1)
    return {'first': first.getHistory(), 'history': second.getHistory(),
            'right': float((found.numpy() == labels[-300:]).mean()),
            'untouched': bool((model.body[0].weight == before).all()),
            'run': sorted(os.listdir(folder / 'store/runs/lightning')),
            'related': estimator_job.related(estimator, second, 'lightning'),
            'logs': sorted(os.listdir(folder / 'store/runs/lightning/logs')),
            'errors': errors(estimator, Net)}


def errors(estimator, Net):
    def wrong(**told):
        return estimator_job.error_of(
            lambda: estimator.copy().setParams(**told).fit_on_parquet())
    return {'optimizer': wrong(optimizer=torch.optim.SGD(Net().parameters(), lr=1)),
            'untrainable': wrong(model=nn.Linear(784, 10)),
            'strategy': wrong(trainer_args={'strategy': 'ddp'}),
            'argument': wrong(trainer_args={'gpus': 1}),
            'minibatch': wrong(train_minibatch_fn=print), 'gpus': wrong(num_gpus=2),
            'nan': estimator_job.error_of(lambda: not_finite(Net()))}


def legacy(rows, folder):
    """A module of PyTorch; no run is kept."""
    def right(output, label):
        return (output.argmax(1) == label).float().mean()
    model = nn.Linear(784, 10)
    store = Store.create(str(folder / 'bare'), save_runs=False)
    trained = TorchEstimator(
        num_proc=2, store=store, model=model, loss=nn.CrossEntropyLoss(),
        optimizer=torch.optim.Adam(model.parameters(), lr=0.002), metrics=[right], epochs=2,
        input_shapes=[[-1, 784]], feature_cols=['pixels'], label_cols=['digit'], validation=0.25,
        sample_weight_col='weight', batch_size=8, train_steps_per_epoch=20,
        validation_steps_per_epoch=2, verbose=0, random_seed=1, inmemory_cache_all=True,
        ).fit(rows.where('number < 240').drop('last'))
    return {'history': trained.getHistory(), 'kept': os.listdir(folder / 'bare/runs'),
            'moved': not trained.getModel().weight.equal(model.weight)}


def not_finite(net):
    with torch.no_grad():
        net.body[0].weight[0, 0] = float('nan')
    hooks.made(pl, hooks.TerminateOnNan).on_train_batch_end(
        SimpleNamespace(global_step=3), net, {'loss': torch.tensor(1.)}, None, 0)


def on_spark(folder):
    """A plain module of PyTorch, and a data module with a callback that stops."""
    session = SparkSession.builder.master('local[2]').config('spark.ui.enabled', 'false').config(
        'spark.driver.host', '127.0.0.1').config('spark.local.dir', str(folder)).getOrCreate()
    rows = estimator_job.frame(session)
    Net, Rows, _ = modules()
    stopped = LightningEstimator(
        num_proc=2, store=Store.create(str(folder / 'store')), model=Net(), epochs=9,
        feature_cols=['pixels'], label_cols=['digit'], batch_size=8, partitions_per_process=2,
        verbose=0, run_id='stopped', data_module=Rows, profiler=pl.profilers.SimpleProfiler(),
        callbacks=[EarlyStopping('epochs', patience=1)],
        ).fit(rows.where('number < 240').select('pixels', 'digit'))
    stopped.write().save(str(folder / 'saved'))
    loaded = LightningModel.load(str(folder / 'saved'))
    found = {'legacy': legacy(rows, folder), 'stopped': stopped.getHistory(),
             'output': len(loaded.transform(rows.limit(2)).first()['digit__output']),
             'profile': [name.split('-')[:2]
                         for name in os.listdir(folder / 'store/runs/stopped/logs')]}
    session.stop()
    return found


if __name__ == '__main__':
    print(json.dumps({'modern': modern, 'spark': on_spark}[sys.argv[2]](Path(sys.argv[1]))))
