# SPDX-License-Identifier: Apache-2.0
raise ImportError('horovod.spark comes in a later version of Reigen. Until then start ranks with '
                  'reigen run, horovodrun or horovod.run(), on the hosts that Spark runs on.')
