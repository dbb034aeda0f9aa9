# SPDX-License-Identifier: Apache-2.0
"""deploy/docker: the images build, and hold what docs/docker.md says."""
import json
import os
import re
import subprocess

import pytest
from bed import Cluster, images
from built import ROOT

pytestmark = pytest.mark.timeout(300)
NCCL = '2.27.5'
SEND = r"""
#include <mpi.h>
#include <stdio.h>
static char data[1 << 20];
int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 10; i++) {
        if (rank == 0)
            MPI_Send(data, sizeof data, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
        if (rank == 1)
            MPI_Recv(data, sizeof data, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    printf("rank %d done\n", rank);
    return 0;
}
"""
SUM = """
import horovod.torch as hvd, torch
hvd.init()
x = hvd.allreduce(torch.full((1 << 20,), hvd.rank() + 1.0), op=hvd.Sum)
print('sum', float(x.min()), float(x.max()), 'of', hvd.size())
"""


@pytest.fixture(scope='module')
def host(horovod_image):
    """One host with the image horovod:latest in its dockerd."""
    image = f'{horovod_image}=horovod:latest'
    with Cluster(1, sshd=False, dockerd=True, images=[image]) as cluster:
        yield cluster[1]


def in_container(host, command, *options, timeout=180):
    return host.run(['docker', 'run', '-i', '--rm', *options, 'horovod:latest', 'bash', '-c',
                     command], timeout=timeout)


def test_the_original_command_line_trains(host):
    done = in_container(host, 'mpirun -np 4 -H localhost:4 '
                              'python keras_mnist_advanced.py --epochs 1')
    assert done.returncode == 0, done.stderr
    # 20000 images in steps of 4 x 128: four ranks of one job.
    assert '40/40 - ' in done.stdout and done.stdout.count('accuracy 0.') == 1, done.stdout
    assert 'Read -1, expected' not in done.stdout + done.stderr


def test_reigen_run_trains_with_pytorch(host):
    done = in_container(host, 'reigen run -np 2 -- python pytorch_mnist.py --epochs 1')
    assert done.returncode == 0, done.stderr
    assert 'identical to the bit on all 2 ranks' in done.stdout


def test_it_opens_in_a_terminal_where_the_examples_are(host):
    done = host.run(['script', '-qec', 'docker run -it --rm horovod:latest', '/dev/null'],
                    input='pwd; ls keras_mnist_advanced.py; exit 7\n')
    assert '/examples' in done.stdout and 'No such file' not in done.stdout
    assert done.returncode == 7, done.stdout


def test_open_mpi_has_the_defaults_of_the_original(host):
    done = in_container(host, 'mpirun -np 1 -x OTHER=1 env; mpirun -np 1 --report-bindings true; '
                              'ompi_info --param rmaps base --level 9 --parsable; '
                              'cat /etc/nccl.conf')
    assert done.returncode == 0, done.stderr
    assert '\nNCCL_DEBUG=INFO\n' in done.stdout and '\nOTHER=1\n' in done.stdout
    assert 'bound to' not in done.stderr
    assert ':rmaps_base_mapping_policy:value:slot' in done.stdout, done.stdout


def no_cross_memory(host):
    """A seccomp profile as Docker's own was on older kernels."""
    return host.write('no-cma.json', json.dumps({
        'defaultAction': 'SCMP_ACT_ALLOW',
        'syscalls': [{'names': ['process_vm_readv', 'process_vm_writev', 'ptrace'],
                      'action': 'SCMP_ACT_ERRNO', 'args': []}]}))


def test_the_message_about_forbidden_cross_memory_attach_does_not_appear(host, tmp_path):
    (tmp_path / 'send.c').write_text(SEND)
    subprocess.run(['mpicc.openmpi', '-o', tmp_path / 'send', tmp_path / 'send.c'], check=True,
                   timeout=60)
    host.path('send').write_bytes((tmp_path / 'send').read_bytes())
    host.path('send').chmod(0o755)
    options = [f'--security-opt=seccomp={no_cross_memory(host)}', '-v', f'{host.home()}:/here']
    forced = in_container(host, 'mpirun -np 2 -H localhost:2 -mca btl_vader_single_copy_mechanism '
                                'cma /here/send', *options)
    assert 'Read -1, expected' in forced.stdout + forced.stderr, forced
    done = in_container(host, 'mpirun -np 2 -H localhost:2 /here/send', *options)
    assert done.returncode == 0 and done.stdout.count('done') == 2
    assert 'Read -1' not in done.stdout + done.stderr
    host.write('sum.py', SUM)
    for launcher in ('mpirun -np 2 -H localhost:2', 'reigen run -np 2 --'):
        done = in_container(host, f'{launcher} python /here/sum.py', *options)
        assert done.stdout.count('sum 3.0 3.0 of 2') == 2, done
        assert 'Read -1' not in done.stdout + done.stderr


