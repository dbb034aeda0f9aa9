# SPDX-License-Identifier: Apache-2.0
"""Elastic training: a state that is committed, restored and synchronised, and the loop around it.

    @hvd.elastic.run
    def train(state):
        while state.batch < 100:
            ...
            state.batch += 1
            state.commit()

run_fn calls the function again, from the last committed state and after another init(), when an
operation fails because a rank has died, and from the present state when hosts have come or gone.
In a job that is elastic the launcher decides, for all ranks alike, whether the state is sent then.
"""
import copy
import enum
import errno
import functools
import queue
from typing import Any, Callable, Dict, Iterable, Set

from horovod.common import process_sets
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt, Preempted
from horovod.common.preemption import notice
from reigen import _core
from reigen._objects import dumps
from reigen.errors import InvalidOperationError


class HostUpdateResult(enum.IntFlag):
    """What has happened to the set of hosts."""

    no_update = 0
    removed = 1
    added = 2
    mixed = 3


class WorkerNotificationManager:
    """Where the launcher's messages about hosts arrive, and who wants to hear of them.

    Without an elastic launcher no message comes; handle_hosts_updated() may be called by anything
    that knows better. The runtime keeps the newest one, which look() takes: no thread waits for it.
    """

    def __init__(self):
        self._listeners: Set[Any] = set()
        self._newest = 0

    def init(self, rendezvous_addr=None, rendezvous_port=None, nic=None, hostname=None,
             local_rank=None) -> None:
        """Start to listen; there is nothing to be done for it. May be repeated."""

    def look(self) -> None:
        """Pass on what the launcher has said last, if that is new."""
        epoch = _core.epoch()
        update = epoch.update & _core.HOSTS_CHANGED
        if update and epoch.stamp > self._newest:
            self._newest = epoch.stamp
            self.handle_hosts_updated(epoch.stamp / 1000, update)

    def register_listener(self, listener) -> None:
        """listener.on_hosts_updated(timestamp, update_res) is called for each message."""
        self._listeners.add(listener)

    def remove_listener(self, listener) -> None:
        self._listeners.discard(listener)

    def handle_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Hosts have come or gone; newer messages have larger timestamps."""
        for listener in list(self._listeners):
            listener.on_hosts_updated(timestamp, update_res)


notification_manager = WorkerNotificationManager()


class _Messages(queue.Queue):
    """(timestamp, update) of each message to a state. Whoever asks whether there is one hears of
    what the launcher has said by now: scripts wait so for a change of hosts, between commits."""

    def empty(self) -> bool:
        notification_manager.look()
        return super().empty()


class State:
    """What a rank must keep over a change of ranks. Subclasses say how it is saved and sent.

    bcast_object: function that gives rank 0's object on all ranks.
    get_rank: function that gives this process's rank.
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]):
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages = _Messages()
        self._last_updated_timestamp = 0
        self._reset_callbacks = []
        self._preemption_callbacks = []
        self._synced = False  # it has been that of the other ranks, once

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Call these after ranks have come or gone, for instance to scale the learning rate."""
        self._reset_callbacks.extend(callbacks)
        process_sets.expect_callbacks()

    def register_preemption_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Call these in commit(), after save(), when the job is told to stop, or may have to: for
        instance to write a checkpoint. All ranks register some, and call them at the same commit;
        then each raises Preempted, if the job stops."""
        self._preemption_callbacks.extend(callbacks)
        notice.listen()

    def on_reset(self) -> None:
        """There are other ranks now; run_fn calls it after init()."""
        self._host_messages = _Messages()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """A message has come; may be called by any thread."""
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """save(), then check_host_updates(). All ranks must call it at the same place."""
        self.save()
        try:
            self.check_host_updates()
        except HostsUpdatedInterrupt:
            _core.committed()
            raise
        _core.committed()

    def check_host_updates(self) -> None:
        """Raise HostsUpdatedInterrupt, on all ranks alike, if rank 0 has been told of a change;
        and Preempted, after the callbacks for that, if it has been told that the job stops.

        Sends something between the ranks: all of them must call it.
        """
        before = latest = self._last_updated_timestamp
        result = HostUpdateResult.no_update
        while not self._host_messages.empty():
            timestamp, update = self._host_messages.get()
            if timestamp > latest:
                latest = timestamp
                result |= update
        word = notice.take()  # of a rank without callbacks, too: another one may have some
        before, latest, result, word = self._bcast_object((before, latest, result, word))
        self._last_updated_timestamp = latest
        if word:
            self._preempted(stops=word & _core.JOB_STOPS)
        if latest > before:
            # With fewer hosts all that are left agree already.
            raise HostsUpdatedInterrupt(result == HostUpdateResult.removed)

    def _preempted(self, stops: int) -> None:
        if stops:
            notice.save()
        try:
            for callback in self._preemption_callbacks:
                callback()
        except HorovodInternalError as error:
            if not stops:
                raise
            # Nobody meets again in a job that stops.
            raise RuntimeError(f'a preemption callback failed: {error}') from error
        if stops:
            raise Preempted()

    def save(self) -> None:
        """Keep a copy of the present state in memory."""
        raise NotImplementedError(f'{type(self).__name__} does not define save()')

    def restore(self) -> None:
        """Go back to the last copy."""
        raise NotImplementedError(f'{type(self).__name__} does not define restore()')

    def sync(self) -> None:
        """Give every rank rank 0's state."""
        raise NotImplementedError(f'{type(self).__name__} does not define sync()')

    def reset(self) -> None:
        """Adapt to other ranks, before sync(); nothing by default."""


