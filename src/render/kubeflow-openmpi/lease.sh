# SPDX-License-Identifier: Apache-2.0
# What the master runs on each worker, by ssh: it answers "ready", or why the worker cannot be used,
# and lasts as long as the connection.
phases=/kubeflow/openmpi/data/.openmpi-controller
until [ -e $phases/SIGCONT ] || [ -e $phases/SIGTERM ]; do
    sleep 0.2 2>/dev/null || sleep 1
done
if [ -e $phases/SIGTERM ]; then
    cat $phases/failed 2>/dev/null || echo 'this worker has ended'
    : >$phases/told
    exit 1
fi
: >$phases/held
echo ready
cat >/dev/null
: >$phases/over