def test_the_image_holds_no_key(host):
    done = in_container(host, 'find / -xdev \\( -name "*host*key*" -o -name "id_*" \\) '
                              '-path "*ssh*" -type f | grep -v -e /lib/ -e /share/; true')
    assert done.stdout == '', done.stdout


def test_the_cuda_image_has_nccl_where_the_loader_finds_it(docker_context):
    """Built with NCCL from NVIDIA's package on PyPI and Debian's PyTorch; no GPU is needed."""
    made = images.build('horovod:cuda', docker_context, 'Dockerfile.cuda', args={
        'BASE': images.recipe('trainer'), 'NCCL_VERSION': NCCL, 'PYTORCH_VERSION': '',
        'TENSORFLOW_VERSION': '', 'KERAS_VERSION': ''})
    with Cluster(1, sshd=False, dockerd=True, images=[f'{made}=horovod:latest']) as cluster:
        ask = ('import ctypes; n = ctypes.c_int(); '
               'ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(n)); print(n.value)')
        done = in_container(cluster[1], f"python -c '{ask}'")
        assert done.stdout == '{}{:02}{:02}\n'.format(*map(int, NCCL.split('.'))), done.stderr
        cluster[1].write('sum.py', SUM)
        done = in_container(cluster[1], 'reigen run -np 2 -- python /here/sum.py',
                            '-v', f'{cluster[1].home()}:/here')
        assert done.stdout.count('sum 3.0 3.0 of 2') == 2, done


