# SPDX-License-Identifier: Apache-2.0
"""Each shell command of README.md and docs/*.md is run by a test; here most of them, and the table
below says where the others are. What takes hosts or trains for long is parsed with all of its
options by `reigen run --dry-run`, or runs with `true` in the place of the user's script."""
import os
import re
import shutil
import subprocess

import pytest

import pages
from built import PROGRAMS, ROOT, environment

#: Pages all of whose commands a test runs in their order, from the page's text.
PAGES = {'docs/tutorial.md': 'hosts/test_tutorial.py::test_the_tutorial_works_as_it_stands',
         'docs/kubeflow.md':
             'kubernetes/test_kubeflow.py::test_the_quick_start_works_as_it_stands'}
#: Blocks with a command of Slurm's are typed into a cluster, whole.
SLURM = 'slurm/test_docs_commands.py::test_commands_of_the_pages_run_on_a_cluster'
#: These are lines of what is typed there, or of what test_fresh.py types.
FRESH = 'fresh/test_fresh.py::test_every_command_of_the_readme_works_where_nothing_is_installed'
#: Commands that a test has written out, with names and images of its own.
WRITTEN_OUT = {
    'build/envs/torch2/bin/python tests/torch2/pytorch_suite.py --ranks 8':
        'torch2/test_pytorch_suite.py::test_what_pytorch_asks_of_gloo_holds',
    'horovodrun -np 2 --min-np 1 --max-np 4 --host-discovery-script /etc/mpi/discover_hosts.sh '
    'python train.py':
        'behaviour/test_mpijob_elastic.py::'
        'test_workers_join_are_lost_and_come_back_under_their_names',
    'python examples/boot.py': 'python/test_boot.py::test_the_example_runs',
    'reigen run --on openpai --config job.json':
        'behaviour/test_pai_driver.py::test_a_file_of_ones_own_is_run_to_its_end',
    'cd $SSH_KEY_DIR':
        'kubernetes/test_chart.py::test_the_originals_commands_train_on_three_nodes',
    'deploy/docker/build.sh --context horovod-docker':
        'hosts/test_images.py::test_the_image_holds_no_key',
    'deploy/docker/build.sh --file Dockerfile.spark --context spark-4.0.1-bin-hadoop3':
        'hosts/test_images.py::'
        'test_what_the_image_with_spark_is_made_of_fits_into_a_distribution',
    'cd $SSH_KEY_DIR':
        'kubernetes/test_chart.py::test_the_originals_commands_train_on_three_nodes',
    'docker build -t horovod:latest horovod-docker':
        'hosts/test_images.py::test_the_image_holds_no_key',
    'docker run -it horovod:latest':
        'hosts/test_images.py::test_it_opens_in_a_terminal_where_the_examples_are',
    'mpirun -np 4 -H localhost:4 python keras_mnist_advanced.py':
        'hosts/test_images.py::test_the_original_command_line_trains',
    'docker run -it --network=host -v /mnt/share/ssh:/root/.ssh horovod:latest':
        'hosts/test_old_way.py::test_primary_and_secondary_workers_work_as_documented',
    'docker run -it --network=host -v /mnt/share/ssh:/root/.ssh horovod:latest '
    'bash -c "/usr/sbin/sshd -p 12345; sleep infinity"':
        'hosts/test_old_way.py::test_primary_and_secondary_workers_work_as_documented',
    'mpirun -np 16 -H host1:4,host2:4,host3:4,host4:4 -mca plm_rsh_args "-p 12345" '
    'python keras_mnist_advanced.py':
        'hosts/test_old_way.py::test_primary_and_secondary_workers_work_as_documented',
    'mpirun -np 4 -H node1:2,node2:2 python train.py':
        'hosts/test_boot.py::test_ranks_of_two_hosts_meet_under_mpirun',
    'cd $SSH_KEY_DIR':
        'kubernetes/test_chart.py::test_the_originals_commands_train_on_three_nodes',
    'mpirun -np 4 reigen bench --peer mpi,gloo':
        'hosts/test_bench.py::test_mpi_and_gloo_side_by_side_on_two_hosts',
    'python3 tests/behaviour/trials.py 1000 300':
        'behaviour/test_trials.py::test_what_happens_is_named_in_every_phase',
    'python3 tests/behaviour/trials.py 1234':
        'behaviour/test_trials.py::test_what_happens_is_named_in_every_phase',
    'python3 tests/behaviour/trials.py 1 140 pauses.json pause':
        'behaviour/test_trials.py::test_what_stands_still_for_seconds_is_no_loss',
    'python3 tests/behaviour/trials.py 1 16 checkpoints.json checkpoint':
        'behaviour/test_trials.py::test_a_checkpoint_of_a_minute_is_no_loss',
    'python3 tests/behaviour/burdens.py load 1 24':
        'behaviour/test_burdens.py::test_a_burden_of_seconds_is_no_loss',
    'python3 tests/behaviour/burdens.py swap 1 20':
        'behaviour/test_burdens.py::test_a_burden_of_seconds_is_no_loss',
    'sudo python3 tests/hosts/cuts.py 100 40':
        'hosts/test_cuts.py::test_a_cut_host_is_named_and_ends_its_ranks',
    'reigen report night':
        'behaviour/test_report.py::test_the_page_says_what_the_job_did',
    'reigen top':
        'behaviour/test_top.py::test_keys_sort_open_and_go_back_and_hosts_stand_for_ranks',
    'torchft_lighthouse --min_replicas 1':
        'torch2/test_again.py::test_a_replica_of_torchft_is_lost_and_comes_back',
    'reigen bench -H node1:4,node2:4 --max-bytes 64m':
        'hosts/test_bench.py::test_reigen_bench_starts_itself_by_ssh',
}
#: Commands that no test runs, and why not.
NOT_RUN = {
    'deploy/docker/build.sh': 'it fetches some gigabytes from PyPI; --context is run',
    'deploy/docker/build.sh --file Dockerfile.cuda --tag horovod:cuda': 'the same',
    'deploy/docker/build.sh --file Dockerfile.sshd --base my-image --tag my-image:sshd':
        'the same; that Dockerfile is built by hosts/test_old_way.py',
    'deploy/docker/build.sh --file Dockerfile.spark --tag '
    'spark-tf-keras-horovod-pytorch:latest': 'the same',
    'cd spark-4.0.1-bin-hadoop3': 'the folder is Spark\'s, which nobody fetches here',
    'docker build -t spark-tf-keras-horovod-pytorch:latest '
    '-f kubernetes/dockerfiles/spark/ubuntu18.04/Dockerfile .': 'it fetches some gigabytes',
    'git clone REPOSITORY reigen && cd reigen': 'tests/fresh clones, but from a folder',
    'meson configure build -Dtests=enabled && ninja -C build && meson test -C build job':
        'this build is in use; the part `unit` of make check does it',
    'meson configure build -Dtests=enabled && ninja -C build && meson test -C build coll/toy':
        'the plane toy is what the reader of planes.md writes',
    'python3 -m pytest -c tests/pytest.ini --rootdir=tests '
    "tests/behaviour/test_collectives_exact.py -k toy -m 'not slow'": 'the same',
    'sudo make fresh': 'it lasts half an hour; tests/fresh runs tools/fresh.sh',
    "sudo make fresh ARGS='make check ARGS=unit'": 'the same',
    'sudo /usr/bin/python3 -m pytest -c tests/pytest.ini --rootdir=tests '
    'tests/hosts/test_bed.py -k ssh': 'pytest within pytest; tests/hosts are run so',
    'sudo python3 tests/bed/bed.py up --nodes 4 --dockerd --image base':
        'one such cluster is there at a time, and it may be in use',
    'sudo python3 tests/bed/bed.py up --nodes 2 --slurm': 'the same',
    'sudo python3 tests/bed/bed.py up --nodes 3 --kubernetes': 'the same',
    'sudo python3 tests/bed/bed.py shell': 'the same',
    'sudo python3 tests/bed/bed.py run --node node2 -- docker ps': 'the same',
    'sudo python3 tests/bed/bed.py down': 'the same',
}


