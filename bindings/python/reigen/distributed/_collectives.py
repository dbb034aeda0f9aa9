# SPDX-License-Identifier: Apache-2.0
"""c10d's operations on tensors, in terms of the runtime's.

Small operations that are waited for at once run in the caller's thread, as persistent requests.
The runtime's shortest way is an allreduce; so a small allgather is one too, of bytes: each rank
adds its part to zeros, which is exact. Larger ones move their parts once, straight to their places.
"""
import ctypes
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch.autograd import profiler

from reigen import _types
from reigen.distributed import _engine, _events, _p2p, _sparse
from reigen.distributed._engine import (ALLGATHER, ALLREDUCE, AVERAGE, BROADCAST, MAX, MIN, PRODUCT,
                                        REDUCESCATTER, SUM, UINT8, Engine)
from reigen.distributed._events import told
from reigen.distributed._stream import OnStream
from reigen.distributed._work import DONE, Done, Many, Pending, failure, write
from reigen.torch import _device, _tensor
from reigen.torch._device import HOST
from reigen.torch._tensor import CODES

#: An allgather or reducescatter of at most so many bytes in all is a small one.
SMALL = 32768
#: The tag of monitored_barrier's messages; users' are not negative.
_ROLL_CALL = -71

#: By c10d's RedOpType: enum reigen_op.
_REDUCTIONS = {0: SUM, 1: AVERAGE, 2: PRODUCT, 3: MIN, 4: MAX}
_BITWISE = {5: torch.bitwise_and, 6: torch.bitwise_or, 7: torch.bitwise_xor}
_PREMUL_SUM = 8
#: What is the same for a complex number and for its parts.
_LINEAR = (0, 1, _PREMUL_SUM)
_NAMES = ('SUM', 'AVG', 'PRODUCT', 'MIN', 'MAX', 'BAND', 'BOR', 'BXOR', 'PREMUL_SUM')
_PLAIN_SUM = (SUM, 1.0)
#: By c10d's RedOpType: what an operation is known by.
_HOW = {number: (op, 1.0) for number, op in _REDUCTIONS.items()}

Tensors = Sequence[torch.Tensor]


def _first(args: List[Any]) -> Any:
    """For profilers: the tensors that a method is given to read."""
    return args[:1]


def _second(args: List[Any]) -> Any:
    return args[1:2]


def _allreduce_name(tensors: Any) -> str:
    tensor = tensors[0] if isinstance(tensors, (list, tuple)) else tensors
    dense = getattr(tensor, 'layout', torch.strided) is torch.strided
    return 'all_reduce' if dense else 'sparse_all_reduce'


def _refuse(tensor: Any) -> Exception:
    if not isinstance(tensor, torch.Tensor):
        return TypeError(f'A tensor is required, not {type(tensor).__name__}.')
    if tensor.layout is not torch.strided:
        return ValueError(f'The backend "reigen" carries dense tensors, not {tensor.layout}.')
    return ValueError(f'A tensor on {tensor.device} was given, and the backend "reigen" carries '
                      'those on the CPU and on CUDA devices: move it with tensor.cpu() first.')


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with its elements in a row, as numbers of the runtime or of their parts."""
    if (not isinstance(tensor, torch.Tensor) or not (tensor.is_cpu or tensor.is_cuda)
            or tensor.layout is not torch.strided):
        raise _refuse(tensor)
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def _staged(tensor: torch.Tensor) -> torch.Tensor:
    """As _dense(), in the host's memory: messages go through it."""
    dense = _dense(tensor)
    return dense if dense.is_cpu else dense.cpu()


def _one(tensors: Tensors) -> torch.Tensor:
    if len(tensors) != 1:
        raise ValueError(f'{len(tensors)} tensors were given; give one.')
    return tensors[0]


def _code(tensor: torch.Tensor) -> Tuple[int, int]:
    """(enum reigen_dtype, elements) for moving: what the runtime has no type for goes as bytes."""
    code = CODES.get(tensor.dtype)
    if code is None:
        return UINT8, tensor.numel() * tensor.element_size()
    return code, tensor.numel()


