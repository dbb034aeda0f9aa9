# SPDX-License-Identifier: Apache-2.0
"""Stores: where estimators keep the data that ranks read, checkpoints and logs.

    store = Store.create('/shared/experiments')        # also hdfs://, s3://, gs://, abfs://, dbfs:/

    PREFIX/intermediate_train_data.KEY     Parquet of the rows to train with; KEY: their contents
    PREFIX/intermediate_val_data.KEY       of those to validate with
    PREFIX/runs/RUN_ID/checkpoint.h5       the state after the last epoch
    PREFIX/runs/RUN_ID/logs/               what a run has to say

Paths are URLs, as Spark takes them. A store travels to the ranks with the training function: it
holds names and settings only, and connects where it is used.
"""
import contextlib
import errno
import os
import posixpath
import tempfile
import urllib.parse
from types import SimpleNamespace
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from horovod.runner.common.util import codec

#: Schemes that pyarrow reads itself; fsspec has the others, where it is installed.
_ARROW = {'s3': 's3', 's3a': 's3', 's3n': 's3', 'gs': 'gs', 'gcs': 'gs', 'abfs': 'abfs',
          'abfss': 'abfss', 'hdfs': 'hdfs', 'viewfs': 'viewfs'}

#: The names of S3, which has no folders.
S3 = ('s3', 's3a', 's3n')


def _pyarrow_fs() -> Any:
    try:
        from pyarrow import fs
    except ImportError as error:
        raise ImportError('Stores need Arrow\'s Python package, here and on the executors: '
                          'pip install pyarrow') from error
    return fs


def scheme_of(path: str) -> str:
    """'s3' of s3://bucket/folder; '' of a plain path."""
    scheme, colon, _ = path.partition(':')
    return scheme.lower() if colon and scheme.isalnum() and len(scheme) > 1 else ''


def _own() -> str:
    """The end of a name that no other thread or host takes at the same time."""
    return os.urandom(6).hex()


@contextlib.contextmanager
def telling(doing: str, path: str) -> Iterator[None]:
    """Errors of the file system say what was done with which path, and what helps."""
    remedies = {errno.ENOSPC: 'The store is full: make room, or take another prefix_path.',
                errno.EDQUOT: 'The quota is used up: make room, or take another prefix_path.',
                errno.EACCES: 'Who runs Spark and its executors must be able to write there.',
                errno.EPERM: 'Who runs Spark and its executors must be able to write there.',
                errno.EROFS: 'It is mounted read-only: take another prefix_path.'}
    try:
        yield
    except OSError as error:
        number = error.errno
        if number is None:  # pyarrow keeps it in the text alone
            number = next((code for code in remedies if os.strerror(code) in str(error)), None)
        remedy = remedies.get(number, '')
        kind = type(error) if isinstance(error, (FileNotFoundError, PermissionError)) else OSError
        text = f'The store cannot {doing} {path}: {error.strerror or error}. {remedy}'.rstrip()
        raise (kind(text) if number is None else kind(number, text)) from error
    except ImportError:
        raise
    except Exception as error:  # fsspec's packages have errors of their own
        raise OSError(f'The store cannot {doing} {path}: {type(error).__name__}: {error}. See that '
                      'this host reaches it, and that storage_options are right') from error


