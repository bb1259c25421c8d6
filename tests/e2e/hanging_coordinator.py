"""`leasehold`, but its event loop stands still from SIGUSR1 on. The threads of gRPC go on: they take connections and
answer pings."""

import signal
import threading

from leasehold.cli.main import main


def hang(*_: object) -> None:
    threading.Event().wait()


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, hang)
    main()
