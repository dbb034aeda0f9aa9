# SPDX-License-Identifier: Apache-2.0
"""reigen rsh between hosts that ssh reaches: who it is there, how hosts are named, pdsh, a host's
death. What it does otherwise is in tests/behaviour/test_rsh.py."""
import subprocess

import pytest
from bed import Cluster
from built import PROGRAMS

HOSTS = ('-H', 'node1:1,node2:1,node3:1')


@pytest.fixture
def three():
    with Cluster(3) as cluster:
        yield cluster


def script(text, *options):
    return [PROGRAMS.reigen, 'run', *HOSTS, '--engine', 'script', *options, '--', 'sh', '-c', text]


def test_commands_run_as_the_user_in_home_on_the_host_that_is_named(three):
    one, _, third = three.nodes
    done = one.run(script(f"""
        $REIGEN_RSH node2 'hostname; whoami; pwd; echo $MINE'
        $REIGEN_RSH node2 '$REIGEN_RSH node3 "hostname; \\$REIGEN_RSH node1 hostname"'
        $REIGEN_RSH {third.address} hostname
        $REIGEN_RSH alice@node3.example.org hostname
        $REIGEN_RSH 172.17.0.1 hostname; echo code $?
        PDSH_RCMD_TYPE=exec pdsh -w node2,node3 $REIGEN_RSH %h hostname | sort
        PATH=$REIGEN_JOB_DIR:$PATH PDSH_RCMD_TYPE=ssh pdsh -S -w node2,node3 'hostname; exit 4' |
            sort
        PATH=$REIGEN_JOB_DIR:$PATH PDSH_RCMD_TYPE=ssh pdsh -S -w node2,node3 'exit 4' 2>&1 | wc -l
        """, '--env', 'MINE=mine'), timeout=60)
    assert done.stdout.split('\n') == [
        'node2', 'alice', '/home/alice', 'mine', 'node3', 'node1', 'node3', 'node3', 'code 255',
        'node2: node2', 'node3: node3', 'node2: node2', 'node3: node3', '2', ''], \
        done.stdout + done.stderr
    assert done.returncode == 0, done.stderr
    three.assert_clean()


def test_a_host_s_death_reaches_the_client(three):
    one, _, third = three.nodes
    job = one.popen(script("""trap '' TERM
                              $REIGEN_RSH node3 'echo there; sleep 100'; echo code $?"""),
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    text=True)
    try:
        assert job.stdout.readline() == 'there\n', job.stderr.read()
        third.kill()
        out, err = job.communicate(timeout=60)
    finally:
        if job.poll() is None:
            job.kill_all()
    assert out == 'code 255\n', err
    assert 'node3: that host was lost, and the command with it' in err
    assert job.returncode == 76, err


def in_containers(node, image, *command):
    return node.run([PROGRAMS.reigen, 'run', '-H', 'node1:1,node2:1', '--image', image, '--engine',
                     'script', '--', *command], timeout=120)


def test_in_containers_it_needs_nothing_of_the_image(clean2):
    one = clean2['node1']
    done = in_containers(one, 'debian', 'sh', '-c', """
        $REIGEN_RSH node2 'hostname; whoami; echo $REIGEN_JOB_DIR; cat /etc/debian_version'
        $REIGEN_RSH node2 '$REIGEN_RSH node1 hostname'; ls /reigen/bin
        seq 100000 | $REIGEN_RSH node2 cat | tail -1; $REIGEN_RSH node2 'exit 9'; echo code $?""")
    lines = done.stdout.splitlines()
    assert lines[:3] == ['node2', 'alice', '/reigen/run'], done.stdout + done.stderr
    assert lines[-3:] == ['ssh', '100000', 'code 9'], done.stdout + done.stderr
    # No shell there, and none on the other side.
    done = in_containers(one, 'scratch-static', '/reigen/run/rsh', 'node2', '"/program"', '0', '3')
    assert 'program rank - host node2' in done.stdout, done.stderr
    assert done.returncode == 3, done.stderr
    done = in_containers(one, 'scratch-static', '/reigen/run/rsh', 'node2', '/program; /program')
    assert 'no /bin/sh, and a shell is needed for: /program; /program' in done.stderr
    assert done.returncode == 127