class Store:
    """What estimators ask of a store. create() makes the one that a path belongs to."""

    def is_parquet_dataset(self, path: str) -> bool:
        """Whether there are Parquet files in that folder."""
        raise NotImplementedError

    def get_parquet_dataset(self, path: str) -> Any:
        """pyarrow's ParquetDataset of that folder."""
        raise NotImplementedError

    def get_train_data_path(self, idx: Any = None) -> str:
        """Where the rows to train with lie; idx: of one set of data."""
        raise NotImplementedError

    def get_val_data_path(self, idx: Any = None) -> str:
        raise NotImplementedError

    def get_test_data_path(self, idx: Any = None) -> str:
        raise NotImplementedError

    def saving_runs(self) -> bool:
        """Whether checkpoints and logs are kept."""
        raise NotImplementedError

    def get_runs_path(self) -> str:
        raise NotImplementedError

    def get_run_path(self, run_id: str) -> str:
        raise NotImplementedError

    def get_checkpoint_path(self, run_id: str) -> Optional[str]:
        """None: runs are not saved."""
        raise NotImplementedError

    def get_checkpoints(self, run_id: str, suffix: str = '.ckpt') -> List[str]:
        """The files in the run's folder whose names end so, by name."""
        raise NotImplementedError

    def get_logs_path(self, run_id: str) -> Optional[str]:
        raise NotImplementedError

    def get_checkpoint_filename(self) -> str:
        raise NotImplementedError

    def get_logs_subdir(self) -> str:
        raise NotImplementedError

    def exists(self, path: str) -> bool:
        raise NotImplementedError

    def read(self, path: str) -> bytes:
        raise NotImplementedError

    def write_text(self, path: str, text: str) -> None:
        raise NotImplementedError

    def get_local_output_dir_fn(self, run_id: str) -> Callable[[], Any]:
        """A function that makes a context, which is a folder here for what the run writes."""
        raise NotImplementedError

    def sync_fn(self, run_id: str) -> Callable[[str], None]:
        """A function that brings what is new in such a folder into the store."""
        raise NotImplementedError

    def to_remote(self, run_id: str, dataset_idx: Any = None) -> Any:
        """The store's paths for one run, as attributes."""
        return SimpleNamespace(
            train_data_path=self.get_train_data_path(dataset_idx),
            val_data_path=self.get_val_data_path(dataset_idx),
            test_data_path=self.get_test_data_path(dataset_idx),
            saving_runs=self.saving_runs(), runs_path=self.get_runs_path(),
            run_path=self.get_run_path(run_id), checkpoint_path=self.get_checkpoint_path(run_id),
            logs_path=self.get_logs_path(run_id),
            checkpoint_filename=self.get_checkpoint_filename(), logs_subdir=self.get_logs_subdir(),
            get_local_output_dir=self.get_local_output_dir_fn(run_id), sync=self.sync_fn(run_id))

    @staticmethod
    def create(prefix_path: str, *args: Any, **kwargs: Any) -> 'Store':
        """The store at that path: HDFS, Databricks' DBFS, this host's files (which all hosts must
        share), or any other file system by its URL. The rest goes to the store's class."""
        if HDFSStore.matches(prefix_path):
            return HDFSStore(prefix_path, *args, **kwargs)
        if DBFSLocalStore.matches_dbfs(prefix_path):
            return DBFSLocalStore(prefix_path, *args, **kwargs)
        if scheme_of(prefix_path) in ('', 'file'):
            return LocalStore(prefix_path, *args, **kwargs)
        return FilesystemStore(prefix_path, *args, **kwargs)


