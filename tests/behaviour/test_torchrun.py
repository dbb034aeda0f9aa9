# SPDX-License-Identifier: Apache-2.0
"""reigen torchrun: torchrun's command line, and its way to go on when ranks or hosts are lost."""
import os
import re
import signal

import pytest

from built import PROGRAMS, environment
from processes import parent
from test_elastic import Job
from test_elastic import script  # noqa: F401  a fixture

SHOW = 'echo $RANK $WORLD_SIZE $LOCAL_RANK $ROLE_NAME $ROLE_RANK $ROLE_WORLD_SIZE ' \
       '$TORCHELASTIC_RUN_ID $TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS'


@pytest.fixture
def job(start, tmp_path):
    def begin(options, plain=True):
        return Job(start, tmp_path, [*options.split(), '--no-python',
                                     *(['--env', 'PLAIN=1'] if plain else [])],
                   command='torchrun')
    return begin


def test_a_program_that_could_go_on_is_started_again_too(job):
    it = job('--nnodes=1:2 --nproc-per-node=1 --max-restarts=1 -H a,b', plain=False)
    it.wait('step 3 size 2')
    os.kill(it.pid(1), signal.SIGKILL)
    it.wait('place 0 pid .* rank 0 2 restarts 1')
    it.wait('step 3 size 2', count=2)
    it.stop()
    assert it.end() == 0, it.text()


def test_ranks_that_fail_are_all_started_again_on_the_same_hosts(job):
    it = job('--nnodes=1:2 --nproc-per-node=2 --max-restarts=1 -H a,b')
    it.wait('step 3 size 4')
    os.kill(it.pid(3), signal.SIGKILL)
    for place in range(4):
        it.wait(rf'place {place} pid .* rank \d 4 restarts 1')
    it.wait('step 3 size 4', count=2)
    assert 'set aside' not in it.text()
    os.kill(it.pid(0), signal.SIGKILL)
    assert it.end() == 137, it.text()
    assert 'started again as often as --max-restarts permits' in it.text()


def test_a_rank_that_ends_by_the_restart_is_not_taken_for_the_users_wish(reigen):
    done = reigen('torchrun', '--standalone', '--nnodes=1:2', '--nproc-per-node=2',
                  '--max-restarts=1', '--no-python', 'sh', '-c',
                  'if [ $RANK = 1 ]; then exec sleep 60; fi; '
                  'exit $((3 + TORCHELASTIC_RESTART_COUNT))')
    assert done.returncode == 4, done


def test_a_host_that_is_lost_costs_a_restart_with_the_others(job):
    it = job('--nnodes=1:2 --nproc-per-node=2 --max-restarts=1 -H a,b')
    it.wait('step 3 size 4')
    os.kill(parent(it.pid(2)), signal.SIGKILL)
    it.wait('place 0 pid .* rank 0 2 restarts 1')
    it.wait('step 3 size 2')
    it.stop()
    assert it.end() == 0, it.text()


def test_hosts_that_come_cost_none_of_the_restarts(job, script):  # noqa: F811
    it = job(f'--nnodes=1:2 --nproc-per-node=2 --host-discovery-script {script("a")}')
    it.wait('step 3 size 2')
    script('a\nb\nc')
    it.wait('step 3 size 4')
    assert len(re.findall('restarts 1', it.text())) == 4
    it.stop()
    assert it.end() == 0, it.text()


@pytest.mark.parametrize('flags, says', [
    ('--standalone --nproc-per-node=2', '1 2 1 default 1 2 none 0 0'),
    ('--nnodes=1:4 --nproc_per_node=2 --standalone --max_restarts 3 --rdzv_id=7 --role trainer',
     '1 2 1 trainer 1 2 7 0 3'),
    ('--nnodes 1 --nproc-per-node 2 --node-rank 0 --master-addr h --master-port=1 --rdzv-backend '
     'c10d --rdzv-endpoint h:0 --rdzv-conf a=1 --local-addr x --monitor-interval 1 --start-method '
     'spawn --signals-to-handle SIGTERM -t 3 -r0:1,1:2 --logs-specs x --event-log-handler null '
     '--shutdown-timeout 9', '1 2 1 default 1 2 none 0 0'),
    ('-H localhost:2', '1 2 1 default 1 2 none 0 0'),
    ('', '0 1 0 default 0 1 none 0 0'),
])
def test_torchruns_flags_are_taken(reigen, flags, says):
    done = reigen('torchrun', *flags.split(), '--no-tag-output', '--no-python', 'sh', '-c', SHOW)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines())[-1] == says, done
    assert done.stderr.count('reigen:') == flags.count('-r0'), done.stderr


