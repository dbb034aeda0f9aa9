# SPDX-License-Identifier: Apache-2.0
"""The flags of other launchers, as the table in docs/launchers.md says."""
import re
import shlex
from concurrent.futures import ThreadPoolExecutor

from built import ROOT


def rows():
    text = (ROOT / 'docs/launchers.md').read_text()
    found, launcher = [], None
    for line in text[text.index('## Flags of other launchers'):].splitlines():
        if line.startswith('### '):
            launcher = line[4:]
        cells = re.fullmatch(r'\| `(.+?)` \| (.+) \|', line)
        if cells:
            found.append((launcher, cells[1], cells[2]))
    return found


def plan(reigen, flags):
    """What would run: without the job's name and its ports, which are others each time."""
    done = reigen('run', *shlex.split(flags), '--dry-run', '--', 'true')
    out = re.sub(r'r-\d{8}-\d{6}-[0-9a-f]{8}', 'ID', done.stdout)
    return done, re.sub(r'(MASTER_PORT=|:)\'?\d{4,5}\b', r'\1PORT', out)


def judge(reigen, row):
    launcher, flag, says = row
    name = re.split(r'[ =]', flag)[0]
    done, out = plan(reigen, flag)
    told = f'{launcher} {flag}: {done.returncode} {done.stderr}'
    assert 'unknown' not in done.stderr, told
    if says.startswith('refused'):
        assert done.returncode == 2 and done.stderr.startswith(f'reigen: {name}'), told
        for named in re.findall(r'`(--?[a-z-]+)[ =`]', says):
            assert named in done.stderr, f'{told} lacks {named}'
        return
    # Only in an allocation is known what a job would have there; 69 says that it was understood.
    assert done.returncode == (69 if '--on slurm' in flag else 0), told
    assert (': ignored; ' in done.stderr or 'ignored' in done.stderr) == \
        (says == 'noted'), told
    assert ('taken for' in done.stderr) == says.endswith(', noted'), told
    if says.startswith('as'):
        same, expected = plan(reigen, re.match(r'as `(.+?)`', says)[1])
        assert same.returncode == done.returncode and out == expected, told
    else:
        assert out == plan(reigen, '')[1], told


def test_other_launchers_flags_do_what_the_table_says(reigen):
    all_rows = rows()
    assert len(all_rows) > 130
    assert len({launcher for launcher, _, _ in all_rows}) == 7
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda row: judge(reigen, row), all_rows))


def test_horovodrun_takes_the_option_that_it_advises(reigen):
    done = reigen('horovodrun', '-np', '4', '-H', 'localhost:2', 'true')
    assert done.returncode == 2
    advised = re.search(r'or say (--\w+)', done.stderr)[1]
    done = reigen('horovodrun', '-np', '4', '-H', 'localhost:2', advised, 'sh', '-c', 'echo $RANK')
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 4, done.stderr
    # and what the other launchers have
    done = reigen('horovodrun', '--nproc_per_node=3', '-ppn2', 'true', '--display-map')
    assert done.returncode == 0, done.stderr
    assert 'unknown flag --nosuch' in reigen('horovodrun', '-np2', '--nosuch', 'true').stderr
