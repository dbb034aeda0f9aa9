# SPDX-License-Identifier: Apache-2.0
"""c10d's operations on tensors, in terms of the runtime's.

Small operations that are waited for at once run in the caller's thread, as persistent requests.
The runtime's shortest way is an allreduce; so a small allgather is one too, of bytes: each rank
adds its part to zeros, which is exact. Larger ones move their parts once, straight to their places.
"""
import ctypes
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch

from reigen.distributed import _engine, _p2p, _sparse
from reigen.distributed._engine import (ALLGATHER, ALLREDUCE, AVERAGE, BROADCAST, MAX, MIN, PRODUCT,
                                        REDUCESCATTER, SUM, UINT8, Engine)
from reigen.distributed._work import DONE, Done, Many, Pending, failure
from reigen.torch._tensor import CODES

#: An allgather or reducescatter of at most so many bytes in all is a small one.
SMALL = 32768
#: The tag of monitored_barrier's messages; users' are not negative.
_ROLL_CALL = -71

#: By c10d's RedOpType: enum reigen_op.
_REDUCTIONS = {0: SUM, 1: AVERAGE, 2: PRODUCT, 3: MIN, 4: MAX}
_BITWISE = {5: torch.bitwise_and, 6: torch.bitwise_or, 7: torch.bitwise_xor}
_PREMUL_SUM = 8
_NAMES = ('SUM', 'AVG', 'PRODUCT', 'MIN', 'MAX', 'BAND', 'BOR', 'BXOR', 'PREMUL_SUM')
_PLAIN_SUM = (SUM, 1.0)

Tensors = Sequence[torch.Tensor]


