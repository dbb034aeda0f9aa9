# SPDX-License-Identifier: Apache-2.0
"""reigen rsh: commands on the other hosts of a job, through its agents. Two names of this computer
make two hosts; the job's command is a script on the first of them."""
import os
import signal
import subprocess
import time

import built
import processes
import pytest

from wait import soon

HOSTS = ('-H', 'localhost:1,127.0.0.2:1')
OTHER = '127.0.0.2'

# What a client that does not keep to the rules may do: none of it harms the job.
ATTACK = r'''
import os, socket, struct
name = '\0' + os.environ['REIGEN_AGENT_SOCKET'][1:]
text = lambda s: struct.pack('<I', len(s)) + s
def dial(*frames):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(name)
    try:
        for kind, payload in frames:
            s.sendall(struct.pack('<IH', len(payload), kind) + payload)
    except OSError:
        pass
    return s
def closed(*frames):
    s = dial(*frames)
    try:
        while s.recv(65536):
            pass
    except ConnectionError:
        pass
    return True
token = bytes.fromhex(os.environ['REIGEN_AGENT_TOKEN'])
def remote(command=b'cat', host=b'127.0.0.2', version=3, token=token):
    return 9, struct.pack('<I', version) + text(token) + text(host) + text(command)
data = lambda stream, n: (10, struct.pack('<B', stream) + text(b'x' * n))
credit = lambda stream, n: (11, struct.pack('<BI', stream, n))
assert closed(remote(version=99))
assert closed(remote(token=bytes(16)))
assert closed(remote(token=token[:-1]))
assert closed((9, b'\xff' * 40))
assert closed((9, b'\2\0\0\0' + text(token) + text(b'a\0b') + text(b'')))
assert closed((9, bytes(300000)))
assert closed(data(0, 1))                                  # before REMOTE
# Beyond its credit, whatever cat takes meanwhile: nobody reads what cat writes.
assert closed(remote(), *[data(0, 65536)] * 40)
assert closed(remote(), data(1, 1))                        # the wrong way
assert closed(remote(), credit(1, 1))                      # for what it never got
assert closed(remote(), credit(0, 1))
assert closed(remote(), credit(7, 0))
assert closed(remote(), remote())
assert closed(remote(), (99, b''))
assert closed(remote(), (10, b'\xff' * 5))
stalled = [dial(remote(b'exec yes')) for _ in range(8)]     # never read
silent = [dial() for _ in range(8)]                         # never speak
half = dial()
half.sendall(b'\x20\0')
'''


@pytest.fixture
def script(reigen):
    """script(text): run it on the first of two hosts, which has no rank of its own."""
    def run(text, *options, **kwargs):
        return reigen('run', *HOSTS, '--engine', 'script', *options, '--', 'sh', '-c', text,
                      **kwargs)

    return run


@pytest.mark.sanitize
def test_a_command_runs_there_and_its_end_comes_back(script):
    done = script(f'''
        $REIGEN_RSH {OTHER} 'echo out; echo err >&2; pwd; exit 7'; echo code $?
        $REIGEN_RSH {OTHER} 'kill -9 $$'; echo code $?
        $REIGEN_RSH {OTHER} no-such-program; echo code $?
        printf 'a b' | $REIGEN_RSH -x -q someone@{OTHER} 'cat; echo " end"'; echo code $?
        echo 'echo from input; exit 3' | $REIGEN_RSH {OTHER}; echo code $?
        echo unread | $REIGEN_RSH -n {OTHER} cat; echo code $?
        $REIGEN_JOB_DIR/ssh -oConnectTimeout=10 -2 -a -x -p 12345 {OTHER} echo '"a;  b"'
    ''', env=built.environment(HOME='/', USER='me'))
    assert done.stdout.splitlines() == [
        'out', '/', 'code 7', 'code 137', 'code 127', 'a b end', 'code 0', 'from input', 'code 3',
        'code 0', 'a;  b'], done.stderr
    assert 'err\n' in done.stderr
    assert "as the job's user, not as someone" in done.stderr


@pytest.mark.sanitize
def test_it_finds_hosts_by_all_their_names_and_nests(script):
    done = script(f'''
        $REIGEN_RSH {OTHER} '$REIGEN_RSH localhost "echo \\$REIGEN_JOB_DIR"' > there
        [ "$(cat there)" = "$REIGEN_JOB_DIR" ] && echo nested
        $REIGEN_RSH {OTHER} 'echo $REIGEN_RANK$RANK.$REIGEN_JOB_ID' > there
        [ "$(cat there)" = ".$REIGEN_JOB_ID" ] && echo no rank
        rm there
        for host in 127.0.0.1 reigen-host-1 $(hostname); do
            $REIGEN_RSH $host echo $host || echo not $host
        done
        $REIGEN_RSH elsewhere true; echo code $?
        cat $REIGEN_HOSTFILE
        {built.PROGRAMS.reigen} rsh {OTHER} echo by reigen
    ''', cwd=os.environ.get('TMPDIR', '/tmp'))
    lines = done.stdout.splitlines()
    assert lines[:4] == ['nested', 'no rank', '127.0.0.1', 'reigen-host-1'], done.stderr
    assert lines[4] == os.uname().nodename
    assert lines[5] == 'code 255'
    assert 'elsewhere: no host of this job has this name; its hosts are' in done.stderr
    assert lines[6].startswith('localhost slots=1')
    assert lines[-1] == 'by reigen'


