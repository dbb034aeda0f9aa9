#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sshd as OpenPAI starts it: by `service ssh restart`, on the port that it writes into sshd_config.
# An image has no keys of hosts: all who have it would have them. So each container makes its own.
set -eu
sh "${0%/*}/apt.sh" openssh-server
rm -f /etc/ssh/ssh_host_*
echo 'ssh-keygen -A >/dev/null' >>/etc/default/ssh