def _refuse(tensor: Any) -> Exception:
    if not isinstance(tensor, torch.Tensor):
        return TypeError(f'A tensor is required, not {type(tensor).__name__}.')
    if tensor.layout is not torch.strided:
        return ValueError(f'The backend "reigen" carries dense tensors, not {tensor.layout}.')
    return ValueError(f'A tensor on {tensor.device} was given, and the backend "reigen" carries '
                      'CPU tensors only. Give init_process_group "cpu:reigen,cuda:nccl", or move '
                      'the tensor with tensor.cpu().')


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with its elements in a row, as numbers of the runtime or of their parts."""
    if (not isinstance(tensor, torch.Tensor) or not tensor.is_cpu
            or tensor.layout is not torch.strided):
        raise _refuse(tensor)
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor if tensor.is_contiguous() else tensor.contiguous()


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


def _write(target: torch.Tensor, source: torch.Tensor) -> None:
    """Elements in a row, to a tensor of any strides."""
    with torch.no_grad():
        if target.is_complex():
            target = torch.view_as_real(target)
        target.copy_(source.view(target.shape))


class Collectives:
    """Of one group. The methods are c10d's; roots and peers are places in the group.

    Users set _engine, _place and _me (this rank's place) before they use it.
    """

    _engine: Engine
    _place: Any
    _me: int
    _aborted = False

    # ------------------------------------------------------------------ parts of the others

    def _flight(self, handles: Sequence[int], keep: Any, outputs: Any, opts: Any,
                finish: Optional[Callable[[Sequence[int]], None]] = None) -> Any:
        work = Pending(handles, keep, outputs, self._engine.timeout, finish)
        if opts is not None and not opts.asyncOp:
            work.wait()
        return work

    def _alive(self) -> Engine:
        if self._aborted:
            raise failure('This process group has been aborted or destroyed.')
        return self._engine

    def _reduction(self, op: Any) -> Tuple[Any, Any]:
        """((enum reigen_op, prescale), None), or (None, a function of two tensors)."""
        number = hash(op)
        if number in _REDUCTIONS:
            return (_REDUCTIONS[number], 1.0), None
        if number in _BITWISE:
            return None, _BITWISE[number]
        if number == _PREMUL_SUM:
            factor = op.__getstate__()[1]
            return (SUM, float(factor)), None
        raise ValueError(f'The backend "reigen" does not know the reduction {op}.')

    def _bitwise(self, tensor: torch.Tensor, function: Any) -> torch.Tensor:
        """All ranks' bits: gathered, as the runtime has no such reduction."""
        if tensor.is_floating_point() or tensor.is_complex():
            raise ValueError('BAND, BOR and BXOR are for integers and bool.')
        rows = torch.empty((self._engine.size, *tensor.shape), dtype=tensor.dtype)
        self.all_gather_single(rows, tensor).wait()
        result = rows[0]
        for row in rows[1:]:
            result = function(result, row)
        return result

    # ------------------------------------------------------------------ reductions

    def allreduce(self, tensors: Tensors, opts: Any = None) -> Any:
        if not isinstance(tensors, (list, tuple)):
            tensors = [tensors]
        tensor = tensors[0]
        number = 0 if opts is None else hash(opts.reduceOp)
        code = CODES.get(tensor.dtype)
        if (number > 4 or code is None or len(tensors) != 1 or self._aborted
                or not tensor.is_cpu or not tensor.is_contiguous()):
            return self._allreduce_slowly(tensors, opts)
        address = tensor.data_ptr()
        how = (_REDUCTIONS[number], 1.0)
        if opts is not None and not opts.asyncOp:
            self._engine.run(ALLREDUCE, code, tensor.numel(), how, address, address, tensors)
            return DONE
        handle = self._engine.start(ALLREDUCE, code, tensor.numel(), how, address, address)
        return Pending((handle,), tensors, tensors, self._engine.timeout)

    def _allreduce_slowly(self, tensors: Tensors, opts: Any) -> Any:
        engine, tensor = self._alive(), _one(tensors)
        if isinstance(tensor, torch.Tensor) and tensor.layout is torch.sparse_coo:
            return self.allreduce_sparse(tensors, opts)
        dense = _dense(tensor)
        how, function = self._reduction(opts.reduceOp) if opts is not None else (_PLAIN_SUM, None)
        if function is not None:
            _write(tensor, self._bitwise(dense, function))
            return Done(list(tensors))
        address = dense.data_ptr()
        handle = engine.start(ALLREDUCE, _number_code(dense), dense.numel(), how, address, address)

        def finish(handles):
            if dense.data_ptr() != tensor.data_ptr():
                _write(tensor, dense)
        return self._flight((handle,), (tensor, dense), list(tensors), opts, finish)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Any:
        alone = _Asynchronous(opts)
        work = Many([self.allreduce([tensor], alone) for tensor in tensors], list(tensors))
        if opts is not None and not opts.asyncOp:
            work.wait()
        return work

    def allreduce_sparse(self, tensors: Tensors, opts: Any = None) -> Any:
        self._alive()
        tensor, number = _one(tensors), 0 if opts is None else hash(opts.reduceOp)
        if not tensor.is_cpu or tensor.layout is not torch.sparse_coo:
            raise _refuse(tensor)
        if number > 1:
            raise ValueError('Sparse tensors are reduced by SUM or AVG alone.')
        if number == 1 and not (tensor.is_floating_point() or tensor.is_complex()):
            raise ValueError('AVG of sparse tensors is for floating-point numbers.')
        _sparse.allreduce(self, tensor, average=number == 1)
        return Done([tensor])

    def reduce(self, tensors: Tensors, opts: Any = None) -> Any:
        engine, tensor = self._alive(), _one(tensors)
        dense = _dense(tensor)
        root = opts.rootRank if opts is not None else 0
        how, function = self._reduction(opts.reduceOp) if opts is not None else (_PLAIN_SUM, None)
        if function is not None:
            bits = self._bitwise(dense, function)
            if root == self._me:
                _write(tensor, bits)
            return Done(list(tensors))
        # The others keep what they have.
        result = dense if root == self._me else torch.empty_like(dense)
        handle = engine.start(ALLREDUCE, _number_code(dense), dense.numel(), how, dense.data_ptr(),
                              result.data_ptr())

        def finish(handles):
            if root == self._me and dense.data_ptr() != tensor.data_ptr():
                _write(tensor, dense)
        return self._flight((handle,), (tensor, dense, result), list(tensors), opts, finish)

    # ------------------------------------------------------------------ broadcast

    def broadcast(self, tensors: Tensors, opts: Any = None) -> Any:
        if not isinstance(tensors, (list, tuple)):
            tensors = [tensors]
        engine, tensor = self._alive(), _one(tensors)
        root = opts.rootRank if opts is not None else 0
        dense = _dense(tensor)
        code, count = _code(dense)
        address = dense.data_ptr()
        copied = address != tensor.data_ptr()
        if opts is not None and not opts.asyncOp and not copied:
            engine.run(BROADCAST, code, count, root, address, address, tensors)
            return DONE
        handle = engine.start(BROADCAST, code, count, root, address, address)

        def finish(handles):
            if copied and root != self._me:
                _write(tensor, dense)
        return self._flight((handle,), (tensor, dense), list(tensors), opts, finish)

    # ------------------------------------------------------------------ allgather

    def _gather_small(self, source: torch.Tensor, target: int, each: int) -> None:
        """Each rank's bytes to their places at target."""
        stage = bytearray(each * self._engine.size)
        memory = (ctypes.c_char * max(len(stage), 1)).from_buffer(stage) if stage else None
        if memory is None:
            self._engine.run(ALLREDUCE, UINT8, 0, _PLAIN_SUM, 0, 0, source)
            return
        address = ctypes.addressof(memory)
        ctypes.memmove(address + self._me * each, source.data_ptr(), each)
        self._engine.run(ALLREDUCE, UINT8, len(stage), _PLAIN_SUM, address, target,
                         (memory, source))

    def _gather_to(self, rows: torch.Tensor, source: torch.Tensor, outputs: Any, opts: Any,
                   finish: Optional[Callable[[Sequence[int]], None]] = None, keep: Any = ()) -> Any:
        """All sources, row by row; both are dense."""
        engine = self._alive()
        code, count = _code(source)
        nbytes = source.numel() * source.element_size()
        if opts is not None and not opts.asyncOp and nbytes * engine.size <= SMALL:
            self._gather_small(source, rows.data_ptr(), nbytes)
            if finish is not None:
                finish(())
            return DONE
        handle = engine.start(ALLGATHER, code, count, None, source.data_ptr(), rows.data_ptr())
        return self._flight((handle,), (rows, source, keep), outputs, opts, finish)

    def all_gather_single(self, output: torch.Tensor, source: torch.Tensor,
                          opts: Any = None) -> Any:
        own, rows = _dense(source), _dense(output)
        if rows.numel() != own.numel() * self._engine.size or rows.dtype != own.dtype:
            raise ValueError(
                f'all_gather: the output has {output.numel()} elements of {output.dtype}, and '
                f'{self._engine.size} times {source.numel()} of {source.dtype} are to go there.')

        def finish(handles):
            if rows.data_ptr() != output.data_ptr():
                _write(output, rows)
        return self._gather_to(rows, own, [output], opts, finish, output)

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
        rows = torch.empty((len(places), *own.shape), dtype=own.dtype)

        def finish(handles):
            for place, row in zip(places, rows):
                _write(place, row)
        return self._gather_to(rows, own, [list(places)], opts, finish, list(places))

    def _gather_unequal(self, outputs: Sequence[Tensors], own: torch.Tensor, opts: Any) -> Any:
        """Each rank's part is a broadcast."""
        works = []
        for root, place in enumerate(outputs[0]):
            if root == self._me:
                _write(place, own)
            alone = _Asynchronous(None)
            alone.rootRank = root
            works.append(self.broadcast([place], alone))
        work = Many(works, [list(outputs[0])])
        if opts is not None and not opts.asyncOp:
            work.wait()
        return work

    def all_gather_single_coalesced(self, outputs: Tensors, sources: Tensors,
                                    opts: Any = None) -> Any:
        work = Many([self.all_gather_single(o, i) for o, i in zip(outputs, sources)], list(outputs))
        if opts is not None and not opts.asyncOp:
            work.wait()
        return work

    def allgather_coalesced(self, outputs: Sequence[Tensors], sources: Tensors,
                            opts: Any = None) -> Any:
        work = Many([self.allgather([[row[i] for row in outputs]], [source])
                     for i, source in enumerate(sources)], [list(row) for row in outputs])
        if opts is not None and not opts.asyncOp:
            work.wait()
        return work

    # ------------------------------------------------------------------ reducescatter

    def reduce_scatter_single(self, output: torch.Tensor, source: torch.Tensor,
                              opts: Any = None) -> Any:
        parts, own = _dense(source), _dense(output)
        if parts.numel() != own.numel() * self._engine.size or parts.dtype != own.dtype:
            raise ValueError(
                f'reduce_scatter: the input has {source.numel()} elements of {source.dtype}, and '
                f'{self._engine.size} times {output.numel()} of {output.dtype} are needed.')
        return self._scatter_sums(parts, output, opts, (output, source))

    def _scatter_sums(self, parts: torch.Tensor, output: torch.Tensor, opts: Any,
                      keep: Any) -> Any:
        """parts: all ranks' parts in a row, dense."""
        engine = self._alive()
        how, function = self._reduction(opts.reduceOp) if opts is not None else (_PLAIN_SUM, None)
        flat = parts.view(engine.size, -1) if parts.numel() else parts.new_empty((engine.size, 0))
        if function is not None:
            _write(output, self._bitwise(flat, function)[self._me])
            return Done([output])
        code, nbytes = _number_code(parts), parts.numel() * parts.element_size()
        if how[0] not in (SUM, AVERAGE) or (
                nbytes <= SMALL and opts is not None and not opts.asyncOp):
            sums = torch.empty_like(flat)
            handle_keep = (parts, sums, keep)
            if opts is not None and not opts.asyncOp:
                engine.run(ALLREDUCE, code, flat.numel(), how, flat.data_ptr(), sums.data_ptr(),
                           handle_keep)
                _write(output, sums[self._me])
                return DONE
            handle = engine.start(ALLREDUCE, code, flat.numel(), how, flat.data_ptr(),
                                  sums.data_ptr())
            return self._flight((handle,), handle_keep, [output], opts,
                                lambda handles: _write(output, sums[self._me]))
        own = _dense(output)
        start, end = flat.data_ptr(), flat.data_ptr() + nbytes
        if own.data_ptr() != output.data_ptr() or start <= own.data_ptr() < end:
            own = torch.empty_like(flat[0])
        handle = engine.start(REDUCESCATTER, code, own.numel(), how, start, own.data_ptr())

        def finish(handles):
            if own.data_ptr() != output.data_ptr():
                _write(output, own)
        return self._flight((handle,), (parts, own, keep), [output], opts, finish)

    def reduce_scatter(self, outputs: Tensors, sources: Sequence[Tensors],
                       opts: Any = None) -> Any:
        output, parts = _one(outputs), _one(sources)
        if len(parts) != self._engine.size:
            raise ValueError(f'reduce_scatter: {len(parts)} inputs for {self._engine.size} ranks')
        if parts[self._me].numel() != output.numel():
            raise ValueError('reduce_scatter: the output and its part of the inputs differ in size')
        dense = [_dense(part) for part in parts]
        if any(part.numel() != dense[0].numel() for part in dense):
            # A reduction for each rank.
            for root, part in enumerate(dense):
                alone = _Asynchronous(opts)
                alone.rootRank = root
                part = part.clone()
                self.reduce([part], alone).wait()
                if root == self._me:
                    _write(output, part)
            return Done([output])
        return self._scatter_sums(torch.stack([part.reshape(-1) for part in dense]), output, opts,
                                  (output, parts))

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
                  outputs: Any, opts: Any, finish: Optional[Callable[[], None]] = None,
                  keep: Any = ()) -> Any:
        """splits[r] elements of source to rank r, and all that comes to target; both are dense."""
        engine = self._alive()
        code, count = _code(source)
        factor = count // source.numel() if source.numel() else 1
        handle = engine.exchange(code, [n * factor for n in splits], source.data_ptr())
        nbytes = target.numel() * target.element_size()

        def done(handles):
            _engine.take(handles[0], target.data_ptr(), nbytes)
            if finish is not None:
                finish()
        return self._flight((handle,), (source, target, keep), outputs, opts, done)

    def all_to_all_single(self, output: torch.Tensor, source: torch.Tensor,
                          output_splits: Sequence[int], input_splits: Sequence[int],
                          opts: Any = None) -> Any:
        own, target, size = _dense(source), _dense(output), self._engine.size
        if own.dtype != target.dtype:
            raise ValueError(f'all_to_all: input {source.dtype}, output {output.dtype}')
        splits = self._splits('input', input_splits, source)
        self._splits('output', output_splits, output)
        row = own.numel() // own.shape[0] if own.dim() and own.shape[0] else 1

        def finish():
            if target.data_ptr() != output.data_ptr():
                _write(output, target)
        return self._exchange(own, [n * row for n in splits[:size]], target, [output], opts, finish,
                              output)

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
        source = torch.cat(flat) if flat else torch.empty(0, dtype=dtype)
        counts = [0 if o is None else o.numel() * (2 if o.is_complex() else 1) for o in outputs]
        target = torch.empty(sum(counts), dtype=dtype)

        def finish():
            at = 0
            for output, count in zip(outputs, counts):
                if output is not None:
                    _write(output, target[at:at + count])
                at += count
        return self._exchange(source, splits, target, [o for o in outputs if o is not None], opts,
                              finish, (list(outputs), list(sources)))

    def gather(self, outputs: Sequence[Tensors], sources: Tensors, opts: Any = None) -> Any:
        root, size = opts.rootRank if opts is not None else 0, self._engine.size
        sending: List[Any] = [None] * size
        sending[root] = _one(sources)
        if root != self._me:
            return self._lists([None] * size, sending, opts)
        if len(_one(outputs)) != size:
            raise ValueError(f'gather: {len(outputs[0])} outputs for {size} ranks')
        return self._lists(outputs[0], sending, opts)

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
        engine = self._alive()
        byte = bytearray(1)
        memory = ctypes.c_char.from_buffer(byte)
        address = ctypes.addressof(memory)
        if opts is not None and not opts.asyncOp:
            engine.run(ALLREDUCE, UINT8, 1, _PLAIN_SUM, address, address, memory)
            return DONE
        handle = engine.start(ALLREDUCE, UINT8, 1, _PLAIN_SUM, address, address)
        return Pending((handle,), memory, [], engine.timeout)

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
        for rank in range(1, engine.size):
            self._send(byte, rank, _ROLL_CALL, limit)

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
        dense = _dense(tensor)
        work = _p2p.Sending(dense, timeout)
        _p2p.send(self._place.peers[peer], self._engine.name, self._me, tag, self._view(dense),
                  work)
        return work

    def _receive(self, tensor: torch.Tensor, peer: Optional[int], tag: int,
                 timeout: float) -> Any:
        self._alive()
        if peer is not None and (not 0 <= peer < self._engine.size or peer == self._me):
            raise ValueError(f'recv: rank {peer} of a group of {self._engine.size} was given, and '
                             f'this is rank {self._me}.')
        dense = _dense(tensor)
        posted = _p2p.post(self._engine.name, peer, tag, self._view(dense), dense)
        into = tensor if dense.data_ptr() != tensor.data_ptr() else None
        if into is not None and into.is_complex():
            into = torch.view_as_real(into)
        return _p2p.Receiving(dense, timeout, posted, into)

    def send(self, tensors: Tensors, peer: int, tag: int = 0) -> Any:
        return self._send(_one(tensors), peer, tag, self._engine.timeout)

    def recv(self, tensors: Tensors, peer: int, tag: int = 0) -> Any:
        return self._receive(_one(tensors), peer, tag, self._engine.timeout)

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