def test_it_goes_to_the_background_as_ssh_does(script, tmp_path):
    done = script(f"""
        cd {tmp_path}
        $REIGEN_RSH -f {OTHER} 'cat; while ! [ -e {tmp_path}/go ]; do sleep 0.02; done
                                echo late' > out
        echo first, $(cat out); touch go
        while ! [ -s out ]; do sleep 0.02; done
        cat out; $REIGEN_RSH -f nowhere true; echo code $?; $REIGEN_RSH -V""")
    assert done.stdout == 'first,\nlate\ncode 255\n', done.stderr
    assert "in ssh's place" in done.stderr


@pytest.mark.parametrize('how', ['run', 'other'])
def test_outside_a_job_it_says_so(start, programs, how):
    argv = [programs.reigen, 'rsh'] if how == 'run' else [programs.agent, 'rsh']
    env = {k: v for k, v in built.environment().items() if not k.startswith('REIGEN_')}
    child = start(*argv, 'b', 'true', env=env)
    err = child.communicate(timeout=20)[1]
    assert child.returncode == 255
    assert 'from within' in err


def test_a_token_of_another_job_is_named(script):
    done = script('REIGEN_AGENT_TOKEN=00112233445566778899aabbccddeeff $REIGEN_RSH 127.0.0.2 true')
    assert done.returncode == 255 and 'REIGEN_AGENT_TOKEN is not' in done.stderr, done.stderr


def test_bytes_pass_unchanged_both_ways(script, tmp_path):
    data = os.urandom(1 << 20) * 20
    (tmp_path / 'in').write_bytes(data)
    done = script(f'''
        $REIGEN_RSH {OTHER} cat < {tmp_path}/in > {tmp_path}/out || exit 1
        $REIGEN_RSH {OTHER} "cat {tmp_path}/in >&2" 2> {tmp_path}/err || exit 2
        $REIGEN_RSH {OTHER} "cat > {tmp_path}/there" < {tmp_path}/in || exit 3
        seq 100000 | $REIGEN_RSH {OTHER} head -1
    ''')
    assert done.returncode == 0, done.stderr
    for name in ('out', 'err', 'there'):
        assert (tmp_path / name).read_bytes() == data, name
    assert done.stdout == '1\n'


def test_a_reader_that_stalls_costs_bounded_memory(start, programs):
    child = start(programs.reigen, 'run', *HOSTS, '--engine', 'script', '--', 'sh', '-c',
                  f'$REIGEN_RSH {OTHER} yes | (read line; echo here; read line < /dev/stderr)',
                  stdin=subprocess.DEVNULL)
    assert child.stdout.readline() == 'here\n'
    time.sleep(1)  # patient: memory grows meanwhile, or does not
    for pid in [child.pid, *processes.children(child.pid)]:
        assert processes.peak_kib(pid) < 40000
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=20)


# Its standard output takes no more for 2 s, and says so rather than block.
STALLED = """
import os, resource, subprocess, sys, time
reader, writer = os.pipe()
os.set_blocking(writer, False)
child = subprocess.Popen([os.environ['REIGEN_RSH'], sys.argv[1], 'head -c 150000 /dev/zero'],
                         stdout=writer)
os.close(writer)
time.sleep(2)
got = len(open(reader, 'rb').read())
used = child.wait(), resource.getrusage(resource.RUSAGE_CHILDREN)
print(got, used[0], 'busy' if used[1].ru_utime + used[1].ru_stime > 0.5 else 'idle')
"""


def test_an_output_that_does_not_block_is_waited_for(reigen):
    done = reigen('run', *HOSTS, '--engine', 'script', '--', 'python3', '-c', STALLED, OTHER)
    assert done.stdout == '150000 0 idle\n', done.stdout + done.stderr


@pytest.mark.sanitize
def test_many_at_once(script):
    done = script(f'''
        for i in $(seq 64); do
            $REIGEN_RSH {OTHER} "echo line $i; exit 5" & pids="$pids $!"
        done
        for pid in $pids; do wait $pid; [ $? = 5 ] || echo wrong; done
    ''')
    assert sorted(done.stdout.split('\n')) == sorted([f'line {i}' for i in range(1, 65)] + [''])


