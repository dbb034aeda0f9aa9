# SPDX-License-Identifier: Apache-2.0
"""The launcher's pod of an MPIJob, played by files and variables as mpi-operator makes them; a
program in the place of ssh plays the workers. A real one: tests/kubernetes."""
import json
import os

import pytest

from built import PROGRAMS, environment

# Called as ssh is. A worker that is not up yet has no name.
FAKE = '''#!/bin/sh
echo "$@" | sed 's/ -- .*//' >>{folder}/ssh-args
while [ "$1" != -- ]; do shift; done
host=$2 command=$3
export HOME={folder}/home/$host LOGIN=${{host%%.*}}
unset K_MPI_JOB_ROLE
mkdir -p "$HOME"
cd "$HOME" || exit
{before}
exec sh -c "$command"
'''
OPENMPI = {'OMPI_MCA_orte_keep_fqdn_hostnames': 'true', 'OMPI_MCA_orte_set_default_slots': '2',
           'OMPI_MCA_plm_rsh_args': '-o ConnectionAttempts=10'}
NAMES = {
    'OpenMPI': ('OMPI_MCA_orte_default_hostfile', OPENMPI, '{} slots={}\n'),
    'Intel': ('I_MPI_HYDRA_HOST_FILE',
              {'I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS': '-o ConnectionAttempts=10',
               'I_MPI_PERHOST': '2'}, '{}:{}\n'),
    'MPICH': ('HYDRA_HOST_FILE', {'HYDRA_LAUNCH_EXTRA_ARGS': '-o ConnectionAttempts=10'},
              '{}:{}\n'),
    'Open MPI 5': ('PRTE_MCA_prte_default_hostfile',
                   {'PRTE_MCA_plm_ssh_args': '-o ConnectionAttempts=10'}, '{} slots={}\n'),
}
RANKS = ('sh', '-c', 'echo $RANK ${LOGIN:-here}')


class Pod:
    """pod(MPI, hosts, ...): the environment of a launcher."""

    def __init__(self, folder):
        self.folder, self.path = folder, folder / 'hostfile'

    def __call__(self, mpi='OpenMPI', hosts=('pi-worker-0', 'pi-worker-1'), before=':', **more):
        name, others, line = NAMES[mpi]
        self.path.write_text(''.join(line.format(f'{host}.pi.default.svc', 2) for host in hosts))
        ssh = self.folder / 'fake-ssh'
        ssh.write_text(FAKE.format(folder=self.folder, before=before))
        ssh.chmod(0o755)
        more = {'K_MPI_JOB_ROLE': 'launcher', name: self.path, **others, **more}
        set_ones = {key: value for key, value in more.items() if value is not None}
        return environment(REIGEN_SSH=ssh, HOME=self.folder, **set_ones)

    def ssh_options(self):
        return set((self.folder / 'ssh-args').read_text().splitlines())


@pytest.fixture
def pod(tmp_path):
    return Pod(tmp_path)


@pytest.mark.parametrize('mpi', NAMES)
def test_all_slots_of_its_host_file_are_taken(pod, reigen, mpi):
    done = reigen('run', '--no-tag-output', '--', *RANKS, env=pod(mpi))
    assert sorted(done.stdout.splitlines()) == \
        ['0 pi-worker-0', '1 pi-worker-0', '2 pi-worker-1', '3 pi-worker-1'], done.stderr
    assert f'the hosts are those of this MPIJob, {pod.path} ({NAMES[mpi][0]})' in done.stderr
    options, = pod.ssh_options()
    assert '-o ConnectionAttempts=10' in options and 'StrictHostKeyChecking=accept-new' in options


def test_the_users_options_for_ssh_come_first(pod, reigen):
    env = pod(OMPI_MCA_plm_rsh_args='-p 2222 -oUser=a -q -o LogLevel=ERROR')
    done = reigen('run', '--ssh-option', 'StrictHostKeyChecking=no', '--', 'true', env=env)
    assert done.returncode == 0, done.stderr
    options, = pod.ssh_options()
    assert '-o StrictHostKeyChecking=no -p2222 -oUser=a -q -o LogLevel=ERROR' in options, options
    assert 'accept-new' not in options


