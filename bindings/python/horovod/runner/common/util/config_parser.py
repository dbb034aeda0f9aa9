# SPDX-License-Identifier: Apache-2.0
"""horovodrun's settings: from the configuration file to arguments, to the ranks' environment."""
from typing import Any, Dict, Iterable, Tuple

HOROVOD_FUSION_THRESHOLD = 'HOROVOD_FUSION_THRESHOLD'
HOROVOD_CYCLE_TIME = 'HOROVOD_CYCLE_TIME'
HOROVOD_CACHE_CAPACITY = 'HOROVOD_CACHE_CAPACITY'
HOROVOD_HIERARCHICAL_ALLREDUCE = 'HOROVOD_HIERARCHICAL_ALLREDUCE'
HOROVOD_HIERARCHICAL_ALLGATHER = 'HOROVOD_HIERARCHICAL_ALLGATHER'
HOROVOD_TORUS_ALLREDUCE = 'HOROVOD_TORUS_ALLREDUCE'
HOROVOD_AUTOTUNE = 'HOROVOD_AUTOTUNE'
HOROVOD_AUTOTUNE_LOG = 'HOROVOD_AUTOTUNE_LOG'
HOROVOD_AUTOTUNE_WARMUP_SAMPLES = 'HOROVOD_AUTOTUNE_WARMUP_SAMPLES'
HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE = 'HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE'
HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES = 'HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES'
HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE = 'HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE'
HOROVOD_TIMELINE = 'HOROVOD_TIMELINE'
HOROVOD_TIMELINE_MARK_CYCLES = 'HOROVOD_TIMELINE_MARK_CYCLES'
HOROVOD_STALL_CHECK_DISABLE = 'HOROVOD_STALL_CHECK_DISABLE'
HOROVOD_STALL_CHECK_TIME_SECONDS = 'HOROVOD_STALL_CHECK_TIME_SECONDS'
HOROVOD_STALL_SHUTDOWN_TIME_SECONDS = 'HOROVOD_STALL_SHUTDOWN_TIME_SECONDS'
HOROVOD_MPI_THREADS_DISABLE = 'HOROVOD_MPI_THREADS_DISABLE'
HOROVOD_NUM_NCCL_STREAMS = 'HOROVOD_NUM_NCCL_STREAMS'
NCCL_IB_DISABLE = 'NCCL_IB_DISABLE'
HOROVOD_THREAD_AFFINITY = 'HOROVOD_THREAD_AFFINITY'
HOROVOD_GLOO_TIMEOUT_SECONDS = 'HOROVOD_GLOO_TIMEOUT_SECONDS'
HOROVOD_LOG_LEVEL = 'HOROVOD_LOG_LEVEL'
HOROVOD_LOG_HIDE_TIME = 'HOROVOD_LOG_HIDE_TIME'
LOG_LEVELS = ['TRACE', 'DEBUG', 'INFO', 'WARNING', 'ERROR', 'FATAL']

# section, key in it, argument; a '!' before the argument turns truth around.
_FILE: Tuple[Tuple[str, str, str], ...] = (
    *(('params', key, key) for key in (
        'fusion_threshold_mb', 'cycle_time_ms', 'cache_capacity', 'hierarchical_allreduce',
        'hierarchical_allgather', 'torus_allreduce')),
    ('autotune', 'enabled', 'autotune'), ('autotune', 'log_file', 'autotune_log_file'),
    *(('autotune', key, 'autotune_' + key) for key in (
        'warmup_samples', 'steps_per_sample', 'bayes_opt_max_samples',
        'gaussian_process_noise')),
    ('timeline', 'filename', 'timeline_filename'),
    ('timeline', 'mark_cycles', 'timeline_mark_cycles'),
    ('stall_check', 'enabled', '!no_stall_check'),
    *(('stall_check', key, 'stall_check_' + key) for key in (
        'warning_time_seconds', 'shutdown_time_seconds')),
    *(('library_options', key, key) for key in (
        'mpi_threads_disable', 'mpi_args', 'num_nccl_streams', 'thread_affinity',
        'gloo_timeout_seconds')),
    ('logging', 'level', 'log_level'), ('logging', 'with_timestamp', 'log_with_timestamp'),
)
_NOT_NEGATIVE = ('fusion_threshold_mb', 'cycle_time_ms', 'cache_capacity',
                 'autotune_warmup_samples', 'autotune_steps_per_sample',
                 'autotune_bayes_opt_max_samples', 'stall_check_warning_time_seconds',
                 'stall_check_shutdown_time_seconds', 'num_nccl_streams', 'thread_affinity',
                 'gloo_timeout_seconds')


