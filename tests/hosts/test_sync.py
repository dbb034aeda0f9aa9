# SPDX-License-Identifier: Apache-2.0
"""--sync: a directory goes to hosts that lack it, and leaves them as they were.

node1 is where the user sits; ranks run on node2 and node3, and on node1 without ssh."""
import json
import re
import subprocess

import pytest
from bed import Cluster, Node
from bed.node import wait_until
from built import PROGRAMS

HOME = Node.home()
WORK = f'{HOME}/project'
READY = 60  # s, for whatever comes soon on an idle machine
PLACES = f'/var/tmp/reigen-2001 /tmp/reigen-2001 {HOME}/.cache/reigen'


@pytest.fixture(scope='module')
def three():
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def hosts(three):
    """The cluster, without a cache, and with a project on node1."""
    for node in three.nodes:
        node.run(['sh', '-c', f'rm -rf {PLACES} {WORK}'], user='root', check=True)
    three[1].run(['mkdir', '-p', f'{WORK}/pkg'], check=True)
    three[1].write('project/train.py', 'print("trained")\n')
    three[1].write('project/pkg/part.py', 'x = 1\n')
    yield three
    three.assert_clean()
    assert '.reigen-sync' not in three[1].run(['ls', '-A', WORK]).stdout


def reigen(node, *arguments, timeout=READY, **kwargs):
    return node.run([PROGRAMS.reigen, 'run', '--no-tag-output', *arguments], timeout=timeout,
                    **{'cwd': WORK, **kwargs})


def jobs_left(node):
    return node.run(['sh', '-c', f'ls -d /var/tmp/reigen-2001/sync-* '
                     f'/var/tmp/reigen-2001/.sync-*']).stdout.split()


def test_ranks_run_in_a_copy_where_the_directory_is_not(hosts):
    # another one of its name is not it
    hosts[2].run(['mkdir', '-p', WORK], check=True)
    hosts[2].write('project/train.py', 'another one')
    done = reigen(hosts[1], '--sync', '-H', 'node1:1,node2:1', '--', 'sh', '-c',
                  'echo $(hostname) $PWD $(pwd -P) $(cat train.py pkg/part.py | wc -c)')
    assert done.returncode == 0, done.stderr
    lines = dict(l.split(' ', 1) for l in done.stdout.splitlines())
    assert lines['node1'] == f'{WORK} {WORK} 23', done.stdout
    pwd, real, size = lines['node2'].split()
    assert pwd == real and pwd.startswith('/var/tmp/reigen-2001/sync-') and size == '23'
    assert f'node2 has a copy of {WORK} (2 files, 23 bytes' in done.stderr, done.stderr
    assert 'node1 uses the directory itself' in done.stderr
    there = hosts[2].run(['sh', '-c', 'ls; cat train.py'], cwd=WORK).stdout
    assert there == 'train.py\nanother one'
    assert not jobs_left(hosts[2])


def test_a_shared_directory_is_used_in_place():
    with Cluster(2, shared_home=True) as cluster:
        cluster[1].run(['mkdir', '-p', f'{WORK}/exp'], check=True)
        done = reigen(cluster[1], '--sync=..', '-H', 'node1:1,node2:1', '--', 'sh', '-c',
                      'pwd; hostname >$RANK', cwd=f'{WORK}/exp')
        assert done.stdout.splitlines() == 2 * [f'{WORK}/exp'], done.stderr
        assert 'copy' not in done.stderr
        assert cluster[2].run(['sh', '-c', 'cat 0 1'], cwd=f'{WORK}/exp').stdout.split() == [
            'node1', 'node2']
        assert not jobs_left(cluster[2])


def test_a_place_that_somebody_else_has_prepared_is_not_used(hosts):
    two = hosts[2]
    two.run(['sh', '-c', 'mkdir -m 777 /var/tmp/reigen-2001; ln -s /var/tmp /tmp/reigen-2001'],
            user='root', check=True)
    done = reigen(hosts[1], '--sync', '-H', 'node2:1', '--', 'sh', '-c', 'pwd; cat train.py')
    assert done.returncode == 0, done.stderr
    place, text = done.stdout.splitlines()
    assert place.startswith(f'{HOME}/.cache/reigen/sync-') and text == 'print("trained")'
    assert two.run(['ls', '-A', '/var/tmp/reigen-2001']).stdout == ''


