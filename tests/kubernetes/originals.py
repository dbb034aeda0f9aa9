# SPDX-License-Identifier: Apache-2.0
"""An image for the original chart's commands: what these expect at the paths where they expect it,
with Open MPI, sshd, and Reigen as Horovod.
"""
import gzip
import struct
import subprocess

from bed import images, kube_build
from built import ROOT

IMAGE = 'uber/horovod:0.12.1-tf1.8.0-py3.5'
SCRIPTS = '/opt/spark/examples/src/main/python/tensorflow'
# It also has a key for every container, as images for ssh.useSecrets=false must.
STEPS = f'''
RUN mkdir -p /opt/conda/envs/tf_env/bin {SCRIPTS} && \\
    ln -s /usr/bin/python3 /opt/conda/envs/tf_env/bin/python && \\
    cp /examples/pytorch_mnist.py {SCRIPTS}/keras_mnist_advanced_modified.py && \\
    mv /usr/sbin/sshd.real /usr/sbin/sshd && rm -f /etc/ssh/ssh_config.d/reigen.conf && \\
    mkdir -p -m 700 /root/.ssh && ssh-keygen -q -t rsa -N '' -f /root/.ssh/id_rsa && \\
    cp /root/.ssh/id_rsa.pub /root/.ssh/authorized_keys
COPY data/ {SCRIPTS}/data/
CMD ["/bin/bash"]
'''
DIGITS = {'train': 6000, 't10k': 1000}


def build(folder):
    """The library's tag of the image; `folder` is for the build contexts."""
    context = folder / 'reigen'
    with kube_build.locked('original'):  # prepare.py may be at it, in the same build/
        done = subprocess.run([ROOT / 'deploy/docker/build.sh', '--context', context],
                              capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    sshd = images.build('horovod:sshd', context, 'Dockerfile.sshd',
                        args={'BASE': images.recipe('trainer')})
    return over(sshd, folder / 'original')


def over(base, folder):
    (folder / 'data').mkdir(parents=True)
    (folder / 'Dockerfile').write_text(f'FROM {base}\n{STEPS}')
    for kind, count in DIGITS.items():
        for what, head, size in (('images-idx3-ubyte', 16, 28 * 28), ('labels-idx1-ubyte', 8, 1)):
            name = f'{kind}-{what}.gz'
            data = gzip.decompress((ROOT / 'examples/data' / name).read_bytes())
            part = data[:4] + struct.pack('>I', count) + data[8:head + count * size]
            (folder / 'data' / name).write_bytes(gzip.compress(part, 1, mtime=0))
    return images.build(IMAGE, folder)
