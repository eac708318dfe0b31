"""What a task declares, compiled once into an immutable record when the task is bound."""

from __future__ import annotations

import difflib
import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import conditions, hooks
from .arguments import named
from .clock import Micros, micros
from .conditions import Condition
from .config import Settings
from .exceptions import ConfigurationError
from .older_celery import retries_when_lost
from .retries import FailurePolicy
from .serialization import canonical_json, digest, fingerprint
from .states import AckMode, Capture, OnContention, OnIncomplete, Replays
from .templates import names_function, text_function

OPTIONS: dict[str, str] = {
    "idempotency_key": "a template over the task's parameters, or a callable that takes them and returns text or None",
    "on_incomplete": "resume, verify or dead_letter",
    "verify": "a callable that takes the task's arguments and returns the result if the effect exists, else None",
    "atomic": "the alias of the database whose transaction the effect is, or a list of several",
    "fenced": "the alias of the database that `attempt.fenced()` guards",
    "on_failed_key": "run or refuse",
    "on_store_error": "open or closed",
    "resources": "a list of templates over the task's parameters, or a callable that takes them and returns names",
    "on_contention": "park or backoff",
    "lease_ttl": "seconds, 1 or more",
    "key_retention": "seconds, 1 or more",
    "allow_rollback": "True or False",
    "stepwise": "True or False",
    "replay": "safe, confirm or never",
    "capture": "none, keys or full",
    "failures": "a FailurePolicy: which failures are retried, how often, after what time",
    "state": "a dict of names and callables, each of which takes the task's arguments and returns what to capture",
    "postconditions": "a list of callables, each of which takes the task's arguments and its `result`, and judges it",
}
"""Our task options, and what each may be."""

RESERVED = frozenset({"invalidates", "compensate", "dependency"})
"""Options of later versions: warned of, as a task that declares one counts on a protection that is not there."""


_NOTHING: Mapping[str, Any] = {}
_CONTAINERS = (Mapping, list, tuple, set, frozenset)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskPolicy:
    """One task's declarations, with the settings' defaults filled in."""

    operation: str
    signature: inspect.Signature | None
    plain_names: tuple[str, ...] | None = None
    """The parameters, where each can be passed by its position: most calls are bound by them alone."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """What parameters are where nothing is passed, as canonical JSON."""
    key: Callable[[Mapping[str, Any]], str] | None = None
    resources: Callable[[Mapping[str, Any]], tuple[str, ...]] | None = None
    backs_off: bool = False
    """It looks again after a while where a resource is leased, in place of standing in line."""
    on_incomplete: OnIncomplete = OnIncomplete.DEAD_LETTER
    verify: Callable[..., Any] | None = None
    atomic: tuple[str, ...] = ()
    fenced: str | None = None
    refuse_failed: bool = False
    fail_open: bool = True
    """Run without protection while the store is down."""
    lease_us: Micros
    keep_us: Micros
    is_step: bool = False
    """The body as a whole is one side-effect step."""
    declared: bool = False
    """The task declares how it is to be protected."""
    allow_rollback: bool = True
    replay: Replays | None = None
    """Whether its dead letters may be replayed; None where the task does not say."""
    ack: AckMode = AckMode.EARLY
    about: Mapping[str, Any] = field(default_factory=dict)
    """Celery's own options that say how the task is run, for its trace."""
    told: Mapping[str, Any] = field(default_factory=dict)
    """What a kept message says of its task, for whoever looks at it when the code is another one."""
    capture: Capture = Capture.KEYS
    """How much of the job's data goes into its trace."""
    state: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """What is captured before and after the body, by its name."""
    postconditions: tuple[Condition, ...] = ()
    """What has to hold once the body has returned."""
    failures: FailurePolicy | None = None
    """What becomes of its failures; None where the task leaves retries to Celery."""
    excluded: bool = False

    def bind(self, args: Any, kwargs: Any) -> Mapping[str, Any] | None:
        """Bind arguments to the task's parameters, defaults included; None where they don't fit."""
        if self.signature is None:
            return None
        if self.plain_names is not None and not kwargs and len(args) == len(self.plain_names):
            return dict(zip(self.plain_names, args, strict=True))
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError:
            return None
        bound.apply_defaults()
        return bound.arguments

    def named(self, args: Any, kwargs: Any) -> Mapping[str, Any]:
        """Name arguments as far as they have names, also where they don't fit the parameters."""
        if self.plain_names is not None and not kwargs and len(args) == len(self.plain_names):
            return dict(zip(self.plain_names, args, strict=True))
        return named(self.told.get("parameters"), args, kwargs)

    def identify(self, args: Any, kwargs: Any, known: str | None = None) -> tuple[str, str | None]:
        """Compute a call's idempotency key ("" where none is declared) and the fingerprint of its payload.

        Both are of the arguments as bound to the parameters, so that it does not matter how they were passed.

        Args:
            known: the fingerprint, where it came with the message: its computation costs more than all the rest.
        """
        if self.key is None:
            return "", None
        bound = self.bind(args, kwargs)
        if bound is None:
            return "", None
        return self.key(bound), known or fingerprint(self._said(bound))

    def names(self, args: Any, kwargs: Any) -> tuple[str, ...]:
        """Name what a call takes a lease on: sorted, each once."""
        bound = self.bind(args, kwargs) if self.resources is not None else None
        return () if bound is None or self.resources is None else self.resources(bound)

    def _said(self, bound: Mapping[str, Any]) -> Mapping[str, Any]:
        """Leave out what is as its default: a parameter that was added since must not make another payload of it."""
        return {name: value for name, value in bound.items() if not self._is_default(name, value)}

    def _is_default(self, name: str, value: Any) -> bool:
        default = self.defaults.get(name)
        # As text, since a list comes for what was sent as a tuple. A payload of any size need not be written for that.
        if default is None or (isinstance(value, _CONTAINERS) and default[0] not in "[{"):
            return False
        return canonical_json(value) == default

    def claim(self, key: str) -> str | None:
        """Digest a key, scoped by the operation, into what only one submission can hold."""
        return digest(self.operation, key) if key else None


