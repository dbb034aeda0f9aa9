# SPDX-License-Identifier: Apache-2.0
raise ImportError('horovod.runner.elastic.rendezvous is not offered by Reigen: its launcher '
                  'decides who is which rank. horovod.run() and horovodrun start elastic jobs.')