def test_the_launcher_may_be_a_worker_and_has_no_ssh_then(pod, reigen):
    env = pod(hosts=(os.uname().nodename, 'pi-worker-0'))
    done = reigen('run', '--no-tag-output', '--', *RANKS, env=env)
    assert sorted(done.stdout.splitlines()) == ['0 here', '1 here', '2 pi-worker-0',
                                                '3 pi-worker-0'], done.stderr


def test_workers_that_have_no_name_yet_are_waited_for(pod, reigen):
    late = ('echo x >>tries; if [ $(wc -l <tries) -lt 3 ]; then '
            'echo "ssh: Could not resolve hostname h: Name or service not known" >&2; exit 255; fi')
    done = reigen('run', '-v', '-v', '--', 'true', env=pod(before=late))
    assert done.returncode == 0 and done.stderr.count(': starting: trying again') == 4, done.stderr
    missing = late.replace('-lt 3', '-lt 1000')
    done = reigen('run', '--start-timeout', '1', '--', 'true', env=pod(before=missing))
    assert done.returncode == 124 and 'Could not resolve hostname' in done.stderr, done.stderr


def test_who_names_hosts_has_those(pod, reigen):
    for words in (('-H', 'localhost:3'), ('--on', 'local', '-np', '3')):
        done = reigen('run', '--no-tag-output', *words, '--', *RANKS, env=pod())
        assert sorted(done.stdout.splitlines()) == ['0 here', '1 here', '2 here'], done.stderr
        assert done.stderr == ''
    mine = pod.folder / 'mine'
    mine.write_text('other slots=1\n')
    done = reigen('run', '--no-tag-output', '--hostfile', mine, '--', *RANKS, env=pod())
    assert done.stdout == '0 other\n' and 'MPIJob' not in done.stderr, done.stderr


def test_fewer_ranks_are_on_the_first_hosts_and_more_are_refused(pod, reigen):
    done = reigen('run', '--no-tag-output', '-np', 1, '--', *RANKS, env=pod())
    assert done.stdout == '0 pi-worker-0\n', done.stderr
    done = reigen('run', '-np', 5, '--', *RANKS, env=pod())
    assert done.returncode == 2 and '-np 5' in done.stderr and '4' in done.stderr, done.stderr


def test_horovodrun_takes_them_too(pod, reigen):
    done = reigen('horovodrun', '-np', 3, *RANKS, env=pod())
    assert sorted(line.split(':')[1] for line in done.stdout.splitlines()) == \
        ['0 pi-worker-0', '1 pi-worker-0', '2 pi-worker-1'], done
    done = reigen('horovodrun', '-np', 1, 'sh', '-c', 'echo ${K_MPI_JOB_ROLE-none} $WORD',
                  env=pod(WORD='handed on'))
    assert done.stdout == '[0]<stdout>:none handed on\n', done


def test_a_named_host_file_is_waited_for_as_well(pod, reigen):
    """As mpirun -hostfile /etc/mpi/hostfile in the operator's examples."""
    late = ('echo x >>tries; if [ $(wc -l <tries) -lt 2 ]; then '
            'echo "ssh: Could not resolve hostname h: Name or service not known" >&2; exit 255; fi')
    env = pod(before=late)
    done = reigen('run', '--no-tag-output', '--hostfile', pod.path, '-np', 1, '--', *RANKS, env=env)
    assert (done.returncode, done.stdout) == (0, '0 pi-worker-0\n'), done
    assert '-o ConnectionAttempts=10' in pod.ssh_options().pop()


# --- discover_hosts.sh ----------------------------------------------------------------------------

@pytest.fixture
def discover(tmp_path):
    """discover(lines before, lines after): as the operator rewrites it while pods come."""
    def make(*answers):
        path = tmp_path / 'discover_hosts.sh'
        path.write_text('#!/bin/sh\n' + ''.join(
            f'[ -e {tmp_path}/asked{i} ] || {{ : >{tmp_path}/asked{i}; {answer}; exit; }}\n'
            for i, answer in enumerate(answers[:-1])) + answers[-1] + '\n')
        path.chmod(0o755)
        return path
    return make


ONE = 'echo pi-worker-0.pi.default.svc'
BOTH = f'{ONE}; echo pi-worker-1.pi.default.svc'


@pytest.mark.parametrize('words', [('run', '--no-tag-output'),
                                   ('horovodrun', '--min-np', 4, '--max-np', 4)])
