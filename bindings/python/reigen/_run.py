# SPDX-License-Identifier: Apache-2.0
"""reigen.run(): a function on the ranks of a job, called from a notebook or a script."""
import contextlib
import functools
import html
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from typing import (Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple,
                    Union)

import reigen
from reigen import _cells, _follow, _launcher, _traceback, _travel

#: Options of reigen run that are not for a function, and why.
_REFUSED = {
    'json': 'run() itself reads the events',
    'stdin': 'a function has no standard input',
    'pty': 'a function has no standard input',
    'debug_rank': 'a function has no standard input; docs/debug.md has debugpy',
    'submit': 'run() waits for the results', 'detach': 'run() waits for the results',
    'dry_run': 'run() returns what ranks return; `reigen run --dry-run` shows a plan',
    'write_plan': 'run() returns what ranks return; `reigen run --write-plan` writes a plan',
    'help': '`reigen run --help all` prints them', 'version': 'reigen.__version__ has it',
}
_ELASTIC = ('min_np', 'min_num_proc', 'max_np', 'max_num_proc', 'spares')
#: With these a rank may fail and the job go on, and ranks begin late: standard input is over then.
_GOES_ON = (*_ELASTIC, 'max_restarts', 'config', 'profile')
#: With these standard input may reach one process alone, or none.
_NO_INPUT = ('engine', 'on')
#: Variables by which the launcher itself is steered, which therefore are told in its arguments.
_STEERING = ('PATH', 'HOME', 'TMPDIR', 'SHELL')
_STEERING_PREFIXES = ('LD_', 'REIGEN_', 'SSH_', 'XDG_', 'PYTHON')


class JobFailed(RuntimeError):
    """A job ended badly: its text is the verdict, with the traceback of the rank that failed first.

    exit_code: the launcher's, see `reigen explain`. cause: in one line. rank: the one that failed
    first, or None. same: the ranks that failed as it did. traceback: its traceback as text, or ''.
    tracebacks: those of all ranks that left one, by rank. last_lines: what the rank printed last.
    """

    def __init__(self, exit_code: int, cause: str, rank: Optional[int] = None,
                 same: Sequence[int] = (), tracebacks: Optional[Dict[int, str]] = None,
                 last_lines: Sequence[str] = (), seconds: Optional[float] = None) -> None:
        self.exit_code, self.cause, self.rank = exit_code, cause, rank
        self.same, self.last_lines, self.seconds = list(same), list(last_lines), seconds
        self.tracebacks = tracebacks or {}
        self.traceback = self.tracebacks.get(-1 if rank is None else rank, '')
        super().__init__(exit_code, cause, rank, self.same, self.tracebacks, self.last_lines,
                         seconds)

    def _facts(self) -> List[str]:
        """What the verdict adds to the cause, a sentence each."""
        after = '' if self.seconds is None else f' after {self.seconds:.1f} s'
        facts = [f'The job ended with exit code {self.exit_code}{after}.']
        others = sorted(set(self.tracebacks) - {self.rank} - set(self.same))
        alike = [rank for rank in self.same if rank != self.rank]
        if alike:
            facts.append(f'In the same way failed: rank {_numbers(alike)}.')
        if others:
            facts.append(f'After it failed: rank {_numbers(others)}; tracebacks has how.')
        if not self.traceback:
            facts.append(f'`reigen explain {self.exit_code}` says more.')
        return facts

    def _detail(self) -> str:
        return self.traceback.rstrip() or '\n'.join(self.last_lines)

    def __str__(self) -> str:
        detail = self._detail()
        return '\n'.join([self.cause, *([detail] if detail else []), ' '.join(self._facts())])

    def __repr__(self) -> str:
        return f'<{type(self).__name__}: {self.cause}>'

    def _render_traceback_(self) -> List[str]:
        """IPython shows this instead of its own traceback: where run() was called, then the
        verdict; nothing of what stands between."""
        calls = traceback.format_list([
            call for call in traceback.extract_tb(_traceback.shorten(self))
            if f'{os.sep}IPython{os.sep}' not in call.filename])
        return [*_cells.name_cells(''.join(calls)).splitlines(), '',
                *f'{type(self).__name__}: {self}'.splitlines()]

    def _repr_html_(self) -> str:
        detail = self._detail()
        block = f'<pre style="white-space: pre-wrap">{html.escape(detail)}</pre>' if detail else ''
        more = ''.join(f'<details><summary>rank {rank}</summary><pre style="white-space: pre-wrap">'
                       f'{html.escape(text)}</pre></details>'
                       for rank, text in sorted(self.tracebacks.items()) if rank != self.rank)
        return (f'<div><b>{html.escape(type(self).__name__)}: {html.escape(self.cause)}</b>{block}'
                f'<p>{html.escape(" ".join(self._facts()))}</p>{more}</div>')