def check_options(cls: Any) -> None:
    """Check what a task's class declares, when it is bound: so when its module is imported.

    Raises:
        ConfigurationError: an option is wrong; the message names the task, the option and what it may be.
    """
    name = cls.name or f"{cls.__module__}.{cls.__name__}"
    options = {option: getattr(cls, option, None) for option in OPTIONS}
    _warn_of_near_misses(name, vars(cls))
    _check(name, options)
    if inspect.iscoroutinefunction(cls.run) or inspect.isasyncgenfunction(cls.run):
        raise ConfigurationError(
            f"task {name}: its body is async def, and would be recorded as done before it has run; make it a plain "
            "function that calls asyncio.run() or asgiref's async_to_sync(), or give it base=celery.Task"
        )
    unbound = not isinstance(inspect.getattr_static(cls, "run"), staticmethod)
    signature = _signature(cls.run, unbound=unbound)
    _key_function(name, options["idempotency_key"], signature)
    _names_function(name, options["resources"], signature)
    for option in ("verify", "idempotency_key", "resources"):
        hooks.check(name, option, hooks.declared(cls, option), signature)
    for state, hook in (options["state"] or {}).items():
        hooks.check(name, f"state[{state!r}]", hook, signature)
    conditions.check(name, options["postconditions"] or (), signature)


def as_declared(task: Any, changed: Mapping[str, Any]) -> Any:
    """Return a class as if the task's had been written with these options; it is bound to no app."""
    kind = type(task)
    own = {name: found for name, found in vars(kind).items() if name in OPTIONS or name == "_decorated"}
    return type(kind.__name__, (kind,), {**own, **changed, "__module__": kind.__module__})


_UNMISTAKABLE = (
    "idempotency_key", "on_incomplete", "on_failed_key", "on_store_error", "on_contention", "atomic", "fenced",
    "lease_ttl", "stepwise", "postconditions",
)  # fmt: skip
"""Options whose names nobody else's task class has by chance."""


def unprotected(tasks: Iterable[Any]) -> Iterator[str]:
    """Yield a sentence for each task that declares an option of ours, and is of another class: nothing comes of it."""
    for task in tasks:
        declared = [] if hasattr(task, "replay_target") else [name for name in _UNMISTAKABLE if _has(task, name)]
        if declared:
            kind = next(kind for kind in type(task).__mro__ if kind.__name__ != task.__name__.rpartition(".")[2])
            yield (
                f"task {task.name} declares {', '.join(declared)}, which is not in force: its class "
                f"{kind.__module__}.{kind.__qualname__} is no ReplayTask. Let that class inherit from ReplayTask, or "
                "give ReplayTask to the app as task_cls [unprotected-task]"
            )


def _has(task: Any, option: str) -> bool:
    try:
        return getattr(task, option, None) is not None
    except Exception:  # a property of somebody's class
        return False