def _number_code(tensor: torch.Tensor) -> int:
    code = CODES.get(tensor.dtype)
    if code is None:
        raise ValueError(f'The backend "reigen" cannot reduce {tensor.dtype}.')
    return code


#: By operation and element type: the number of what stands for both.
_disguises: Dict[Any, int] = {}


def _part_of(operation: str, dtype: Any = torch.uint8, as_bytes: bool = False) -> int:
    """The element type for an allreduce by which another operation is carried out, so that the
    error names that operation where a rank does something else."""
    code = _disguises.get((operation, dtype))
    if code is None:
        size = torch.empty(0, dtype=dtype).element_size()
        name = '' if operation == 'BARRIER' else _tensor.name_of(dtype)
        code = _disguises[operation, dtype] = _types.add(
            f'{operation}(){name}', size, UINT8 if as_bytes else CODES[dtype])
    return code


def _row(tensor: torch.Tensor) -> int:
    """Elements of one entry of the first dimension."""
    return tensor.numel() // tensor.shape[0] if tensor.dim() and tensor.shape[0] else 1


class Collectives:
    """Of one group. The methods are c10d's; roots and peers are places in the group.

    Users set _engine, _place and _me (this rank's place) before they use it.
    """

    _engine: Engine
    _place: Any
    _me: int
    _aborted = False
    #: By torch.distributed's functions, without PyTorch's dispatcher in between.
    CALLED_DIRECTLY = False
    #: Works since the group began to coalesce.
    _coalesced: Optional[List[Any]] = None

    # ------------------------------------------------------------------ parts of the others

    def _flight(self, handles: Sequence[int], keep: Any, outputs: Any, opts: Any,
                finish: Optional[Callable[[Sequence[int]], None]] = None,
                index: int = HOST) -> Any:
        if index == HOST:
            work = self._note(Pending(handles, keep, outputs, self._engine, finish))
        else:
            work = self._note(OnStream(handles, keep, outputs, self._engine, finish, index))
        if opts is not None and not opts.asyncOp:
            work.wait()
        return work

    def _note(self, work: Any) -> Any:
        """Works of a group that coalesces are what its end waits for."""
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _alive(self) -> Engine:
        if self._aborted:
            raise failure('This process group has been aborted or destroyed.')
        return self._engine

    def _reduction(self, opts: Any, tensor: torch.Tensor) -> Tuple[Any, Any]:
        """((enum reigen_op, prescale), None), or (None, a function of two tensors)."""
        op = opts.reduceOp if opts is not None else 0
        number = hash(op)
        if tensor.is_complex() and number not in _LINEAR:
            raise ValueError(f'The backend "reigen" reduces {tensor.dtype} by SUM, AVG and '
                             f'PREMUL_SUM, not by {op}.')
        if number in _REDUCTIONS:
            return _HOW[number], None
        if number in _BITWISE:
            return None, _BITWISE[number]
        if number == _PREMUL_SUM:
            factor = op.__getstate__()[1]
            return (SUM, float(factor)), None
        raise ValueError(f'The backend "reigen" does not know the reduction {op}.')

    def _bitwise(self, tensor: torch.Tensor, function: Any, outputs: Any, opts: Any,
                 finish: Callable[[torch.Tensor], None]) -> Any:
        """All ranks' bits to finish: gathered, as the runtime has no such reduction. tensor: dense.
        """
        if tensor.is_floating_point():
            raise ValueError('BAND, BOR and BXOR are for integers and bool.')
        rows = tensor.new_empty((self._engine.size, *tensor.shape))

        def reduce(handles):
            result = rows[0]
            for row in rows[1:]:
                result = function(result, row)
            finish(result)
        return self._gather_to(rows, tensor, outputs, opts, reduce)

    # ------------------------------------------------------------------ reductions

    def allreduce(self, tensors: Tensors, opts: Any = None) -> Any:
        if profiler._is_profiler_enabled and _events.wanted():
            return _events.call(self, Collectives.allreduce, (tensors, opts), {},
                                _allreduce_name(tensors), 'allreduce_', [tensors])
        if tensors.__class__ is not list and not isinstance(tensors, (list, tuple)):
            tensors = [tensors]
        tensor = tensors[0]
        number = 0 if opts is None else hash(opts.reduceOp)
        code = CODES.get(tensor.dtype)
        if (number > 4 or code is None or len(tensors) != 1 or self._aborted
                or not tensor.is_cpu or not tensor.is_contiguous() or tensor.is_neg()):
            return self._allreduce_slowly(tensors, opts)
        address = tensor.data_ptr()
        how = _HOW[number]
        if opts is not None and not opts.asyncOp:
            self._engine.run(ALLREDUCE, code, tensor.numel(), how, address, address, tensors)
            return DONE
        handle = self._engine.start(ALLREDUCE, code, tensor.numel(), how, address, address)
        return self._note(Pending((handle,), tensors, tensors, self._engine))

    def _allreduce_slowly(self, tensors: Tensors, opts: Any) -> Any:
        engine, tensor = self._alive(), _one(tensors)
        if isinstance(tensor, torch.Tensor) and tensor.layout is torch.sparse_coo:
            return self.allreduce_sparse(tensors, opts)
        dense = _dense(tensor)
        how, function = self._reduction(opts, tensor)
        if function is not None:
            return self._bitwise(dense, function, list(tensors), opts,
                                 lambda bits: write(tensor, bits))
        address = dense.data_ptr()
        index = _device.of(dense)
        handle = engine.start(ALLREDUCE, _number_code(dense), dense.numel(), how, address, address,
                              index)

        def finish(handles):
            if dense.data_ptr() != tensor.data_ptr():
                write(tensor, dense)
        return self._flight((handle,), (tensor, dense), list(tensors), opts, finish, index)

    @told('all_reduce', 'allreduce_coalesced_', _first)
    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Any:
        alone = _Asynchronous(opts)
        work = Many([self.allreduce([tensor], alone) for tensor in tensors], list(tensors))
        if opts is not None and not opts.asyncOp:
            work.wait()
        return work

    @told('sparse_all_reduce', 'allreduce_', _first)
    def allreduce_sparse(self, tensors: Tensors, opts: Any = None) -> Any:
        self._alive()
        tensor, number = _one(tensors), 0 if opts is None else hash(opts.reduceOp)
        if tensor.layout is not torch.sparse_coo:
            raise _refuse(tensor)
        if not tensor.is_cpu:
            raise ValueError('The backend "reigen" carries sparse tensors on the CPU only: '
                             'to_dense() before it.')
        if number > 1:
            raise ValueError('Sparse tensors are reduced by SUM or AVG alone.')
        if number == 1 and not (tensor.is_floating_point() or tensor.is_complex()):
            raise ValueError('AVG of sparse tensors is for floating-point numbers.')
        _sparse.allreduce(self, tensor, average=number == 1)
        return Done([tensor])

    @told('reduce', 'reduce_', _first)
    def reduce(self, tensors: Tensors, opts: Any = None) -> Any:
        engine, tensor = self._alive(), _one(tensors)
        dense = _dense(tensor)
        root = opts.rootRank if opts is not None else 0
        how, function = self._reduction(opts, tensor)
        if function is not None:
            return self._bitwise(
                dense, function, list(tensors), opts,
                lambda bits: write(tensor, bits) if root == self._me else None)
        # The others keep what they have.
        result = dense if root == self._me else torch.empty_like(dense)
        index = _device.of(dense)
        _number_code(dense)  # ValueError where there is none
        handle = engine.start(ALLREDUCE, _part_of('REDUCE', dense.dtype), dense.numel(), how,
                              dense.data_ptr(), result.data_ptr(), index)

        def finish(handles):
            if root == self._me and dense.data_ptr() != tensor.data_ptr():
                write(tensor, dense)
        return self._flight((handle,), (tensor, dense, result), list(tensors), opts, finish,
                            index)

    # ------------------------------------------------------------------ broadcast

    def broadcast(self, tensors: Tensors, opts: Any = None) -> Any:
        if profiler._is_profiler_enabled and _events.wanted():
            return _events.call(self, Collectives.broadcast, (tensors, opts), {}, 'broadcast',
                                'broadcast_', [tensors])
        if not isinstance(tensors, (list, tuple)):
            tensors = [tensors]
        engine, tensor = self._alive(), _one(tensors)
        root = opts.rootRank if opts is not None else 0
        dense = _dense(tensor)
        code, count = _code(dense)
        address = dense.data_ptr()
        copied, index = address != tensor.data_ptr(), _device.of(dense)
        if opts is not None and not opts.asyncOp and not copied and index == HOST:
            engine.run(BROADCAST, code, count, root, address, address, tensors)
            return DONE
        handle = engine.start(BROADCAST, code, count, root, address, address, index)

        def finish(handles):
            if copied and root != self._me:
                write(tensor, dense)
        return self._flight((handle,), (tensor, dense), list(tensors), opts, finish, index)

    # ------------------------------------------------------------------ allgather

    def _gather_small(self, rows: torch.Tensor, source: torch.Tensor, nbytes: int, outputs: Any,
                      opts: Any, finish: Any, keep: Any) -> Any:
        """Each rank's bytes to their places in zeros, which are added. Whether a call waits is each
        rank's own affair: so this is the way of all of them, or of none."""
        stage = bytearray(max(nbytes * self._engine.size, 1))
        memory = (ctypes.c_char * len(stage)).from_buffer(stage)
        address, count = ctypes.addressof(memory), source.numel() * self._engine.size
        target = rows.data_ptr() if count else address
        code = _part_of('ALLGATHER', source.dtype, as_bytes=True)
        ctypes.memmove(address + self._me * nbytes, source.data_ptr(), nbytes)
        keep = (memory, rows, source, keep)
        if opts is None or opts.asyncOp:
            handle = self._engine.start(ALLREDUCE, code, count, _PLAIN_SUM, address, target)
            return self._flight((handle,), keep, outputs, opts, finish)
        self._engine.run(ALLREDUCE, code, count, _PLAIN_SUM, address, target, keep)
        if finish is not None:
            finish(())
        return DONE

    def _gather_to(self, rows: torch.Tensor, source: torch.Tensor, outputs: Any, opts: Any,
                   finish: Optional[Callable[[Sequence[int]], None]] = None, keep: Any = ()) -> Any:
        """All sources, row by row; both are dense."""
        engine = self._alive()
        code, count = _code(source)
        nbytes, index = source.numel() * source.element_size(), _device.common([source, rows])
        if nbytes * engine.size <= SMALL and index == HOST:
            return self._gather_small(rows, source, nbytes, outputs, opts, finish, keep)
        handle = engine.start(ALLGATHER, code, count, None, source.data_ptr(), rows.data_ptr(),
                              index)
        return self._flight((handle,), (rows, source, keep), outputs, opts, finish, index)

    @told('all_gather', '_allgather_base_', _second)
    def all_gather_single(self, output: torch.Tensor, source: torch.Tensor,
                          opts: Any = None) -> Any:
        own, rows = _dense(source), _dense(output)
        if rows.numel() != own.numel() * self._engine.size or rows.dtype != own.dtype:
            raise ValueError(
                f'all_gather: the output has {output.numel()} elements of {output.dtype}, and '
                f'{self._engine.size} times {source.numel()} of {source.dtype} are to go there.')

        def finish(handles):
            if rows.data_ptr() != output.data_ptr():
                write(output, rows)
        return self._gather_to(rows, own, [output], opts, finish, output)

    @told('all_gather', 'allgather_', _second)
    def allgather(self, outputs: Sequence[Tensors], sources: Tensors, opts: Any = None) -> Any:
        own, places = _dense(_one(sources)), _one(outputs)
        if len(places) != self._engine.size:
            raise ValueError(f'all_gather: {len(places)} outputs for {self._engine.size} ranks')
        if any(place.numel() != places[0].numel() for place in places):
            return self._gather_unequal(outputs, own, opts)
        first = _dense(places[0])
        if first.numel() != own.numel() or first.dtype != own.dtype:
            raise ValueError(
                f'all_gather: the outputs have {places[0].numel()} elements of {places[0].dtype} '
                f'and the input {sources[0].numel()} of {sources[0].dtype}.')
        rows = own.new_empty((len(places), *own.shape))

        def finish(handles):
            for place, row in zip(places, rows):
                write(place, row)
        return self._gather_to(rows, own, [list(places)], opts, finish, list(places))

    def _gather_unequal(self, outputs: Sequence[Tensors], own: torch.Tensor, opts: Any) -> Any:
        """Each rank's part is a broadcast."""
        works = []
        for root, place in enumerate(outputs[0]):
            if root == self._me:
                write(place, own)
            alone = _Asynchronous(None)
            alone.rootRank = root
            works.append(self.broadcast([place], alone))
        work = Many(works, [list(outputs[0])])
        if opts is not None and not opts.asyncOp:
            work.wait()
        return work

    @told('all_gather', 'allgather_into_tensor_coalesced_', _second)
    def all_gather_single_coalesced(self, outputs: Tensors, sources: Tensors,
                                    opts: Any = None) -> Any:
        work = Many([self.all_gather_single(o, i) for o, i in zip(outputs, sources)], list(outputs))
        if opts is not None and not opts.asyncOp:
            work.wait()
        return work

    @told('all_gather', 'allgather_coalesced_', _second)
    def allgather_coalesced(self, outputs: Sequence[Tensors], sources: Tensors,
                            opts: Any = None) -> Any:
        work = Many([self.allgather([[row[i] for row in outputs]], [source])
                     for i, source in enumerate(sources)], [list(row) for row in outputs])
        if opts is not None and not opts.asyncOp:
            work.wait()
        return work

    # ------------------------------------------------------------------ reducescatter

    @told('reduce_scatter', '_reduce_scatter_base_', _second)
    def reduce_scatter_single(self, output: torch.Tensor, source: torch.Tensor,
                              opts: Any = None) -> Any:
        parts, own = _dense(source), _dense(output)
        if parts.numel() != own.numel() * self._engine.size or parts.dtype != own.dtype:
            raise ValueError(
                f'reduce_scatter: the input has {source.numel()} elements of {source.dtype}, and '
                f'{self._engine.size} times {output.numel()} of {output.dtype} are needed.')
        how = self._reduction(opts, source)
        return self._scatter_sums(parts, output, how, opts, (output, source))

    def _scatter_sums(self, parts: torch.Tensor, output: torch.Tensor, reduction: Any, opts: Any,
                      keep: Any) -> Any:
        """parts: all ranks' parts in a row, dense."""
        engine, (how, function) = self._alive(), reduction
        index = _device.common([parts, output])
        flat = parts.view(engine.size, -1) if parts.numel() else parts.new_empty((engine.size, 0))
        if function is not None:
            return self._bitwise(flat, function, [output], opts,
                                 lambda bits: write(output, bits[self._me]))
        code, nbytes = _number_code(parts), parts.numel() * parts.element_size()
        if how[0] not in (SUM, AVERAGE) or nbytes <= SMALL:
            return self._scatter_small(flat, output, how, opts, keep, index)
        own = _dense(output)
        start, end = flat.data_ptr(), flat.data_ptr() + nbytes
        if own.data_ptr() != output.data_ptr() or start <= own.data_ptr() < end:
            own = torch.empty_like(flat[0])
        handle = engine.start(REDUCESCATTER, code, own.numel(), how, start, own.data_ptr(), index)

        def finish(handles):
            if own.data_ptr() != output.data_ptr():
                write(output, own)
        return self._flight((handle,), (parts, own, keep), [output], opts, finish, index)

    def _scatter_small(self, flat: torch.Tensor, output: torch.Tensor, how: Any, opts: Any,
                       keep: Any, index: int) -> Any:
        """By an allreduce, of which each rank takes its row."""
        engine, sums = self._engine, torch.empty_like(flat)
        _number_code(flat)  # ValueError where there is none
        code = _part_of('REDUCESCATTER', flat.dtype)
        count, keep = flat.numel(), (flat, sums, keep)
        if opts is not None and not opts.asyncOp and index == HOST:
            engine.run(ALLREDUCE, code, count, how, flat.data_ptr(), sums.data_ptr(), keep)
            write(output, sums[self._me])
            return DONE
        handle = engine.start(ALLREDUCE, code, count, how, flat.data_ptr(), sums.data_ptr(), index)
        return self._flight((handle,), keep, [output], opts,
                            lambda handles: write(output, sums[self._me]), index)

    @told('reduce_scatter', 'reduce_scatter_', _second)
    def reduce_scatter(self, outputs: Tensors, sources: Sequence[Tensors],
                       opts: Any = None) -> Any:
        output, parts = _one(outputs), _one(sources)
        if len(parts) != self._engine.size:
            raise ValueError(f'reduce_scatter: {len(parts)} inputs for {self._engine.size} ranks')
        if parts[self._me].numel() != output.numel():
            raise ValueError('reduce_scatter: the output and its part of the inputs differ in size')
        dense = [_dense(part) for part in parts]
        if any(part.numel() != dense[0].numel() for part in dense):
            return self._scatter_unequal(parts, output, opts)
        return self._scatter_sums(torch.stack([part.reshape(-1) for part in dense]), output,
                                  self._reduction(opts, parts[0]), opts, (output, parts))

    def _scatter_unequal(self, parts: Tensors, output: torch.Tensor, opts: Any) -> Any:
        """A reduction for each rank."""
        works = []
        for root, part in enumerate(parts):
            alone = _Asynchronous(opts)
            alone.rootRank = root
            if root == self._me:
                write(output, _dense(part).reshape(-1))
            works.append(self.reduce([output if root == self._me else part], alone))
        work = Many(works, [output])
        if opts is not None and not opts.asyncOp:
            work.wait()
        return work

    @told('reduce_scatter', 'reduce_scatter_tensor_coalesced_', _second)
    def reduce_scatter_single_coalesced(self, outputs: Tensors, sources: Tensors,
                                        opts: Any = None) -> Any:
        alone = _Asynchronous(opts)
        work = Many([self.reduce_scatter_single(o, i, alone) for o, i in zip(outputs, sources)],
                    list(outputs))
        if opts is not None and not opts.asyncOp:
            work.wait()
        return work

    # ------------------------------------------------------------------ alltoall and its relatives

    def _exchange(self, source: torch.Tensor, splits: List[int], target: torch.Tensor,
                  counts: List[int], outputs: Any, opts: Any, finish: Callable[[], None],
                  keep: Any) -> Any:
        """splits[r] elements of source to rank r, and counts[r] from it to target; both are dense.
        """
        engine = self._alive()
        code, count = _code(source)
        factor = count // source.numel() if source.numel() else 1
        scale = 1 if target.dtype in CODES else target.element_size()
        index = _device.common([source, target])
        handle = engine.exchange(code, [n * factor for n in splits], source.data_ptr(), index)
        nbytes = target.numel() * target.element_size()

        def done(handles):
            _engine.take(handles[0], target.data_ptr(), [n * scale for n in counts], nbytes)
            finish()
        return self._flight((handle,), (source, target, keep), outputs, opts, done, index)

    @told('all_to_all', 'alltoall_base_', _second)
    def all_to_all_single(self, output: torch.Tensor, source: torch.Tensor,
                          output_splits: Sequence[int], input_splits: Sequence[int],
                          opts: Any = None) -> Any:
        own, target = _dense(source), _dense(output)
        if own.dtype != target.dtype:
            raise ValueError(f'all_to_all: input {source.dtype}, output {output.dtype}')
        splits = self._splits('input', input_splits, source)
        counts = self._splits('output', output_splits, output)
        row, column = _row(own), _row(target)

        def finish():
            if target.data_ptr() != output.data_ptr():
                write(output, target)
        return self._exchange(own, [n * row for n in splits], target, [n * column for n in counts],
                              [output], opts, finish, (output, source))

    def _splits(self, which: str, splits: Sequence[int], tensor: torch.Tensor) -> List[int]:
        size, rows = self._engine.size, tensor.shape[0] if tensor.dim() else 1
        if not splits:
            if rows % size:
                raise ValueError(f"Tensor's dim 0 does not divide equally across group size: "
                                 f'all_to_all_single has no {which} splits, {rows} rows and '
                                 f'{size} ranks.')
            return [rows // size] * size
        if len(splits) != size or sum(splits) != rows:
            raise ValueError(f"Split sizes doesn't match total dim 0 size: {which} splits "
                             f'{list(splits)} for {rows} rows and {size} ranks.')
        return list(splits)

    @told('all_to_all', 'alltoall_', _second)
    def alltoall(self, outputs: Tensors, sources: Tensors, opts: Any = None) -> Any:
        size = self._engine.size
        if len(outputs) != size or len(sources) != size:
            raise ValueError(f'all_to_all: {len(sources)} inputs and {len(outputs)} outputs for '
                             f'{size} ranks')
        return self._lists(outputs, sources, opts)

    def _lists(self, outputs: Tensors, sources: Tensors, opts: Any) -> Any:
        """sources[r] to rank r, where it is outputs[me]; None is nothing."""
        dense = [None if s is None else _dense(s) for s in sources]
        some = next(t for t in [*dense, *outputs] if t is not None)
        dtype = torch.view_as_real(some).dtype if some.is_complex() else some.dtype
        splits = [0 if s is None else s.numel() for s in dense]
        flat = [s.reshape(-1) for s in dense if s is not None]
        source = torch.cat(flat) if flat else some.new_empty((0,), dtype=dtype)
        counts = [0 if o is None else o.numel() * (2 if o.is_complex() else 1) for o in outputs]
        target = some.new_empty((sum(counts),), dtype=dtype)

        def finish():
            at = 0
            for output, count in zip(outputs, counts):
                if output is not None:
                    write(output, target[at:at + count])
                at += count
        return self._exchange(source, splits, target, counts,
                              [o for o in outputs if o is not None], opts, finish,
                              (list(outputs), list(sources)))

    @told('gather', 'gather_', _second)
    def gather(self, outputs: Sequence[Tensors], sources: Tensors, opts: Any = None) -> Any:
        root, size = opts.rootRank if opts is not None else 0, self._engine.size
        sending: List[Any] = [None] * size
        sending[root] = _one(sources)
        if root != self._me:
            return self._lists([None] * size, sending, opts)
        if len(_one(outputs)) != size:
            raise ValueError(f'gather: {len(outputs[0])} outputs for {size} ranks')
        return self._lists(outputs[0], sending, opts)

    @told('scatter', 'scatter_', lambda args: args[1] or args[:1])
    def scatter(self, outputs: Tensors, sources: Sequence[Tensors], opts: Any = None) -> Any:
        root, size = opts.rootRank if opts is not None else 0, self._engine.size
        receiving: List[Any] = [None] * size
        receiving[root] = _one(outputs)
        if root != self._me:
            return self._lists(receiving, [None] * size, opts)
        if len(_one(sources)) != size:
            raise ValueError(f'scatter: {len(sources[0])} inputs for {size} ranks')
        return self._lists(receiving, sources[0], opts)

    # ------------------------------------------------------------------ barriers

    def barrier(self, opts: Any = None) -> Any:
        if profiler._is_profiler_enabled and _events.wanted():
            return _events.call(self, Collectives.barrier, (opts,), {}, 'barrier', 'barrier', ())
        engine = self._alive()
        code, byte = _part_of('BARRIER'), bytearray(1)
        memory = ctypes.c_char.from_buffer(byte)
        address = ctypes.addressof(memory)
        if opts is not None and not opts.asyncOp:
            engine.run(ALLREDUCE, code, 1, _PLAIN_SUM, address, address, memory)
            return DONE
        handle = engine.start(ALLREDUCE, code, 1, _PLAIN_SUM, address, address)
        return self._note(Pending((handle,), memory, [], engine))

    @told('monitored_barrier', 'monitored_barrier_', lambda args: ())
    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """A barrier in which rank 0 says who has not come."""
        engine = self._alive()
        seconds = timeout.total_seconds() if timeout is not None else -1
        limit = seconds if seconds >= 0 else engine.timeout
        byte = torch.zeros(1, dtype=torch.uint8)
        if self._me:
            self._answer_roll_call(byte, limit)
            return
        missing = []
        calls = [self._receive(torch.zeros(1, dtype=torch.uint8), rank, _ROLL_CALL, limit)
                 for rank in range(1, engine.size)]
        for rank, call in enumerate(calls, 1):
            try:
                call.wait()
            except RuntimeError:
                missing.append(rank)
                if not wait_all_ranks:
                    break
        if missing and limit == 0:
            raise failure('[Rank 0]: Rank 0 timed out in monitoredBarrier after 0 ms.')
        if missing:
            raise failure(f'[Rank 0]: Rank{"s" * wait_all_ranks} {", ".join(map(str, missing))} '
                          f'failed to pass monitoredBarrier in {limit * 1000:g} ms')
        for answer in [self._send(byte, rank, _ROLL_CALL, limit)
                       for rank in range(1, engine.size)]:
            answer.wait()

    def _answer_roll_call(self, byte: torch.Tensor, limit: float) -> None:
        try:
            self._send(byte, 0, _ROLL_CALL, limit).wait()
            self._receive(byte, 0, _ROLL_CALL, limit).wait()
        except RuntimeError as error:
            raise failure(
                f'[Rank {self._me}]: Rank {self._me} successfully reached monitoredBarrier, but '
                'received errors while waiting for send/recv from rank 0. Rank 0 says which rank '
                f'has not come. {error}') from error

    # ------------------------------------------------------------------ from one to another

    def _view(self, tensor: torch.Tensor) -> memoryview:
        nbytes = tensor.numel() * tensor.element_size()
        if nbytes == 0:
            return memoryview(bytearray())
        return memoryview((ctypes.c_char * nbytes).from_address(tensor.data_ptr())).cast('B')

    def _send(self, tensor: torch.Tensor, peer: int, tag: int, timeout: float) -> Any:
        self._alive()
        if not 0 <= peer < self._engine.size or peer == self._me:
            raise ValueError(f'send: rank {peer} of a group of {self._engine.size} was given, and '
                             f'this is rank {self._me}.')
        dense = _staged(tensor)
        work = _p2p.Sending(tensor, dense, timeout, peer)
        _p2p.send(self._place.peers[peer], self._engine.name, self._me, tag, self._view(dense),
                  work)
        return self._note(work)

    def _receive(self, tensor: torch.Tensor, peer: Optional[int], tag: int,
                 timeout: float) -> Any:
        self._alive()
        if peer is not None and (not 0 <= peer < self._engine.size or peer == self._me):
            raise ValueError(f'recv: rank {peer} of a group of {self._engine.size} was given, and '
                             f'this is rank {self._me}.')
        dense = _staged(tensor)
        posted = _p2p.post(self._engine.name, peer, tag, self._view(dense), dense)
        return self._note(_p2p.Receiving(tensor, dense, timeout, posted, peer))

    @told('send', 'send', _first)
    def send(self, tensors: Tensors, peer: int, tag: int = 0) -> Any:
        if tag < 0:
            raise ValueError(f'send: tag {tag} is negative.')
        return self._send(_one(tensors), peer, tag, self._engine.timeout)

    @told('recv', 'recv_', _first)
    def recv(self, tensors: Tensors, peer: int, tag: int = 0) -> Any:
        return self._receive(_one(tensors), peer, tag, self._engine.timeout)

    @told('recvAnySource', 'recv_any_source_', _first)
    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Any:
        return self._receive(_one(tensors), None, tag, self._engine.timeout)

    # Their older names.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single


class _Asynchronous:
    """Options of an operation that is a part of another one, which waits."""

    asyncOp = True
    rootRank = 0

    def __init__(self, opts: Any):
        self.reduceOp = opts.reduceOp if opts is not None and hasattr(opts, 'reduceOp') else 0
