# SPDX-License-Identifier: Apache-2.0
"""What the programs of the ranks share: run the functions check_* of a module, in order."""
import sys
import traceback


def run(module, only=None):
    """Each check on every rank; the first failure ends this rank with its traceback."""
    checks = [(name, value) for name, value in vars(module).items()
              if name.startswith('check_') and (only is None or name == only)]
    assert checks, 'no check was found'
    for name, check in checks:
        try:
            check()
        except BaseException:
            print(f'{name} failed', flush=True)
            traceback.print_exc()
            sys.stderr.flush()
            # At once: the other ranks learn of it as of any death.
            import os
            os._exit(1)
        print(f'{name} passed', flush=True)


def raises(kind, call, *texts):
    """The exception that call() raises; it must be of the kind and hold each of the texts."""
    try:
        result = call()
    except kind as error:
        for text in texts:
            assert text in str(error), f'{text!r} is not in {str(error)!r}'
        return error
    raise AssertionError(f'nothing was raised; the result is {result!r}')
