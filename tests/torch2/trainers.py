# SPDX-License-Identifier: Apache-2.0
"""Frameworks that train for their users, over the backend "reigen", on 2 ranks. Their models and
data are made here.

usage: trainers.py accelerate|transformers|lightning DIRECTORY
"""
import os
import sys

import torch
import torch.distributed as dist


class Points(torch.utils.data.Dataset):
    """What transformers' Trainer makes batches of."""

    def __len__(self):
        return 16

    def __getitem__(self, index):
        return {'points': torch.full((8,), float(index)), 'labels': torch.tensor([1.0])}


class Line(torch.nn.Module):
    """What it trains."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, points, labels):
        return {'loss': (self.layer(points) - labels).square().mean()}


def accelerate(directory):
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
    layer = torch.nn.Linear(8, 1)
    model, optimizer, loader = accelerator.prepare(
        layer, torch.optim.SGD(layer.parameters(), lr=0.1),
        torch.utils.data.DataLoader(torch.rand(16, 8), batch_size=4))
    for batch in loader:
        accelerator.backward(model(batch).square().mean())
        optimizer.step()
        optimizer.zero_grad()
    return accelerator.unwrap_model(model)


def transformers(directory):
    from transformers import Trainer, TrainingArguments
    model = Line()
    arguments = TrainingArguments(output_dir=directory, use_cpu=True, max_steps=3, report_to=[],
                                  per_device_train_batch_size=2, save_strategy='no',
                                  disable_tqdm=True)
    trainer = Trainer(model=model, args=arguments, train_dataset=Points())
    trainer.train()
    assert arguments.world_size == 2 and trainer.state.global_step == 3
    return model


def lightning(directory):
    import lightning
    from lightning.pytorch.strategies import DDPStrategy

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def training_step(self, batch, index):
            return self.layer(batch).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    module = Module()
    trainer = lightning.Trainer(
        accelerator='cpu', devices=2, strategy=DDPStrategy(process_group_backend='reigen'),
        max_steps=3, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=directory)
    trainer.fit(module, torch.utils.data.DataLoader(torch.rand(16, 8), batch_size=2))
    assert trainer.world_size == 2 and trainer.global_step == 3
    return module


name, where = sys.argv[1:]
if name != 'lightning':
    dist.init_process_group('reigen')
torch.manual_seed(os.getpid())  # DDP makes the ranks' parameters equal
train = {'accelerate': accelerate, 'transformers': transformers, 'lightning': lightning}[name]
trained = train(where)
assert dist.get_backend() == 'reigen', dist.get_backend()
mine = torch.cat([parameter.detach().flatten() for parameter in trained.parameters()])
both = [torch.empty_like(mine) for _ in range(2)]
dist.all_gather(both, mine)
assert torch.equal(*both)
if dist.get_rank() == 0:
    print(f'{name} trained the same on both ranks')
dist.destroy_process_group()
