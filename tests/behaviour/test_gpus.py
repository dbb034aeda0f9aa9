# SPDX-License-Identifier: Apache-2.0
"""--gpus-per-rank and the doctor, with an nvidia-smi of our own: no GPU is needed."""
import json
import os
import re

import pytest
from built import PROGRAMS, environment

SMI = '''#!/bin/sh
case "$1" in
--query-gpu*) cat <<'END'
0, 550.54.14, Disabled, 0
1, 550.54.14, Enabled, 0
2, 550.54.14, Disabled, 2
END
exit ;;
topo) printf '\\t\\033[4mGPU0\\tGPU1\\tGPU2\\tCPU Affinity\\033[0m\\n'
printf 'GPU0\\t X \\tNV18\\tSYS\\t0-7\\nGPU1\\tNV18\\t X \\tSYS\\t0-7\\n'
exit ;;
esac
cat <<'END'
GPU 0: NVIDIA H200 (UUID: GPU-aaaa)
GPU 1: NVIDIA H200 (UUID: GPU-bbbb)
  MIG 1g.18gb     Device  0: (UUID: MIG-cccc)
  MIG 1g.18gb     Device  1: (UUID: MIG-dddd)
GPU 2: NVIDIA H200 (UUID: GPU-eeee)
END
'''
SHOW = ('--no-tag-output', '--', 'sh', '-c',
        'echo "$REIGEN_LOCAL_RANK=${CUDA_VISIBLE_DEVICES-all}"')


@pytest.fixture
def smi(tmp_path):
    (tmp_path / 'nvidia-smi').write_text(SMI)
    (tmp_path / 'nvidia-smi').chmod(0o755)

    def env(**more):
        found = environment(PATH=f'{tmp_path}:{os.environ["PATH"]}', **more)
        return found if more else {k: v for k, v in found.items() if k != 'CUDA_VISIBLE_DEVICES'}
    return env


def seen(done):
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.split())


def test_ranks_see_all_gpus_unless_they_are_to_have_their_own(reigen, smi):
    assert seen(reigen('run', '-np', 2, *SHOW, env=smi())) == ['0=all', '1=all']
    env = smi(CUDA_VISIBLE_DEVICES='2,3')
    assert seen(reigen('run', '-np', 2, *SHOW, env=env)) == ['0=2,3', '1=2,3']


@pytest.mark.sanitize
def test_each_rank_has_its_own_by_uuid(reigen, smi):
    done = reigen('run', '-np', 4, '--gpus-per-rank', 1, *SHOW, env=smi())
    assert seen(done) == ['0=GPU-aaaa', '1=MIG-cccc', '2=MIG-dddd', '3=GPU-eeee']
    done = reigen('run', '-np', 2, '--gpus-per-rank', 'all', *SHOW, env=smi())
    assert seen(done) == ['0=GPU-aaaa,MIG-cccc', '1=MIG-dddd,GPU-eeee']


def test_what_is_visible_already_is_divided(reigen, smi):
    env = smi(CUDA_VISIBLE_DEVICES='3,1,GPU-x,MIG-GPU-y/1/0')
    done = reigen('run', '-np', 2, '--gpus-per-rank', 2, *SHOW, env=env)
    assert seen(done) == ['0=3,1', '1=GPU-x,MIG-GPU-y/1/0']
    done = reigen('run', '-np', 2, '--gpus-per-rank', 1, '-x', 'CUDA_VISIBLE_DEVICES=7,6', *SHOW,
                  env=env)
    assert seen(done) == ['0=7', '1=6']


def test_a_job_inside_a_rank_is_not_divided_again(reigen, smi):
    done = reigen('run', '-np', 2, '--gpus-per-rank', 2, '--no-tag-output', '--', 'sh', '-c',
                  f'exec {PROGRAMS.reigen} run -np 2 --no-tag-output -- '
                  'sh -c "echo \\$CUDA_VISIBLE_DEVICES"', env=smi())
    assert seen(done) == 2 * ['GPU-aaaa,MIG-cccc'] + 2 * ['MIG-dddd,GPU-eeee']


