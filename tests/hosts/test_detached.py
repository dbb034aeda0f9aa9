# SPDX-License-Identifier: Apache-2.0
"""reigen run --detach on hosts of ssh and in their containers; behaviour/test_detach.py has the
rest.

node1 is where the user sits; both nodes have a dockerd of their own."""
from built import PROGRAMS

TIMEOUT = 120  # s, for what takes one on an idle machine
TWO = ('-H', 'node1:1,node2:1')


def reigen(node, *words):
    return node.run([PROGRAMS.reigen, *words], timeout=TIMEOUT)


def test_a_job_that_detaches_goes_on_in_containers_of_two_hosts(clean2):
    node = clean2[1]
    node.run(['mkfifo', 'go'], check=True)
    refused = reigen(node, 'run', '--detach', *TWO, '--image', 'nosuch', '--pull', 'never', '--',
                     'true')
    assert refused.returncode == 125 and 'nosuch' in refused.stderr, refused.stderr
    script = 'echo here; [ $RANK = 1 ] && exec sleep 1000; read code <~/go; exit $code'
    started = reigen(node, 'run', '--detach', *TWO, '--image', 'base', '--', 'sh', '-c', script)
    assert started.returncode == 0, started.stderr
    ident = started.stdout.strip()
    status = reigen(node, 'status', ident).stdout
    assert 'running' in status and 'image: base' in status, status
    node.run(['sh', '-c', 'echo 5 >go; rm go'], check=True)
    attached = reigen(node, 'attach', ident)
    assert attached.returncode == 5 and '[1] here\n' in attached.stdout, attached.stdout
    assert 'rank 0 on node1 failed first' in attached.stdout, attached.stdout
