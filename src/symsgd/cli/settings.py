"""The options of a training, and what they mean to an estimator.

None of them has a default of its own: what is not given comes from the configuration file, then from the model that is
continued, or from here (``DEFAULTS``) and from the estimator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import click

from symsgd.combiners import COMBINERS, Combiner
from symsgd.devices import DEVICES
from symsgd.losses import LOSSES
from symsgd.penalties import PENALTIES
from symsgd.schedules import SCHEDULES
from symsgd.strategies import STRATEGIES, Strategy

F = TypeVar("F", bound=Callable[..., Any])

DEFAULTS = {"max_iter": 10, "tol": None, "random_state": 0}
PARAMETERS = {  # by option; those not listed have their parameter's name
    "schedule": "learning_rate",
    "step_size": "eta0",
    "power": "power_t",
    "passes": "max_iter",
    "patience": "n_iter_no_change",
    "intercept": "fit_intercept",
    "seed": "random_state",
    "threads": "n_jobs",
}


class BlockSize(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """A number of rows, or "auto"."""

    name = "rows|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == "auto" else click.IntRange(min=1).convert(value, param, ctx)


class StepSize(click.ParamType):  # type: ignore[type-arg]
    """A number above 0, or "auto"."""

    name = "size|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == "auto" else positive().convert(value, param, ctx)


class Shuffle(click.ParamType):  # type: ignore[type-arg]
    """An order of the rows, in the words of the parameter ``shuffle``."""

    ORDERS: ClassVar[dict[str, bool | str]] = {"windows": True, "blocks": "blocks", "full": "full", "none": False}
    name = "|".join(ORDERS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if isinstance(value, bool) else self.ORDERS[_choice(self.ORDERS).convert(value, param, ctx)]


def _choice(names: Mapping[str, Any]) -> click.Choice[str]:
    return click.Choice(sorted(names))


def positive(**bounds: Any) -> click.FloatRange:
    return click.FloatRange(min=0, min_open=True, **bounds)


TOL = "Stop when the objective, or with --holdout the score, improves by less, --patience times in a row."

MODEL = [
    click.option("--loss", type=_choice(LOSSES), help="By default log_loss for labels, squared_error for numbers."),
    click.option("--penalty", type=_choice(PENALTIES), help="By default l2."),
    click.option("--alpha", type=click.FloatRange(min=0), help="Strength of the penalty; 0.0001 by default."),
    click.option("--l1-ratio", type=click.FloatRange(0, 1), help="Of elasticnet: 0 is all l2, 1 all l1."),
    click.option("--epsilon", type=click.FloatRange(min=0), help="Of huber and the epsilon-insensitive losses."),
    click.option("--nu", type=positive(max=1), help="Of one_class: about the share of outliers."),
    click.option("--intercept/--no-intercept", default=None, help="Whether to learn one; it does by default."),
    click.option("--class-weight", metavar="balanced|LABEL=WEIGHT,…", help="How much rows of a label count."),
]
STEPS = [
    click.option("--step-size", type=StepSize(), help="Of the schedule: by default constant, or linear if it is auto."),
    click.option("--schedule", type=_choice(SCHEDULES), help="By default optimal for labels, invscaling for numbers."),
    click.option("--power", type=float, help="Of invscaling: the step is step-size / t^power."),
    click.option("--passes", type=click.IntRange(min=1), help="Over the data, at most; 10 by default."),
    click.option("--tol", type=click.FloatRange(min=0), help=TOL),
    click.option("--patience", type=click.IntRange(min=1), help="Passes without improvement; 5 by default."),
    click.option("--average", is_flag=True, default=None, help="Predict with the mean of all iterates."),
    click.option("--shuffle", type=Shuffle(), help="The order of the rows; windows by default (docs/order.md)."),
    click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Of the order of the rows; 0 by default."),
]  # fmt: skip
MACHINE = [
    click.option("--threads", type=click.IntRange(min=1), help="By default every core."),
    click.option("--strategy", type=_choice(STRATEGIES), help="How the cores share the work; auto by default."),
    click.option("--device", type=click.Choice(DEVICES), help="Where to train: cuda is a GPU; cpu by default."),
    click.option("--combiner", type=_choice(COMBINERS), help="Of mr-symsgd and async-symsgd."),
    click.option("--block-size", type=BlockSize(), help="Rows that a core trains on its own before a merge."),
    click.option("--k", type=click.IntRange(min=1), help="Columns of the projected combiner."),
]


def training_options(function: F) -> F:
    """All options of a training."""
    for option in reversed([*MODEL, *STEPS, *MACHINE]):
        function = option(function)
    return function


def strategy_of(given: dict[str, Any]) -> str | Strategy | None:
    """Takes the options of the strategy out of ``given``; a name, an instance, or None if there are none."""
    name, combiner, block_size, k = (given.pop(own, None) for own in ("strategy", "combiner", "block_size", "k"))
    if combiner is None and block_size is None and k is None:
        return name if isinstance(name, str) else None
    if name is None:
        raise click.UsageError("--combiner, --block-size and --k are parts of a strategy; say which: --strategy")
    fields = {own.name for own in dataclasses.fields(STRATEGIES[name])}
    parts = {"combiner": _combiner(combiner, k), "block_size": block_size}
    chosen = {field: value for field, value in parts.items() if value is not None}
    for field in chosen.keys() - fields:
        option = "--k" if field == "combiner" and combiner is None else f"--{field.replace('_', '-')}"
        raise click.UsageError(f"{option} is no part of --strategy {name}")
    return STRATEGIES[name](**chosen)


def _combiner(name: str | None, k: int | None) -> Combiner | None:
    if name is None and k is None:
        return None
    name = name or "projected"
    if k is not None and name != "projected":
        raise click.UsageError(f"--k is no part of --combiner {name}")
    return COMBINERS[name]() if k is None else COMBINERS[name](k=k)  # type: ignore[call-arg]


def estimator_for(loss: str, given: Mapping[str, Any], model: Any = None) -> Any:
    """The estimator, not yet fitted, that has these options; ``model`` is the one to be continued."""
    from sklearn.base import is_classifier, is_outlier_detector

    from symsgd import SGDClassifier, SGDOneClassSVM, SGDRegressor
    from symsgd.estimators._base import BaseSGD

    kind: type[BaseSGD] = SGDRegressor
    if LOSSES[loss].margin:
        kind = SGDOneClassSVM if loss == "one_class" else SGDClassifier
    if model is not None:
        if is_classifier(model) != (kind is SGDClassifier) or is_outlier_detector(model) != (kind is SGDOneClassSVM):
            raise click.UsageError(f"--loss {loss} cannot continue a model of the kind {type(model).__name__}")
        kind = type(model)
    chosen = {option: value for option, value in given.items() if value is not None}
    chosen["loss"] = loss
    if "step_size" in chosen and "schedule" not in chosen and model is None:
        chosen["schedule"] = "linear" if chosen["step_size"] == "auto" else "constant"
    if chosen.get("schedule") == "linear" and model is None:
        chosen.setdefault("step_size", "auto")
    if chosen.get("penalty") == "none":
        chosen["penalty"] = None
    if (strategy := strategy_of(chosen)) is not None:
        chosen["strategy"] = strategy
    accepted = kind().get_params()
    base = DEFAULTS if model is None else model.get_params()
    parameters = {name: value for name, value in base.items() if name in accepted}
    for option, value in chosen.items():
        name = PARAMETERS.get(option, option)
        if name in accepted:
            parameters[name] = value
        elif option != "loss":
            raise click.UsageError(f"--{option.replace('_', '-')} does not go with --loss {loss}")
    return kind(**parameters)
