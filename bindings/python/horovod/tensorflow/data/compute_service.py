# SPDX-License-Identifier: Apache-2.0
raise ImportError('horovod.tensorflow.data.compute_service, which runs tf.data\'s service on workers '
                  'of the job, comes with a later version of Reigen.')
