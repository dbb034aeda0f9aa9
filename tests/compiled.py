# SPDX-License-Identifier: Apache-2.0
"""What has been compiled before, for builds that tests start with an empty HOME."""
import shutil
import subprocess


def cache():
    """The variable that names this machine's ccache; none where there is no ccache."""
    if not shutil.which('ccache'):
        return {}
    done = subprocess.run(['ccache', '--get-config', 'cache_dir'], capture_output=True, text=True,
                          check=True)
    return {'CCACHE_DIR': done.stdout.strip()}
