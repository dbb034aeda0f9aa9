# SPDX-License-Identifier: Apache-2.0
"""Errors that nobody catches are told without this library's own frames, so that the last line of
the traceback is the user's. REIGEN_TRACEBACK=full leaves them in.

Only what is printed at the end of a process or a thread is shortened, by sys.excepthook and
threading.excepthook: the error keeps its traceback, for debuggers, for sys.last_value, and for
whoever catches it. A hook that was there before is called with the short one; one that is put in
our place later decides for itself. What looks like a mistake of ours stays whole.
"""
import contextlib
import io
import os
import sys
import threading
import types
from typing import Any, Callable, Iterator, List, Optional, Set, Tuple

_HERE = os.path.dirname(os.path.abspath(__file__))
_OURS = tuple(os.path.join(os.path.dirname(_HERE), name, '')
              for name in ('reigen', 'horovod', 'sparkdl'))

#: Raised in our own code, these are no refusal.
_BUGS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError)


def shorten(error: BaseException) -> Optional[types.TracebackType]:
    """The error's traceback without our frames; as it is where nothing else is in it."""
    entries = []
    tb = error.__traceback__
    bug = False
    while tb is not None:
        code = tb.tb_frame.f_code
        ours = code.co_filename.startswith(_OURS)
        if not ours:
            entries.append(tb)
        # A module's __getattr__ says that the user wants what is not there.
        bug = ours and code.co_name != '__getattr__' and isinstance(error, _BUGS)
        tb = tb.tb_next
    if bug or not entries:
        return error.__traceback__
    short = None
    for each in reversed(entries):
        short = types.TracebackType(short, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return short


def _chain(error: Optional[BaseException], seen: Set[int]) -> Iterator[BaseException]:
    """The error, those it came of, and those of a group."""
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [one.__cause__, one.__context__, *getattr(one, 'exceptions', ())]


@contextlib.contextmanager
def shortened(error: Optional[BaseException]) -> Iterator[None]:
    """Inside, the error and all it came of have short tracebacks."""
    whole: List[Tuple[BaseException, Any]] = []
    try:
        for one in _chain(error, set()):
            if isinstance(one, BaseException):
                whole.append((one, one.__traceback__))
                one.__traceback__ = shorten(one)
        yield
    finally:
        for one, tb in whole:
            one.__traceback__ = tb


def _print(kind: Any, error: Any, tb: Any) -> None:
    """sys.__excepthook__ in one write, so that the lines of processes that share a standard error
    are not mixed. The text is the interpreter's own: before Python 3.12 the module traceback does
    not say "Did you mean". A terminal gets it as it comes, with its colours."""
    stream, text = sys.stderr, io.StringIO()
    try:
        plain = not stream.isatty()
    except Exception:  # there is none, it is closed, or it is somebody's own object
        plain = False
    if not plain:
        sys.__excepthook__(kind, error, tb)
        return
    sys.stderr = text
    try:
        sys.__excepthook__(kind, error, tb)
    finally:
        sys.stderr = stream
    with contextlib.suppress(Exception):  # who reads it may be gone
        stream.write(text.getvalue())
        stream.flush()


def install(on_failure: Callable[[], Any]) -> None:
    """Put the hooks in place; called once, when the library is loaded. on_failure: is called first
    when an error ends the program."""
    before, before_in_thread = sys.excepthook, threading.excepthook

    def on_whole_error(kind: Any, error: Any, tb: Any) -> None:
        on_failure()
        before(kind, error, tb)

    if os.environ.get('REIGEN_TRACEBACK') == 'full':
        sys.excepthook = on_whole_error
        return

    def on_error(kind: Any, error: Any, tb: Any) -> None:
        on_failure()
        call = _print if before is sys.__excepthook__ else before
        with shortened(error):
            call(kind, error, error.__traceback__ if error is not None else tb)

    def on_thread_error(args: Any) -> None:
        with shortened(args.exc_value):
            tb = args.exc_traceback if args.exc_value is None else args.exc_value.__traceback__
            before_in_thread(threading.ExceptHookArgs((args.exc_type, args.exc_value, tb,
                                                       args.thread)))

    sys.excepthook, threading.excepthook = on_error, on_thread_error
