# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md, command by command, by an ordinary user on two hosts with nothing of ours."""
import re
import shutil
from pathlib import Path

import pages
import pytest
from bed import Cluster
from built import ROOT

LIMIT_S = 150


@pytest.fixture
def beginner(docker_context):
    """node1, where alice has what `make wheel` made, and the examples, in the folder reigen."""
    with Cluster(2) as cluster:
        node = cluster[1]
        node.run(['mkdir', '-p', 'reigen/build/dist'], check=True)
        for wheel in Path(docker_context, 'wheels').glob('*.whl'):
            node.path(f'reigen/build/dist/{wheel.name}').write_bytes(wheel.read_bytes())
        shutil.copytree(ROOT / 'examples', node.path('reigen/examples'), dirs_exist_ok=True)
        yield node


@pytest.mark.timeout(900)
def test_the_tutorial_works_as_it_stands(beginner):
    """One shell types it all, but `make wheel`, which tests/install and tests/fresh run."""
    text = (ROOT / 'docs/tutorial.md').read_text()
    for name, script in re.findall(r'the file `(\w+\.py)`.*?```python\n(.*?)```', text, re.S):
        beginner.write(name, script)
    found = pages.commands('docs/tutorial.md')
    assert found.pop(0).text == 'make wheel' and len(found) > 10
    typed = ''.join(f'{c.text}\necho "END-OF-{n} $?"\n' for n, c in enumerate(found))
    done = beginner.run(['bash', '-c', f'exec 2>&1\n{typed}'],
                        cwd=f'{beginner.home()}/reigen', timeout=LIMIT_S)
    print(done.stdout)
    said = re.split(r'END-OF-\d+ (\d+)\n', done.stdout)
    for command, output, code in zip(found, said[:-1:2], said[1::2], strict=True):
        assert code == ('1' if 'mistake' in command.text else '0'), (str(command), done.stdout)
        lines = [re.sub(r'\d+', '0', line) for line in command.output if line != '...']
        if 'mnist' in command.text:  # how well it learns is not the page's affair
            lines = lines[1:]
        for line in lines:
            assert line in re.sub(r'\d+', '0', output), (str(command), line, output)