class AbstractFilesystemStore(Store):
    """A store in folders. train_path, val_path, test_path, runs_path: instead of those below
    prefix_path. save_runs=False: no checkpoints and logs. storage_options: what fsspec takes for
    this file system, which is used then instead of pyarrow's own."""

    def __init__(self, prefix_path: str, train_path: Optional[str] = None,
                 val_path: Optional[str] = None, test_path: Optional[str] = None,
                 runs_path: Optional[str] = None, save_runs: bool = True,
                 storage_options: Optional[Dict[str, Any]] = None,
                 checkpoint_filename: Optional[str] = None, **kwargs: Any):
        if kwargs:
            raise TypeError(f'{type(self).__name__} has no {", ".join(sorted(kwargs))}')
        self.prefix_path = self.get_full_path(prefix_path).rstrip('/')
        self.storage_options = dict(storage_options or {})
        self._train_path = self._below(train_path, 'intermediate_train_data')
        self._val_path = self._below(val_path, 'intermediate_val_data')
        self._test_path = self._below(test_path, 'intermediate_test_data')
        self._runs_path = self._below(runs_path, 'runs')
        self._save_runs = save_runs
        self._checkpoint_filename = checkpoint_filename or 'checkpoint.h5'
        self._connected: Any = None

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, '_connected': None}

    def _below(self, path: Optional[str], name: str) -> str:
        return self.get_full_path(path) if path else f'{self.prefix_path}/{name}'

    # ------------------------------------------------------------------ the file system

    def _connect(self) -> Any:
        raise NotImplementedError

    @property
    def fs(self) -> Any:
        """pyarrow's file system, in which paths are get_localized_path()'s."""
        if self._connected is None:
            with telling('reach', self.prefix_path):
                self._connected = self._connect()
        return self._connected

    def get_filesystem(self) -> Any:
        return self.fs

    def get_full_path(self, path: str) -> str:
        """The URL of a path."""
        raise NotImplementedError

    def get_full_path_fn(self) -> Callable[[str], str]:
        return self.get_full_path

    def get_localized_path(self, path: str) -> str:
        """What the file system calls that path: no scheme. As Spark does, it takes a % as it is."""
        return path.split('://', 1)[1] if '://' in path else path

    def _make_folder(self, local: str) -> None:
        self.fs.create_dir(local, recursive=True)

    def _kind(self, path: str) -> str:
        return self.fs.get_file_info(self.get_localized_path(path)).type.name

    def exists(self, path: str) -> bool:
        with telling('look for', path):
            return self._kind(path) != 'NotFound'

    def read(self, path: str) -> bytes:
        with telling('read', path), \
                self.fs.open_input_stream(self.get_localized_path(path)) as stream:
            return stream.read()

    def read_serialized_keras_model(self, ckpt_path: str, model: Any = None,
                                    custom_objects: Any = None) -> str:
        """A checkpoint's bytes, of which codec.loads_base64() makes bytes again, as Horovod's
        callers do. The others say nothing here: a checkpoint has the whole model."""
        return codec.dumps_base64(self.read(ckpt_path))

    def write(self, path: str, data: bytes) -> None:
        """The file has its name when it is complete; what it replaces stays until then."""
        local = self.get_localized_path(path)
        part = f'{local}.part-{_own()}'
        with telling('write', path):
            self._make_folder(posixpath.dirname(local))
            try:
                with self.fs.open_output_stream(part) as stream:
                    stream.write(data)
                self.fs.move(part, local)
            except OSError:
                with contextlib.suppress(OSError):
                    self.fs.delete_file(part)
                raise

    def write_text(self, path: str, text: str) -> None:
        self.write(path, text.encode())

    def remove(self, path: str) -> None:
        """The folder, if there is one."""
        with telling('remove', path):
            if self._kind(path) == 'Directory':
                self.fs.delete_dir(self.get_localized_path(path))

    def check_writable(self) -> None:
        """OSError that says what is wrong, unless a file can be written."""
        path = f'{self._runs_path}/.written-{_own()}'
        self.write(path, b'x' * 4096)  # some full file systems still take the file's name
        with telling('remove', path):
            self.fs.delete_file(self.get_localized_path(path))

    def _files(self, path: str) -> List[Tuple[str, int]]:
        """(path in the file system, bytes) of each below that folder, by name."""
        from pyarrow.fs import FileSelector
        selector = FileSelector(self.get_localized_path(path), recursive=True,
                                allow_not_found=True)
        with telling('list', path):
            return sorted((info.path, info.size) for info in self.fs.get_file_info(selector)
                          if info.is_file)

    # ------------------------------------------------------------------ data

    def parquet_files(self, path: str) -> List[str]:
        """The files with rows, for the file system; Spark's own begin with _ or a dot."""
        return [name for name, size in self._files(path)
                if size and not posixpath.basename(name).startswith(('_', '.'))]

    def is_parquet_dataset(self, path: str) -> bool:
        return any(name.endswith('.parquet') for name in self.parquet_files(path))

    def get_parquet_dataset(self, path: str) -> Any:
        from pyarrow import parquet
        return parquet.ParquetDataset(self.get_localized_path(path), filesystem=self.fs)

    def get_train_data_path(self, idx: Any = None) -> str:
        return self._train_path if idx is None else f'{self._train_path}.{idx}'

    def get_val_data_path(self, idx: Any = None) -> str:
        return self._val_path if idx is None else f'{self._val_path}.{idx}'

    def get_test_data_path(self, idx: Any = None) -> str:
        return self._test_path if idx is None else f'{self._test_path}.{idx}'

    def get_data_metadata_path(self, path: str) -> str:
        """Beside the data: what is known of its columns."""
        return f'{path.rstrip("/")}_cached_metadata.json'

    # ------------------------------------------------------------------ runs

    def saving_runs(self) -> bool:
        return self._save_runs

    def get_runs_path(self) -> str:
        return self._runs_path

    def get_run_path(self, run_id: str) -> str:
        return f'{self._runs_path}/{run_id}'

    def get_checkpoint_path(self, run_id: str) -> Optional[str]:
        if not self._save_runs:
            return None
        return f'{self.get_run_path(run_id)}/{self.get_checkpoint_filename()}'

    def get_checkpoints(self, run_id: str, suffix: str = '.ckpt') -> List[str]:
        return [name for name, _ in self._files(self.get_run_path(run_id))
                if name.endswith(suffix)]

    def get_logs_path(self, run_id: str) -> Optional[str]:
        return f'{self.get_run_path(run_id)}/{self.get_logs_subdir()}' if self._save_runs else None

    def get_checkpoint_filename(self) -> str:
        return self._checkpoint_filename

    def get_logs_subdir(self) -> str:
        return 'logs'

    def get_local_output_dir_fn(self, run_id: str) -> Callable[[], Any]:
        @contextlib.contextmanager
        def output() -> Iterator[str]:
            with tempfile.TemporaryDirectory(prefix='reigen-run-') as folder:
                yield folder
        return output

    def sync_fn(self, run_id: str) -> Callable[[str], None]:
        taken: Dict[str, Tuple[int, int]] = {}  # file: when it was written, and bytes
        target = self.get_run_path(run_id)

        def sync(folder: str) -> None:
            for where, _, names in os.walk(folder):
                for name in names:
                    path = os.path.join(where, name)
                    state = os.stat(path)
                    seen = (state.st_mtime_ns, state.st_size)
                    if taken.get(path) != seen:
                        with open(path, 'rb') as stream:
                            self.write(f'{target}/{os.path.relpath(path, folder)}', stream.read())
                        taken[path] = seen
        return sync


