# SPDX-License-Identifier: Apache-2.0
"""The flags of other launchers, as the lists in docs/launchers.md say, and those that are refused
or noted."""
import re
import shlex
from concurrent.futures import ThreadPoolExecutor

import pytest

from built import ROOT


def rows():
    text = (ROOT / 'docs/launchers.md').read_text()
    found, launcher = [], None
    text = re.sub(r'\n  +', ' ', text[text.index('### torchrun'):])
    for line in text.splitlines():
        if line.startswith('### '):
            launcher = line[4:]
        row = re.fullmatch(r'- (`.+?`): (.+)', line)
        for flag in re.findall(r'`(.+?)`', row[1]) if row else []:
            found.append((launcher, *written_out(flag, re.sub('^(?=`)', 'as ', row[2]))))
    for line in (ROOT / 'tests/behaviour/launchers_flags.txt').read_text().splitlines():
        if line.startswith('['):
            launcher = line.strip('[]')
        elif line and not line.startswith('#'):
            says, _, flag = line.partition(' ')
            found.append((launcher, flag, says))
    return found


def written_out(flag, says):
    """A flag of a row with several, and what the row says of it."""
    says = says.replace('the same', 'as `FLAG`').replace('FLAG', flag)
    platform, with_it, rest = says.partition('with `--on slurm` ')
    if with_it and not platform:
        return f'{flag} --on slurm', re.sub(r'^as `(.+?)`', r'as `\1 --on slurm`', rest)
    return flag, says


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
    if says.startswith('[several'):
        return  # below
    if says.startswith('refused'):
        assert done.returncode == 2 and done.stderr.startswith(f'reigen: {name}'), told
        # What to do instead is told; the page has it in brackets only.
        assert len(done.stderr.split()) > 6, told
        for named in re.findall(r'`(--?[a-z-]+)[ =`]', says):
            assert named in done.stderr, f'{told} lacks {named}'
        return
    # Only in an allocation is known what a job would have there; 69 says that it was understood.
    assert done.returncode == (69 if '--on slurm' in flag else 0), told
    assert (': ignored; ' in done.stderr or 'ignored' in done.stderr) == \
        says.startswith('noted'), told
    assert ('taken for' in done.stderr) == says.endswith(', noted'), told
    if says.startswith('as'):
        same, expected = plan(reigen, re.match(r'as `(.+?)`', says)[1])
        assert same.returncode == done.returncode and out == expected, told
    else:
        assert out == plan(reigen, '')[1], told


def test_other_launchers_flags_do_what_the_page_says(reigen):
    all_rows = rows()
    assert len(all_rows) > 170
    assert len({launcher for launcher, _, _ in all_rows}) == 7
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda row: judge(reigen, row), all_rows))


def test_what_the_page_calls_refused_is_tried():
    """What stands in brackets is what to use instead."""
    tried = {(launcher, flag) for launcher, flag, says in rows() if says.startswith('refused')}
    page = (ROOT / 'docs/launchers.md').read_text() + '\n'
    found = re.findall(r'^### ([^\n]+)|^Refused are (.+?)\n\n', page, re.M | re.S)
    launcher, named = None, 0
    for heading, text in found:
        launcher = heading or launcher
        text = re.sub(r'\([^()]*\)', '', re.sub(r'\]\([^()]*\)', ']', text))
        for flag in re.findall(r'`(.+?)`', text):
            assert any(o == launcher and f.startswith(flag) for o, f in tried), (launcher, flag)
            named += 1
    assert named > 50


TRAINER = ['sh', '-c', 'echo trainer $RANK of $WORLD_SIZE, $A']


@pytest.mark.parametrize('program', ['run', 'horovodrun'])
def test_a_colon_stands_between_two_programs(reigen, program):
    done = reigen(program, '-np', 1, 'echo', 'loader', ':', '-n', 2, '-x', 'A=a b', *TRAINER)
    lines = sorted(re.sub(r'^\[(\d)\](?: |<stdout>:)', r'\1 ', line)
                   for line in done.stdout.splitlines())
    assert lines == ['0 loader', '1 trainer 1 of 3, a b', '2 trainer 2 of 3, a b'], done
    done = reigen(program, '-np', 1, '--', 'echo', 'loader', ':', '-n', '1', 'echo')
    assert done.stdout.endswith('loader : -n 1 echo\n'), done


def test_a_rank_that_fails_among_several_programs_is_named(reigen):
    done = reigen('run', '-n', 1, 'sleep', 60, ':', '-n', 1, 'sh', '-c', 'exit 3')
    assert done.returncode == 3 and 'rank 1 ' in done.stderr, done


def test_programs_come_from_a_file(reigen, tmp_path):
    """As Open MPI's and MPICH's, and from an editor of another system's."""
    (tmp_path / 'app').write_bytes(b'\xef\xbb\xbf# two\r\n-np 1 echo "a  b"\r\n\r\n'
                                   b"-n 1 -wdir / -env A x sh -c 'pwd; echo $A'\r\n")
    for option in ('--app', '-configfile'):
        done = reigen('run', option, tmp_path / 'app')
        assert sorted(done.stdout.splitlines()) == ['[0] a  b', '[1] /', '[1] x'], done
    for words, says in ((['--app', 'nosuch'], 'cannot read --app nosuch'),
                        (['--app', tmp_path / 'app', 'true'], 'so does the command line'),
                        (['--app', tmp_path / 'app', '-np', 2], 'leave -np out'),
                        (['--app', '/dev/null'], 'no program is in it')):
        done = reigen('run', *words)
        assert done.returncode == 2 and says in done.stderr, done


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
