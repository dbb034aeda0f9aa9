# SPDX-License-Identifier: Apache-2.0
"""Training with CUDA tensors gives what training on the CPU gives. Argument: see
cuda_operations.py."""
import sys
import threading

import gpu
import torch

import checks
import horovod.torch as hvd


def model(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 300, dtype=torch.float64), torch.nn.Tanh(),
                               torch.nn.Linear(300, 250, dtype=torch.float64), torch.nn.Tanh(),
                               torch.nn.Linear(250, 2, dtype=torch.float64))


def batches(count, device):
    generator = torch.Generator().manual_seed(100 + hvd.rank())
    made = [torch.randn(4, 6, dtype=torch.float64, generator=generator) for _ in range(count)]
    return [batch.cuda() if device == 'cuda' else batch for batch in made]


def trained(device, steps=3, sgd=None, passes=1, **options):
    """The parameters, in the host's memory, after some steps."""
    net = model()
    if device == 'cuda':
        gpu.model_to_device(net)
    optimizer = (sgd or (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)))(net.parameters())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters(),
                                         backward_passes_per_step=passes, **options)
    data = batches(steps * passes, device)
    for step in range(steps):
        optimizer.zero_grad()
        for turn in range(passes):
            net(data[step * passes + turn]).square().mean().backward()
        optimizer.step()
    return [p.detach().cpu() for p in net.parameters()]


def equal(**options):
    for here, there in zip(trained('cuda', **options), trained('cpu', **options)):
        torch.testing.assert_close(here, there, rtol=1e-6, atol=1e-6)


def check_training_is_as_on_the_cpu():
    equal()


def check_training_with_each_option():
    equal(passes=2)
    equal(op=hvd.Sum)
    equal(gradient_predivide_factor=2.0, groups=2)
    equal(op=hvd.Adasum)
    equal(sgd=lambda p: torch.optim.Adam(p, 0.01))


def check_training_with_compression():
    for here, there in zip(trained('cuda', compression=hvd.Compression.fp16),
                           trained('cpu', compression=hvd.Compression.fp16)):
        torch.testing.assert_close(here, there, rtol=1e-2, atol=1e-3)


def check_training_on_a_stream_of_one_s_own():
    plain = trained('cpu')
    stream = gpu.Stream(gpu.current_device())
    with gpu.stream(stream):
        for here, there in zip(trained('cuda'), plain):
            torch.testing.assert_close(here, there, rtol=1e-6, atol=1e-6)


def check_backward_in_another_thread_with_another_stream():
    """As autograd's threads: gradients are sent there, and waited for here."""
    net = gpu.model_to_device(model())
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1),
                                         named_parameters=net.named_parameters())
    plain = model()
    reference = hvd.DistributedOptimizer(torch.optim.SGD(plain.parameters(), 0.1),
                                         named_parameters=plain.named_parameters())
    stream = gpu.Stream(gpu.current_device())

    def backward():
        gpu.current_stream(gpu.current_device())
        with gpu.stream(stream):
            net(data.cuda()).square().mean().backward()

    for data in batches(3, 'cpu'):
        for one in (optimizer, reference):
            one.zero_grad()
        gpu.current_stream().synchronize()
        thread = threading.Thread(target=backward)
        thread.start()
        thread.join()
        optimizer.step()
        gpu.current_stream().synchronize()
        plain(data).square().mean().backward()
        reference.step()
    for here, there in zip(net.parameters(), plain.parameters()):
        torch.testing.assert_close(here.detach().cpu(), there.detach(), rtol=1e-6, atol=1e-6)