def test_the_hosts_of_its_script_are_taken_when_there_are_enough(pod, discover, reigen, words):
    """The operator gives each host two slots, and the script does not say so."""
    script = discover(':', 'exit 3', ONE, ONE, BOTH)
    done = reigen(*words, '-np', 4, '--host-discovery-script', script, *RANKS, env=pod())
    assert sorted(line.split(':')[-1] for line in done.stdout.splitlines()) == [
        '0 pi-worker-0', '1 pi-worker-0', '2 pi-worker-1', '3 pi-worker-1'], done
    waits = [line for line in done.stderr.splitlines() if 'waiting for hosts' in line]
    assert waits == [f'reigen: waiting for hosts: {script} {what}, and -np is 4' for what in (
        'names no host', 'ends with exit code 3', 'names 1 host with room for 2 ranks')]
    assert 'the hosts are those' not in done.stderr
    assert '-o ConnectionAttempts=10' in pod.ssh_options().pop()


def test_a_script_serves_outside_of_pods_too(discover, reigen):
    def hosts(*words):
        done = reigen('run', '--dry-run', '--json', *words, '--', 'true')
        assert done.returncode == 0, done
        return [(host['name'], host['slots']) for host in json.loads(done.stdout)['hosts']]
    script = discover('echo "a slots=2 # two"; echo b:3; echo c')
    said = hosts('-np', 6, '--host-discovery-script', script)
    assert said == [('a', 2), ('b', 3), ('c', 1)]
    # One host is enough where hosts may have more ranks than slots.
    script = discover(ONE)
    assert len(hosts('-np', 6, '--oversubscribe', '--host-discovery-script', script)) == 1
    done = reigen('horovodrun', '-np', 6, '--min-np', 6, '--max-np', 6, '--slots', 6, '--dry-run',
                  '--host-discovery-script', script, 'true')
    assert done.returncode == 0 and 'pi-worker-0' in done.stdout, done
    # The command line's hosts replace those of a job file, and a script is among them.
    job = script.parent / 'job.yaml'
    job.write_text(f'host-discovery-script: {script}\n')
    assert hosts('--config', job, '-H', 'd:1', '-np', 1) == [('d', 1)]
    job.write_text('hosts: [d:1]\n')
    assert hosts('--config', job, '--host-discovery-script', discover('echo e'), '-np', 1) == [
        ('e', 1)]


def test_what_else_a_script_may_print(discover, reigen):
    """A host that comes twice is one, as in Horovod; and what editors and Windows leave in a text
    does no harm."""
    script = discover('echo "# none yet"', r'printf "\357\273\277# now\r\na:2 \r\na:2\r\nb:3\t\r\n'
                      r'[::1]:2\r\n[::1]:2\r\nc\r\nb:1 # fewer\r\n\r\n"')
    done = reigen('run', '--dry-run', '--json', '-np', 6, '--host-discovery-script', script, 'true')
    assert done.returncode == 0, done
    assert [(host['name'], host['slots']) for host in json.loads(done.stdout)['hosts']] == [
        ('a', 2), ('::1', 2), ('c', 1), ('b', 1)]
    assert 'names no host' in done.stderr
    assert 'host b is named twice: "b:3" and then "b:1", which counts' in done.stderr
    assert 'host a' not in done.stderr
    done = reigen('run', '-np', 1, '--host-discovery-script', discover('echo; echo b:x'), 'true')
    assert done.returncode == 2, done
    assert ':2: slots of host b x' in done.stderr


def test_a_script_without_enough_hosts_ends_in_time(discover, reigen):
    for answer, limit, why in ((ONE, 3, 'names 1 host with room for 1 rank, and -np is 2'),
                               ('sleep 100', 1, 'does not end, and -np is 2')):
        script = discover(answer)
        done = reigen('run', '-q', '-np', 2, '--start-timeout', limit,
                      '--host-discovery-script', script, '--', 'true')
        assert (done.returncode, done.stdout) == (124, ''), done
        why += f'; gave up after {limit} s (--start-timeout)'
        assert why in done.stderr, done
        assert 'waiting' not in done.stderr


