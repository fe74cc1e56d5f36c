"""A scikit-learn callback that keeps something of the model after every round."""


class EachRound:
    """Appends ``measure(model)`` to `values` at the end of each round, and the seconds so far to `seconds`.

    The seconds of the measuring itself are not counted.

    Parameters
    ----------
    measure : callable
        From the estimator, as if its fit had ended here, to anything.
    clock : callable
        Returns seconds.
    """

    def __init__(self, measure, clock):
        self.measure, self.clock = measure, clock
        self.values, self.seconds = [], []

    def setup(self, estimator, context):
        """Start the clock."""
        self._start, self._own = self.clock(), 0.0

    def teardown(self, estimator, context):
        """Nothing to do."""

    def on_fit_task_begin(self, estimator, context, **data):
        """Nothing to do."""

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None, **data):
        """Measure after a round."""
        if context.task_name == "round":
            now = self.clock()
            self.seconds.append(now - self._start - self._own)
            self.values.append(self.measure(fitted_estimator))
            self._own += self.clock() - now
        return False
