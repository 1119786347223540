"""One training: rows, targets and settings brought together, and the model that comes of it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from symsgd.cli.frame import Output, short

if TYPE_CHECKING:
    from symsgd.cli.targets import Array, Targets
    from symsgd.data.dataset import Dataset
    from symsgd.training import Result


@dataclass
class Job:
    """Rows, targets and settings of one training."""

    data: Dataset
    targets: Targets
    estimator: Any
    start: Any = None

    def __post_init__(self) -> None:
        from symsgd.cli.targets import class_weights
        from symsgd.data import Store

        if isinstance(self.data, Store):
            self.data.verify(self.estimator.n_jobs)  # before rows are picked by starts that may be damaged
        text = getattr(self.estimator, "class_weight", None)
        if isinstance(text, str):
            self.estimator.class_weight, self.class_weight = class_weights(text, self.targets)
        elif isinstance(text, dict) and self.targets.labels is not None:  # of the model that is continued
            import numpy as np

            self.class_weight = np.array([text.get(label, 1.0) for label in self.targets.labels.tolist()])
        else:
            self.class_weight = None
        self.estimator._check_parameters(partial=False)  # now, not when there is a model to write

    @property
    def seed(self) -> int:
        """Of the estimator, whose owner may have wanted none, or one that nobody can write on a command line."""
        own = self.estimator.random_state
        return own if isinstance(own, int) else 0

    def train(self, held_out: Array | None, output: Output, **options: Any) -> Result:
        """Trains on all rows but those held out, whose score is in the record of every pass."""
        import symsgd
        from symsgd.callbacks import ProgressBar

        targets = self.targets
        if held_out is not None:
            if targets.y is None:
                raise ValueError("--loss one_class has no targets to score held-out rows by")
            options["early_stopping"] = symsgd.EarlyStopping(held_out)
            if "eval_set" not in options:
                options["eval_set"] = (self.data.X[held_out], targets.y[held_out])
        if targets.classes is not None:
            options |= {"classes": targets.classes, "class_weight": self.class_weight}
        if self.start is not None:
            options.setdefault("init", self.start.as_start())
        if (console := output.watch()) is not None:
            options.setdefault("callbacks", [ProgressBar(console)])
        return symsgd.train(
            self.data if isinstance(self.data, symsgd.data.Store) else self.data.X,  # a store is checked by its sums
            targets.y,
            **(self.estimator.train_options() | {"seed": self.seed} | options),
            sample_weight=self.data.sample_weight,
        )

    def model(self, result: Result) -> Any:
        """The estimator with this result, and labels by their own names."""
        from sklearn.base import clone

        return clone(self.estimator).adopt(dataclasses.replace(result, classes=self.targets.labels))

    def with_parameters(self, **parameters: Any) -> Job:
        """The same, but for some parameters of the estimator."""
        from sklearn.base import clone

        return dataclasses.replace(self, estimator=clone(self.estimator).set_params(**parameters))

    def held_out_loss(self, result: Result, held_out: Array) -> float:
        """The mean loss of the rows held out, by the loss of the training; infinite where it is not a number."""
        import numpy as np

        from symsgd import reference

        y = self.targets.y
        assert y is not None
        scores, y = result.decision(self.data.X[held_out], n_threads=1), y[held_out]
        if self.targets.classes is not None:
            own = np.arange(len(self.targets.classes)) if scores.ndim == 2 else 1
            places = np.searchsorted(self.targets.classes, y)
            y = np.where((places[:, None] == own) if scores.ndim == 2 else (places == own), 1.0, -1.0)
        values = reference.value(self.estimator.train_options()["loss"], scores, y)
        weight = None if self.data.sample_weight is None else self.data.sample_weight[held_out]
        loss = float(np.average(values.reshape(len(y), -1).mean(axis=1), weights=weight))
        return loss if np.isfinite(loss) else np.inf

    def rows_to_hold_out(self, share: float) -> Array:
        import numpy as np

        n = len(self.data)
        count = min(max(1, round(share * n)), n - 1)
        held_out = np.zeros(n, np.bool_)
        held_out[np.random.default_rng(self.seed).choice(n, count, replace=False)] = True
        return held_out

    def cross_validate(self, parts: int, output: Output) -> dict[str, float]:
        """The mean scores of models each of which was trained without one part of the rows."""
        import numpy as np

        if parts > len(self.data):
            raise ValueError(f"--cv {parts} needs at least as many rows; there are {len(self.data)}")
        part = np.random.default_rng(self.seed).permutation(len(self.data)) % parts
        found: list[dict[str, float]] = []
        for own in range(parts):
            held_out = part == own
            # without a tolerance: the rows that a model is scored by must not decide when it stops
            result = self.train(held_out, Output(quiet=True), tol=None)
            found.append(self.score(self.model(result), held_out))
            output.note(f"part {own + 1}/{parts}: " + ", ".join(f"{k} {short(v, 4)}" for k, v in found[-1].items()))
        return {name: float(np.mean([own[name] for own in found if name in own])) for name in found[0]}

    def score(self, model: Any, held_out: Array) -> dict[str, float]:
        import numpy as np

        from symsgd.cli.scores import of_model, predictions

        assert self.targets.y is not None
        X, y = self.data.X[held_out], self.targets.y[held_out]
        weight = None if self.data.sample_weight is None else self.data.sample_weight[held_out]
        if self.targets.classes is not None:
            y = np.searchsorted(self.targets.classes, y)
        return of_model(model, *predictions(model, X), y, weight)
