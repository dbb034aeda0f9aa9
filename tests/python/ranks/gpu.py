# SPDX-License-Identifier: Apache-2.0
"""A PyTorch with GPUs, for machines without one: import this before reigen and horovod.

A `Tensor` here is a torch.Tensor whose memory lies in a device of the stand-in driver
(tests/standin), at an address that no host access is possible at: whoever reads or writes it there
has a fault. So has the stand-in what is used after it was freed. Computing is by the CPU, on the
memory's other address:

- copies to the device are put on the current stream, whose work begins after a random moment;
- each operation of torch waits for the current stream first, and for no other one: what is not in
  that stream's order is wrong, as on a GPU;
- memory is given back in the order of the stream that it was allocated on, and of those that it was
  recorded for, as by PyTorch's allocator.

Of torch.cuda there is what reigen/torch/_device.py uses, and streams. Real are the binding and the
runtime: they are told nothing of this file.
"""
import contextlib
import ctypes
import threading

import torch
from torch.utils._pytree import tree_map

_driver = ctypes.CDLL('libcuda.so.1')
_driver.standin_view.restype = ctypes.c_void_p
_driver.standin_view.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class OutOfMemory(RuntimeError):
    pass


def _must(result):
    if result == 2:
        raise OutOfMemory('CUDA out of memory')
    assert result == 0, f'the driver gave {result}'


def _void(value=None):
    return ctypes.c_void_p(value)


@contextlib.contextmanager
def _context(index):
    """The driver's functions are for this device."""
    if index not in _contexts:
        _must(_driver.cuInit(0))
        _contexts[index] = _void()
        _must(_driver.cuDevicePrimaryCtxRetain(ctypes.byref(_contexts[index]), index))
    _must(_driver.cuCtxPushCurrent_v2(_contexts[index]))
    try:
        yield
    finally:
        _must(_driver.cuCtxPopCurrent_v2(ctypes.byref(_void())))


_contexts = {}
#: What copies to a device read, until its stream has been waited for.
_sources = {}
_local = threading.local()
#: Tensors that have been copied to a device.
copies = 0


# ---------------------------------------------------------------------------- streams

class Stream:
    """As torch.cuda.Stream; address 0 is the default stream."""

    def __init__(self, device=None, address=None):
        device = current_device() if device is None else device
        self.index, self.cuda_stream, self.gone = device, address, False
        if address is None:
            made = _void()
            with _context(device):
                _must(_driver.cuStreamCreate(ctypes.byref(made), 1))
            self.cuda_stream = made.value

    def synchronize(self):
        with _context(self.index):
            _must(_driver.cuStreamSynchronize(_void(self.cuda_stream)))
        _sources.pop((self.index, self.cuda_stream), None)

    def idle(self):
        with _context(self.index):
            return _driver.cuStreamQuery(_void(self.cuda_stream)) == 0

    def is_capturing(self):
        status = ctypes.c_int()
        with _context(self.index):
            _driver.cuStreamIsCapturing(_void(self.cuda_stream), ctypes.byref(status))
        return status.value != 0

    def wait_stream(self, other):
        event = _void()
        with _context(self.index):
            _must(_driver.cuEventCreate(ctypes.byref(event), 2))
            _must(_driver.cuEventRecord(event, _void(other.cuda_stream)))
            _must(_driver.cuStreamWaitEvent(_void(self.cuda_stream), event, 0))
            _must(_driver.cuEventDestroy_v2(event))

    def fill(self, tensor, byte):
        """Work that writes to the tensor in this stream's order."""
        with _context(self.index):
            _must(_driver.cuMemsetD8Async(_void(tensor.data_ptr()), byte,
                                          ctypes.c_size_t(tensor.numel() * tensor.element_size()),
                                          _void(self.cuda_stream)))

    @contextlib.contextmanager
    def held(self, limit=60):
        """What is put on the stream inside begins after this; a limit is for who waits for it."""
        go = threading.Event()
        hold = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: go.wait(limit))
        with _context(self.index):
            _must(_driver.standin_put(_void(self.cuda_stream), hold, None))
        try:
            yield
        finally:
            go.set()
            self.synchronize()

    def destroy(self):
        self.gone = True
        with _context(self.index):
            _must(_driver.cuStreamDestroy_v2(_void(self.cuda_stream)))

    def capture(self, begin):
        with _context(self.index):
            _must(_driver.cuStreamBeginCapture_v2(_void(self.cuda_stream), 0) if begin else
                  _driver.cuStreamEndCapture(_void(self.cuda_stream), ctypes.byref(_void())))


def current_stream(device=None):
    index = current_device() if device is None else torch.device('cuda', device).index
    return getattr(_local, 'streams', {}).get(index) or Stream(index, 0)


