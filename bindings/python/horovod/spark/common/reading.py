# SPDX-License-Identifier: Apache-2.0
"""Parquet of a store, as batches of numpy arrays for the ranks of a job. No framework is in it.

describe() looks at the files once, on the driver; the Dataset that it makes travels to the ranks.
There a Reader has this rank's share of each epoch:

    row groups --dealt--> of this rank --pyarrow's scanner--> chunks --decoded--> mixed in blocks
        --cut--> batches: {column: array of rows x shape}

All ranks take equally many steps, whatever the files' sizes: the rows stand in one line, in which
row groups have another order in each epoch, and each rank has an equal part of it, which may begin
and end within a row group. A block is what memory holds: some rows of this rank, which are mixed,
while a thread reads the next one.
"""
import collections
import concurrent.futures
import itertools
import math
import queue
import threading
import weakref
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import dataset as arrow
from pyarrow import parquet

from horovod.spark.common.columns import TAKEN, Column, decode_all, describe as describe_column

__all__ = ['TAKEN', 'TEXT', 'Dataset', 'Reader', 'describe']

Batch = Dict[str, np.ndarray]

#: What is wrong with a column of text.
TEXT = ('column {!r} is text: give its values numbers (pyspark.ml.feature.StringIndexer), or by '
        'transformation_fn')

#: What a block of rows takes in memory, unless told: a rank has up to four.
_BLOCK_NBYTES = 64 << 20
#: Files whose ends are read at once: those of a remote store take long to answer.
_FOOTERS = 16
#: Rows that are decoded at once; fewer if they are large.
_CHUNK_ROWS, _CHUNK_NBYTES = 1 << 15, 16 << 20


class Group(NamedTuple):
    """A row group."""
    path: str
    index: int
    rows: int


class Piece(NamedTuple):
    """Rows of a row group: take of them, behind the first skip."""
    group: Group
    skip: int
    take: int


class Dataset(NamedTuple):
    """Parquet files, as describe() found them."""
    path: str
    columns: List[Column]
    groups: List[Group]
    schema: Any       # pyarrow's, of these columns
    row_nbytes: int   # of a decoded row, about

    @property
    def rows(self) -> int:
        return sum(group.rows for group in self.groups)

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)


def _groups(fs: Any, name: str) -> List[Group]:
    """Those of a file that have rows."""
    with parquet.ParquetFile(name, filesystem=fs) as file:
        meta = file.metadata
        rows = [meta.row_group(number).num_rows for number in range(meta.num_row_groups)]
    return [Group(name, number, count) for number, count in enumerate(rows) if count]


def _first_row(file: Any, names: Sequence[str]) -> Dict[str, Any]:
    for batch in file.iter_batches(1, columns=list(names)):
        if batch.num_rows:
            return batch.slice(0, 1).to_pylist()[0]
    return {}


def _nbytes(column: Column) -> int:
    size = 64 if column.dtype == 'object' or not column.shape and column.kind == 'bytes' \
        else np.dtype(column.dtype).itemsize
    return size * math.prod(column.shape)


def describe(store: Any, path: str, names: Sequence[str]) -> Dataset:
    """The rows in that folder of the store. ValueError when there are none, or not these columns;
    TypeError that names a column whose type no estimator takes."""
    fs, files = store.fs, store.parquet_files(path)
    with concurrent.futures.ThreadPoolExecutor(_FOOTERS) as pool:
        groups = [group for found in pool.map(lambda name: _groups(fs, name), files)
                  for group in found]
    if not groups:
        raise ValueError(f'there are no rows in {path}')
    with parquet.ParquetFile(groups[0].path, filesystem=fs) as file:
        missing = [name for name in names if name not in file.schema_arrow.names]
        if missing:
            raise ValueError(f'{path} has no column {", ".join(map(repr, missing))}; it has '
                             f'{", ".join(file.schema_arrow.names)}')
        schema = pa.schema([file.schema_arrow.field(name) for name in names])
        first = _first_row(file, names)
        columns = [describe_column(field, first.get(field.name)) for field in schema]
    return Dataset(path, columns, groups, schema, sum(map(_nbytes, columns)) or 1)