def check_lease(task: Any, settings: Settings) -> None:
    """See that a task's leases are not longer than the settings allow; its own words count, if it is one of ours.

    Raises:
        ConfigurationError: they are; the message names the task.
    """
    declared = getattr(task, "lease_ttl", None) if hasattr(task, "replay_target") else None
    if (declared or settings.lease_ttl) > settings.lease_ttl_max:
        of = (
            f"task {task.name}: lease_ttl={declared!r}"
            if declared
            else f"setting replay_lease_ttl = {settings.lease_ttl!r}"
        )
        raise ConfigurationError(
            f"{of} is longer than the setting replay_lease_ttl_max = {settings.lease_ttl_max!r}; "
            "make the one shorter or the other longer"
        )


def compile_policy(task: Any, settings: Settings, changed: Mapping[str, Any] = _NOTHING) -> TaskPolicy:
    """Compile a bound task's options.

    Args:
        changed: options that are otherwise than the task declares them.

    Raises:
        ConfigurationError: an option is wrong; the message names the task, the option and what it may be.
    """
    options = {**_options(task), **changed}
    _check(task.name, options)
    signature = _signature(task.run)
    key = _key_function(task.name, options["idempotency_key"], signature)
    incomplete = options["on_incomplete"]
    declared = any(options[name] is not None for name in ("idempotency_key", "on_incomplete", "atomic"))
    # Without the store nobody knows who has a resource.
    by_default = "closed" if declared or options["resources"] is not None else "open"
    fail_open = (options["on_store_error"] or settings.on_store_error or by_default) == "open"
    return TaskPolicy(
        operation=task.name,
        signature=signature,
        plain_names=_plain_names(signature),
        defaults=_defaults(signature) if key else {},
        key=key,
        resources=_names_function(task.name, options["resources"], signature),
        backs_off=options["on_contention"] == OnContention.BACKOFF,
        on_incomplete=OnIncomplete(incomplete) if incomplete else _default_incomplete(options),
        verify=hooks.fitted(options["verify"], signature) if options["verify"] else None,
        atomic=aliases_of(options["atomic"]),
        fenced=options["fenced"],
        refuse_failed=options["on_failed_key"] == "refuse",
        fail_open=fail_open,
        lease_us=micros(options["lease_ttl"] or settings.lease_ttl),
        keep_us=micros(options["key_retention"] or settings.retention),
        # A marker in the business database settles an atomic effect: OPEN need not.
        is_step=declared and options["atomic"] is None and not options["stepwise"],
        declared=declared,
        allow_rollback=bool(options["allow_rollback"]) or not declared,
        replay=Replays(options["replay"]) if options["replay"] else None,
        ack=_ack_mode(task),
        told={
            "parameters": parameters_of(signature),
            "protection": _protection(options, declared),
            "key": key is not None,
            "verify": options["verify"] is not None,
            "replay": options["replay"],
        },
        about=_about(task),
        capture=Capture(options["capture"] or settings.capture),
        state={name: hooks.fitted(hook, signature) for name, hook in (options["state"] or {}).items()},
        postconditions=conditions.compiled(options["postconditions"] or (), signature),
        failures=options["failures"],
        excluded=is_excluded(task.name, settings.exclude),
    )


def _about(task: Any) -> dict[str, Any]:
    options: dict[str, Any] = {
        "acks_late": bool(task.acks_late),
        "reject_on_worker_lost": bool(task.reject_on_worker_lost),
        "max_retries": task.max_retries,
    }
    limits = {"time_limit": task.time_limit, "soft_time_limit": task.soft_time_limit}
    return options | {name: limit for name, limit in limits.items() if limit is not None}


def _key_function(
    name: str, declared: Any, signature: inspect.Signature | None
) -> Callable[[Mapping[str, Any]], str] | None:
    return None if declared is None else text_function(name, "idempotency_key", declared, signature)


def _names_function(
    name: str, declared: Any, signature: inspect.Signature | None
) -> Callable[[Mapping[str, Any]], tuple[str, ...]] | None:
    return None if declared is None else names_function(name, "resources", declared, signature)


def _plain_names(signature: inspect.Signature | None) -> tuple[str, ...] | None:
    parameters = signature.parameters.values() if signature else ()
    plain = all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    return tuple(p.name for p in parameters) if signature and plain else None


def parameters_of(signature: inspect.Signature | None) -> list[list[Any]] | None:
    """Describe parameters as JSON data: name, kind, and whether there is a default."""
    if signature is None:
        return None
    return [[p.name, p.kind.name, p.default is not p.empty] for p in signature.parameters.values()]


def _protection(options: Mapping[str, Any], declared: bool) -> str:
    """Name what records the task's side effects: its transaction, its steps, or the body as one step."""
    if options["atomic"] is not None:
        return "atomic"
    if options["stepwise"]:
        return "steps"
    return "step" if declared else ""