def test_what_the_image_with_spark_is_made_of_fits_into_a_distribution(tmp_path):
    """The image itself is some gigabytes large. A file of the user's own stays."""
    scripts = tmp_path / 'examples/src/main/python/tensorflow'
    scripts.mkdir(parents=True)
    own = scripts / 'keras_mnist_advanced_modified.py'
    own.write_text('mine')
    done = subprocess.run([ROOT / 'deploy/docker/build.sh', '--file', 'Dockerfile.spark',
                           '--context', tmp_path], capture_output=True, text=True, timeout=280,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    ours = 'kubernetes/dockerfiles/spark/ubuntu18.04'
    assert f'docker build -f {tmp_path}/{ours}/Dockerfile' in done.stdout
    assert own.read_text() == 'mine' and (scripts / 'digits.py').exists()
    assert len(list((scripts / 'data').glob('*.gz'))) == 4
    text = (tmp_path / ours / 'Dockerfile').read_text()
    for source in re.findall(r'^COPY (\S+) ', text, re.M):
        assert (tmp_path / source.replace('${OURS}', ours)).exists(), source
    steps = set(re.findall(r'/tmp/setup/(\S+\.sh)', text))
    assert {'apt.sh', 'pip.sh', 'spark.sh'} <= steps
    assert all((tmp_path / ours / 'setup' / step).exists() for step in steps)
    assert list((tmp_path / ours / 'wheels').glob('*.whl'))
    pinned = re.findall(r'\b([a-z0-9-]+)==[${\d]', text)
    assert {'matplotlib', 'nltk', 'h5py', 'pyarrow', 'torch', 'tensorflow-cpu',
            'keras'} <= set(pinned)


def test_spark_gives_a_name_to_a_user_who_has_none():
    """What /opt/spark-user.sh of that image does, without the image."""
    text = (ROOT / 'deploy/docker/setup/spark.sh').read_text()
    script = re.search(r"/spark-user\.sh <<'END'\n(.*?)^END$", text, re.M | re.S)[1] + \
        'echo "$LD_PRELOAD."; [ -z "$LD_PRELOAD" ] || { unset LD_PRELOAD; ' \
        'cat "$NSS_WRAPPER_PASSWD" && rm "$NSS_WRAPPER_PASSWD"; }'
    said = []
    for uid in (0, 12345):
        done = subprocess.run(['setpriv', f'--reuid={uid}', f'--regid={uid}', '--clear-groups',
                               'sh', '-ec', script], capture_output=True, text=True, timeout=60,
                              env={'PATH': os.environ['PATH'], 'HOME': '/home/me'}, check=True)
        said.append(done.stdout)
    assert said[0] == '.\n'
    assert said[1].startswith('libnss_wrapper.so.\nroot:')
    assert said[1].endswith('\nspark:x:12345:12345::/home/me:/bin/sh\n')


def test_the_image_with_spark_begins_as_spark_asks_it_to(tmp_path):
    """Its entry point, without the image: what it calls, word by word."""
    bin_ = tmp_path / 'bin'
    bin_.mkdir()
    (bin_ / 'tini').write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (bin_ / 'tini').chmod(0o755)
    text = (ROOT / 'deploy/docker/setup/spark-entrypoint.sh').read_text()
    assert '. /opt/spark-user.sh\n' in text
    script = tmp_path / 'entrypoint.sh'
    script.write_text(text.replace('/opt/spark-user.sh', '/dev/null'))
    given = {f'SPARK_{name}': name.lower() for name in (
        'DRIVER_URL', 'EXECUTOR_ID', 'EXECUTOR_CORES', 'EXECUTOR_MEMORY', 'APPLICATION_ID',
        'EXECUTOR_POD_IP', 'EXECUTOR_POD_NAME', 'RESOURCE_PROFILE_ID', 'DRIVER_BIND_ADDRESS')}
    env = {'PATH': f'{bin_}:{os.environ["PATH"]}', 'JAVA_HOME': '/java', 'SPARK_HOME': '/spark',
           'SPARK_JAVA_OPT_0': '--add-opens', 'SPARK_JAVA_OPT_1': 'java.base/java.lang=ALL',
           'SPARK_JAVA_OPT_2': '-Da=one two', **given}

    def said(*words):
        return subprocess.run(['sh', script, *words], env=env, capture_output=True, text=True,
                              timeout=60, check=True).stdout.splitlines()
    executor = said('executor')
    assert executor[:7] == ['-s', '--', '/java/bin/java', '--add-opens', 'java.base/java.lang=ALL',
                            '-Da=one two', '-Xmsexecutor_memory']
    assert executor[9:11] == ['/spark/conf:/spark/jars/*', 'org.apache.spark.scheduler.cluster.'
                              'k8s.KubernetesExecutorBackend']
    assert executor[-2:] == ['--resourceProfileId', 'resource_profile_id']
    assert said('driver', '--class', 'a b')[2:] == [
        'spark-submit', '--deploy-mode', 'client', '--conf',
        'spark.driver.bindAddress=driver_bind_address', '--class', 'a b']
    assert said('echo', 'a  b') == ['a  b']


def test_the_image_for_openpai_trains_with_intel_mpi_and_its_sshd_has_keys_of_its_own(
        docker_context):
    """Built on Debian's PyTorch; the command lines of deploy/openpai/DOCKER.md, and sshd as the
    platform starts it."""
    made = images.build('openpai:latest', docker_context, 'Dockerfile.openpai', args={
        'BASE': images.recipe('trainer'), 'PYTORCH_VERSION': ''})
    with Cluster(1, sshd=False, dockerd=True, images=[f'{made}=horovod:latest']) as cluster:
        host = cluster[1]
        done = in_container(host, 'mpirun -n 2 python pytorch_mnist.py --epochs 1')
        assert 'identical to the bit on all 2 ranks' in done.stdout, done
        done = in_container(host, 'reigen doctor --json')
        found = {each['check']: each for each in json.loads(done.stdout)['findings']}
        assert found['impi']['settings'], done.stdout
        done = in_container(host, 'ls /etc/ssh/ssh_host_* 2>/dev/null; echo Port 2222 '
                                  '>>/etc/ssh/sshd_config; service ssh restart >/dev/null; '
                                  'ssh-keyscan -p 2222 127.0.0.1 2>/dev/null | cut -d" " -f2')
        assert 'ssh-ed25519' in done.stdout.splitlines(), done
        assert 'host_' not in done.stdout, done.stdout