def deal(groups: Sequence[Group], rank: int, size: int, fill: bool) -> List[Piece]:
    """What of these row groups, in this order, a rank reads. fill: as many rows on each rank, a
    few of them on two, also where there are fewer rows than ranks; else each row on one."""
    total = sum(group.rows for group in groups)
    first = rank * total // size
    count = -(-total // size) if fill else (rank + 1) * total // size - first
    pieces = []
    # Twice, since what fills the last rank's part stands at the beginning.
    for group in itertools.chain(groups, groups):
        if count and first < group.rows:
            take = min(count, group.rows - first)
            pieces.append(Piece(group, first, take))
            count -= take
            first += take
        first = max(0, first - group.rows)
    return pieces


def _ahead(items: Iterator[Any], count: int = 1) -> Iterator[Any]:
    """The same, of which a thread makes the next ones meanwhile, so many of them."""
    ready: 'queue.Queue[Any]' = queue.Queue()
    room = threading.Semaphore(count)
    ended = threading.Event()

    def work() -> None:
        try:
            for item in items:
                ready.put((item, None))
                room.acquire()
                if ended.is_set():
                    return
            ready.put((None, None))
        except BaseException as error:  # who takes the items raises it
            ready.put((None, error))

    thread = threading.Thread(target=work, daemon=True, name='reigen-reader')
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is None:
                return
            room.release()
            yield item
    finally:
        ended.set()
        room.release()
        thread.join()


def _count(batch: Batch) -> int:
    return len(next(iter(batch.values())))


def _part(batch: Batch, first: int, end: int) -> Batch:
    return {name: array[first:end] for name, array in batch.items()}


def _joined(parts: List[Batch]) -> Batch:
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _taken(parts: List[Batch], join: Callable[[List[Batch]], Batch]) -> Batch:
    """They joined; nothing holds the parts any longer."""
    whole = join(parts)
    parts.clear()
    return whole


def _sizes(total: int, rows: int, alone: bool) -> Iterator[int]:
    """Of the batches that so many rows make. alone: one row may be the last batch; else the one
    before it has that row, too, since a layer that normalizes a batch cannot train on one row."""
    while total > 0:
        join = not alone and rows > 1 and total == rows + 1
        yield total if join or total < rows else rows
        total -= rows + 1 if join else rows


def _cut(chunks: Iterator[Batch], sizes: Iterator[int],
         join: Callable[[List[Batch]], Batch] = _joined) -> Iterator[Batch]:
    """Batches of these numbers of rows, as many as there are, each made of its parts by join; the
    last one may have fewer."""
    held: List[Batch] = []
    count, rows = 0, next(sizes)
    for chunk in chunks:
        at, end = 0, _count(chunk)
        while count + end - at >= rows:
            step = rows - count
            held.append(_part(chunk, at, at + step))
            count, at = 0, at + step
            yield _taken(held, join)
            rows = next(sizes, rows)
        if at < end:
            held.append(_part(chunk, at, end))
            count += end - at
    if held:
        yield _taken(held, join)


class _Held:
    """What arrays in that memory refer to, so that it is gone when they are."""

    def __init__(self, memory: np.ndarray):
        self.__array_interface__ = memory.__array_interface__


class _Rooms:
    """Memory of blocks, which is used again when no array is in it any more: to get new pages takes
    as long as to mix rows into them. Threads may share one."""

    def __init__(self) -> None:
        self._free: Dict[Any, List[np.ndarray]] = collections.defaultdict(list)

    def make(self, what: Any, shape: Sequence[int], dtype: Any) -> np.ndarray:
        """An array whose values are of chance, in memory that was for the same before."""
        dtype = np.dtype(dtype)
        nbytes = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or not nbytes:
            return np.empty(shape, dtype)
        free = self._free[what]
        try:
            memory = free.pop()
        except IndexError:
            memory = None
        if memory is None or len(memory) < nbytes:
            memory = np.empty(nbytes, np.uint8)
        held = _Held(memory)
        weakref.finalize(held, free.append, memory).atexit = False
        return np.asarray(held)[:nbytes].view(dtype).reshape(shape)


def _mixed(parts: List[Batch], rng: Any, rooms: _Rooms) -> Batch:
    """They joined, with their rows in an order of chance, a column after the other, as one fits a
    cache. Columns of one kind share their memory, which then has large pages."""
    count = sum(map(_count, parts))
    order = rng.permutation(count)
    kinds: Dict[Any, List[str]] = {}
    for name, array in parts[0].items():
        dtype = np.result_type(*[part[name].dtype for part in parts])
        kinds.setdefault((dtype, array.shape[1:]), []).append(name)
    whole: Batch = {}
    for kind, names in kinds.items():
        dtype, shape = kind
        joined = rooms.make((kind, 'joined'), (count, *shape), dtype)
        for name, column in zip(names, rooms.make(kind, (len(names), count, *shape), dtype)):
            np.concatenate([part[name] for part in parts], out=joined)
            # All are in range: other modes than `raise` write straight into the place.
            np.take(joined, order, axis=0, out=column, mode='clip')
            whole[name] = column
    return whole


class Reader:
    """A rank's share of a Dataset, by epochs.

    columns: names of those that batches have, all unless told. fill: equal numbers of rows on each
    rank (see deal), for training, and no batch of one row behind others. shuffle: another order in
    each epoch, within blocks of block_rows (None: as fit in 64 MB). cache: the share is read once
    and kept. ahead: a thread reads while the caller computes. transform: a function that makes of a
    pandas.DataFrame another one of as many rows.
    """

    def __init__(self, fs: Any, data: Dataset, rank: int, size: int, batch_size: int, *,
                 columns: Optional[Sequence[str]] = None, fill: bool = True, shuffle: bool = False,
                 block_rows: Optional[int] = None, seed: int = 0, cache: bool = False,
                 ahead: bool = True, transform: Optional[Callable[[Any], Any]] = None):
        if batch_size < 1:
            raise ValueError(f'a batch of {batch_size} rows: it is 1 or more')
        self._fs, self._data, self._rank, self._size = fs, data, rank, size
        self._batch_size, self._fill = batch_size, fill
        self._columns = list(columns or [column.name for column in data.columns])
        self._seed, self._ahead, self._transform = seed, ahead, transform
        self._shuffle = shuffle and block_rows != 0
        self._block_rows = block_rows or max(batch_size, _BLOCK_NBYTES // data.row_nbytes, 1)
        self._chunk_rows = max(1, min(_CHUNK_ROWS, _CHUNK_NBYTES // data.row_nbytes))
        self._kept: Optional[Batch] = None
        self._rooms = _Rooms()
        self._cache = cache
        self.rows = sum(piece.take for piece in deal(data.groups, rank, size, fill))
        #: Batches of an epoch, on each rank; see _sizes().
        self.steps = -(-self.rows // batch_size)
        if fill and batch_size > 1 and self.rows > 1 and self.rows % batch_size == 1:
            self.steps -= 1

    def _pieces(self, epoch: int) -> List[Piece]:
        groups = self._data.groups
        if self._shuffle:  # equally on all ranks
            order = np.random.default_rng([self._seed, 0 if self._cache else epoch])
            groups = [groups[i] for i in order.permutation(len(groups))]
        return deal(groups, self._rank, self._size, self._fill)

    def _windows(self, pieces: List[Piece]) -> Iterator[List[Piece]]:
        """The same in runs of about a block: pyarrow reads ahead as far as it is let."""
        window: List[Piece] = []
        rows = 0
        for piece in pieces:
            if window and rows + piece.group.rows > self._block_rows:
                yield window
                window, rows = [], 0
            window.append(piece)
            rows += piece.group.rows
        yield window

    def _scan(self, pieces: List[Piece]) -> Iterator[Any]:
        """pyarrow's batches of these rows, in this order."""
        form = arrow.ParquetFileFormat()
        fragments = [form.make_fragment(piece.group.path, self._fs,
                                        row_groups=[piece.group.index]) for piece in pieces]
        batches = arrow.FileSystemDataset(fragments, self._data.schema, form, self._fs).to_batches(
            batch_size=self._chunk_rows, batch_readahead=4, fragment_readahead=2)
        for piece in pieces:
            at, end = -piece.skip, piece.group.rows - piece.skip
            while at < end:
                batch = next(batches)
                first, last = max(0, -at), min(batch.num_rows, piece.take - at)
                at += batch.num_rows
                if first < last:
                    yield batch.slice(first, last - first)

    def _decoded(self, epoch: int) -> Iterator[Batch]:
        windows = self._windows(self._pieces(epoch))
        for batch in itertools.chain.from_iterable(map(self._scan, windows)):
            columns = decode_all(self._data.columns, batch, nulls=self._transform is not None)
            yield self._transformed(columns) if self._transform else \
                {name: columns[name] for name in self._columns}

    def _transformed(self, columns: Batch) -> Batch:
        import pandas
        rows = _count(columns)
        frame = self._transform(pandas.DataFrame(
            {name: array if array.ndim == 1 else list(array) for name, array in columns.items()}))
        if len(frame) != rows:
            raise ValueError(f'transformation_fn made {len(frame)} rows of {rows}: filter rows '
                             'before fit()')
        missing = [name for name in self._columns if name not in frame]
        if missing:
            raise ValueError(f'transformation_fn returned no column {missing[0]!r}')
        out = {}
        for name in self._columns:
            array = frame[name].to_numpy()
            if array.dtype == object and rows and not isinstance(array[0], (str, bytes)):
                array = np.stack([np.asarray(value) for value in array])
            out[name] = array
        return out

    def _chunks(self, epoch: int) -> Iterator[Batch]:
        chunks = self._decoded(epoch)
        if self._shuffle:
            rng = np.random.default_rng([self._seed, epoch, self._rank])
            if self._ahead:  # of mixing, too: by as many as are read while a block is mixed
                chunks = _ahead(chunks, -(-self._block_rows // self._chunk_rows))
            chunks = _cut(chunks, itertools.repeat(self._block_rows),
                          lambda parts: _mixed(parts, rng, self._rooms))
        return _ahead(chunks) if self._ahead else chunks

    def _from_memory(self, epoch: int) -> Iterator[Batch]:
        if self._kept is None:
            self._kept = _joined(list(self._decoded(0)))
        rng = np.random.default_rng([self._seed, epoch, self._rank])
        order = rng.permutation(self.rows) if self._shuffle else None
        end = 0
        for rows in self._batches():
            first, end = end, end + rows
            yield _part(self._kept, first, end) if order is None else \
                {name: array[order[first:end]] for name, array in self._kept.items()}

    def _batches(self) -> Iterator[int]:
        return _sizes(self.rows, self._batch_size, alone=not self._fill)

    def epoch(self, number: int) -> Iterator[Batch]:
        """This rank's batches of that epoch. Arrays may be read-only. ValueError that names a
        column with nulls, or with rows of another shape."""
        if not self.rows:
            return iter(())
        if self._cache:
            return self._from_memory(number)
        return _cut(self._chunks(number), self._batches())

    def batches(self, steps: Optional[int] = None, first: int = 0) -> Iterator[List[Batch]]:
        """Iterators over epochs, from that one on, without an end: each of so many batches, with
        further passes over the rows where these are fewer; steps: one pass, unless told."""
        if steps is None:
            for number in itertools.count(first):
                yield self.epoch(number)
        endless = itertools.chain.from_iterable(map(self.epoch, itertools.count(first)))
        while True:
            yield itertools.islice(endless, steps)
