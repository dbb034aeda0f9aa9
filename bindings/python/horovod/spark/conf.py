# SPDX-License-Identifier: Apache-2.0
"""Names and values of Spark's own settings, as Horovod has them for whoever makes a session."""

SPARK_CONF_MAX_INT = '2147483647'
SPARK_CONF_MAX_INT_MINUS_ONE = '2147483646'

#: A failed task is tried again for ever, where a job is elastic.
SPARK_CONF_ALWAYS_RESTART_FAILED_TASK = ('spark.task.maxFailures', SPARK_CONF_MAX_INT)

SPARK_CONF_BLACKLIST_DISABLED = ('spark.blacklist.enabled', 'false')
SPARK_CONF_BLACKLIST_ENABLED = ('spark.blacklist.enabled', 'true')

# Within a stage: executors and nodes on which tasks have failed.
SPARK_CONF_REUSE_FAILED_EXECUTOR = ('spark.blacklist.stage.maxFailedTasksPerExecutor',
                                    SPARK_CONF_MAX_INT)
SPARK_CONF_DONT_REUSE_FAILED_EXECUTOR = ('spark.blacklist.stage.maxFailedTasksPerExecutor', '1')
SPARK_CONF_DONT_REUSE_FAILING_NODE = ('spark.blacklist.stage.maxFailedExecutorsPerNode', '1')

# For one task.
SPARK_CONF_REUSE_EXECUTOR_ONCE_FOR_SAME_TASK = (
    'spark.blacklist.task.maxTaskAttemptsPerExecutor', '2')
SPARK_CONF_DONT_REUSE_EXECUTOR_FOR_SAME_TASK = (
    'spark.blacklist.task.maxTaskAttemptsPerExecutor', '1')
SPARK_CONF_REUSE_NODE_ONCE_FOR_SAME_TASK = ('spark.blacklist.task.maxTaskAttemptsPerNode', '2')
SPARK_CONF_DONT_REUSE_NODE_FOR_SAME_TASK = ('spark.blacklist.task.maxTaskAttemptsPerNode', '1')

# For the whole application.
SPARK_CONF_DONT_REUSE_FAILED_EXECUTOR_IN_APP = (
    'spark.blacklist.application.maxFailedTasksPerExecutor', '1')
SPARK_CONF_DONT_REUSE_FAILING_NODE_IN_APP = (
    'spark.blacklist.application.maxFailedExecutorsPerNode', '1')