def test_each_host_divides_its_own(reigen, smi):
    """By several names this computer is several hosts."""
    done = reigen('run', '-H', 'localhost:1,127.0.0.1:2', '--gpus-per-rank', 2, '--on', 'local',
                  *SHOW, env=smi())
    assert seen(done) == ['0=GPU-aaaa,MIG-cccc', '0=GPU-aaaa,MIG-cccc', '1=MIG-dddd,GPU-eeee']


@pytest.mark.parametrize('visible, each, told', [
    ('0,1,2', '2', '--gpus-per-rank 2: too few for the ranks on localhost (2): '
     'CUDA_VISIBLE_DEVICES shows 3; run fewer'),
    ('', 'all', 'shows 0'), ('0,-1,1', '1', 'shows 1'), ('NoDevFiles', '1', 'shows 0'),
    (None, '3', 'nvidia-smi -L shows 4')])
def test_too_few_are_told_before_a_rank_starts(reigen, smi, visible, each, told):
    env = smi() if visible is None else smi(CUDA_VISIBLE_DEVICES=visible)
    done = reigen('run', '-np', 2, '--gpus-per-rank', each, *SHOW, env=env)
    assert done.returncode == 69 and told in done.stderr, done
    assert done.stdout == ''


@pytest.mark.parametrize('arguments, told', [
    (('--gpus-per-rank', '0'), 'give the number of GPUs'),
    (('--gpus-per-rank', 'half'), 'give the number of GPUs'),
    (('-x', 'REIGEN_GPUS_PER_RANK=half'), 'REIGEN_GPUS_PER_RANK'),
    (('--gpus', '2'), '--gpus-per-rank'),
    (('--gpus-per-rank', '1', '--engine', 'openmpi'), 'take --engine native'),
    (('--gpus-per-rank', 'all', '--on', 'kubernetes', '--image', 'x'), 'by --gpus N, too'),
    (('--gpus-per-rank', '2', '-N', '2', '--gpus', '3', '--on', 'kubernetes', '--image', 'x'),
     '2 ranks on each host, which is to have 3')])
def test_what_cannot_be_meant_is_a_usage_error(reigen, arguments, told):
    done = reigen('run', *arguments, '--', 'true')
    assert done.returncode == 2 and told in done.stderr, done


@pytest.mark.parametrize('arguments, ngpus, pods', [
    (('-np', 4, '--gpus-per-rank', 2), 2, 4), (('-np', 4, '--gpus-per-rank', 2, '-N', 2), 4, 2),
    (('-np', 4, '--gpus-per-rank', 2, '--gpus', 4), 4, 2),
    (('-np', 4, '--gpus-per-rank', 'all', '--gpus', 4, '-N', 2), 4, 2)])
def test_pods_ask_for_what_their_ranks_need(reigen, arguments, ngpus, pods):
    done = reigen('run', *arguments, '--on', 'kubernetes', '--image', 'x', '--dry-run', '--',
                  'true')
    assert done.returncode == 0, done.stderr
    said = done.stdout.replace('"', '').replace("'", '')
    assert f'nvidia.com/gpu: {ngpus}' in said and f'completions: {pods}' in said, said


def test_ranks_are_asked_to_bind_themselves_near_their_gpu(reigen):
    show = ('--no-tag-output', '--', 'sh', '-c', 'echo "=$REIGEN_BIND_TO"')
    assert seen(reigen('run', '-np', 2, '--bind-to', 'gpu', *show)) == ['=gpu', '=gpu']
    assert seen(reigen('run', '-np', 1, '--bind-to', 'gpu', '--bind-to', 'none', *show)) == ['=']


def findings(done):
    assert done.returncode == 0, done.stderr
    return [(f['check'], f['level'], f['value']) for f in json.loads(done.stdout)['findings']]