def test_what_its_client_leaves_is_hung_up(start, programs):
    word = processes.mark()
    child = start(programs.reigen, 'run', *HOSTS, '--engine', 'script', '--', 'sh', '-c', f"""
        $REIGEN_RSH {OTHER} 'sh -c "echo; sleep 100; :" $WORD-polite' & a=$!
        $REIGEN_RSH {OTHER} 'trap "" HUP; sh -c "echo; sleep 100; :" $WORD-deaf' & b=$!
        read line; kill -9 $a $b; wait; sleep 100""",
                  stdin=subprocess.PIPE, env=built.environment(WORD=word))
    for _ in range(2):
        child.stdout.readline()
    assert processes.with_word(f'{word}-polite') and processes.with_word(f'{word}-deaf')
    child.stdin.write('go\n')
    child.stdin.flush()
    processes.assert_gone(f'{word}-polite', 20)
    processes.assert_gone(f'{word}-deaf', 20)
    assert child.poll() is None
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=20)
    assert child.returncode == 143


def test_ctrl_z_stops_what_runs_elsewhere(start, programs):
    word = processes.mark()
    child = start(programs.reigen, 'run', *HOSTS, '--engine', 'script', '--', 'sh', '-c',
                  f"""$REIGEN_RSH {OTHER} 'sh -c "echo; sleep 100; :" $WORD'""",
                  env=built.environment(WORD=word))
    child.stdout.readline()
    pid = processes.wait_for(lambda: [p for p in processes.with_word(word)
                                      if processes.children(p)], 'a sleep')[0]
    # D: it waits for the end of a vfork, and its child was stopped within it.
    for signo, states in ((signal.SIGTSTP, 'TD'), (signal.SIGCONT, 'S')):
        child.send_signal(signo)
        processes.wait_for(lambda: processes.state(pid) in states, f'state {states}')
        processes.wait_for(lambda: processes.state(processes.children(pid)[0]) in states,
                           f'state {states} of its child')
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=20)
    processes.assert_gone(word)


@pytest.mark.sanitize
def test_the_job_s_end_ends_what_runs_elsewhere(script, tmp_path):
    word = processes.mark()
    begin = time.monotonic()
    done = script(f"""
        $REIGEN_RSH {OTHER} 'trap "" HUP TERM; setsid sh -c "sleep 300; :" $WORD &
                             echo there; sleep 300; :' > {tmp_path}/there &
        while ! [ -s {tmp_path}/there ]; do sleep 0.05; done""",
                  env=built.environment(WORD=word))
    assert done.returncode == 0, done.stderr
    assert soon(begin, 30)
    processes.assert_gone(word)


def test_a_lost_agent_is_told_to_the_client(start, programs):
    child = start(programs.reigen, 'run', *HOSTS, '--engine', 'script', '--', 'sh', '-c',
                  f"trap '' TERM; $REIGEN_RSH {OTHER} 'echo $PPID; sleep 100'; echo code $?",
                  stdin=subprocess.DEVNULL)
    os.kill(int(child.stdout.readline()), signal.SIGKILL)
    out, err = child.communicate(timeout=30)
    assert 'that host was lost, and the command with it' in err
    assert 'code 255' in out
    assert child.returncode == 76


def test_a_script_says_which_sshd_kept_it_from_beginning(script):
    done = script('echo "node-b 12345" >"$REIGEN_JOB_DIR/sshd-failed"; echo why >&2; exit 69')
    assert done.returncode == 69
    assert 'sshd on node-b, port 12345, failed, and sh did not begin: exit code 69' in done.stderr


@pytest.mark.sanitize
def test_clients_that_break_the_rules_do_not_harm_the_job(reigen):
    done = reigen('run', *HOSTS, '--engine', 'script', '--', 'sh', '-c', '''
        /usr/bin/python3 -c "$0" || exit 1
        $REIGEN_RSH 127.0.0.2 echo still there''', ATTACK, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == 'still there\n'


def test_a_native_job_s_ranks_have_it_too(reigen):
    done = reigen('run', *HOSTS, '-np', 2, '--', 'sh', '-c', f'''
        if [ $REIGEN_RANK = 0 ]; then $REIGEN_RSH {OTHER} echo hello; echo > go
        else while ! [ -e go ]; do sleep 0.05; done; rm go; fi''',
                  cwd=os.environ.get('TMPDIR', '/tmp'))
    assert done.returncode == 0, done.stderr
    assert '[0] hello' in done.stdout


def test_nothing_of_the_job_s_directory_stays(script, tmp_path):
    done = script('echo $REIGEN_JOB_DIR; touch $REIGEN_JOB_DIR/mine; mkdir $REIGEN_JOB_DIR/d',
                  env=built.environment(XDG_RUNTIME_DIR=str(tmp_path)))
    assert done.stdout.startswith(f'{tmp_path}/reigen-{os.geteuid()}/job-')
    assert os.listdir(tmp_path) == []


def test_what_a_killed_agent_left_goes_with_the_next_job(start, programs, reigen, tmp_path):
    env = built.environment(XDG_RUNTIME_DIR=str(tmp_path))
    child = start(programs.reigen, 'run', '--', 'sh', '-c', 'echo; sleep 100', env=env)
    child.stdout.readline()
    os.kill(processes.agent_of(child.pid), signal.SIGKILL)
    child.communicate(timeout=20)
    [left] = tmp_path.glob('reigen-*/job-*')
    assert reigen('run', '--', 'true', env=env).returncode == 0
    assert not left.exists()
    assert os.listdir(tmp_path) == []
