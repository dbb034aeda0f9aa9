# SPDX-License-Identifier: Apache-2.0
"""reigen.run(): a function on the ranks of a job, shown and ended by this process."""
import contextlib
import functools
import io
import os
import pickle
import pty
import re
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import jobs

sys.path.insert(0, str(jobs.ROOT / 'bindings/python'))
os.environ.setdefault('REIGEN_LIBRARY', jobs.library() or '')

from reigen import _cells, _display, _run, _travel  # noqa: E402
from wait import until  # noqa: E402

SCRIPT = '''
import os, sys
import reigen

def place(x, more=None):
    print('a line', flush=True)
    sys.stderr.write('\\r1 %\\r2 %')
    print('no end', end='')
    return int(os.environ['RANK']), x, more, 'y' * 300_000, sys.stdin.read()

def failing():
    if os.environ['RANK'] == '1':
        sys.stderr = None
        raise ValueError('this <one>')

def dying():
    print('now')
    sys.stdout.flush()
    os.kill(os.getpid(), 9)

print([(*r[:3], len(r[3]), r[4]) for r in reigen.run(place, (3,), {'more': 'x'}, np=2)])
try:
    reigen.run(failing, np=2)
except reigen.JobFailed as error:
    print('failed:', error.rank, error.exit_code, str(error).splitlines())
try:
    reigen.run(dying, np=1)
except reigen.JobFailed as error:
    print('died:', error.exit_code, str(error).splitlines()[:2])
try:
    reigen.run(failing, np=2, no_such_option=3)
except reigen.JobFailed as error:
    print('usage:', error.exit_code, error.cause.splitlines()[0])
big = os.urandom(200_000)  # too large for a variable
print('late:', reigen.run(lambda: (len(big), os.environ['A'], 'REIGEN_CALL' in os.environ), np=1,
                          max_restarts=1, env={'A': 'b c'}, no_tag_output=True))
reigen.run(int, np=1, verbose=True)
print('quiet:', reigen.run(lambda: print(os.environ['RANK']), np=2, ranks='1'))
print('files:', os.listdir(os.environ['TMPDIR']))
'''


def environment(tmp_path, **more):
    return {**os.environ, 'PYTHONPATH': str(jobs.ROOT / 'bindings/python'),
            'REIGEN_LAUNCHER': str(jobs.ROOT / '.venv/bin/reigen'), 'PYTHONDONTWRITEBYTECODE': '1',
            'TMPDIR': str(tmp_path), **more}


def test_a_function_of_the_script_runs_on_all_ranks(tmp_path):
    script, folder = tmp_path / 'script.py', tmp_path / 'tmp'
    script.write_text(SCRIPT)
    folder.mkdir()
    done = subprocess.run([jobs.python(), script], timeout=100, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, check=False, env=environment(folder))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sorted(lines[:4]) == ['[0] a line', '[0] no end', '[1] a line', '[1] no end']
    assert lines[4] == "[(0, 3, 'x', 300000, ''), (1, 3, 'x', 300000, '')]"
    # Of what is written over the last state is shown; a traceback is in the error alone.
    assert sorted(done.stderr.splitlines())[:2] == ['[0] 2 %', '[1] 2 %']
    assert re.search(r'^reigen: .*ended well after .* s\n', done.stderr, re.M)
    assert re.fullmatch(
        r"failed: 1 1 \['rank 1 on \S+ exit code 1', 'Traceback \(most recent call last\):', "
        r"'  File \".*script.py\", line 14, in failing', .*raise ValueError\(\S+this <one>.*"
        r"'ValueError: this <one>', 'The job ended with exit code 1 after .*'\]", lines[5])
    assert lines[6] == 'now'
    assert re.fullmatch(r"died: 137 \['rank 0 on .* signal 9.*', 'now'\]", lines[7])
    assert lines[8].startswith('usage: 2 reigen: unknown option --no-such-option')
    assert lines[9:] == ["late: [(200000, 'b c', False)]", '[1] 1', 'quiet: [None, None]',
                         'files: []']


def test_a_configuration_that_detaches_jobs_does_not_take_the_results_away(tmp_path):
    config, script = tmp_path / 'config', tmp_path / 'script.py'
    config.write_text('[defaults]\ndetach = true\n')
    # With restarts the function does not travel by standard input.
    script.write_text('import reigen\nprint(reigen.run(lambda: 3, np=2, max_restarts=1))\n')
    done = subprocess.run([jobs.python(), script], timeout=100, text=True, capture_output=True,
                          check=False, env=environment(tmp_path, REIGEN_CONFIG=str(config),
                                                       XDG_STATE_HOME=str(tmp_path)))
    assert done.returncode == 0 and done.stdout == '[3, 3]\n', done