def test_a_script_or_a_module_is_run_by_python(reigen, tmp_path):
    (tmp_path / 'show.py').write_text('import sys; print(sys.stdout.write_through, sys.argv[1:])\n')
    env = environment(PYTHON_EXEC=PROGRAMS.python, PET_NPROC_PER_NODE='2', PET_STANDALONE='1')
    for words in (['show.py'], ['-m', 'show'], ['--', 'show.py']):
        done = reigen('torchrun', *words, '--nnodes', '3', '-m', env=env, cwd=tmp_path)
        assert sorted(done.stdout.splitlines()) == [
            f"[{rank}] True ['--nnodes', '3', '-m']" for rank in range(2)], done


def test_the_output_of_some_local_ranks_is_shown_and_all_is_kept(reigen, tmp_path):
    done = reigen('torchrun', '--nproc-per-node=3', '--local-ranks-filter=0,2', '-r', '3',
                  '--log-dir', tmp_path / 'logs', '--no-python', 'sh', '-c', 'echo $RANK')
    assert sorted(done.stdout.splitlines()) == ['[0] 0', '[2] 2'], done
    assert (tmp_path / 'logs/rank.1/stdout').read_text() == '1\n'


def test_output_is_chosen_among_all_ranks_that_may_come(reigen):
    done = reigen('torchrun', '--nnodes=1:4', '--nproc-per-node=2', '--local-ranks-filter=1',
                  '--standalone', '--no-python', 'sh', '-c', 'echo $RANK')
    assert done.returncode == 0 and done.stdout == '[1] 1\n', done


def test_a_link_of_that_name_is_the_same(start, tmp_path):
    (tmp_path / 'torchrun').symlink_to(PROGRAMS.reigen)
    child = start(tmp_path / 'torchrun', '--standalone', '--no-python', 'echo', 'here')
    assert child.communicate(timeout=60)[0] == 'here\n'


@pytest.mark.parametrize('flags, says', [
    ('--nnodes=2 --node-rank=1', '--node-rank 1: give this command once'),
    ('--nnodes=2 --node-rank=0 --master-addr=h', 'say which: with -H or --hostfile'),
    ('--nnodes=1:2 --rdzv-endpoint=nosuch:1', 'machines do not meet at nosuch:1'),
    ('--nnodes=2:3 --standalone', '1 host, this computer; name 2 or more'),
    ('--nnodes=2:3 -H localhost:1', '1 host is named; name 2 or more'),
    ('--nnodes=3:2', 'the second number is less'),
    ('--nnodes=x', '--nnodes'),
    ('--nnodes=1:2 -H localhost', 'say with --nproc-per-node'),
    ('--nproc-per-node=gpu', 'this computer has no GPU'),
    ('--nproc-per-node=cpu -H nosuch', 'give a number'),
    ('--nproc-per-node=0', '--nproc-per-node'),
    ('--nproc-per-node=2 --local-ranks-filter=2', 'local ranks are 0 to 1'),
    ('-r 4', 'give 0 (neither)'), ('--tee 0:4', 'give 0 (neither)'),
    ('--no-python -m', 'leave one of them out'), ('--max-restarts=-1', '--max-restarts'),
    ('--numa-binding node', 'use --bind-to'), ('--virtual-local-rank', '--gpus-per-rank 1'),
    ('--duplicate-stdout-filters x', 'grep'), ('--nprocs 2', 'unknown option'),
    ('--nproc-per-nod 2', 'did you mean --nproc-per-node?'),
])
def test_what_cannot_be_done_is_refused_with_what_can(reigen, flags, says):
    done = reigen('torchrun', *flags.split(), 'true', env=environment(CUDA_VISIBLE_DEVICES=''))
    assert done.returncode == 2 and says in done.stderr, done


def test_a_job_without_a_script_is_refused(reigen):
    done = reigen('torchrun', '--standalone')
    assert done.returncode == 2 and 'no script' in done.stderr, done


def test_an_elastic_job_heeds_ranks_per_host(reigen):
    done = reigen('run', '--min-np', '1', '--ranks-per-host', '1', '-H', 'localhost:4', '--',
                  'sh', '-c', 'echo $RANK $WORLD_SIZE')
    assert done.stdout == '[0] 0 1\n', done