def _numbers(ranks: Sequence[int]) -> str:
    """"0, 2-5", as the launcher writes ranks."""
    parts: List[List[int]] = []
    for rank in sorted(ranks):
        if parts and rank == parts[-1][-1] + 1:
            parts[-1].append(rank)
        else:
            parts.append([rank])
    return ', '.join(str(p[0]) if len(p) == 1 else f'{p[0]}-{p[-1]}' for p in parts)


def failure_of(end: _follow.End, receiver: _travel.Receiver, kind: type = JobFailed) -> JobFailed:
    """The error of a job that has failed: what the launcher and the ranks know of it."""
    verdict = end.verdict
    tracebacks = {one.rank: _cells.name_cells(one.data) for one in receiver.outcomes.values()
                  if not one.well}
    said = end.said.strip()
    cause = verdict.get('cause') or said or 'the launcher ended without a word'
    lines = [line for line in verdict.get('last_lines', ()) if line and not receiver.is_ours(line)]
    rank = verdict.get('first')
    if rank is None and len(tracebacks) == 1:
        rank = next(iter(tracebacks))
    return kind(verdict.get('exit_code', end.status), cause, rank, verdict.get('same', ()),
                tracebacks, lines, verdict.get('seconds'))


# ------------------------------------------------------------------------------ options

def _flag(name: str, value: Any) -> List[str]:
    """One option of reigen run, as words."""
    flag = '--' + name.replace('_', '-')
    if value is None or value is False:
        return []
    if value is True:
        return [flag]
    if isinstance(value, (list, tuple)):
        return [word for one in value for word in _flag(name, one)]
    return [f'{flag}={os.fspath(value) if isinstance(value, os.PathLike) else value}']


def _has(options: Mapping[str, Any], names: Sequence[str]) -> bool:
    return any(options.get(name) is not None for name in names)


def _usual(launcher: str, profile: Optional[str], env: Dict[str, str]) -> Dict[str, Any]:
    """What the user's configuration says of all jobs, by option. What is wrong with it the launcher
    tells when it runs the job."""
    flags = [] if profile is None else [f'--profile={profile}']
    done = subprocess.run([launcher, 'config', '--json', *flags], env=env, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)
    try:
        return {one['option'].replace('-', '_'): one['value']
                for one in json.loads(done.stdout)['options']}
    except ValueError:
        return {}


def _check(options: Mapping[str, Any]) -> None:
    for name, why in _REFUSED.items():
        if options.get(name) not in (None, False):
            raise ValueError(f'run() does not take {name}={options[name]!r}: {why}.')


def _flags_of(options: Mapping[str, Any]) -> List[str]:
    return [word for name, value in options.items() for word in _flag(name, value)]


def _variables(env: Union[None, Mapping[str, Any], Sequence[str]],
               own: Dict[str, str]) -> List[str]:
    """The flags for the ranks' variables. Values travel in the launcher's own environment (own),
    since other users see a program's arguments."""
    if env is None:
        return []
    if not isinstance(env, Mapping):
        return _flag('env', list(env))
    flags = []
    for name, value in env.items():
        if name in _STEERING or name.startswith(_STEERING_PREFIXES):
            flags.append(f'--env={name}={value}')
        else:
            own[name] = str(value)
            flags.append(f'--env={name}')
    return flags


def _tag_of(options: Dict[str, Any]) -> Optional[Callable[[int, str, float], str]]:
    """What stands in front of lines: this process does what these options of the launcher's say."""
    plain = options.pop('no_tag_output', None)
    always = options.pop('tag_output', None)
    if always is False:
        plain = True
    if not options.pop('timestamp_output', None):
        return None if not (plain or always) else (
            (lambda rank, stream, when: '') if plain else
            (lambda rank, stream, when: f'[{rank}] '))
    return lambda rank, stream, when: (
        time.strftime('%Y-%m-%dT%H:%M:%S%z ', time.localtime(when)) +
        ('' if plain else f'[{rank}] '))


def _ranks_of(options: Dict[str, Any]) -> Optional[Set[int]]:
    """Whose lines are shown: this process does what --ranks says, as results are lines, too."""
    given = options.pop('ranks', None)
    if given in (None, 'all'):
        return None
    shown: Set[int] = set()
    for part in str(given).split(','):
        first, _, last = part.strip().partition('-')
        if not first.isdigit() or (last and not last.isdigit()):
            raise ValueError(f"ranks={given!r}: give ranks and ranges of them, such as '0,3-5'.")
        shown.update(range(int(first), int(last or first) + 1))
    return shown


# ------------------------------------------------------------------------------ the call

