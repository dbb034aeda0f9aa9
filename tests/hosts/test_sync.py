# SPDX-License-Identifier: Apache-2.0
"""--sync into a container, on a host that has not the directory. Bare hosts: test_ssh.py; all else:
tests/behaviour/test_sync.py."""
from bed import Node
from built import PROGRAMS

HOME = Node.home()


def test_a_directory_that_a_host_lacks_goes_into_its_container(clean2):
    one = clean2[1]
    one.write('sent/part/data', 'seven')
    done = one.run([PROGRAMS.reigen, 'run', '--no-tag-output', '--sync', '-H', 'node1:1,node2:1',
                    '--image', 'base', '--', 'sh', '-c', 'echo $REIGEN_RANK $(cat part/data) $PWD'],
                   cwd=f'{HOME}/sent', timeout=120)
    lines = sorted(done.stdout.splitlines())
    assert lines[0] == f'0 seven {HOME}/sent' and lines[1].startswith('1 seven /'), done.stderr
    assert len(lines) == 2 and 'there is no directory' not in done.stderr