def test_the_doctor_tells_of_gpus_driver_nccl_links_and_network(reigen, smi, tmp_path):
    """A python3 whose packages have NCCL, as those of PyTorch's build for CUDA have."""
    info = tmp_path / 'site/nvidia_nccl_cu12-2.27.5.dist-info'
    info.mkdir(parents=True)
    (info / 'METADATA').write_text('Name: nvidia-nccl-cu12\nVersion: 2.27.5\n')
    found = findings(reigen('doctor', '--json', env=smi(PYTHONPATH=tmp_path / 'site')))
    gpus = [value for check, _, value in found if check == 'gpu']
    assert gpus[0] == 'GPU 0: NVIDIA H200 (UUID: GPU-aaaa)' and len(gpus) == 5, found
    assert gpus[2].startswith('MIG 1g.18gb') and gpus[2].endswith('(UUID: MIG-cccc)')
    assert ('gpu-driver', 'ok', '550.54.14') in found
    assert ('gpu-health', 'warn', 'GPU 2: 2 memory errors that could not be corrected') in found
    assert ('nccl', 'ok', "2.27.5, of Python's packages") in found
    assert ('gpu-links', 'ok', 'among 3 GPUs: NV18, SYS') in found
    assert [value.split()[:2] for check, _, value in found if check == 'gpu-network'] == \
        [['NCCL', 'takes']]


def tried(reigen, smi, **more):
    """What the doctor says after it has tried GPUs that are not there (tests/standin)."""
    env = smi(**{'LD_LIBRARY_PATH': PROGRAMS.build / 'tests/standin', **more})
    return [f for f in findings(reigen('doctor', '--json', env=env, timeout=90))
            if f[0] in ('gpu-copies', 'gpu-peers', 'gpu-health')]


def test_the_doctor_tries_each_gpu(reigen, smi):
    found = tried(reigen, smi)
    copies = [f[2] for f in found if f[0] == 'gpu-copies']
    assert [c.split(':')[0] for c in copies] == [f'GPU {i}' for i in range(4)], found
    assert all(re.fullmatch(r'GPU \d: \d+\.\d GB/s to it, \d+\.\d GB/s from it.*', c)
               for c in copies), found
    assert ('gpu-peers', 'ok', "4 of 12 ways from one GPU to another's memory are open") in found
    # Of the health of those that are well nothing is said; what nvidia-smi tells of GPU 2 is so.
    assert [f[2][:5] for f in found if f[0] == 'gpu-health'] == ['GPU 2'], found


def test_the_doctor_names_a_gpu_that_fails(reigen, smi):
    # Each GPU has eight copies, and the tenth piece of work is one of GPU 1's.
    found = tried(reigen, smi, STANDIN_CUDA_ECC_AFTER=10)
    assert ('gpu-health', 'warn', 'GPU 1 cannot be used: CUDA_ERROR_ECC_UNCORRECTABLE') in found
    assert [f[2][:5] for f in found if f[0] == 'gpu-copies'] == ['GPU 0', 'GPU 2', 'GPU 3']
    found = tried(reigen, smi, STANDIN_CUDA_MEMORY=1 << 20)
    assert sum(f[2].endswith('CUDA_ERROR_OUT_OF_MEMORY') for f in found) == 4, found
    found = tried(reigen, smi, CUDA_VISIBLE_DEVICES='')
    assert ('gpu-health', 'warn', 'the GPUs cannot be used: the driver: CUDA_ERROR_NO_DEVICE') \
        in found


def test_the_doctor_says_why_no_gpu_was_tried(reigen, smi, tmp_path):
    """Each cause once, and no other one beside it: the GPUs are not late."""
    def healths():
        return [f[2] for f in tried(reigen, smi, LD_LIBRARY_PATH=tmp_path)
                if not f[2].startswith('GPU 2: 2 memory errors')]
    (tmp_path / 'libcuda.so.1').write_text('no library')
    found = healths()
    assert len(found) == 1 and 'libcuda.so.1' in found[0], found
    assert found[0].startswith('the GPUs cannot be used: the driver: ')
    python = tmp_path / 'python3'
    python.write_text('#!/bin/sh\nexit 3\n')
    python.chmod(0o755)
    assert healths() == ['the GPUs cannot be used: what tries them ended too early (3)']


def test_the_doctor_says_nothing_of_nccl_where_there_is_no_gpu(reigen, tmp_path):
    (tmp_path / 'nvidia-smi').write_text('#!/bin/sh\nexit 9\n')
    (tmp_path / 'nvidia-smi').chmod(0o755)
    found = findings(reigen('doctor', '--json',
                            env=environment(PATH=f'{tmp_path}:{os.environ["PATH"]}')))
    assert not {check for check, _, _ in found} & {'nccl', 'gpu-driver', 'gpu-links',
                                                   'gpu-network', 'gpu-health'}, found