def test_only_what_changed_is_sent_again(hosts):
    one = hosts[1]
    one.run(['sh', '-c', 'head -c 3000000 /dev/urandom >data; cp data same; :>empty; mkdir -p a/b'],
            cwd=WORK, check=True)
    say = ['-H', 'node2:1,node3:1', '--', 'sh', '-c', 'cmp data same && cat data train.py empty '
           '| sha256sum; ls -d a/b']
    first = reigen(one, '--sync', *say)
    assert first.returncode == 0, first.stderr
    # once to each host, though it is there twice
    assert '5.722 MiB were sent' in first.stderr, first.stderr
    want = one.run(['sh', '-c', 'cat data train.py empty | sha256sum'], cwd=WORK).stdout
    assert sorted(first.stdout.splitlines()) == sorted(2 * [want.strip(), 'a/b'])
    again = reigen(one, '--sync', *say)
    assert 'for which 0 bytes were sent' in again.stderr, again.stderr
    assert again.stdout.count(want.strip()) == 2
    one.write('project/train.py', 'print("changed")\n')
    third = reigen(one, '--sync', *say)
    assert 'for which 34 bytes were sent' in third.stderr, third.stderr
    # what somebody has changed in the cache is not taken
    hosts[2].run(['sh', '-c', 'for f in /var/tmp/reigen-2001/files/*; do echo x >>$f; done'])
    fourth = reigen(one, '--sync', *say)
    assert sorted(fourth.stdout.splitlines()) == sorted(third.stdout.splitlines())
    assert fourth.returncode == 0
    assert 'for which 2.861 MiB were sent' in fourth.stderr, fourth.stderr
    # the cache's names are contents, and nobody else may look at them
    assert hosts[2].run(['stat', '-c', '%a', '/var/tmp/reigen-2001/files']).stdout == '700\n'


def test_git_says_what_belongs_to_the_directory(hosts):
    one = hosts[1]
    one.run(['sh', '-c', 'git init -q . && git add train.py && echo secret* >.gitignore && '
             'touch secret.env new.txt && mkdir logs && ln -s train.py link && ln -s /etc/passwd '
             'out && ln -s ../.. up && chmod 755 train.py && mkfifo pipe'], cwd=WORK, check=True)
    done = reigen(one, '--sync', '-H', 'node2:1', '--', 'sh', '-c',
                  'find . | sort; readlink link; stat -c %a train.py')
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ['.', './.gitignore', './link', './logs', './new.txt', './pkg',
                                   './pkg/part.py', './train.py', 'train.py', '755']
    assert 'as git lists them' in done.stderr
    assert 'links out of it or special files stay here' in done.stderr, done.stderr
    # below it, the place is the same
    done = reigen(one, '--sync=..', '-H', 'node2:1', '--', 'sh', '-c', 'pwd; ls', cwd=f'{WORK}/pkg')
    assert done.stdout.splitlines()[0].endswith('/work/pkg'), done.stderr
    assert 'part.py' in done.stdout
    # and where git cannot say it, nothing that it hides is sent
    one.run(['sh', '-c', 'rm .git/HEAD'], cwd=WORK, check=True)
    done = reigen(one, '--sync', '-H', 'node2:1', '--', 'true')
    assert done.returncode != 0 and 'git cannot say what belongs to it' in done.stderr


def test_names_may_have_any_bytes(hosts):
    one = hosts[1]
    one.run(['python3', '-c', 'import os\n'
             'os.makedirs(b"\\xff dir/...")\n'
             'for n in [b"a\\nb", b"-rf", b"\\xfe\\x80", b"\'q\\"", b"..x", b"\\xff dir/.../z"]:\n'
             '    open(n, "wb").write(n)'], cwd=WORK, check=True)
    done = reigen(one, '--sync', '-H', 'node2:1', '--', 'python3', '-c', 'import os\n'
                  'for d, _, names in os.walk(b"."):\n'
                  '    for n in names:\n'
                  '        p = os.path.join(d, n)[2:]\n'
                  '        if open(p, "rb").read() == p: print("right")')
    assert done.returncode == 0, done.stderr
    assert done.stdout == 6 * 'right\n'


