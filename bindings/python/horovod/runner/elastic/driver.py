# SPDX-License-Identifier: Apache-2.0
"""How patient an elastic job is that is started from Python. Who is which rank is decided by the
launcher, in C: there is no driver here."""

#: Too few ranks for so long end a job that was not asked for anything else.
ELASTIC_TIMEOUT_SECS = 600
#: From one call of the discovery to the next.
DISCOVER_HOSTS_FREQUENCY_SECS = 1.0

_ABSENT = ('ElasticDriver', 'Results', 'ResultsRecorder')


def __getattr__(name: str) -> object:
    if name in _ABSENT:
        raise ImportError(f'horovod.runner.elastic.driver.{name} is not offered by Reigen: its '
                          'launcher decides who is which rank. horovod.run() and horovodrun start '
                          'elastic jobs.')
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
