# SPDX-License-Identifier: Apache-2.0
"""The programs that parts of `make check` want of the machine."""
import shutil

#: Programs that the tests of a part start, with Debian's packages of them, where the part fails in
#: many places without one. tools/deps.sh installs them where there is apt.
TOOLS = {
    'behaviour': {'bash': 'bash', 'fish': 'fish', 'ip': 'iproute2', 'man': 'man-db',
                  'nsenter': 'util-linux', 'ps': 'procps', 'pkill': 'procps',
                  'setpriv': 'util-linux', 'ssh-keygen': 'openssh-client', 'ssh': 'openssh-client',
                  'sshd': 'openssh-server', 'unshare': 'util-linux', 'zsh': 'zsh'},
    'lint': {'git': 'git', 'readelf': 'binutils', 'unshare': 'util-linux'},
    'install': {'git': 'git', 'make': 'make', 'readelf': 'binutils', 'pkg-config': 'pkg-config'},
    'fuzz': {'clang': 'clang'},
}


def lacking(part):
    """The programs that a part wants and this machine lacks, as one line; None where it has all."""
    wanted = TOOLS.get(part, {})
    missing = sorted(tool for tool in wanted if not shutil.which(tool))
    if not missing:
        return None
    packages = sorted({wanted[tool] for tool in missing})
    return (f'{part} was not run: it wants {", ".join(missing)}, which this machine lacks '
            f"(Debian's {', '.join(packages)})")