@contextlib.contextmanager
def _sent(parcel: bytes, apart: bool, own: Dict[str, str]) -> Iterator[Tuple[List[str], bytes]]:
    """The parcel on its way: the launcher's flags for it, and its standard input. apart: each rank
    gets it by itself."""
    if not apart:
        own[_travel.CALL] = f'stdin:{len(parcel)}'
        yield [f'--share-env={_travel.CALL}', '--stdin=all'], parcel
        return
    here = _travel.here(parcel)
    if here is not None:
        own[_travel.CALL] = here
        yield [f'--share-env={_travel.CALL}', '--stdin=none'], b''
        return
    with tempfile.NamedTemporaryFile(prefix='reigen-run-') as out:
        out.write(parcel)
        out.flush()
        own[_travel.CALL] = 'file:' + out.name
        yield [f'--share-env={_travel.CALL}', '--stdin=none'], b''


def _command(executable: str) -> List[str]:
    home = os.path.dirname(os.path.dirname(os.path.abspath(reigen.__file__)))
    # An interrupt before the function is called ends the rank without a word.
    return [executable, '-c', 'import signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); '
            f'{home!r} in sys.path or sys.path.append({home!r}); '
            'from reigen import _called; _called.main()']


def launch(func: Callable[[], Any], launcher: Sequence[str], env: Dict[str, str], executable: str,
           goes_on: bool = False, no_input: bool = False,
           tag: Optional[Callable[[int, str, float], str]] = None, wanted: int = 0,
           kind: type = JobFailed, ranks: Optional[Set[int]] = None) -> List[Any]:
    """Call func() on the ranks that the launcher's words describe, which may read env.

    goes_on: a rank may fail and the job go on, and ranks may begin late. no_input: standard input
    does not reach all ranks. tag, ranks: as for _display.Display. wanted: as in _travel.gather().
    kind: of the error for a job that fails; it is made as JobFailed is. KeyboardInterrupt once the
    job has ended, if there was one.
    """
    __tracebackhide__ = True  # from IPython's tracebacks
    token, parcel = _travel.pack(func)
    receiver = _travel.Receiver(token)
    own = dict(env)
    with _sent(parcel, goes_on or no_input, own) as (flags, data):
        # Whatever the configuration says: the results are waited for.
        argv = [*launcher, '--json', '--detach=false', *flags, '--', *_command(executable)]
        end = _follow.follow(argv, own, data, receiver, not goes_on, tag, ranks)
    if end.interrupted:
        raise KeyboardInterrupt(f'The job was ended with exit code {end.status}.')
    if end.status:
        raise failure_of(end, receiver, kind)
    return _travel.gather(list(receiver.outcomes.values()), wanted)


def run(func: Callable, args: Sequence = (), kwargs: Optional[Mapping[str, Any]] = None, *,
        np: Optional[int] = None, hosts: Optional[str] = None, image: Optional[str] = None,
        env: Union[None, Mapping[str, Any], Sequence[str]] = None,
        executable: Optional[str] = None, verbose: int = 0, **options: Any) -> List[Any]:
    """Call func(*args, **kwargs) on each rank of a job; what they return, by rank.

        def train(rate):
            import horovod.torch as hvd
            hvd.init()
            ...
            return accuracy

        reigen.run(train, args=(0.01,), np=4)
        reigen.run(train, args=(0.01,), hosts='a:4,b:4', image='pytorch/pytorch', timeout='2h')

    func and its arguments travel by cloudpickle where it is installed, else by pickle, which takes
    functions of modules only; func calls init() itself. What ranks print is written to sys.stdout
    and sys.stderr as it comes. Neither the function nor results need a directory that hosts share.

    The other arguments are options of `reigen run`, with underscores: True for a flag, a list for
    an option that may be repeated. env is also a mapping. executable is the python of the ranks:
    this one, or python3 in an image; it has the same version and cloudpickle.

    An interrupt (Ctrl-C, a notebook's stop button) ends the job as it does with `reigen run`, and
    KeyboardInterrupt is raised when nothing is left of it. The job also ends when this process
    does.

    Raises JobFailed with the verdict and the traceback of the first rank that failed; ValueError
    for an option that a function cannot have; what pickling raises when func cannot travel.
    """
    __tracebackhide__ = True  # from IPython's tracebacks
    own = dict(os.environ)
    _check(options)
    launcher = _launcher.find()
    given = {'np': np, **options}
    known = {**_usual(launcher, options.get('profile'), own),
             **{name: value for name, value in given.items() if value is not None}}
    tag = _tag_of(options)
    options.pop('ranks', None)
    wanted = 0
    if _has(known, _ELASTIC):
        wanted = int(known.get('min_np') or known.get('min_num_proc') or known.get('np') or 0)
    flags = ['--ranks=all', *_flag('np', np), *_flag('hosts', hosts), *_flag('image', image),
             *_variables(env, own), *['--verbose'] * int(verbose), *_flags_of(options)]
    python = executable or ('python3' if image and image != 'none' else sys.executable)
    return launch(functools.partial(func, *args, **(kwargs or {})),
                  [launcher, 'run', *flags], own, python, goes_on=_has(known, _GOES_ON),
                  no_input=_has(known, _NO_INPUT), tag=tag, wanted=wanted, ranks=_ranks_of(known))
