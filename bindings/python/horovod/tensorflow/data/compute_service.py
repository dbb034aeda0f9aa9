# SPDX-License-Identifier: Apache-2.0
raise ImportError('horovod.tensorflow.data.compute_service, which runs the service of tf.data on '
                  'workers of the job, comes with a later version of Reigen.')
