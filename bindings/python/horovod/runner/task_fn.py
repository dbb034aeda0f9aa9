# SPDX-License-Identifier: Apache-2.0
raise ImportError('horovod.runner.task_fn is not offered by Reigen, which has an agent of its '
                  'own on each host: use horovod.run(), or reigen run.')