def bare(command):
    """Its text on one line."""
    return re.sub(r'\s*\\\n\s*', ' ', command.text)


def known_test(name):
    file, _, test = name.partition('::')
    path = ROOT / 'tests' / file
    return path.exists() and f'def {test}(' in path.read_text()


@pytest.fixture
def place(tmp_path):
    """A folder with what the pages' commands name; the programs are in PATH."""
    page = (ROOT / 'docs/jobfile.md').read_text()
    (tmp_path / 'job.yaml').write_text(re.search(r'```yaml\n(.*?)```', page, re.S)[1])
    page = (ROOT / 'docs/horovodrun.md').read_text()
    (tmp_path / 'horovod.yaml').write_text(re.search(r'```yaml\n(.*?)```', page, re.S)[1])
    page = (ROOT / 'docs/kubernetes.md').read_text()
    (tmp_path / 'pod.yaml').write_text(re.search(r'```yaml\n(.*?)```', page, re.S)[1])
    page = (ROOT / 'docs/pai.md').read_text()
    (tmp_path / 'job.json').write_text(re.search(r'```json\n(.*?)```', page, re.S)[1])
    page = (ROOT / 'docs/simulate.md').read_text()
    for name, text in re.findall(r'```text\n# (\w+\.model)\n(.*?)```', page, re.S):
        (tmp_path / name).write_text(text)
    (tmp_path / 'mine.json').write_text(
        '{"reigen_model": 1, "name": "train.py", "operations": [{"name": "a", "kind": "ALLREDUCE", '
        '"type": "float32", "bytes": 4, "compute_ms": 1, "waits": true}]}')
    page = (ROOT / 'docs/config.md').read_text()
    (tmp_path / 'config').write_text(re.search(r'```ini\n.*?(\[profile.*?)```', page, re.S)[1])
    (tmp_path / 'hosts.sh').write_text('#!/bin/sh\necho localhost:2\n')
    (tmp_path / 'hosts.sh').chmod(0o755)
    bin_dir = PROGRAMS.reigen.parent
    env = environment(HOME=tmp_path, XDG_STATE_HOME=tmp_path / 'state', API_TOKEN='x',
                      REIGEN_CONFIG=tmp_path / 'config',
                      PATH=f'{bin_dir}:{os.environ["PATH"]}')

    def run(*words, timeout=60, cwd=tmp_path):
        return subprocess.run([str(w) for w in words], cwd=cwd, env=env, timeout=timeout,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    return run


def dry(place, words):
    """Everything but the hosts: each option, its value, and how they go together."""
    done = place('reigen', 'run', '--dry-run', *words)
    later = done.returncode == 69 and 'only in an allocation' in done.stderr
    return done.returncode == 0 or later, done


def run_simulate(place, words):
    """A script that is recorded is the user's affair; all other options hold without it."""
    words, recorded = words[:(words + ['--']).index('--')], '--model' not in words
    for name in ('--from', '--np', '--steps', '--save'):
        if name in words:
            at = words.index(name)
            del words[at:at + 2]
    more = ['--model', 'mine.json'] if recorded and '--params' not in words else []
    done = place(*words, *more)
    return done.returncode == 0, done


def run_reigen(place, words):
    if words[1] == 'run' and words[-3:-1] == ['sh', '-c'] and '-H' not in words:
        return True, place(*words)
    if words[1] == 'torchrun' and 'train.py' in words:
        done = place(*words[:words.index('train.py')], '--dry-run', '--no-python', 'true')
        return done.returncode == 0, done
    if words[1] == 'simulate':
        return run_simulate(place, words)
    if words[1] in ('run', 'plan'):
        return dry(place, words[2:])
    if words[1] == 'doctor' and {'-H', '--on', '--config', '--image'} & set(words):
        own = ('--planes', '--json', '--clean')
        return dry(place, [w for w in words[2:] if w not in own] + ['--', 'true'])
    if words[1] == 'bench':
        words = [*words, '--iterations', '1', '--rounds', '1', '--max-bytes', '4k']
    done = place(*words)
    # Of a job that was never there; all options were right.
    return done.returncode == 0 or 'no such job' in done.stderr, done


def run_horovodrun(place, words):
    """The command is `true`: what the user's script does is not the page's affair."""
    command = next(i for i, word in enumerate(words) if word.startswith(('python', './'))
                   and words[i - 1] != '--host-discovery-script')
    done = place(*words[:command], 'true')
    return done.returncode == 0, done


def run_make(place, words):
    done = place('make', '-n', '-C', ROOT, *words[1:])
    return done.returncode == 0, done


def collect(place, words):
    """A test's name: whether pytest finds such a test."""
    assert words[1:3] == ['-m', 'pytest']
    done = place('/usr/bin/python3', *words[1:], '--collect-only', cwd=ROOT)
    return done.returncode == 0, done


def run_git(place, words):
    done = place(*words, cwd=ROOT)
    return done.returncode == 0, done


HERE = {'reigen': run_reigen, 'horovodrun': run_horovodrun, 'make': run_make, 'git': run_git,
        'python3': collect}


def shown(line, output):
    """Whether a line of a page is in the output, whatever its figures are."""
    return re.sub(r'\d+', '0', line) in re.sub(r'\d+', '0', output)


def tried_elsewhere(command):
    """Whether a test of check-all has it; what that test is, the tables above say."""
    typed = (ROOT / 'tests/fresh/test_fresh.py').read_text().splitlines()
    on_cluster = any(command in block for block in pages.blocks_for_a_cluster())
    return (command.page in PAGES or on_cluster or bare(command) in typed or
            bare(command) in WRITTEN_OUT or bare(command) in NOT_RUN)


def problem_of(command, place):
    if command.program not in HERE:
        return f'{command}: no test runs it (tests/behaviour/test_docs.py)'
    try:
        ok, done = HERE[command.program](place, [command.program, *command.words[1:]])
    except subprocess.TimeoutExpired:
        return f'{command}: it does not end'
    if not ok:
        return f'{command}: {done.returncode}: {done.stderr or done.stdout}'
    return None


def test_each_command_of_the_pages_is_run_by_a_test(place):
    found = pages.commands()
    assert len(found) > 40 and len({c.page for c in found}) > 8
    problems = [problem_of(c, place) for c in found if not tried_elsewhere(c)]
    problems = [p for p in problems if p]
    assert not problems, '\n' + '\n'.join(problems)


def test_what_the_table_names_is_there():
    """An entry whose command or test has gone is one too many."""
    texts = {bare(c) for c in pages.commands()}
    assert [c for c in (*NOT_RUN, *WRITTEN_OUT) if c not in texts] == []
    named = {*PAGES.values(), *WRITTEN_OUT.values(), SLURM, FRESH}
    assert [t for t in named if not known_test(t)] == []


def test_commands_within_sentences_are_known(reigen):
    """`reigen NAME` in a sentence or table: reigen has such a command."""
    names = set(re.findall(r'^  (\w[\w-]*) ', reigen('help', 'all').stdout, re.M))
    assert {'run', 'doctor', 'explain', 'rsh'} <= names
    found = [(path.name, word) for path in pages.pages()
             for word in re.findall(r'`reigen ([a-z][\w-]*)(?:`| [A-Z-])', path.read_text())]
    assert len(found) > 50 and [f for f in found if f[1] not in names] == []


def test_a_wrong_option_and_an_unknown_program_would_be_found(place, tmp_path):
    page = tmp_path / 'page.md'
    page.write_text('```\nreigen run --nosuch -- true\n```\n')
    text = pages.FENCE.search(page.read_text())[3].split('\n')
    [wrong] = pages.of_block('page.md', 2, text)
    assert 'unknown option --nosuch' in problem_of(wrong, place)
    [strange] = pages.of_block('page.md', 2, ['$ nosuch --at-all'])
    assert 'no test runs it' in problem_of(strange, place)


def test_the_readme_shows_what_a_failure_looks_like(place):
    [command] = [c for c in pages.commands('README.md') if 'exit $((' in c.text]
    done = place('reigen', *command.words[1:])
    assert done.returncode == 7
    first, last = command.output[0], command.output[-1]
    assert shown(first, done.stderr) and shown(last, done.stderr), done.stderr


def test_settings_of_the_page_on_horovodrun_are_taken(place):
    done = place('horovodrun', '-np', '1', '--config-file', 'horovod.yaml', 'true')
    assert done.returncode == 0, done.stderr


def rows(text, heading, table=0):
    """{first cell: {column: cell}} of a table below a heading of a page."""
    body = text.partition(f'\n{heading}\n')[2].split('\n## ')[0]
    lines = re.findall(r'(?:^\|.*\n)+', body, re.M)[table].splitlines()
    cells = [[c.strip() for c in line.strip('|').split('|')] for line in lines]
    return {row[0]: dict(zip(cells[0][1:], row[1:])) for row in cells[2:]}


#: The README's row: its unit, and where docs/benchmarks.md has it.
MEASURED = {
    'allreduce of 4 B from Python, 2 ranks': ('## Allreduce, 2 ranks', '4 B'),
    'allreduce of 1 MiB from Python, 2 ranks': ('## Allreduce, 2 ranks', '1 MiB'),
    'allreduce of 1 MiB from C, 4 ranks': ('## Allreduce, 4 ranks', '1 MiB'),
    'training step, large layers, 2 ranks': ('## Training steps, 2 ranks', 'large layers'),
    'training step, convolutional, 2 ranks': ('## Training steps, 2 ranks', 'convolutional'),
}
PEERS = {'torch.distributed': 'torch.distributed', 'Horovod over MPI': 'Horovod, MPI',
         '`MPI_Allreduce`': 'C MPI_Allreduce', 'mpirun': 'mpirun'}


def test_the_figures_of_the_readme_are_those_of_the_benchmarks():
    page = (ROOT / 'docs/benchmarks.md').read_text()
    table = rows((ROOT / 'README.md').read_text(), '## How fast it is')
    start = rows(page, '## Start and end of four ranks of `true`')
    wanted = {'start and end of four ranks of `true`': {
        'Reigen': start['reigen']['median'],
        'for comparison': f'mpirun {start["mpirun"]["median"]}'}}
    for name, (heading, row) in MEASURED.items():
        unit = 'ms' if 'Training' in heading else 'us'
        cells = {column: f'{cell} {unit}' for column, cell in rows(page, heading)[row].items()}
        ours = cells['Reigen, C' if 'from C' in name else 'Reigen, Python']
        peers = [re.match(r'(.*?) [\d.]+ \w\w$', p)[1]
                 for p in table[name]['for comparison'].split(', ')]
        wanted[name] = {'Reigen': ours, 'for comparison':
                        ', '.join(f'{peer} {cells[PEERS[peer]]}' for peer in peers)}
    assert table == wanted


#: The README's second table: its unit, and where docs/benchmarks-hosts.md has it.
BETWEEN = {
    'allreduce of 4 B, C': ('## 10 Gb/s + 0.1 ms', '4 B', 'us'),
    'allreduce of 1 MiB, C': ('## 10 Gb/s + 0.1 ms', '1 MiB', 'us'),
    'training step, many layers': ('## Training steps at 10 Gb/s + 0.1 ms, ms', '4x1, deep', 'ms'),
}
BETWEEN_PEERS = {'gloo': 'gloo', '`MPI_Allreduce` over TCP': 'MPI', 'torch.distributed': 'gloo',
                 'without any exchange': 'alone'}


def test_the_figures_between_hosts_are_those_of_their_page():
    page = (ROOT / 'docs/benchmarks-hosts.md').read_text()
    table, wanted = rows((ROOT / 'README.md').read_text(), '## How fast it is', 1), {}
    for name, (heading, row, unit) in BETWEEN.items():
        cells = {column.removeprefix('4x1 '): cell.strip('*')
                 for column, cell in rows(page, heading)[row].items()}
        peers = [re.match(r'(.*?) [\d.,]+ \w\w$', p)[1]
                 for p in table[name]['for comparison'].split(', ')]
        wanted[name] = {'Reigen': f'{cells["Reigen"]} {unit}', 'for comparison': ', '.join(
            f'{peer} {cells[BETWEEN_PEERS[peer]]} {unit}' for peer in peers)}
    assert table == wanted


def test_the_tutorial_s_scripts_do_what_it_shows(place, tmp_path):
    """Its first half, on this machine; tests/hosts has all of it."""
    text = (ROOT / 'docs/tutorial.md').read_text()
    for name, script in re.findall(r'the file `(\w+\.py)`.*?```python\n(.*?)```', text, re.S):
        (tmp_path / name).write_text(script)
    found = [c for c in pages.commands('docs/tutorial.md')
             if c.text.startswith(('reigen run -np', 'reigen explain'))]
    assert len(found) == 3 and shutil.which('python3')
    for command in found:
        words = [str(PROGRAMS.python) if w == 'python' else w for w in command.words]
        done = place(*words)
        host = os.uname().nodename
        lines = [line.replace('node1', host) for line in command.output if line != '...']
        missing = [line for line in lines if not shown(line, done.stdout + done.stderr)]
        assert lines and not missing, (missing, done.stdout + done.stderr)