class FilesystemStore(AbstractFilesystemStore):
    """A store at a URL: pyarrow's file systems (S3, Google's, Azure's, HDFS), or fsspec's."""

    def _make_folder(self, local: str) -> None:
        if scheme_of(self.prefix_path) not in S3:  # where s3fs would make the bucket, if need be
            super()._make_folder(local)

    def _is_arrows(self) -> bool:
        return scheme_of(self.prefix_path) in _ARROW and not self.storage_options

    def _connect(self) -> Any:
        fs = _pyarrow_fs()
        scheme = scheme_of(self.prefix_path)
        if self._is_arrows():
            # Without the folder, in whose name a URL of pyarrow's would not take a space.
            host = urllib.parse.urlsplit(self.prefix_path).netloc
            return fs.FileSystem.from_uri(f'{_ARROW[scheme]}://{host}')[0]
        try:
            import fsspec
            # Spark and other programs write there, too: what was listed before may have changed.
            return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(
                scheme, **{'use_listings_cache': False, **self.storage_options})))
        except (ImportError, ValueError) as error:
            raise ImportError(f'{self.prefix_path}: pyarrow has no file system for {scheme}://, or '
                              'none that takes storage_options. That needs fsspec and its package '
                              f'for {scheme}: {error}') from error

    def get_localized_path(self, path: str) -> str:
        local = super().get_localized_path(path)
        if local == path:
            return path
        if self._is_arrows():
            where, slash, below = local.partition('/')
            return where.partition('@')[0] + slash + below  # without the account of Azure's
        try:
            import fsspec
            return fsspec.get_filesystem_class(scheme_of(path))._strip_protocol(path)
        except (ImportError, ValueError):  # fs says what is missing
            return local

    def copy(self, lpath: str, rpath: str, recursive: bool = False, **kwargs: Any) -> None:
        """Files of this host into the store."""
        if not recursive:
            with open(lpath, 'rb') as stream:
                return self.write(rpath, stream.read())
        for where, _, names in os.walk(lpath):
            for name in names:
                path = os.path.join(where, name)
                self.copy(path, f'{rpath}/{os.path.relpath(path, lpath)}')
        return None

    def get_full_path(self, path: str) -> str:
        return path if '://' in path else f'{scheme_of(self.prefix_path)}://{path.lstrip("/")}'

    @classmethod
    def matches(cls, path: str) -> bool:
        return scheme_of(path) not in ('', 'dbfs')