def check_gradients_of_several_streams_in_one_bucket():
    one = torch.nn.Parameter(torch.ones(50).cuda())
    other = torch.nn.Parameter(torch.ones(50).cuda())
    gpu.current_stream().synchronize()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([one, other], 1.0),
                                         named_parameters=[('one', one), ('other', other)])
    first, second = (gpu.Stream(gpu.current_device()) for _ in range(2))
    for _ in range(3):
        optimizer.zero_grad()
        with gpu.stream(first):
            one.sum().backward()
            for byte in (7, 6, 5, 4, 3, 2, 1, 0) * 20:
                first.fill(one.grad, byte)
        with gpu.stream(second):
            other.sum().backward()
            optimizer.synchronize()
            assert not one.grad.cpu().any() and (other.grad.cpu() == 1).all()
        second.synchronize()
        with optimizer.skip_synchronize():
            optimizer.step()


def check_parameters_on_the_gpu_and_on_the_cpu():
    here = torch.nn.Parameter(torch.full((5,), float(hvd.rank())).cuda())
    there = torch.nn.Parameter(torch.full((5,), float(hvd.rank())))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([here, there], 1.0),
                                         named_parameters=[('here', here), ('there', there)])
    (here * (hvd.rank() + 1)).sum().backward()
    (there * (hvd.rank() + 1)).sum().backward()
    optimizer.step()
    mean = (hvd.size() + 1) / 2
    for param in (here, there):
        torch.testing.assert_close(param.detach().cpu(), torch.full((5,), hvd.rank() - mean))


def check_broadcast_of_parameters_and_of_optimizer_state():
    net = gpu.model_to_device(model(hvd.rank()))
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    for here, there in zip(net.parameters(), model(0).parameters()):
        assert here.is_cuda and torch.equal(here.detach().cpu(), there.detach())
    optimizer = torch.optim.SGD(net.parameters(), 0.1 * (hvd.rank() + 1), momentum=0.9)
    if hvd.rank() == 0:
        net(batches(1, 'cuda')[0]).square().mean().backward()
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert optimizer.param_groups[0]['lr'] == 0.1
    momenta = [optimizer.state[p]['momentum_buffer'] for p in net.parameters()]
    for momentum in momenta:
        assert momentum.is_cuda
        digest = hvd.allgather(momentum.reshape(1, -1), name='momentum').cpu()
        assert (digest == digest[0]).all() and digest.abs().sum() > 0


def check_gradients_flow_through_operations():
    for device in ('cpu', 'cuda'):
        def leaf():
            tensor = torch.arange(2.0 * hvd.size()) + hvd.rank()
            return (tensor.cuda() if device == 'cuda' else tensor).requires_grad_()

        found = []
        splits = torch.full((hvd.size(),), 2, dtype=torch.int32)
        for call in (lambda t: hvd.allreduce(t, name='g'),
                     lambda t: sum(hvd.grouped_allreduce([t, t * 2], name='g')),
                     lambda t: hvd.allgather(t, name='g'),
                     lambda t: hvd.broadcast(t, 0, name='g'),
                     lambda t: hvd.alltoall(t, splits, name='g')[0],
                     lambda t: hvd.reducescatter(t, name='g', op=hvd.Sum)):
            tensor = leaf()
            (call(tensor) * 3).sum().backward()
            found.append(tensor.grad.cpu() if device == 'cuda' else tensor.grad)
        if device == 'cpu':
            expected = found
    for here, there in zip(found, expected):
        torch.testing.assert_close(here, there)


def check_batch_normalisation_over_all_ranks():
    results = []
    for device in ('cpu', 'cuda'):
        torch.manual_seed(1)
        layer = hvd.SyncBatchNorm(3)
        data = torch.randn(5 + hvd.rank(), 3, 4)
        if device == 'cuda':
            gpu.model_to_device(layer)
            data = data.cuda()
        data = data.requires_grad_()
        (layer(data) ** 3).sum().backward()
        results.append([t.detach().to('cpu') for t in (data.grad, layer.weight.grad,
                                                       layer.running_mean, layer.running_var)])
    for here, there in zip(*results):
        torch.testing.assert_close(here, there, rtol=1e-4, atol=1e-4)


if __name__ == '__main__':
    hvd.init()
    gpu.set_device(hvd.rank() % 4 if sys.argv[1] == 'own' else 0)
    checks.run(sys.modules[__name__], *sys.argv[2:])
    hvd.shutdown()