def _defaults(signature: inspect.Signature | None) -> dict[str, str]:
    parameters = signature.parameters.values() if signature else ()
    rests: dict[Any, Any] = {inspect.Parameter.VAR_POSITIONAL: (), inspect.Parameter.VAR_KEYWORD: {}}
    found = {p.name: rests.get(p.kind, p.default) for p in parameters}
    return {name: canonical_json(value) for name, value in found.items() if value is not inspect.Parameter.empty}


def _options(task: Any) -> dict[str, Any]:
    """Read a task's options; functions that the decorator was given are no methods, though Python would bind them."""
    given = vars(type(task)) if getattr(task, "_decorated", False) else {}
    return {name: given[name] if name in given else getattr(task, name, None) for name in OPTIONS}


def _default_incomplete(options: Mapping[str, Any]) -> OnIncomplete:
    if options["verify"] is not None:
        return OnIncomplete.VERIFY
    return OnIncomplete.RESUME if options["atomic"] is not None else OnIncomplete.DEAD_LETTER


def _ack_mode(task: Any) -> AckMode:
    if not task.acks_late:
        return AckMode.EARLY
    return AckMode.LATE if task.reject_on_worker_lost or retries_when_lost(task) else AckMode.LATE_ACKS_LOSS


def is_excluded(name: str, patterns: tuple[str, ...]) -> bool:
    """Is a task left alone? Celery's own always are, and ours."""
    return name.startswith(("celery.", "celery_replay.")) or any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern for pattern in patterns
    )


def _signature(run: Any, *, unbound: bool = False) -> inspect.Signature | None:
    try:
        signature = inspect.signature(run)
    except (TypeError, ValueError):
        return None
    parameters = list(signature.parameters.values())
    return signature.replace(parameters=parameters[1:]) if unbound else signature


def _check(name: str, options: Mapping[str, Any]) -> None:
    for option, value in options.items():
        if value is not None and not _GOOD[option](value):
            raise ConfigurationError(f"task {name}: {option}={value!r}: must be {OPTIONS[option]}")
    if options["on_incomplete"] == "verify" and options["verify"] is None:
        raise ConfigurationError(f'task {name}: on_incomplete="verify" needs verify=, {OPTIONS["verify"]}')


def aliases_of(value: Any) -> tuple[Any, ...]:
    """Return what `atomic=` names, in its order."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _are_aliases(values: tuple[Any, ...]) -> bool:
    return bool(values) and all(isinstance(value, str) and value for value in values) and len({*values}) == len(values)


def _one_of(*words: str) -> Callable[[Any], bool]:
    return lambda value: value in words


def _seconds(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 1


def _names_declared(value: Any) -> bool:
    parts = value if isinstance(value, (list, tuple)) else [value]
    return bool(parts) and all(callable(part) or (isinstance(part, str) and part) for part in parts)


_GOOD: dict[str, Callable[[Any], bool]] = {
    "idempotency_key": lambda value: callable(value) or (isinstance(value, str) and bool(value)),
    "on_incomplete": _one_of(*(str(word) for word in OnIncomplete)),
    "verify": callable,
    "atomic": lambda value: _are_aliases(aliases_of(value)),
    "fenced": lambda value: isinstance(value, str) and bool(value),
    "on_failed_key": _one_of("run", "refuse"),
    "on_store_error": _one_of("open", "closed"),
    "resources": lambda value: callable(value) or _names_declared(value),
    "on_contention": _one_of(*(str(word) for word in OnContention)),
    "lease_ttl": _seconds,
    "key_retention": _seconds,
    "allow_rollback": lambda value: isinstance(value, bool),
    "stepwise": lambda value: isinstance(value, bool),
    "replay": _one_of(*(str(word) for word in Replays)),
    "capture": _one_of(*(str(word) for word in Capture)),
    "failures": lambda value: isinstance(value, FailurePolicy),
    "state": lambda value: (
        isinstance(value, Mapping)
        and all(isinstance(name, str) and name and callable(hook) for name, hook in value.items())
    ),
    "postconditions": lambda value: isinstance(value, (list, tuple)) and all(map(callable, value)),
}


def _warn_of_near_misses(name: str, given: Mapping[str, Any]) -> None:
    for attribute in sorted(RESERVED & given.keys()):
        warnings.warn(f"task {name}: {attribute}= has no effect in this version [later-option]", stacklevel=4)
    for attribute in given:
        if attribute.startswith("_") or attribute in OPTIONS:
            continue
        for option in difflib.get_close_matches(attribute, OPTIONS, n=1, cutoff=0.85):
            warnings.warn(
                f"task {name} has the option {attribute!r}: did you mean {option!r}? [near-miss-option]",
                stacklevel=4,
            )
