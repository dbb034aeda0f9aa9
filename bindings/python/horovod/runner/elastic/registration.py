# SPDX-License-Identifier: Apache-2.0
raise ImportError('horovod.runner.elastic.registration comes with elastic jobs in a later '
                  'version of Reigen. Until then hvd.elastic.run restarts a training function '
                  'after an error, on the ranks that the job has.')
