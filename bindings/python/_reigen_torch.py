# SPDX-License-Identifier: Apache-2.0
"""What `import torch` loads of Reigen, by PyTorch's entry points "torch.backends": not the package
reigen, whose import loads the runtime, but the one file of it that tells PyTorch a name.
"""
import importlib.util
import os


def register() -> None:
    """Let torch.distributed know the backend "reigen"."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'reigen', '_backend.py')
    spec = importlib.util.spec_from_file_location('_reigen_backend', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.register()
