# SPDX-License-Identifier: Apache-2.0
"""The step of reigen run --on slurm, with a program in srun's place: what it gets and may say."""
import os
import resource
import subprocess

import pytest

from built import PROGRAMS, environment

LIMIT = 60
IN_JOB = {'SLURM_JOB_ID': '12', 'SLURM_JOB_NODELIST': 'node[1-2]', 'SLURM_NTASKS': '2',
          'SLURM_TASKS_PER_NODE': '1(x2)', 'SLURM_JOB_CPUS_PER_NODE': '1(x2)',
          'SLURMD_NODENAME': 'node1'}
SRUN = '''#!/bin/sh
cd "${0%/*}"
ulimit -Sn >limit
cat /proc/$PPID/limits >launchers
env >environment
cat says >&2
exit 1
'''
UNREACHED = '''srun: error: Task launch for StepId=12.0 failed on node node2: Job credential expired
srun: error: Application launch failed: Job credential expired
srun: Job step aborted: Waiting up to 7 seconds for job step to finish.
slurmstepd-node1: error: *** STEP 12.0 ON node1 CANCELLED AT 2026-01-01T00:00:00 ***
srun: error: node1: task 0: Killed
'''


@pytest.fixture
def run(tmp_path):
    (tmp_path / 'srun').write_text(SRUN)
    (tmp_path / 'srun').chmod(0o755)

    def start(says='srun: error: no\n', *rank, **more):
        (tmp_path / 'says').write_text(says)
        env = environment(PATH=f'{tmp_path}:{os.environ["PATH"]}', **{**IN_JOB, **more})
        return subprocess.run([PROGRAMS.reigen, 'run', '--on', 'slurm', '--', *(rank or ['true'])],
                              env=env, capture_output=True, text=True, timeout=LIMIT, check=False,
                              stdin=subprocess.DEVNULL)
    return start


def test_the_launcher_may_have_a_descriptor_for_each_of_many_nodes_and_ranks_may_not(run, tmp_path):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = min(200, before[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (low, before[1]))
    try:
        assert run().returncode == 69
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert (tmp_path / 'limit').read_text().split() == [str(low)]
    line = next(line for line in (tmp_path / 'launchers').read_text().splitlines()
                if line.startswith('Max open files'))
    assert line.split()[3] == str(before[1])


def test_a_node_that_srun_cannot_reach_is_named_with_what_to_look_at(run):
    done = run(UNREACHED)
    assert done.returncode == 69, done.stderr
    assert 'host node2: srun cannot start its agent: Job credential expired; its clock differs' \
        in done.stderr, done.stderr


def test_srun_gets_no_options_by_variables_but_what_it_needs_to_find_the_job(run, tmp_path):
    needed = {'SLURM_CONF': '/nowhere/slurm.conf', 'SLURM_STEPMGR': 'node1', 'SLURM_JWT': 'token',
              'SLURM_WORKING_CLUSTER': 'far:10.0.0.1:6817'}
    options = {'SRUN_CPUS_PER_TASK': '2', 'SLURM_CPUS_PER_TASK': '2', 'SLURM_HINT': 'nomultithread',
               'SLURM_EXPORT_ENV': 'NONE', 'SLURM_TRES_PER_TASK': 'cpu=1', 'SLURM_CLUSTERS': 'far'}
    assert run(**needed, **options).returncode == 69
    got = dict(line.split('=', 1) for line in
               (tmp_path / 'environment').read_text().splitlines() if '=' in line)
    assert {name: got.get(name) for name in needed} == needed
    assert not set(options) & set(got) and 'SLURM_NTASKS' not in got


@pytest.mark.parametrize('argv', [['run', '--', 'true'], ['horovodrun', '-np', '1', 'true'],
                                  ['run', '--dry-run', '--', 'true'], ['doctor']])
def test_a_job_that_leaves_slurms_nodes_idle_says_so_and_goes_on(argv):
    """Not to know it costs half of the ranks, without any error."""
    def said(*words, **env):
        done = subprocess.run([PROGRAMS.reigen, argv[0], *words, *argv[1:]], text=True, check=False,
                              env=environment(**IN_JOB, **env), stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=LIMIT)
        # The doctor's findings are of this machine.
        assert done.returncode == 0 or argv[0] == 'doctor', done.stderr
        return done.stderr
    remark = ('reigen: this is Slurm job 12 with 2 nodes, and the job runs on this computer only; '
              '--on slurm uses them\n')
    assert said().startswith(remark)
    if argv[0] == 'run' and '--dry-run' not in argv:
        assert said('--on', 'local') == '' and said('--quiet') == ''
        assert said('-H', 'localhost:1') == ''
        task = {'SLURM_STEP_ID': '0', 'SLURM_STEP_NODELIST': 'node[1-2]',
                'SLURM_STEP_TASKS_PER_NODE': '1(x2)'}
        assert 'srun starts this 2 times' in said(**task, SLURM_PROCID='0')
        assert said(**task, SLURM_PROCID='1') == ''


# A step of one task; what Slurm says of its end comes when it is over, and so late.
SRUN_OF_ONE = """#!/bin/sh
export SLURMD_NODENAME=node1 SLURM_STEP_ID=0 SLURM_LAUNCH_NODE_IPADDR=127.0.0.1
while [ "$1" != -- ]; do shift; done
shift
"$@" | sed -u '%ss/^/0: /'
%s
echo "%s" >&2
exit 137
"""
CANCELLED = 'slurmstepd: error: *** STEP 12.0 ON node1 CANCELLED AT 2026-01-01T00:00:00 ***'


@pytest.mark.parametrize('script, late, word, code', [
    # Its shell tells how the agent ended.
    ('', 'sleep 1.5', CANCELLED, 75), ('', '', '', 76),
    # It is killed, too: reigen waits, and then begins to end the step, by the end of its input.
    ('/^reigen-slurm end/d; ', 'while read -r line; do :; done', CANCELLED, 75)],
                         ids=['told', 'alone', 'untold'])
def test_slurms_word_for_the_end_may_come_after_the_end(run, tmp_path, script, late, word, code):
    (tmp_path / 'srun').write_text(SRUN_OF_ONE % (script, late, word))
    done = run('', 'sh', '-c', 'kill -9 $PPID; sleep 60', SLURM_JOB_NODELIST='node1',
               SLURM_NTASKS='1', SLURM_TASKS_PER_NODE='1', SLURM_JOB_CPUS_PER_NODE='1')
    assert done.returncode == code, (done.returncode, done.stderr)
    assert ('was cancelled (scancel)' in done.stderr) == bool(word), done.stderr