USUAL = '''
import os, reigen
def second(folder):
    mark = folder + '/mark'
    if os.environ['RANK'] == '1' and not os.path.exists(mark):
        open(mark, 'w').close()
        raise ValueError('the first time')
    print('shown')
    return os.environ['RANK']
print(reigen.run(second, (os.environ['TMPDIR'],), np=2))
'''


def test_the_users_configuration_counts(tmp_path):
    settings, folder = tmp_path / 'reigen', tmp_path / 'tmp'
    settings.mkdir()
    folder.mkdir()
    (settings / 'config').write_text('[defaults]\nmax-restarts = 1\nranks = 1\n')
    done = subprocess.run([jobs.python(), '-c', USUAL], timeout=100, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, check=False,
                          env=environment(folder, XDG_CONFIG_HOME=str(tmp_path)))
    assert done.stdout == "[1] shown\n['0', '1']\n", done.stdout + done.stderr
    assert 'restart' in done.stderr
    assert not re.search('reigen:[0-9a-f]{16}:', done.stderr)


ACROSS = '''
import os, reigen
def where(folder):
    return os.environ['LOGIN'], os.listdir(folder), os.getcwd() == os.environ['HOME']
print(reigen.run(where, (os.environ['TMPDIR'],), hosts='a:1,b:1', cwd=None))
'''
FAKE_SSH = '''#!/bin/sh
while [ "$1" != -- ]; do shift; done
host=$2 command=$3
export HOME={folder}/home/$host LOGIN=$host
unset XDG_RUNTIME_DIR TMPDIR
mkdir -p "$HOME"
cd "$HOME" && exec sh -c "$command"
'''


def test_function_and_results_need_no_directory_that_hosts_share(tmp_path):
    ssh, folder = tmp_path / 'ssh', tmp_path / 'tmp'
    ssh.write_text(FAKE_SSH.format(folder=tmp_path))
    ssh.chmod(0o755)
    folder.mkdir()
    done = subprocess.run([jobs.python(), '-c', ACROSS], timeout=100, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, check=False,
                          env=environment(folder, REIGEN_SSH=str(ssh), HOME=str(tmp_path)))
    assert done.stdout == "[('a', [], False), ('b', [], False)]\n", done.stderr


LASTING = '''
import os, time
import reigen
def last():
    try:
        print('pid', os.getpid(), flush=True)
        time.sleep(600)
    finally:
        print('left', flush=True)
try:
    reigen.run(last, np=2)
except KeyboardInterrupt:
    print('interrupted', flush=True)
'''


def begin(tmp_path):
    """A script whose ranks wait, in a session without a terminal; the ranks' process ids."""
    script = subprocess.Popen([jobs.python(), '-c', LASTING], stdout=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, start_new_session=True,
                              env=environment(tmp_path, PYTHONUNBUFFERED='1'))
    return script, [int(script.stdout.readline().split()[2]) for _ in range(2)]


def gone(pid):
    try:
        return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] == 'Z'
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_an_interrupt_of_this_process_alone_ends_the_job_in_order(tmp_path):
    script, pids = begin(tmp_path)
    with script:
        script.send_signal(signal.SIGINT)
        out, _ = script.communicate(timeout=100)
        assert sorted(out.splitlines()) == ['[0] left', '[1] left', 'interrupted']
        assert script.returncode == 0 and all(map(gone, pids))


def on_a_terminal(tmp_path, interrupt):
    """What LASTING writes there, with interrupt(its process, the terminal) when its ranks run."""
    child, terminal = pty.fork()
    if not child:
        os.execve(jobs.python(), [jobs.python(), '-c', LASTING], environment(tmp_path))
    text = b''
    try:
        while text.count(b'pid') < 2:
            text += os.read(terminal, 4096)
        interrupt(child, terminal)
        with contextlib.suppress(OSError):  # EIO: nobody has it open any more
            while more := os.read(terminal, 4096):
                text += more
    finally:
        os.close(terminal)
        os.waitpid(child, 0)
    return text


@pytest.mark.parametrize('interrupt', [lambda child, terminal: os.write(terminal, b'\x03'),
                                       lambda child, terminal: os.kill(child, signal.SIGINT)],
                         ids=['key', 'kill'])
def test_an_interrupt_on_a_terminal_ends_the_job_in_order(tmp_path, interrupt):
    """Ctrl-C, which the launcher hears as well; and a signal to this process alone."""
    text = on_a_terminal(tmp_path, interrupt)
    assert text.count(b'] left\r\n') == 2 and text.endswith(b'interrupted\r\n')
    assert all(map(gone, map(int, re.findall(rb'pid (\d+)', text))))


def test_the_job_ends_with_a_process_that_is_killed(tmp_path):
    script, pids = begin(tmp_path)
    with script:
        script.kill()
        until(lambda: all(map(gone, pids)), 'the end of the ranks', 30)