def test_what_ranks_write_is_kept_and_told(hosts):
    two = hosts[2]
    done = reigen(hosts[1], '--sync', '-H', 'node2:1', '--', 'sh', '-c',
                  'mkdir -p out __pycache__; echo 12345 >out/model.pt; touch __pycache__/x.pyc; '
                  'echo more >>train.py; rm pkg/part.py')
    assert done.returncode == 0, done.stderr
    [line] = [l for l in done.stderr.splitlines() if 'ranks wrote' in l]
    assert re.search(r'node2: ranks wrote 2 files \(\d+ bytes\) into the copy, '
                     '(out/model.pt|train.py) first', line), line
    assert 'for 7 days' in line, line
    kept = line.split('kept in ')[1].split()[0]
    assert kept.startswith('/var/tmp/reigen-2001/kept-')
    found = two.run(['sh', '-c', f'cd {kept}; find . -type f | sort; cat out/model.pt']).stdout
    assert found.split() == ['./out/model.pt', './train.py', '12345']
    assert not jobs_left(two)
    # also a sibling of the directory, which is beside the copy; and a folder that is read-only
    done = reigen(hosts[1], '--sync', '-H', 'node2:1', '--', 'sh', '-c',
                  'mkdir ../out; echo 1 >../out/beside; chmod a-w ../out')
    [line] = [l for l in done.stderr.splitlines() if 'ranks wrote' in l]
    assert 'ranks wrote 1 file (2 bytes) into the copy, ../out/beside first' in line, line
    beside = line.split('kept in ')[1].split('/work for ')[0]
    assert two.run(['ls', f'{beside}/out']).stdout == 'beside\n'
    two.run(['touch', '-d', '8 days ago', beside], check=True)
    # for as long as it was told
    two.run(['touch', '-d', '8 days ago', kept.rsplit('/', 1)[0]])
    assert reigen(hosts[1], '--sync', '-H', 'node2:1', '--', 'true').returncode == 0
    assert two.run(['ls', kept]).returncode != 0
    assert two.run(['ls', beside]).returncode != 0


def test_neither_links_nor_mounts_lead_the_removal_out(hosts):
    two = hosts[2]
    two.run(['mkdir', '-p', 'precious/deep'], check=True)
    two.write('precious/deep/data', 'years of work')
    with_mount = two.popen(['sh', '-c', 'for i in $(seq 600); do for d in '
                            '/var/tmp/reigen-2001/sync-*/work/mnt; do [ -d "$d" ] && mount --bind '
                            f'{HOME}/precious "$d" && echo mounted && exit; done; sleep .1; done'],
                           user='root', stdout=subprocess.PIPE, text=True)
    done = reigen(hosts[1], '--sync', '-H', 'node2:1', '--', 'sh', '-c',
                  f'mkdir mnt dir; ln -s {HOME}/precious away; ln -s {HOME}/precious dir/away; '
                  'until [ -e mnt/deep/data ]; do sleep .05; done')
    out, _ = with_mount.communicate()
    assert out == 'mounted\n' and done.returncode == 0, done.stderr
    assert two.run(['cat', 'precious/deep/data']).stdout == 'years of work'
    assert 'ranks wrote 3 files' in done.stderr, done.stderr  # the links, and the mount
    two.run(['sh', '-c', 'umount /var/tmp/reigen-2001/*/work/mnt'], user='root', check=True)


def test_it_says_where_files_are_that_hosts_lack(hosts):
    for node in (2, 3):
        hosts[node].run(['mkdir', '-p', WORK], check=True)
    done = reigen(hosts[1], '-H', 'node1:1,node2:1,node3:1', '--', 'python3', '-u', 'train.py')
    assert done.returncode != 0
    for node in ('node2', 'node3'):
        assert f'train.py is here, but not on {node}: --sync sends the directory, or' in done.stderr
    assert 'not on node1' not in done.stderr
    # where --sync is refused, it is no remedy
    done = reigen(hosts[1], '-H', 'node2:1', '--engine', 'script', '--', 'python3', 'train.py')
    assert 'train.py is here, but not on node2: take a directory that all' in done.stderr, done
    assert '--sync' not in done.stderr