@pytest.mark.parametrize('words, code, says', [
    ((), 2, '-np is missing'), (('-np', '2', '-H', 'a:2'), 2, 'other hosts are named, too'),
    (('-np', '2', '--on', 'slurm'), 2, 'leave it out, or --on slurm'),
    (('-np', '2', '--on', 'local'), 2, 'leave it out, or --on local'),
])
def test_a_script_that_makes_no_sense_is_not_run(discover, reigen, words, code, says):
    script = discover('echo asked >&2')
    done = reigen('run', '--host-discovery-script', script, *words, '--', 'true')
    assert (done.returncode, done.stdout) == (code, '') and says in done.stderr, done
    assert 'asked' not in done.stderr


def test_a_script_that_is_wrong_is_told(discover, reigen, tmp_path):
    def run(script):
        return reigen('run', '-np', 2, '--host-discovery-script', script, '--', 'true')
    done = run(discover('echo a; echo b:two'))
    assert done.returncode == 2 and 'discover_hosts.sh:2' in done.stderr, done
    done = run('nosuch-command --slots 2')
    assert done.returncode == 127 and 'nosuch-command --slots 2: cannot run it' in done.stderr, done
    done = run(f'{tmp_path}/none --slots 2')
    assert done.returncode == 2 and f'{tmp_path}/none: No such file' in done.stderr, done
    broken = tmp_path / 'broken'
    broken.write_text('#!/no/such/shell\n')
    broken.chmod(0o755)
    done = run(broken)
    assert done.returncode == 127 and f'{broken}: cannot run it' in done.stderr, done
    done = run(tmp_path / 'none')
    assert done.returncode == 2 and 'No such file' in done.stderr, done
    broken.chmod(0o644)
    done = run(broken)
    assert done.returncode == 2 and 'chmod +x' in done.stderr, done


def test_the_shell_runs_the_script(reigen, tmp_path):
    """As with Horovod: without a #! line, with arguments, and as a pipeline."""
    script = tmp_path / "a user's $HOME; hosts.sh"
    script.write_text('echo localhost:${1-2}\n')
    script.chmod(0o755)
    plain = tmp_path / 'hosts.sh'
    plain.write_text('echo localhost:${1-2}\n')
    plain.chmod(0o755)
    for command in (script, plain, f'{plain} 2', f'{plain} 1 | sed s/1/2/', f'sh {plain} "2"',
                    'echo localhost:2', f'X=2; {plain} $X'):
        for program in ('run', 'horovodrun'):
            done = reigen(program, '-np', 2, '--host-discovery-script', command, 'sh', '-c',
                          'echo $RANK')
            assert done.returncode == 0 and len(done.stdout.split()) >= 2, (command, done)
    # A file of this name here is meant, and not what PATH has.
    (tmp_path / 'echo').write_text('#!/bin/sh\necho localhost:2\n')
    (tmp_path / 'echo').chmod(0o755)
    done = reigen('run', '-np', 2, '--host-discovery-script', 'echo', 'true', cwd=tmp_path)
    assert done.returncode == 0, done


def test_a_job_with_one_number_of_ranks_asks_the_script_once(discover, reigen, tmp_path):
    script = discover(f'echo asked >>{tmp_path}/log; echo localhost:2')
    done = reigen('horovodrun', '-np', 2, '--min-np', 2, '--max-np', 2,
                  '--host-discovery-script', script, 'true')
    assert done.returncode == 0 and (tmp_path / 'log').read_text() == 'asked\n', done


# --- where it is no launcher ----------------------------------------------------------------------

@pytest.mark.parametrize('changed', [
    {'K_MPI_JOB_ROLE': 'worker'},
    {'K_MPI_JOB_ROLE': None},                                           # for somebody's mpirun
    {'K_MPI_JOB_ROLE': None, 'KUBERNETES_SERVICE_HOST': '10.96.0.1'},   # in a notebook
    {'K_MPI_JOB_ROLE': None, 'OMPI_MCA_orte_default_hostfile': '/etc/mpi/hostfile'},
    {'OMPI_MCA_orte_default_hostfile': None},
    {'REIGEN_RANK': '0'},                                               # one of ours
    {'OMPI_COMM_WORLD_RANK': '0'},                                      # a rank of mpirun's
    {'PMI_RANK': '0'},
])
def test_other_computers_and_ranks_have_their_own_hosts(pod, reigen, changed):
    env = pod(**changed)
    done = reigen('run', '--no-tag-output', '-np', 2, '--', *RANKS, env=env)
    assert sorted(done.stdout.splitlines()) == ['0 here', '1 here'], done.stderr
    assert done.stderr == ''