def test_an_option_that_a_function_cannot_have_is_refused():
    with pytest.raises(ValueError, match=r"run\(\) does not take stdin='all': a function has no"):
        _run.run(print, np=1, stdin='all')
    assert _run._flags_of({'bind_to': 'core', 'mount': ['/a', '/b'], 'quiet': True, 'gpus': None,
                           'oversubscribe': False}) == [
        '--bind-to=core', '--mount=/a', '--mount=/b', '--quiet']
    assert _run._ranks_of({'ranks': '0,3-5'}) == {0, 3, 4, 5} and _run._ranks_of({}) is None
    with pytest.raises(ValueError, match="ranks='1-x': give ranks"):
        _run._ranks_of({'ranks': '1-x'})
    own = {}
    assert _run._variables({'A': 1, 'PATH': '/x'}, own) == ['--env=A', '--env=PATH=/x']
    assert own == {'A': '1'}


def test_an_error_is_shown_as_text_and_as_html():
    error = _run.JobFailed(1, 'rank 1 on a: exit code 1', 1, [1, 2, 3],
                           {1: 'Traceback:\n<one>\n', 0: 'other'}, ['line'], 2.0)
    assert str(error) == ('rank 1 on a: exit code 1\nTraceback:\n<one>\nThe job ended with exit '
                          'code 1 after 2.0 s. In the same way failed: rank 2-3. After it failed: '
                          'rank 0; tracebacks has how.')
    page = error._repr_html_()
    assert '&lt;one&gt;' in page and '<one>' not in page and 'rank 0' in page
    assert error._render_traceback_()[-2:] == str(error).splitlines()[-2:]


def feed(text):
    rows = _display.Rows()
    return rows.feed(text), rows.shown(), rows.redrawn


@pytest.mark.parametrize('text, lines, rest, redrawn', [
    ('a\nb', ['a'], 'b', False),
    ('a\r\nb', ['a'], 'b', False),
    ('\r1 %\r2 %', [], '2 %', True),
    ('\r1 %\r2 %\nx', ['2 %'], 'x', False),
    ('12\b\b34', [], '34', True),
    # What is erased stands behind the cursor, and colours alone write over nothing.
    ('a\x1b[K b\x1b[2Kc\n', ['c'], '', False),
    ('a\x1b[0K\n\x1b[Kb\nc\r\x1b[K\r\x1b[1mnew', ['a', 'b'], '\x1b[1mnew', True),
    ('a\r\x1b[0m\n', ['a\x1b[0m'], '', False),
    # No terminal is so tall.
    ('a\x1b[999999999Ab', [], 'b  a', False),
    (f'a\x1b[{"9" * 5000}Ab', [], 'b  a', False),
    # A loop in a loop, as tqdm draws it.
    ('out 1\n\rin 1\x1b[A\rout 2\n\rin 2\x1b[A', ['out 1'], 'out 2  in 2', True),
])
def test_a_line_is_what_a_terminal_would_show(text, lines, rest, redrawn):
    assert feed(text) == (lines, rest, redrawn)


class Notebook(io.StringIO):
    """Goes back to the beginning of its line at a carriage return."""
    __module__ = 'ipykernel.iostream'


def test_a_bar_moves_below_the_lines_in_a_notebook_and_is_seldom_told_elsewhere(monkeypatch):
    def event(rank, text, newline=False):
        return {'rank': rank, 'stream': 'stdout', 'text': text, 'newline': newline,
                'continued': not text, 'time': 0.0}

    def shown(stream):
        monkeypatch.setattr(sys, 'stdout', stream)
        display = _display.Display(_travel.Receiver('t'), hold=True)
        display.start(2)
        for now, one in enumerate([event(1, '\r10 %\r20 %'), event(0, 'text', True),
                                   event(1, '\r30 %'), event(1, '', True)]):
            display.output(one)
            display.tick(now * 0.4)
        display.finish()
        return stream.getvalue()

    assert shown(Notebook()) == ('[1] 20 %\r        \r[0] text\n[1] 20 %\r[1] 30 %\r        \r'
                                 '[1] 30 %\n')
    assert shown(io.StringIO()) == '[1] 20 %\n[0] text\n[1] 30 %\n'


def test_jobs_that_run_at_once_have_tags_of_their_own(monkeypatch):
    def output(display, text, rank=1):
        display.output({'rank': rank, 'stream': 'stdout', 'text': text, 'newline': True,
                        'continued': False, 'time': 0.0})
        display.show()

    monkeypatch.setattr(sys, 'stdout', io.StringIO())
    first, second = (_display.Display(_travel.Receiver('t'), hold=True) for _ in range(2))
    first.start(2)
    second.start(2)
    output(first, 'a')
    output(second, 'b')
    first.finish()
    third = _display.Display(_travel.Receiver('t'), hold=True)
    output(third, 'c', 0)  # of one rank
    output(second, 'd')
    second.finish()
    output(_display.Display(_travel.Receiver('t'), hold=True), 'e', 0)
    assert sys.stdout.getvalue() == '[1] a\n[job 2, 1] b\nc\n[job 2, 1] d\n[job 2] e\n'