def test_two_jobs_at_once_and_one_that_is_killed(hosts):
    one, two = hosts[1], hosts[2]
    argv = [PROGRAMS.reigen, 'run', '--no-tag-output', '--sync', '-H', 'node2:1,node3:1', '--',
            'sh', '-c', 'pwd; echo $RANK >mine.$RANK; exec sleep 1000']
    jobs = [one.popen(argv, cwd=WORK, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                      stderr=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        places = [{job.stdout.readline() for _ in range(2)} for job in jobs]
        assert len(places[0] | places[1]) == 4 and len(jobs_left(two)) == 2
        agents = [pid for pid, line in two.processes().items() if 'reigen-agent' in line]
        two.run(['kill', '-KILL', *map(str, agents)], user='root')
        for job in jobs:
            _, told = job.communicate(timeout=READY)
            assert job.returncode != 0, told
        assert len(jobs_left(two)) == 2 and not jobs_left(hosts[3])
    finally:
        for job in jobs:
            if job.poll() is None:
                job.kill_all()
                job.communicate()
    # what they have left is cleared, but for what ranks wrote; as the next job would do, too
    done = one.run([PROGRAMS.reigen, 'doctor', '--clean', '-H', 'node2:1'], timeout=READY)
    assert done.returncode == 0, done.stderr
    assert not jobs_left(two)
    kept = two.run(['sh', '-c', 'ls /var/tmp/reigen-2001/kept-*/work']).stdout
    assert kept.count('mine.0') == 2 and 'train.py' not in kept, kept


def test_a_lost_launcher_leaves_no_copy(hosts):
    one = hosts[1]
    job = one.popen([PROGRAMS.reigen, 'run', '--sync', '-H', 'node2:1', '--', 'sh', '-c',
                     'echo here; exec sleep 1000'], cwd=WORK, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert 'here' in job.stdout.readline()
    job.kill_all()
    job.communicate()
    wait_until(lambda: not jobs_left(hosts[2]), READY, 'the copy to go')


def test_a_host_that_is_lost_while_files_are_sent_is_named(hosts):
    one, two, nbytes = hosts[1], hosts[2], 400 << 20
    one.run(['truncate', '-s', str(nbytes), f'{WORK}/data'], check=True)

    def sent():
        said = two.run(['sh', '-c', 'du -sk /var/tmp/reigen-2001 || echo 0']).stdout
        return int(said.split()[0]) << 10
    job = one.popen([PROGRAMS.reigen, 'run', '--sync', '-H', 'node2:1,node3:1', '--', 'true'],
                    cwd=WORK, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: sent() > 1 << 20, READY, 'the first bytes')
        agents = [str(pid) for pid, line in two.processes().items() if 'reigen-agent' in line]
        two.run(['kill', '-STOP', *agents], user='root')
        assert agents and sent() < nbytes, 'it is in the middle of it'
        two.run(['kill', '-KILL', *agents], user='root')
        _, told = job.communicate(timeout=READY)
    finally:
        if job.poll() is None:
            job.kill_all()
            job.communicate()
    assert job.returncode == 69 and 'host node2: its agent' in told, told
    assert not jobs_left(hosts[3])
    one.run(['rm', f'{WORK}/data'], check=True)
    done = reigen(one, '--sync', '-H', 'node2:1', '--', 'cat', 'train.py')
    assert done.returncode == 0 and 'trained' in done.stdout, done.stderr
    assert not jobs_left(two), 'what it left goes with the next job'


def test_a_full_disk_is_named(hosts):
    one, two = hosts[1], hosts[2]
    one.run(['sh', '-c', 'for i in $(seq 60); do echo $i >f$i; done'], cwd=WORK, check=True)
    two.run(['mkdir', '-p', '.cache/reigen'], check=True)
    small = 'mount -t tmpfs -o mode=1777,size={} none {}'
    two.run(['sh', '-c', small.format('20m,nr_inodes=90', '/var/tmp')], user='root', check=True)
    try:
        done = reigen(one, '--sync', '-H', 'node2:1', '--', 'true')
        assert done.returncode == 69, done.stderr
        assert 'host node2: --sync: no room in /var/tmp/reigen-2001 for f' in done.stderr
        assert 'Make room there, or send less' in done.stderr
        assert not jobs_left(two)
    finally:
        two.run(['umount', '/var/tmp'], user='root', check=True)
    with_data = 'head -c 20000000 /dev/zero >data'
    one.run(['sh', '-c', with_data], cwd=WORK, check=True)
    places = ('/var/tmp', '/tmp', f'{HOME}/.cache')
    for place in places:
        two.run(['sh', '-c', small.format('8m', place)], user='root', check=True)
    try:
        done = reigen(one, '--sync', '-H', 'node2:1', '--', 'true')
        assert done.returncode == 69 and 'no place takes the copy' in done.stderr, done.stderr
        assert '/var/tmp/reigen-2001 has ' in done.stderr and 'are needed' in done.stderr
    finally:
        for place in places:
            two.run(['umount', place], user='root', check=True)


def test_what_earlier_jobs_left_gives_way(hosts):
    one, two = hosts[1], hosts[2]
    one.run(['sh', '-c', 'head -c 8000000 /dev/urandom >data'], cwd=WORK, check=True)
    two.run(['sh', '-c', 'mount -t tmpfs -o mode=1777,size=20m none /var/tmp'], user='root',
            check=True)
    try:
        # a copy that a killed agent left, and what no job has used for a while
        two.run(['sh', '-c', 'cd /var/tmp; umask 077; mkdir -p reigen-2001/files '
                 'reigen-2001/sync-abcdef/work; head -c 8000000 /dev/zero >'
                 'reigen-2001/sync-abcdef/work/data; head -c 6000000 /dev/zero >'
                 'reigen-2001/files/old; touch -d "2 days ago" reigen-2001/files/old'], check=True)
        done = reigen(one, '--sync', '-H', 'node2:1', '--', 'pwd')
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith('/var/tmp/reigen-2001/sync-'), done.stdout
        # neither stays when it fails, and what it was sent is within the bounds
        two.run(['sh', '-c', 'rm -r /var/tmp/reigen-2001; head -c 8000000 /dev/zero >/var/tmp/x'],
                check=True)
        done = reigen(one, '--sync', '-H', 'node2:1', '--', 'true')
        assert 'no room in /var/tmp/reigen-2001 for data' in done.stderr, done.stderr
        wait_until(lambda: not jobs_left(two), READY, 'the copy to go')
    finally:
        two.run(['umount', '/var/tmp'], user='root', check=True)


RECEIVER = r'''
import os, struct, subprocess, sys
def frame(kind, payload=b""):
    return struct.pack("<IH", len(payload), kind) + payload
def text(s):
    return struct.pack("<I", len(s)) + s
def head(nentries):
    return frame(1, text(b"/") + text(b"") + text(b"") + text(b"") + struct.pack(
        "<BBQI", 2, 0, 0, nentries))
def said(child):
    size, kind = struct.unpack("<IH", child.stdout.read(6))
    return kind, child.stdout.read(size)
def start(agent):
    return subprocess.Popen([agent, "sync"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child = start(sys.argv[1])  # an agent that goes before it has the lock
child.stdin.write(head(0) + frame(3))
child.stdin.flush()
while (answer := said(child))[0] != 4:
    pass
n = struct.unpack("<I", answer[1][:4])[0]
folder = answer[1][8 + n:].decode()
assert os.path.isdir(folder), answer
child.stdin.close()
assert child.wait() == 0
print(os.path.exists(folder))
child = start(sys.argv[1])  # a list that has no end
child.stdin.write(head(1))
try:
    for _ in range(1000):
        child.stdin.write(frame(2, bytes(32768)))
        child.stdin.flush()
except BrokenPipeError:
    print("refused")
child.stdout.read()
child.wait()
'''


def test_a_receiver_without_an_agent_leaves_nothing(hosts):
    done = hosts[2].run(['python3', '-c', RECEIVER, PROGRAMS.agent], timeout=READY)
    assert done.stdout == 'False\nrefused\n', done.stderr
    assert not jobs_left(hosts[2])


def test_limits_and_what_cannot_be_sent(hosts):
    one = hosts[1]
    one.run(['sh', '-c', 'mkdir data; truncate -s 900M data/big; truncate -s 200M other'],
            cwd=WORK, check=True)
    done = reigen(one, '--sync', '-H', 'node2:1', '--', 'true')
    assert done.returncode != 0
    assert 'and at most 1 GiB is sent. The largest: data/big (900 MiB), other (200' in done.stderr
    assert '.gitignore' in done.stderr
    one.run(['sh', '-c', 'rm -r data other; mkdir empty'], cwd=WORK, check=True)
    for options, says in ((['--sync=nowhere'], '--sync nowhere: No such file or directory'),
                          (['--sync=train.py'], 'not a directory'),
                          (['--sync=pkg', '--cwd', WORK], 'is not in'),
                          (['--sync', 'pkg'], 'and no command: write --sync=pkg'),
                          (['--sync=empty'], 'has nothing to send'),
                          (['--sync', '--engine', 'script'], '--sync is for ranks that Reigen'),
                          (['--sync', '--on', 'kubernetes', '--image', 'i'], 'is not for'),
                          (['--sync', '--write-plan', 'p'], '--sync is not for --write-plan')):
        hosts_ = [] if '--on' in options else ['-H', 'node2:1']
        done = reigen(one, *options, *hosts_, '--', 'true')
        assert done.returncode == 2 and says in done.stderr, (options, done.stderr)


def test_elastic_hosts_that_come_later_get_it_too(hosts):
    one = hosts[1]
    one.write('hosts.sh', 'echo node2:1\n[ -e more ] && echo node3:1\ntrue\n')
    job = one.popen([PROGRAMS.reigen, 'run', '--no-tag-output', '--sync', '--min-np', '1',
                     '--host-discovery-script', f'cd {HOME} && . ./hosts.sh', '--', 'sh', '-c',
                     'echo $(hostname) $(cat train.py); exec sleep 1000'],
                    cwd=WORK, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True)
    try:
        assert job.stdout.readline() == 'node2 print("trained")\n'
        one.write('more', '')
        wait_until(lambda: hosts[3].run(['sh', '-c', 'cat /var/tmp/reigen-2001/sync-*/work/*.py']
                                        ).stdout == 'print("trained")\n', READY, 'its copy')
    finally:
        job.kill_all()
        job.communicate()
        one.run(['rm', '-f', 'more', 'hosts.sh'])
    for node in (2, 3):
        wait_until(lambda at=hosts[node]: not jobs_left(at), READY, 'the copies to go')


def test_a_restart_has_the_same_files(hosts):
    one = hosts[1]
    done = reigen(one, '--sync', '--max-restarts', '1', '-H', 'node1:1,node2:1', '--', 'sh', '-c',
                  f'[ $RANK = 1 ] && cat train.py; [ $RANK = 0 ] && echo later >train.py; '
                  '[ $REIGEN_RESTART = 1 ] || exit 3')
    assert done.stdout == 2 * 'print("trained")\n', done.stderr
    assert done.returncode == 0, done.stderr


def test_what_the_launcher_writes_is_in_nobodys_way(hosts):
    line = (f'{PROGRAMS.reigen} run --sync --output-dir out -H node2:1 -- sh -c "ls; echo $RANK" '
            '>>log 2>&1')
    for _ in range(2):
        assert hosts[1].run(['sh', '-c', line], cwd=WORK, timeout=READY).returncode == 0
    log = hosts[1].run(['cat', 'log'], cwd=WORK).stdout
    assert log.count('pkg\n') == 2 and 'log\n' not in log and 'out\n' not in log, log


def test_it_detaches(hosts):
    one = hosts[1]
    done = reigen(one, '--sync', '--detach', '-H', 'node2:1', '--', 'sh', '-c',
                  'echo made >result; cat train.py')
    assert done.returncode == 0, done.stderr
    job = done.stdout.split()[0]
    logs = one.run([PROGRAMS.reigen, 'logs', '-f', job], timeout=READY)
    assert 'print("trained")' in logs.stdout, logs
    assert 'ranks wrote 1 file' in logs.stdout + logs.stderr, logs


def test_a_directory_is_sent_into_containers_whose_home_is_mounted(clean2):
    one, two = clean2[1], clean2[2]
    one.run(['mkdir', '-p', 'sent'], check=True)
    one.write('sent/data', 'of node1')
    for says in ('8 bytes were sent', '0 bytes were sent'):
        done = reigen(one, '--sync', '-H', 'node1:1,node2:1', '--image', 'base', '--', 'sh', '-c',
                      'echo $RANK $PWD $(cat data); rm data; echo >new.$RANK; echo of node1 >data',
                      cwd=f'{HOME}/sent', timeout=120)
        assert done.returncode == 0, done.stderr
        lines = sorted(done.stdout.splitlines())
        assert lines[0] == f'0 {HOME}/sent of node1', done.stdout
        assert re.fullmatch(rf'1 {HOME}/.cache/reigen/sync-\w+/work of node1', lines[1])
        assert says in done.stderr and 'there is no directory' not in done.stderr, done.stderr
        kept = re.search(r'kept in (\S+)/work for', done.stderr)[1]
        assert two.run(['ls', f'{kept}/work']).stdout.split() == ['data', 'new.1']
        one.run(['sh', '-c', 'rm new.0; printf "of node1" >data'], cwd=f'{HOME}/sent', check=True)
        two.run(['rm', '-r', kept], check=True)
    one.run(['rm', '-r', 'sent'], check=True)