def test_a_rank_of_ours_that_calls_reigen_stays_where_it_is(pod, reigen):
    env = pod(hosts=(os.uname().nodename,))
    inner = ('sh', '-c', f'{PROGRAMS.reigen} run --no-tag-output -np 2 -- echo inner')
    done = reigen('run', '--no-tag-output', '--engine', 'script', '--', *inner, env=env)
    assert done.returncode == 0 and done.stdout.count('inner') == 2, done


def test_a_launcher_alone_is_an_ordinary_computer(pod, reigen):
    done = reigen('run', '--no-tag-output', '-np', 1, '--', *RANKS, env=pod(hosts=()))
    assert (done.stdout, done.stderr) == ('0 here\n', '')


def test_a_file_that_is_wrong_or_missing_is_told_with_its_variable(pod, reigen):
    env = pod()
    pod.path.write_text('a slots=2\nb slots=two\n')
    done = reigen('run', '--', 'true', env=env)
    assert done.returncode == 2, done
    assert 'OMPI_MCA_orte_default_hostfile' in done.stderr and 'hostfile:2' in done.stderr
    assert '"two"' in done.stderr or ' two' in done.stderr, done.stderr
    pod.path.unlink()
    done = reigen('run', '--', 'true', env=env)
    assert done.returncode == 2 and 'OMPI_MCA_orte_default_hostfile' in done.stderr, done
    assert '--on local' in done.stderr, done


def test_the_plan_tells_them(pod, reigen):
    done = reigen('run', '--dry-run', '--json', '--', 'true', env=pod())
    hosts = json.loads(done.stdout)['hosts']
    assert [host['name'] for host in hosts] == ['pi-worker-0.pi.default.svc',
                                                'pi-worker-1.pi.default.svc'], done


@pytest.mark.parametrize('mpi, name, agent', [
    ('OpenMPI', 'OMPI_MCA_plm_rsh_agent', '/etc/mpi/kubexec.sh'),
    ('Open MPI 5', 'PRTE_MCA_plm_ssh_agent', 'kubexec.sh -v'),
    ('Intel', 'I_MPI_HYDRA_BOOTSTRAP_EXEC', '/etc/mpi/kubexec.sh'),
    ('MPICH', 'HYDRA_LAUNCHER_EXEC', '/etc/mpi/kubexec.sh')])
def test_workers_that_no_ssh_reaches_are_refused_at_once(pod, reigen, mpi, name, agent):
    """Those of the APIs v1 and v1alpha2, whose operator names kubectl exec."""
    done = reigen('run', '--', 'true', env=pod(mpi, **{name: agent}))
    assert done.returncode == 69 and f'{agent} ({name})' in done.stderr, done
    assert 'have no sshd' in done.stderr and done.stderr.count('\n') == 1, done
    for words in (['run', '--hostfile', pod.path], ['horovodrun', '-np', 1, '--hostfile', pod.path],
                  ['horovodrun', '-np', 1, '--host-discovery-script', f'cat {pod.path}']):
        done = reigen(*words, 'true', env=pod(mpi, **{name: agent}))
        assert done.returncode == 69 and 'have no sshd' in done.stderr, done
    own = reigen('run', '-H', 'localhost', '--on', 'ssh', '--dry-run', 'true',
                 env=pod(mpi, hosts=('one',), **{name: agent}))
    assert own.returncode == 0, own
    for fine in ('/usr/bin/ssh -q', 'ssh : rsh', ''):
        assert reigen('run', '--', 'true', env=pod(mpi, **{name: fine})).returncode == 0, fine
    own = reigen('run', '--on', 'local', '-np', '1', '--', 'true', env=pod(mpi, **{name: agent}))
    assert own.returncode == 0, own


@pytest.mark.skipif(os.path.exists('/etc/mpi/hostfile'), reason='this is such a pod')
def test_a_trainjob_is_known_by_the_path_of_its_file(pod, reigen):
    """Trainer has no variable of its own. The file is not here, so the error shows that it was
    looked for."""
    env = pod(K_MPI_JOB_ROLE=None, KUBERNETES_SERVICE_HOST='10.96.0.1',
              OMPI_MCA_orte_default_hostfile='/etc/mpi/hostfile')
    done = reigen('run', '--', 'true', env=env)
    assert done.returncode == 2 and 'this TrainJob' in done.stderr, done
    assert '/etc/mpi/hostfile' in done.stderr