def _kept(value: Any) -> Any:
    """What is kept of a value: a copy of plain containers, which change under their owner's hands;
    else the object itself, as it may be known elsewhere."""
    if type(value) in (dict, list, set, bytearray):
        return copy.deepcopy(value)
    return value


class _Unsendable:
    """What is sent in the place of a state that pickle does not take."""

    def __init__(self, why: str):
        self.why = why


def _why_not(values: Dict[str, Any]) -> str:
    for name, value in values.items():
        try:
            dumps(value)
        except Exception as error:
            return f'{name}: {error}'
    return ''


class ObjectState(State):
    """Plain Python objects, given by keyword, as attributes of the state."""

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int],
                 **kwargs: Any):
        super().__init__(bcast_object, get_rank)
        self._saved_state: Dict[str, Any] = kwargs
        self._set_attrs()

    def save(self) -> None:
        self._saved_state = {name: _kept(getattr(self, name)) for name in self._saved_state}

    def restore(self) -> None:
        self._set_attrs()

    def sync(self) -> None:
        if self._saved_state:
            self._saved_state = self._sent()
            self._set_attrs()

    def _sent(self) -> Dict[str, Any]:
        """Rank 0's; if it cannot be sent, all ranks are told which value it is for."""
        try:
            received = self._bcast_object(self._saved_state)
        except HorovodInternalError:
            raise
        except Exception as error:  # pickle raises all kinds
            why = _why_not(self._saved_state) or str(error)
            self._bcast_object(_Unsendable(why))
            raise TypeError(f'the state cannot be sent: {why}') from error
        if isinstance(received, _Unsendable):
            raise TypeError(f"rank 0's state cannot be sent: {received.why}")
        return received

    def _set_attrs(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, _kept(value))


def run_fn(func: Callable, reset: Callable[[], None]) -> Callable:
    """func(state, ...) in a loop that survives the loss and the arrival of ranks.

    reset leaves the job and joins it again. The state is synchronised before each call, unless
    all ranks have the same: the launcher of an elastic job knows that, else it is so after hosts
    have only gone. An operation that this rank has used wrongly, or that all ranks found not to
    match, would fail again and again: such an error is raised.
    """

    @functools.wraps(func)
    def wrapper(state, *args, **kwargs):
        notification_manager.init()
        notification_manager.register_listener(state)
        process_sets.end_adoption()
        _core.join_in()
        _core.count_commits()
        _core.go_on(failed=False)
        skip_sync = changed = False
        if getattr(state, '_preemption_callbacks', None):
            notice.listen()
        try:
            while True:
                try:
                    if changed:
                        changed = False
                        with process_sets.own():
                            state.on_reset()
                    if _needs_sync(skip_sync):
                        state.sync()
                    state._synced = True
                    return func(state, *args, **kwargs)
                except InvalidOperationError:
                    raise
                except HorovodInternalError as error:
                    if _is_final(error):
                        raise
                    _core.go_on(failed=True, lacks=not getattr(state, '_synced', False))
                    state.restore()
                    skip_sync = False
                except HostsUpdatedInterrupt as change:
                    skip_sync = change.skip_sync
                waited = notice.rest()
                reset()
                if waited:
                    notice.listen()
                changed = True
        finally:
            notice.end()
            notification_manager.remove_listener(state)

    return wrapper


def _needs_sync(skip_sync: bool) -> bool:
    epoch = _core.epoch()
    return bool(epoch.sync) if epoch.number else not skip_sync


def _is_final(error: HorovodInternalError) -> bool:
    return getattr(error, 'errno', 0) == errno.EINVAL