@contextlib.contextmanager
def stream(one):
    """What this thread does inside goes to this stream."""
    streams = _local.__dict__.setdefault('streams', {})
    before = streams.get(one.index)
    streams[one.index] = one
    try:
        yield
    finally:
        streams[one.index] = before


def current_device():
    return getattr(_local, 'device', _default_device)


_default_device = 0


def set_device(device):
    global _default_device
    _default_device = device if isinstance(device, int) else torch.device(device).index


class CUDAGraph:
    """As torch.cuda.CUDAGraph, which cannot be replayed here."""


@contextlib.contextmanager
def graph(_):
    """What this thread does inside is captured: for a stream of its own."""
    one = Stream(current_device())
    with stream(one):
        one.capture(True)
        try:
            yield
        finally:
            one.capture(False)
    one.destroy()


def is_current_stream_capturing():
    return current_stream().is_capturing()


# ---------------------------------------------------------------------------- memory

class _Memory:
    """What tensors that are views of each other share."""

    def __init__(self, index, nbytes):
        at = _void()
        self.index, self.nbytes = index, nbytes
        with _context(index):
            self.stream = current_stream(index)
            _must(_driver.cuMemAllocAsync(ctypes.byref(at), ctypes.c_size_t(nbytes),
                                          _void(self.stream.cuda_stream)))
        self.at = at.value
        self.view = _driver.standin_view(self.at, nbytes)
        self.recorded = []

    def tensor(self, shape, dtype):
        """It as the CPU sees it."""
        bytes_ = (ctypes.c_uint8 * self.nbytes).from_address(self.view)
        return torch.frombuffer(bytes_, dtype=dtype).view(shape)

    def __del__(self):
        if not hasattr(self, 'recorded'):
            return
        for other in self.recorded:
            self.stream.wait_stream(other)
        if self.stream.gone:
            self.stream = Stream(self.index, 0)
        with _context(self.index):
            _driver.cuMemFreeAsync(_void(self.at), _void(self.stream.cuda_stream))


class Tensor(torch.Tensor):
    """Of a device. PyTorch's C++ takes it for one on the CPU that has no memory of its own."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner, memory, index):
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(),
            dtype=inner.dtype, device='cpu')
        made._inner, made._memory, made._index = inner, memory, index
        return made

    device = property(lambda self: torch.device('cuda', self._index))
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)

    def data_ptr(self):
        return self._memory.at + self._inner.data_ptr() - self._memory.view if self.numel() else 0

    def record_stream(self, other):
        if self._memory is not None:
            self._memory.recorded.append(other)

    def cpu(self):
        current_stream(self._index).synchronize()
        return self._inner.clone()

    def cuda(self, device=None):
        return self

    def to(self, *args, **kwargs):
        device, dtype = _where(args, kwargs), _type(args, kwargs)
        made = self if dtype is None or dtype == self.dtype else self.type(dtype)
        return made.cpu() if device is not None and device.type == 'cpu' else made

    def __deepcopy__(self, memo):
        return to_device(self.cpu(), self._index)

    def to_sparse(self):
        plain = self.cpu().to_sparse().coalesce()
        return Sparse(to_device(plain.indices(), self._index),
                      to_device(plain.values(), self._index), self.shape)

    def tolist(self):
        return self.cpu().tolist()

    def __repr__(self, **_):
        return f'gpu.Tensor({self.cpu()}, device={self.device})'

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        owners, by_inner = [], {}

        def unwrap(value):
            if not isinstance(value, Tensor):
                return torch.device('cpu') if isinstance(value, torch.device) else value
            owners.append(value)
            by_inner[id(value._inner)] = value
            return value._inner

        args, kwargs = tree_map(unwrap, args), tree_map(unwrap, kwargs or {})
        index = owners[0]._index
        assert all(owner._index == index for owner in owners), 'tensors of two devices'
        computes = func._schema.name not in _ALLOCATE
        if computes:
            current_stream(index).synchronize()
        result = func(*args, **kwargs)

        def wrap(value):
            if not isinstance(value, torch.Tensor) or isinstance(value, Tensor):
                return value
            known = by_inner.get(id(value))
            return _wrapped(value, owners, index, computes) if known is None else known

        return tree_map(wrap, result)


#: What only allocates, and puts nothing on a stream.
_ALLOCATE = {'aten::empty_like', 'aten::new_empty'}


def _wrapped(inner, owners, index, filled):
    """A tensor for a result: a view of an operand's memory, or new memory."""
    for owner in owners:
        memory = owner._memory
        if memory is not None and memory.view <= inner.data_ptr() < memory.view + memory.nbytes:
            return Tensor(inner, memory, index)
    if inner.numel() == 0:
        return Tensor(inner, None, index)
    memory = _Memory(index, inner.numel() * inner.element_size())
    own = memory.tensor(inner.shape, inner.dtype)
    if filled:
        own.copy_(inner)
    return Tensor(own, memory, index)


