# SPDX-License-Identifier: Apache-2.0
"""How a function reaches the ranks of a job, and how what came of it comes back, in bytes.

The way there is a parcel: standard input, or the variable CALL, which may name a file. The way back
is the rank's standard output, in lines that begin with the job's mark: the launcher brings them
from wherever the rank is, and the display (reigen/_display.py) takes them out. A line and the
newline in front of it are no longer than a pipe takes at once, so that what other threads print,
also without a newline, can get neither into one nor in front of it.
"""
import base64
import collections
import functools
import io
import os
import pickle
import sys
import traceback
import types
import zlib
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from reigen import _cells, _unsent

#: The variable that says where the parcel is: `stdin:LENGTH`, `file:PATH`, or `here:BASE64`.
CALL = 'REIGEN_CALL'
#: As a variable's value it must fit where programs are started, beside all else.
HERE_NBYTES_MAX = 96 << 10

_REMEDY = ('Make it inside the function, on each rank, from what can be sent: a path, a name, '
           'numbers.')
_PIECE_NBYTES = 3000  # of a line of less than PIPE_BUF, 4096, when it is base64

# A line is MARK TOKEN KIND SENDER DATA. What the kinds mean:
PIECE, END, FAILING = 'p', 'e', 'f'
_MARK = '\x1ereigen:'


class Outcome(NamedTuple):
    """What became of the function on one rank."""
    well: bool
    when: float   # seconds since 1970
    rank: int
    size: int
    place: str    # the rank's number, or its place in an elastic job, where numbers change
    data: Any     # bytes, the pickled result; or the text of a traceback


class Parcel(NamedTuple):
    """What a rank needs in order to call the function."""
    token: str            # of the job's marked lines
    version: Tuple[int, int]
    path: List[str]       # the caller's sys.path
    sources: Dict[str, str]  # what no file has (reigen/_cells.py)
    func: bytes


def _pickler(cloudpickle: Any) -> Any:
    """CloudPickler, that keeps where code was written: tracebacks say it, and debuggers stop there.
    cloudpickle since 3.1 leaves it out."""
    own = cloudpickle.CloudPickler
    reduce = own.dispatch_table[types.CodeType]

    def with_file(code: types.CodeType) -> Any:
        kind, parts = reduce(code)
        return kind, tuple(code.co_filename if part == '<dynamic-code>' else part
                           for part in parts)

    class Pickler(own):
        dispatch_table = collections.ChainMap({types.CodeType: with_file}, own.dispatch_table)

    return Pickler


def _dumps(value: Any, cloudpickle: Any) -> bytes:
    out = io.BytesIO()
    try:
        pickler = _pickler(cloudpickle)(out)
    except (AttributeError, KeyError):  # it has changed within
        return cloudpickle.dumps(value)
    pickler.dump(value)
    return out.getvalue()


def dumps(value: Any, what: str = 'The function', remedy: str = _REMEDY) -> bytes:
    """cloudpickle's bytes where it is installed, else pickle's. what, remedy: for the error, of
    what cannot be pickled."""
    try:
        import cloudpickle
    except ImportError:
        cloudpickle = None
    if cloudpickle is not None:
        try:
            return _dumps(value, cloudpickle)
        except Exception as error:
            said = _unsent.describe(value, lambda part: _dumps(part, cloudpickle), what)
            raise pickle.PicklingError(f'{said} ({error}). {remedy}') from error
    main = sys.modules.get('__main__')
    parts = (value.func, *value.args) if isinstance(value, functools.partial) else (value,)
    if any(getattr(part, '__module__', None) == '__main__' and callable(part) for part in parts):
        raise pickle.PicklingError(
            'A function of the script itself '
            f'({getattr(main, "__file__", "interactive")}) cannot travel without the package '
            'cloudpickle: pip install cloudpickle, or put the function into a module.')
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise pickle.PicklingError(
            f'{error}. Lambdas and functions inside functions can travel with the package '
            'cloudpickle: pip install cloudpickle.') from error


# ------------------------------------------------------------------------------ there

def pack(func: Any) -> Tuple[str, bytes]:
    """The token of a job that is to call func(), and its parcel."""
    token = os.urandom(8).hex()
    target = func.func if isinstance(func, functools.partial) else func
    parcel = Parcel(token, sys.version_info[:2], list(sys.path), _cells.sources(target),
                    dumps(func))
    return token, pickle.dumps(tuple(parcel), protocol=4)


def loads(parcel: bytes) -> Any:
    """The fields of a Parcel. It must come from a friend."""
    return pickle.loads(parcel)


def here(parcel: bytes) -> Optional[str]:
    """The parcel as the value of CALL; None: it is too long for that."""
    text = 'here:' + base64.b64encode(zlib.compress(parcel)).decode()
    return text if len(text) <= HERE_NBYTES_MAX else None


