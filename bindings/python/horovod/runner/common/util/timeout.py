# SPDX-License-Identifier: Apache-2.0
"""A time until which something must have happened."""
import time


class TimeoutException(Exception):
    """It has not."""


class Timeout:
    """timeout: seconds from now. message: has '{activity}' and may have '{timeout}' in it."""

    def __init__(self, timeout: float, message: str):
        self._timeout = timeout
        self._end = time.monotonic() + timeout
        self._message = message

    def remaining(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self._end - time.monotonic())

    def timed_out(self) -> bool:
        return time.monotonic() > self._end

    def check_time_out_for(self, activity: str) -> None:
        """TimeoutException when the time is over."""
        if self.timed_out():
            raise TimeoutException(self._message.replace('{activity}', activity)
                                   .replace('{timeout}', str(self._timeout)))