class Sparse:
    """Of a device: what hvd.sparse_allreduce_async takes and makes, as a `Tensor` has rows only."""

    is_sparse, layout = True, torch.sparse_coo

    def __init__(self, indices, values, size):
        self._indices, self._values, self._size = indices, values, torch.Size(size)

    def coalesce(self):
        return self

    def indices(self):
        return self._indices

    def values(self):
        return self._values

    def size(self):
        return self._size

    def to_dense(self):
        plain = torch.sparse_coo_tensor(self._indices.cpu(), self._values.cpu(), self._size)
        return to_device(plain.to_dense(), self._values._index)


def to_device(tensor, index=None):
    """The tensor on the device: the copy is in the current stream's order."""
    index = current_device() if index is None else index
    source = tensor.detach().contiguous().clone()
    if source.numel() == 0:
        return Tensor(source, None, index)
    global copies
    copies += 1
    nbytes = source.numel() * source.element_size()
    memory = _Memory(index, nbytes)
    here = current_stream(index)
    _sources.setdefault((index, here.cuda_stream), []).append(source)
    with _context(index):
        _must(_driver.cuMemcpyAsync(_void(memory.at), _void(source.data_ptr()),
                                    ctypes.c_size_t(nbytes), _void(here.cuda_stream)))
    return Tensor(memory.tensor(source.shape, source.dtype), memory, index)


def model_to_device(module, index=None):
    """A module's parameters and buffers, on the device, in place of those it has."""
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                part._parameters[name] = torch.nn.Parameter(to_device(parameter, index),
                                                            parameter.requires_grad)
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = to_device(buffer, index)
    return module


def alive():
    """Pieces of memory, streams and events that the driver has."""
    return _driver.standin_alive()


# ---------------------------------------------------------------------------- torch

def _where(args, kwargs):
    device = kwargs.get('device') or next(
        (arg for arg in args if isinstance(arg, (str, torch.device))), None)
    return None if device is None else torch.device(device)


def _type(args, kwargs):
    return kwargs.get('dtype') or next((arg for arg in args if isinstance(arg, torch.dtype)), None)


def _on_devices(make):
    """A function that makes tensors, also with device='cuda'."""
    def made(*args, **kwargs):
        device = kwargs.get('device')
        if device is None or torch.device(device).type != 'cuda':
            return make(*args, **kwargs)
        requires_grad = kwargs.pop('requires_grad', False)
        tensor = to_device(make(*args, **{**kwargs, 'device': 'cpu'}), torch.device(device).index)
        return tensor.requires_grad_(requires_grad)
    return made


def _install():
    for name in ('empty', 'zeros', 'ones', 'tensor', 'full', 'arange'):
        setattr(torch, name, _on_devices(getattr(torch, name)))
    plain_sparse, plain_to = torch.sparse_coo_tensor, torch.Tensor.to

    def sparse_coo_tensor(*args, **kwargs):
        on_gpu = any(isinstance(arg, Tensor) for arg in args)
        return Sparse(*args) if on_gpu else plain_sparse(*args, **kwargs)

    torch.sparse_coo_tensor = sparse_coo_tensor

    def to(self, *args, **kwargs):
        device = _where(args, kwargs)
        if device is None or device.type != 'cuda':
            return plain_to(self, *args, **kwargs)
        dtype = _type(args, kwargs)
        return to_device(self if dtype is None else plain_to(self, dtype), device.index)

    torch.Tensor.to = to
    torch.Tensor.cuda = to_device
    for made in (current_stream, current_device, set_device, stream, Stream, CUDAGraph, graph,
                 is_current_stream_capturing):
        setattr(torch.cuda, made.__name__, made)
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: 4
    torch.cuda.synchronize = lambda: current_stream().synchronize()
    module_to = torch.nn.Module.to

    def move(self, *args, **kwargs):
        device = _where(args, kwargs)
        if device is None or device.type != 'cuda':
            return module_to(self, *args, **kwargs)
        return model_to_device(self, device.index)

    if hasattr(torch, 'accelerator'):  # PyTorch 2.6; its optimizers ask this
        torch.accelerator.current_stream = current_stream
    torch.nn.Module.to = move
    torch.nn.Module.cuda = model_to_device
    torch._C._cuda_getCurrentRawStream = lambda index: current_stream(index).cuda_stream


_install()