def set_args_from_config(args: Any, config: Dict[str, Any], override_args: Iterable[str]) -> None:
    """Set args' attributes from the file's sections, but for the names in override_args.

    ValueError for a controller that there is not.
    """
    override_args = set(override_args)
    controller = (config.get('controller') or '').lower()
    if controller in ('gloo', 'mpi', 'jsrun') and not any(
            getattr(args, f'use_{name}', None) for name in ('gloo', 'mpi', 'jsrun')):
        setattr(args, 'use_' + controller, True)
    if controller not in ('', 'gloo', 'mpi', 'jsrun'):
        raise ValueError(f'No such controller supported: {controller}')
    for section, key, name in _FILE:
        value = (config.get(section) or {}).get(key)
        turned = name.startswith('!')
        name = name.lstrip('!')
        if value is not None and name not in override_args:
            setattr(args, name, not value if turned else value)


def _validate_arg_nonnegative(args: Any, name: str) -> None:
    value = getattr(args, name, None)
    if value is not None and value < 0:
        raise ValueError(f'{name}={value} must be >= 0')


def validate_config_args(args: Any) -> None:
    """ValueError for a value that cannot be."""
    for name in _NOT_NEGATIVE:
        _validate_arg_nonnegative(args, name)
    noise = getattr(args, 'autotune_gaussian_process_noise', None)
    if noise is not None and not 0 <= noise <= 1:
        raise ValueError(f'autotune_gaussian_process_noise={noise} must be in [0, 1]')


def set_env_from_args(env: Dict[str, str], args: Any) -> Dict[str, str]:
    """Put what args say into env, which is returned. Arguments that are None leave it alone."""

    def put(variable: str, name: str, scale: int = 1) -> None:
        value = getattr(args, name, None)
        if isinstance(value, bool):
            value = int(value)
        if value is not None:
            env[variable] = str(value * scale if scale != 1 else value)

    put(HOROVOD_FUSION_THRESHOLD, 'fusion_threshold_mb', 1024 * 1024)
    put(HOROVOD_CYCLE_TIME, 'cycle_time_ms')
    put(HOROVOD_CACHE_CAPACITY, 'cache_capacity')
    for name in ('hierarchical_allreduce', 'hierarchical_allgather', 'torus_allreduce'):
        put('HOROVOD_' + name.upper(), name)
    if getattr(args, 'autotune', None):
        put(HOROVOD_AUTOTUNE, 'autotune')
        put(HOROVOD_AUTOTUNE_LOG, 'autotune_log_file')
        for name in ('warmup_samples', 'steps_per_sample', 'bayes_opt_max_samples',
                     'gaussian_process_noise'):
            put('HOROVOD_AUTOTUNE_' + name.upper(), 'autotune_' + name)
    if getattr(args, 'timeline_filename', None):
        put(HOROVOD_TIMELINE, 'timeline_filename')
        put(HOROVOD_TIMELINE_MARK_CYCLES, 'timeline_mark_cycles')
    if getattr(args, 'no_stall_check', None):
        env[HOROVOD_STALL_CHECK_DISABLE] = '1'
    else:
        put(HOROVOD_STALL_CHECK_TIME_SECONDS, 'stall_check_warning_time_seconds')
        put(HOROVOD_STALL_SHUTDOWN_TIME_SECONDS, 'stall_check_shutdown_time_seconds')
    put(HOROVOD_MPI_THREADS_DISABLE, 'mpi_threads_disable')
    put(HOROVOD_NUM_NCCL_STREAMS, 'num_nccl_streams')
    if getattr(args, 'tcp_flag', None):
        env[NCCL_IB_DISABLE] = '1'
    put(HOROVOD_THREAD_AFFINITY, 'thread_affinity')
    put(HOROVOD_GLOO_TIMEOUT_SECONDS, 'gloo_timeout_seconds')
    put(HOROVOD_LOG_LEVEL, 'log_level')
    if getattr(args, 'log_with_timestamp', None) is not None:
        env[HOROVOD_LOG_HIDE_TIME] = '0' if args.log_with_timestamp else '1'
    return env
