# SPDX-License-Identifier: Apache-2.0
"""--debug-rank: a rank with the user's terminal, and limits that do not count meanwhile."""
import subprocess

from built import PROGRAMS, environment

SCRIPT = '''
import os
rank = int(os.environ['RANK'])
if rank == 1:
    secret = 'se' + 'cret'
    breakpoint()
print('after', rank, os.environ['HOROVOD_STALL_CHECK_DISABLE'], os.environ['REIGEN_START_TIMEOUT'])
'''


def test_breakpoint_works_on_the_rank_that_has_the_terminal(terminal, programs, tmp_path):
    (tmp_path / 'script.py').write_text(SCRIPT)
    t = terminal(programs.reigen, 'run', '-np', 3, '--debug-rank', 1, '--timeout', '300',
                 'python3', tmp_path / 'script.py', NO_COLOR=1)
    # Whoever has no terminal is not held up; the note tells of the limit.
    t.read_until(b'(Pdb) ', 60)
    t.read_until(b'[0] after 0 1 86400\r\n', 60)
    t.read_until(b'[2] after 2 1 86400\r\n', 60)
    t.send(b'p secret\r')
    t.read_until(b"\r\n'secret'\r\n", 60)
    t.send(b'c\r')
    assert t.wait(60) == 0
    assert b'\nafter 1 1 86400\r\n' in t.seen and b'[1]' not in t.seen
    assert b'--debug-rank 1: --timeout does not count' in t.seen
    assert t.seen.count(b'(Pdb)') == 2


def test_what_the_users_settings_say_of_input_gives_way(terminal, programs, tmp_path):
    for number, usual in enumerate(('stdin = all', 'pty = true', 'stdin = none')):
        settings = tmp_path / f'settings{number}'
        (settings / 'reigen').mkdir(parents=True)
        (settings / 'reigen/config').write_text(f'[defaults]\n{usual}\n')
        t = terminal(programs.reigen, 'run', '-np', 2, '--debug-rank', 1, 'sh', '-c',
                     '! test -t 0 || echo terminal of $RANK', XDG_CONFIG_HOME=settings, NO_COLOR=1)
        assert t.wait(60) == 0 and b'terminal of 1' in t.seen, (usual, t.seen)


def test_quit_ends_the_job(terminal, programs, tmp_path):
    (tmp_path / 'script.py').write_text('breakpoint()\n')
    t = terminal(programs.reigen, 'run', '-np', 1, '--debug-rank', 0, 'python3',
                 tmp_path / 'script.py')
    t.read_until(b'(Pdb) ', 60)
    t.send(b'q\r')
    assert t.wait(60) == 1


def test_a_rank_that_is_not_there_and_what_has_no_terminal_are_refused():
    for options, words in ((['-np', '2', '--debug-rank', '2'], 'with -np 2 the ranks are 0 to 1'),
                           (['-np', '2', '--debug-rank', 'x'], '--debug-rank x'),
                           (['-np', '2', '--debug-rank', '0', '--json'], '--json and --pty'),
                           (['-np', '2', '--debug-rank', '0', '--stdin', 'all'],
                            '--debug-rank 0 gives that rank the terminal and what is typed: drop'),
                           (['-np', '2', '--debug-rank', '1', '--stdin', '0'], 'drop --stdin')):
        done = subprocess.run([PROGRAMS.reigen, 'run', *options, 'true'], timeout=60, text=True,
                              capture_output=True, check=False, stdin=subprocess.DEVNULL,
                              env=environment())
        assert done.returncode == 2 and words in done.stderr, done.stderr