class Trainer:
    def __init__(self, log):
        self.options = {'log': log, 'rate': 0.1}


LOCK = threading.Lock()


class Odd:
    """Nothing of it can be looked at, and its attribute has the name of a global variable."""
    LOCK = 0
    __dict__ = property(lambda self: 1 / 0)

    def __reduce__(self):
        raise TypeError('not this')

    def __repr__(self):
        raise ValueError('nor that')


def by_attribute(held):
    return lambda: held.LOCK


def outer(held):
    def inner():
        return held

    def middle():
        return inner()
    return middle


@pytest.mark.parametrize('value, says', [
    (outer(LOCK), 'held, a _thread.lock, which inner() uses, cannot be sent'),
    (functools.partial(print, 1, LOCK), 'Argument 2, a _thread.lock, cannot be sent'),
    (functools.partial(print, 1, file={'of': [LOCK]}), "Argument file['of'][0], a _thread.lock, "),
    (outer(Trainer(LOCK)), "held.options['log'], a _thread.lock, which inner() uses, cannot"),
    (LOCK, 'The thing, a _thread.lock, cannot be sent'),
    ([1, LOCK], 'The thing: [1], a _thread.lock, cannot be sent'),
    (by_attribute(Odd()), 'held, a test_run.Odd, which <lambda>() uses, cannot be sent'),
    ({Odd(): LOCK}, 'The thing: [<Odd instance at ')],
    ids=['variable', 'argument', 'keyword', 'attribute', 'itself', 'item', 'odd', 'key'])
def test_what_cannot_be_sent_is_named(value, says):
    pytest.importorskip('cloudpickle')
    with pytest.raises(pickle.PicklingError) as raised:
        _travel.dumps(value, 'The thing')
    assert str(raised.value).startswith(says), raised.value
    assert 'Make it inside the function' in str(raised.value)


def test_lines_of_our_own_are_taken_out_of_what_a_rank_prints(monkeypatch):
    sender, receiver = _travel.Sender(), _travel.Receiver('t')
    written = []
    monkeypatch.setattr(sender, '_write', lambda fd, data: written.append(data))
    sender.send('t', _travel.Outcome(True, 0.0, 1, 2, '1', b'x' * 10_000))
    # Another thread prints meanwhile, and ends no line; what is written at once stays together.
    assert max(map(len, written)) <= select.PIPE_BUF
    lines = b'other'.join(written).decode().split('\n')
    ours = [line for line in lines if receiver.is_ours(line)]
    for line in ours:
        receiver.take(line)
    assert receiver.outcomes['1'].data == b'x' * 10_000
    assert {line for line in lines if line not in ours} == {'', 'other'}
    assert not receiver.is_ours('\x1ereigen:other:p:')


def test_what_a_rank_sends_comes_through_a_pipe_that_does_not_block():
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write_fd, b'x' * 4096)
    writer = threading.Thread(target=_travel.Sender._write, args=(write_fd, b'the result'))
    writer.start()
    until(lambda: os.get_blocking(write_fd) or not writer.is_alive(), 'a pipe that blocks')
    text = b''
    while os.get_blocking(write_fd) and not text.endswith(b'the result'):
        text += os.read(read_fd, 4096)
    writer.join()
    os.close(read_fd)
    os.close(write_fd)
    assert text.endswith(b'xthe result')


def test_a_function_of_another_python_is_refused():
    parcel = _travel.Parcel('t', (3, 1), [], {}, b'')
    with pytest.raises(RuntimeError, match='comes from Python 3.1, and .* is Python 3'):
        _travel.unpack(parcel)


def test_another_version_of_cloudpickle_is_named():
    pytest.importorskip('cloudpickle')
    parcel = _travel.Parcel('t', sys.version_info[:2], [], {}, b'ccloudpickle.cloudpickle\nnew\n.')
    with pytest.raises(RuntimeError, match="has another cloudpickle than .* attribute 'new'"):
        _travel.unpack(parcel)


def test_code_without_a_file_keeps_its_lines():
    name = '<cell of a test>'
    _cells.know({name: 'def inside():\n    raise KeyError(1)\n'})
    scope = {}
    exec(compile('def inside():\n    raise KeyError(1)\n', name, 'exec'), scope)
    assert _cells.sources(scope['inside'])[name].startswith('def inside')
