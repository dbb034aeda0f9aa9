# SPDX-License-Identifier: Apache-2.0
"""The older name of elastic jobs on Ray; RayExecutor with min_workers has them, too."""
import os
from typing import Any, Callable, Dict, List, Optional

from horovod.ray import runner
from horovod.ray.discovery import RayHostDiscovery, TestDiscovery
from horovod.runner.elastic.settings import ElasticSettings

__all__ = ['ElasticRayExecutor', 'RayHostDiscovery', 'TestDiscovery']


class ElasticRayExecutor:
    """settings: of create_settings(), or any with its fields. cpus_per_slot, use_gpu,
    gpus_per_slot: what a rank takes. env_vars: variables of the ranks. override_discovery: hosts
    are those of Ray's cluster, whatever settings.discovery is."""

    @staticmethod
    def create_settings(min_num_proc: int = 1, max_num_proc: Optional[int] = None,
                        reset_limit: Optional[int] = None, elastic_timeout: Optional[float] = None,
                        timeout_s: float = 30, ssh_identity_file: Optional[str] = None,
                        nics: Any = None, min_np: Optional[int] = None,
                        max_np: Optional[int] = None, **others: Any) -> ElasticSettings:
        """min_num_proc, max_num_proc: ranks, without a limit unless told; min_np, max_np: older
        names. elastic_timeout: HOROVOD_ELASTIC_TIMEOUT, else 600 s. timeout_s and
        ssh_identity_file say nothing here."""
        limit = os.environ.get('HOROVOD_ELASTIC_TIMEOUT', '600') if elastic_timeout is None \
            else elastic_timeout
        least = min_num_proc if min_np is None else min_np
        return ElasticSettings(
            discovery=None, min_num_proc=least,
            max_num_proc=max_np if max_num_proc is None else max_num_proc,
            elastic_timeout=limit, reset_limit=reset_limit, num_proc=least, nics=nics,
            **{'verbose': 1, **others})

    def __init__(self, settings: Any, use_gpu: bool = False, cpus_per_slot: float = 1,
                 gpus_per_slot: Optional[int] = None, env_vars: Optional[Dict[str, Any]] = None,
                 override_discovery: bool = True):
        self.settings, self._env = settings, env_vars
        self._executor = runner.RayExecutor(
            settings, min_workers=settings.min_num_proc, max_workers=settings.max_num_proc,
            reset_limit=settings.reset_limit, elastic_timeout=settings.elastic_timeout,
            cooldown_range=settings.cooldown_range, cpus_per_worker=cpus_per_slot, use_gpu=use_gpu,
            gpus_per_worker=gpus_per_slot, override_discovery=override_discovery)

    def start(self) -> None:
        self._executor.start(extra_env_vars=self._env)

    def run(self, worker_fn: Callable[[], Any], callbacks: Optional[List[Callable]] = None
            ) -> List[Any]:
        """As RayExecutor.run()."""
        return self._executor.run(worker_fn, callbacks=callbacks)
