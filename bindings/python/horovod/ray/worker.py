# SPDX-License-Identifier: Apache-2.0
"""The actor that is a rank. It stays one from start() to shutdown(), and is called meanwhile."""
import contextlib
import os
import pickle
import socket
from typing import Any, Callable, Dict, List, Mapping, Optional

import ray

from horovod.ray import ray_logger
from reigen import _member, boot
from reigen._frames import seal


def gpus() -> List[str]:
    ask = getattr(ray.get_runtime_context(), 'get_accelerator_ids', None)  # Ray 2.3 has none
    return [str(one) for one in (ask().get('GPU', []) if ask else ray.get_gpu_ids())]


def _variables(place: Mapping[str, Any]) -> Dict[str, str]:
    """Those by which ranks are numbered."""
    names = ('rank', 'size', 'local_rank', 'local_size', 'cross_rank', 'cross_size')
    named = {f'{prefix}_{name.upper()}': place[name] for prefix in ('REIGEN', 'HOROVOD')
             for name in names}
    return {name: str(value) for name, value in {
        **named, 'RANK': place['rank'], 'WORLD_SIZE': place['size'],
        'LOCAL_RANK': place['local_rank'], 'LOCAL_WORLD_SIZE': place['local_size']}.items()}


class _Seat:
    """A place in a ring of workers: the line to the driver, and what init() joins meanwhile."""

    def __init__(self, call: _member.Call, index: int, timeout: float,
                 facts: Optional[Mapping[str, Any]] = None):
        self.key = call.key
        self.way = _member.connect(_member._Way, call, index, facts or {})
        self._lent = contextlib.ExitStack()
        try:
            place = self.way.started.get()
            if place is None:
                raise _member.Gone('the job has ended before all workers had come')
            self.place: Dict[str, Any] = place
            self._lent.enter_context(boot.lending(lambda limit: self.way.meet(
                place['rank'], place['size'], limit or timeout)))
        except BaseException:
            self.way.close()
            raise

    def tell(self, kind: str, **fields: Any) -> None:
        with contextlib.suppress(OSError):  # the driver has gone
            self.way.line.send(kind, **fields)

    def leave(self) -> None:
        self._lent.close()
        self.way.close()


class BaseHorovodWorker:
    """What horovod.ray makes actors of. executable: the object of the caller's class, which lives
    here; None when start() was given none."""

    def __init__(self, world_rank: int = 0, world_size: int = 1):
        self.executable: Any = None
        self._seat: Optional[_Seat] = None

    # ---------------------------------------------------------------- for everyone

    def node_id(self) -> str:
        return ray.get_runtime_context().get_node_id()

    def hostname(self) -> str:
        return socket.gethostname()

    def get_gpu_ids(self) -> List[str]:
        return gpus()

    def update_env_vars(self, env_vars: Mapping[str, Any]) -> None:
        os.environ.update({name: str(value) for name, value in env_vars.items()})

    def env_vars(self) -> Dict[str, str]:
        return dict(os.environ)

    def start_executable(self, executable_cls: Optional[type] = None,
                         executable_args: Optional[List] = None,
                         executable_kwargs: Optional[Dict] = None) -> None:
        if executable_cls is not None:
            self.executable = executable_cls(*(executable_args or []), **(executable_kwargs or {}))

    def execute(self, func: Callable[[Any], Any]) -> Any:
        return func(self.executable)

    # ---------------------------------------------------------------- for the driver's ring

    def sit(self, call: _member.Call, index: int, timeout: float) -> Dict[str, Any]:
        """Be a rank from now on, of a ring of as many workers as are told to at once; blocks until
        all have come. timeout: of each init(), in seconds. Returns what the driver is to know."""
        self.rise()
        self._seat = _Seat(call, index, timeout)
        self.update_env_vars({**_variables(self._seat.place), **call.env})
        return {**self._seat.place, 'gpus': gpus(), 'pid': os.getpid(),
                'machine': _member._facts()['machine']}

    def rise(self) -> None:
        """Be a rank no longer."""
        if self._seat is not None:
            seat, self._seat = self._seat, None
            seat.leave()

    def act(self, turn: int, listens: bool, how: str, func: Callable[..., Any]) -> Any:
        """Call it: 'run', func(); 'execute', func(executable); 'make', func() is the executable
        from now on. The driver hears at once when it fails. turn: the driver's number of the call.
        listens: whether it wants what the function logs."""
        seat = self._seat
        if seat is None:
            raise _member.Gone('this worker is no rank any more')
        if listens:
            ray_logger.configure(lambda info: seat.way.line.send(
                'log', seal(seat.key, pickle.dumps(info)), turn=turn))
        try:
            result = func(self.executable) if how == 'execute' else func()
            if how != 'make':
                return result
            self.executable = result
        except BaseException as error:
            seat.tell('failed', turn=turn)
            if isinstance(error, SystemExit):  # Ray would take it as the worker's wish to end
                raise RuntimeError(f'sys.exit({error.code!r}) was called, and brings no '
                                   'result') from error
            raise
        finally:
            ray_logger.configure(None)
            seat.tell('through', turn=turn, torn=seat.way.torn)
        return None