def receive() -> Parcel:
    """The parcel of this rank. Its variable and standard input are gone then."""
    where, _, value = os.environ.pop(CALL).partition(':')
    if where == 'stdin':
        data = sys.stdin.buffer.read(int(value))
        with open(os.devnull, 'rb') as nothing:
            os.dup2(nothing.fileno(), 0)
        if len(data) < int(value):
            raise EOFError(f'The function did not arrive: {len(data)} of {value} bytes came.')
    elif where == 'file':
        with open(value, 'rb') as stream:
            data = stream.read()
    else:
        data = zlib.decompress(base64.b64decode(value))
    return Parcel(*loads(data))


def unpack(parcel: Parcel) -> Any:
    """The function. RuntimeError when this python cannot have it."""
    if parcel.version != sys.version_info[:2]:
        theirs, ours = ('.'.join(map(str, v)) for v in (parcel.version, sys.version_info[:2]))
        raise RuntimeError(f'The function comes from Python {theirs}, and {sys.executable} is '
                           f'Python {ours}, which may not read it: name a python of the same '
                           'version by executable=, or take an image that has one.')
    _cells.know(parcel.sources)
    sys.path += [entry for entry in parcel.path if entry not in sys.path]
    try:
        return pickle.loads(parcel.func)
    except ModuleNotFoundError as error:
        if error.name != 'cloudpickle':
            raise
        raise RuntimeError(f'{sys.executable} lacks the package cloudpickle, by which functions '
                           'travel: pip install cloudpickle there, or in the image.') from error
    except AttributeError as error:
        if "module 'cloudpickle" not in str(error):
            raise
        raise RuntimeError(f'{sys.executable} has another cloudpickle than the program that sends '
                           f'the function, whose code it cannot read: install the same version '
                           f'there, or name a python that has it ({error}).') from error


# ------------------------------------------------------------------------------ back

class Sender:
    """A rank's side. It keeps standard output and error as they were at first, since a function may
    put others in their place."""

    def __init__(self) -> None:
        self._out, self._err = os.dup(1), os.dup(2)

    def failing(self, token: str) -> None:
        """What comes on standard error from now on tells of the failure."""
        self._write(self._err, f'\n{_MARK}{token}:{FAILING}\n'.encode())

    def tell(self, text: str) -> None:
        """On standard error, whatever the function has made of sys.stderr."""
        self._write(self._err, text.encode(errors='backslashreplace'))

    def send(self, token: str, outcome: Outcome) -> None:
        data = pickle.dumps(tuple(outcome), protocol=4)
        # The newline ends what was printed without one, perhaps by another thread meanwhile.
        head = f'\n{_MARK}{token}:'
        sender = os.urandom(4).hex()
        for at in range(0, len(data), _PIECE_NBYTES):
            piece = base64.b64encode(data[at:at + _PIECE_NBYTES]).decode()
            self._write(self._out, f'{head}{PIECE}:{sender}:{piece}\n'.encode())
        self._write(self._out, f'{head}{END}:{sender}:{len(data)}\n'.encode())

    @staticmethod
    def _write(fd: int, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(fd, data):]
            except BlockingIOError:  # the function, or a child of it, has made it so
                os.set_blocking(fd, True)


class Receiver:
    """The caller's side: finds the job's lines among what ranks print."""

    def __init__(self, token: str) -> None:
        self._head = f'{_MARK}{token}:'
        self._pieces: Dict[str, List[bytes]] = {}
        self.outcomes: Dict[str, Outcome] = {}

    def is_ours(self, line: str) -> bool:
        return line.startswith(self._head)

    def cleaned(self, words: str) -> str:
        """What the launcher says, which may quote a rank's last lines, without ours."""
        name = self._head[1:]  # the launcher does not print the first character as it is
        return ''.join(line for line in words.splitlines(keepends=True) if name not in line)

    def take(self, line: str) -> str:
        """Take a line of ours; its kind."""
        kind, _, rest = line[len(self._head):].partition(':')
        sender, _, value = rest.partition(':')
        if kind == PIECE:
            self._pieces.setdefault(sender, []).append(base64.b64decode(value))
        elif kind == END:
            data = b''.join(self._pieces.pop(sender, []))
            if len(data) == int(value):
                outcome = Outcome(*pickle.loads(data))
                self.outcomes[outcome.place] = outcome
        return kind

    def forget(self) -> None:
        """The job begins again."""
        self._pieces.clear()
        self.outcomes.clear()


# ------------------------------------------------------------------------------ results

def gather(found: List[Outcome], wanted: int) -> List[Any]:
    """The results of ranks that ended well, by rank. wanted: only of so many ranks; 0: of all. In
    an elastic job a rank may have failed, or a number may have been another rank's before."""
    results = {one.rank: one.data for one in sorted(found, key=lambda one: one.when) if one.well}
    size = wanted or next((one.size for one in found), 1)
    missing = sorted(set(range(size)) - set(results))
    if missing:
        raise RuntimeError(f'Rank {missing[0]} ended well but brought no result: did the function '
                           'leave the process by itself?')
    return [result(rank, results[rank]) for rank in range(size)]


def result(rank: int, data: bytes) -> Any:
    """What that rank has pickled; RuntimeError when it cannot be read here."""
    try:
        return pickle.loads(data)
    except Exception as error:
        raise RuntimeError(f'The result of rank {rank} cannot be read here: '
                           f'{traceback.format_exc()}') from error
