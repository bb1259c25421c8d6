"""What a group of tasks ended with, told to whoever waits for it."""

import asyncio

from leasehold.errors import gravest


def gravest_here(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error of a task group that says what to do, or the cancellation that came at the same time.

    Before Python 3.13 a `TaskGroup` whose task is cancelled while one of its children fails tells of the child alone:
    who then goes on as after that failure is never cancelled at all. The body of the group must run until something
    ends it: a child that fails after the body has ended is counted as a cancellation there, for ever.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        return asyncio.CancelledError()
    return gravest(errors)
