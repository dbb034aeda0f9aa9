# SPDX-License-Identifier: Apache-2.0
raise ImportError('horovod.ray comes in a later version of Reigen. Until then start ranks with '
                  'reigen run, horovodrun or horovod.run(), on the hosts that Ray runs on.')