class LocalStore(FilesystemStore):
    """A folder that all hosts see at the same path; this host's own, if Spark runs on it alone."""

    def _connect(self) -> Any:
        return _pyarrow_fs().LocalFileSystem()

    def get_full_path(self, path: str) -> str:
        if path.startswith('file:'):
            return 'file://' + os.path.abspath(self.get_localized_path(path))
        return 'file://' + os.path.abspath(path)

    def get_localized_path(self, path: str) -> str:
        if path.startswith('file:'):
            path = path[len('file:'):]
            return '/' + path.lstrip('/') if path.startswith('//') else path
        return path

    def get_local_output_dir_fn(self, run_id: str) -> Callable[[], Any]:
        folder = self.get_localized_path(self.get_run_path(run_id))

        @contextlib.contextmanager
        def output() -> Iterator[str]:
            with telling('make the folder', folder):
                os.makedirs(folder, exist_ok=True)
            yield folder
        return output

    def sync_fn(self, run_id: str) -> Callable[[str], None]:
        return lambda folder: None  # it has been written there

    @classmethod
    def matches(cls, path: str) -> bool:
        return scheme_of(path) in ('', 'file')


class HDFSStore(AbstractFilesystemStore):
    """A store in Hadoop's file system, by pyarrow and libhdfs: Hadoop and Java on each host. host
    and port are the name node's, by default the path's, or else those of Hadoop's settings."""

    def __init__(self, prefix_path: str, host: Optional[str] = None, port: Optional[int] = None,
                 user: Optional[str] = None, kerb_ticket: Optional[str] = None,
                 driver: str = 'libhdfs', extra_conf: Optional[Dict[str, str]] = None,
                 *args: Any, **kwargs: Any):
        if driver != 'libhdfs':
            raise ValueError(f'driver={driver!r}: pyarrow has libhdfs alone')
        own_host, own_port, _ = self.parse_url(prefix_path)
        self._host, self._port = host or own_host, port or own_port
        self._user, self._ticket, self._extra = user, kerb_ticket, extra_conf
        super().__init__(prefix_path, *args, **kwargs)

    @staticmethod
    def parse_url(url: str) -> Tuple[Optional[str], Optional[int], str]:
        """Host, port and path of hdfs://host:port/path."""
        parts = urllib.parse.urlsplit(url)
        return parts.hostname, parts.port, parts.path if parts.scheme else url

    def _connect(self) -> Any:
        return _pyarrow_fs().HadoopFileSystem(self._host or 'default', self._port or 0,
                                              user=self._user, kerb_ticket=self._ticket,
                                              extra_conf=self._extra)

    def get_full_path(self, path: str) -> str:
        if self.matches(path):
            return path
        where = '' if self._host is None else self._host
        return f'hdfs://{where}{f":{self._port}" if where and self._port else ""}{path}'

    def get_localized_path(self, path: str) -> str:
        return self.parse_url(path)[2]

    @classmethod
    def matches(cls, path: str) -> bool:
        return scheme_of(path) == 'hdfs'


class DBFSLocalStore(LocalStore):
    """Databricks' file system, which each host mounts at /dbfs."""

    def __init__(self, prefix_path: str, *args: Any, **kwargs: Any):
        super().__init__(self.normalize_path(prefix_path), *args, **kwargs)

    @classmethod
    def matches_dbfs(cls, path: str) -> bool:
        return path.startswith(('dbfs:/', '/dbfs/', 'file:///dbfs/', 'file:/dbfs/'))

    @staticmethod
    def normalize_path(path: str) -> str:
        """/dbfs/folder of dbfs:/folder, dbfs:///folder and file:///dbfs/folder."""
        if path.startswith('dbfs:/'):
            return '/dbfs/' + path[len('dbfs:/'):].lstrip('/')
        return '/' + path[len('file:'):].lstrip('/') if path.startswith('file:') else path

    def get_localized_path(self, path: str) -> str:
        return super().get_localized_path(self.normalize_path(path))

    def get_full_path(self, path: str) -> str:
        return super().get_full_path(self.normalize_path(path))
