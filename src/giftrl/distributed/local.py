"""Workers in this process, one after the other: the results of many machines without any."""

from collections.abc import Callable, Sequence

from giftrl.distributed.reading import Reading
from giftrl.distributed.worker import Order, Reply, State, Worker


class LocalCrew:
    """Carries out the orders of a round in turn.

    Args:
        reading: of all shards.
        workers: how many.
    """

    name = "this process, one worker after the other"

    def __init__(self, reading: Reading, workers: int) -> None:
        self.reading = reading
        self.workers = [Worker(reading) for _ in range(workers)]
        self.repeated = 0  # orders that were carried out once more

    def round(self, orders: Sequence[Order], state: State, whole: Callable[[], State]) -> list[Reply]:
        """The replies to orders, in their order.

        Args:
            orders: at most one for each worker; that of a shard goes to the worker of its number.
            state: at the features that have changed since the version before.
            whole: gives the state at all features that were seen.
        """
        return [self.one(order, state, whole) for order in orders]

    def one(self, order: Order, state: State, whole: Callable[[], State]) -> Reply:
        """The reply to an order."""
        worker = self.workers[order.shard]
        reply = worker.round(order, state, False) or worker.round(order, whole(), True)
        assert reply is not None
        return reply

    def close(self) -> None:
        """Let the workers go."""
        for worker in self.workers:
            worker.close()
