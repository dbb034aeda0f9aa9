# SPDX-License-Identifier: Apache-2.0
"""Simulated hosts on one machine: what tests/hosts runs on, and a person by hand.

    from bed import Cluster

    with Cluster(nodes=2, dockerd=True, images=['base']) as cluster:
        node1, node2 = cluster.nodes
        done = node1.run(['ssh', 'node2', 'docker', 'images'])       # as alice, in her home
        assert done.returncode == 0, done.stderr

    from bed import SlurmCluster

    with SlurmCluster(nodes=2) as slurm:
        done = slurm.head.run(['srun', '-N2', 'hostname'])           # as alice, in her shared home

    from bed import KubeCluster

    with KubeCluster(3) as cluster, cluster.namespace() as kube:
        print(kube.run(['kubectl', 'get', 'nodes']).stdout)          # as alice, on her computer

    from bed import Network

    with Network(hosts=4, rate='10gbit', delay_ms=0.1) as net:
        print(net.run(1, ['ping', '-U', '-c3', 'node2']).stdout)     # as root, 0.2 ms and a bit

    from bed.pai import PaiServer, Processes

    with PaiServer('v1.8', runner=Processes()) as server:
        print(server.url, server.token('alice'))                     # OpenPAI's REST interface

Every node is a host of its own as far as a program can see: its own mount, uts, network, pid and
ipc name spaces; its own /tmp, /var/tmp, /run, /dev/shm, /dev/pts and home directories; the name
nodeN and the address 10.77.0.N on eth0. All nodes see the machine's programs and libraries, and the
repository at its own path. They share one kernel, and so its clock and its CPUs.

The ordinary user is alice (uid and gid 2001), a member of the group docker, so that plain `docker`
works. She and root can ssh from every node to every node (port 22, key and known hosts in place).

`Cluster.close()`, the end of the `with` block, and the death of the process, however it dies, end
every process and mount of the cluster: process 1 of each node waits for the end of a pipe that only
this process holds. Files and cgroups that a killed owner left are removed by the next cluster.

Two clusters side by side do not see each other. It takes root, and Linux with overlayfs; nothing is
created in the caller's network name space, and no traffic leaves the cluster.

By hand: `python3 tests/bed/bed.py up`, `run`, `shell`, `down` (see --help).
"""
from .cluster import Cluster
from .first import first
from .kube import KubeCluster
from .network import Network
from .node import Node
from .slurm import SlurmCluster

__all__ = ['Cluster', 'KubeCluster', 'Network', 'Node', 'SlurmCluster', 'first']
