"""Steps: named parts of a task's body. One with a side effect is written ahead and is not done twice."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, ParamSpec, TypeVar, cast, overload

from celery.exceptions import SoftTimeLimitExceeded

from . import hooks
from .arguments import named
from .attempts import TRIES, Attempt
from .clock import wall
from .current import current_attempt, refuse_strays
from .exceptions import (
    ConfigurationError,
    OwnershipLost,
    ResultUnavailable,
    StepError,
    StoreUnavailable,
    UnknownOutcome,
)
from .failures import leaves_outcome_unknown
from .policy import parameters_of
from .records import ERASED, StepRecord, evolve
from .serialization import (
    bytes_digest,
    canonical_json,
    digest,
    fingerprint,
    has_address,
    pack,
    result_json,
    result_value,
)
from .snapshots.capture import REACHED
from .states import Capture, OnIncomplete, StepState
from .targets import without_writes
from .templates import KEY_FORMATTER
from .tracebacks import name_of

P = ParamSpec("P")
R = TypeVar("R")


@overload
def step(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def step(
    *,
    name: str | None = None,
    side_effect: bool = False,
    recorded: bool = False,
    key: str | None = None,
    verify: Callable[..., Any] | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def step(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    side_effect: bool = False,
    recorded: bool = False,
    key: str | None = None,
    verify: Callable[..., Any] | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> Any:
    """Make a function a step of the tasks that call it. Outside of an attempt it is called as it is.

    It may be `async def`, unless it has a side effect.

    Args:
        name: how the trace calls it; by default the function's name.
        side_effect: it does something outside that must not happen twice. It is written ahead in the store (one round
            trip), and its recorded output is returned by later attempts. While it runs, its thread may not write to
            Django's databases.
        recorded: it asks the outside, and changes nothing there: it is done each time, and what it gave is kept with
            the trace, for [dry runs](../how-to/dry-run-a-failed-job.md).
        key: for one of these, a template over the parameters of the step and of the running task that says which
            effect it is, or which call; by default its name, its arguments and how often it was called with them.
        verify: takes the step's arguments and returns its output if the effect exists, else None; asked where it was
            cut off in the middle. Give the task `on_incomplete="resume"`, so that it comes to the step again.
        encode: makes JSON of the output, where it is none by itself.
        decode: makes the output of that again, for later attempts. Where an output is lost, as it was no JSON, `verify`
            is asked for it; else the step is done again with `on_incomplete="resume"`, and with the others the
            attempt fails: `ResultUnavailable`.

    Raises:
        ConfigurationError: an option is wrong, or the function returns before it has run.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        _check(function.__name__, side_effect, recorded, key=key, verify=verify, encode=encode, decode=decode)
        later = inspect.iscoroutinefunction(function)
        if hooks.runs_later(function) and (side_effect or not later):
            raise ConfigurationError(
                f"step {function.__name__}: async functions and generators return before they have run; "
                "make the step a plain function that runs them to their end"
            )
        made = _Step(function, name or function.__name__, side_effect, recorded, key, verify, encode, decode)

        @functools.wraps(function)
        async def call_later(*args: P.args, **kwargs: P.kwargs) -> Any:
            attempt = current_attempt()
            waiting: Any = function(*args, **kwargs) if attempt is None else made.run_later(attempt, args, kwargs)
            return await waiting

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            attempt = current_attempt()
            if attempt is None:
                if side_effect:
                    refuse_strays(made.name)
                return function(*args, **kwargs)
            result: R = made.run(attempt, args, kwargs)
            return result

        return cast("Callable[P, R]", call_later) if later else call

    return decorate if function is None else decorate(function)


def _check(name: str, side_effect: bool, recorded: bool, **options: Any) -> None:
    given = [option for option, value in options.items() if value is not None]
    if side_effect and recorded:
        raise ConfigurationError(f"step {name}: side_effect=True keeps what it gives anyway; leave recorded= out")
    barred = [option for option in given if not (recorded and option in ("key", "encode", "decode"))]
    if barred and not side_effect:
        raise ConfigurationError(f"step {name}: {'= and '.join(barred)}= need side_effect=True")
    if (options["encode"] is None) != (options["decode"] is None):
        raise ConfigurationError(
            f"step {name}: encode= and decode= need each other: one makes data, one the output again"
        )
    for option in given:
        hooks.refuse_async(f"step {name}", option, options[option])


class _Call:
    """A call that is under way."""

    __slots__ = ("output",)

    output: Any


class _Step:
    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        side_effect: bool,
        recorded: bool,
        key: str | None,
        verify: Callable[..., Any] | None,
        encode: Callable[[Any], Any] | None,
        decode: Callable[[Any], Any] | None,
    ) -> None:
        self.function = function
        self.name = name
        self.side_effect = side_effect
        self.recorded = recorded
        self.key = key
        self.verify = verify
        self.encode = encode
        self.decode = decode
        self.signature = inspect.signature(function)
        self.parameters = parameters_of(self.signature)

    def run(self, attempt: Attempt, args: Any, kwargs: Mapping[str, Any]) -> Any:
        record = self._asked(attempt, args, kwargs)
        if record is None:
            return self._observed(attempt, self.function, args, kwargs)
        if self.recorded:
            return self._observed(attempt, self._played(attempt, record), args, kwargs, record.key)
        with attempt.steps.doing(record.key):
            return self._once(attempt, record, args, kwargs)

    async def run_later(self, attempt: Attempt, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Do the same in a coroutine; it has no side effect."""
        record = self._asked(attempt, args, kwargs)
        function = self.function if record is None else self._played(attempt, record)
        with self._telling(attempt, args, kwargs, None if record is None else record.key) as call:
            output = function(*args, **kwargs)
            call.output = await output if function is self.function else output
        return call.output

    def _asked(self, attempt: Attempt, args: Any, kwargs: Mapping[str, Any]) -> StepRecord | None:
        """Say which call it is; None where it is only observed."""
        attempt.check()
        understudy = attempt.runtime.understudy
        if understudy is not None and understudy.comes_to(self.name):
            attempt.snapshot(REACHED)
        if attempt.job is None or not (self.side_effect or self.recorded):
            if self.side_effect and not attempt.allowance.includes(self.name):
                self._refuse(attempt)
            return None
        return StepRecord(
            scope=attempt.identity,
            key=self._key(attempt, args, kwargs),
            name=self.name,
            state=StepState.CLAIMED,
            nonce=attempt.nonce,
            claimed_at=wall(),
        )

    def _once(self, attempt: Attempt, record: StepRecord, args: Any, kwargs: Any) -> Any:
        own = attempt.steps.known(record.key)
        if own is not None and own.state is StepState.SETTLED:
            if own.output is None and record.key in attempt.steps.outputs:
                return attempt.steps.outputs[record.key]
            return self._recorded(attempt, own, args, kwargs)
        if not attempt.allowance.includes(self.name):
            self._refuse_unless_done(attempt, record)
        owned, earlier = _claim(attempt, record)
        if not owned:
            attempt.lost()
            raise OwnershipLost
        if earlier is not None and own is None and not self._just_claimed(attempt, earlier):
            return self._again(attempt, record, earlier, args, kwargs)
        return self._effect(attempt, record, args, kwargs)

    def _refuse_unless_done(self, attempt: Attempt, record: StepRecord) -> None:
        """Let a step pass that may not be done only where it needs not: it was done by an earlier attempt."""
        found = attempt.runtime.store.steps(record.scope)
        if not any(one.step_id == record.step_id and one.state is StepState.SETTLED for one in found):
            self._refuse(attempt)

    def _refuse(self, attempt: Attempt) -> None:
        attempt.recorder.record("effect_not_allowed", step=self.name, status="skipped", side_effect=True)
        attempt.allowance.refuse(self.name)

    def _again(self, attempt: Attempt, record: StepRecord, earlier: StepRecord, args: Any, kwargs: Any) -> Any:
        if earlier.state is StepState.SETTLED:
            return self._recorded(attempt, earlier, args, kwargs)
        repeatable = self._repeatable(attempt, record)
        attempt.steps.doubts.add(record.key)
        if self.verify is not None:
            found = self._verified(attempt, record, args, kwargs)
            if found is not None:
                return found
        elif not repeatable:
            raise UnknownOutcome(
                f"nobody knows whether step {self.name} was done; look at its target, or give it verify="
            )
        return self._effect(attempt, record, args, kwargs)

    def _verified(self, attempt: Attempt, record: StepRecord, args: Any, kwargs: Any) -> Any:
        """Ask the step's hook for the output; None where there is no hook, or no effect."""
        if self.verify is None:
            return None
        with attempt.guarded():
            found = self.verify(*args, **kwargs)
        if found is not None:
            attempt.recorder.record("step_verified", step=self.name, side_effect=True, plain=_which(record))
            self._settle(attempt, record, found)
        return found

    @staticmethod
    def _just_claimed(attempt: Attempt, earlier: StepRecord) -> bool:
        """Is it this attempt's own claim, whose answer was lost on the way and which was therefore sent again?"""
        own = earlier.state is StepState.CLAIMED and earlier.nonce == attempt.nonce
        return own and earlier.key not in attempt.steps.doubts

    @staticmethod
    def _repeatable(attempt: Attempt, record: StepRecord) -> bool:
        policy = attempt.policy
        if attempt.stamp.accepts_unknown:
            return True
        if policy.on_incomplete is OnIncomplete.VERIFY:
            # The task's own hook was asked before the body began, and found nothing of an earlier attempt.
            return policy.is_step and record.key not in attempt.steps.doubts
        return policy.on_incomplete is OnIncomplete.RESUME

    def _recorded(self, attempt: Attempt, step: StepRecord, args: Any, kwargs: Any) -> Any:
        """Return what a step gave that is done, or find it out where that is lost."""
        lost: Exception | None = None
        if step.output is not None:
            try:
                output = self._decoded(step.output)
            except Exception as error:  # a user's function, or a type that is not registered here
                lost = error
            else:
                self._skipped(attempt, step)
                return output
        found = self._verified(attempt, step, args, kwargs)
        if found is not None:
            return found
        if attempt.policy.on_incomplete is OnIncomplete.RESUME:
            if not attempt.allowance.includes(self.name):
                self._refuse(attempt)
            return self._effect(attempt, step, args, kwargs)
        self._skipped(attempt, step)
        raise ResultUnavailable(
            f"step {self.name} was done already, but what it gave is lost"
            f"{f' ({lost!r})' if lost else ', as it was no JSON'}; give it encode= and decode=, or verify="
        ) from lost

    def _skipped(self, attempt: Attempt, step: StepRecord) -> None:
        attempt.recorder.record("step_skipped", step=self.name, status="skipped", side_effect=True, plain=_which(step))

    def _effect(self, attempt: Attempt, record: StepRecord, args: Any, kwargs: Any) -> Any:
        try:
            with without_writes(attempt.task, self.name):
                output = self._observed(attempt, self._played(attempt, record), args, kwargs, record.key)
        except BaseException as error:
            if leaves_outcome_unknown(error):
                attempt.steps.doubts.add(record.key)
            else:
                attempt.steps.settled(record)  # as claimed: that is, given up, so that it may be tried again
            raise
        self._settle(attempt, record, output)
        return output

    def _played(self, attempt: Attempt, record: StepRecord) -> Callable[..., Any]:
        """Return what is called: in a dry run, what gives the recorded output."""
        understudy = attempt.runtime.understudy
        if understudy is None or not understudy.plays(record):
            return self.function
        return lambda *_, **__: self._decoded(understudy.output(record))

    def _settle(self, attempt: Attempt, record: StepRecord, output: Any) -> None:
        text = None
        try:
            text = self._encoded(attempt, output)
        finally:
            if text is None:
                attempt.steps.outputs[record.key] = output
            # It is done, whatever becomes of what it gave.
            attempt.steps.settled(evolve(record, state=StepState.SETTLED, output=text))

    def _encoded(self, attempt: Attempt, output: Any) -> str | None:
        said: dict[str, Any] = {}
        try:
            text = result_json(output if self.encode is None else self.encode(output))
        except SoftTimeLimitExceeded:
            raise
        except Exception as error:  # a user's function
            text, said = None, attempt.recorder.said(error)
        if text is None:
            attempt.recorder.record(
                "step_output_lost", step=self.name, status="fail", side_effect=True, attributes=said
            )
        return text

    def _decoded(self, text: str) -> Any:
        value = result_value(text)
        return value if self.decode is None else self.decode(value)

    def _observed(
        self, attempt: Attempt, function: Callable[..., Any], args: Any, kwargs: Any, key: str | None = None
    ) -> Any:
        """Call it, and tell of it.

        Args:
            key: names the call, where it is one that a dry run does not make.
        """
        with self._telling(attempt, args, kwargs, key) as call:
            call.output = function(*args, **kwargs)
        return call.output

    @contextmanager
    def _telling(self, attempt: Attempt, args: Any, kwargs: Any, key: str | None) -> Iterator[_Call]:
        recorder, understudy = attempt.recorder, attempt.runtime.understudy
        given = recorder.given(lambda: named(self.parameters, args, kwargs))
        about = {} if key is None else self._about(attempt, key, args, kwargs)
        call = _Call()
        try:
            with nullcontext() if understudy is None else understudy.doing(self.name):
                yield call
        except BaseException as error:
            recorder.record(
                "step_failed",
                step=self.name,
                status="fail",
                side_effect=self.side_effect,
                attributes={**given, **about, **recorder.said(error), **_class_of(error)},
            )
            raise
        kept = self._kept(attempt, call.output, key)
        found = given if kept else {**given, **recorder.returned(call.output)}
        if recorder.capture is not Capture.NONE:
            found |= about
        recorder.record("step_done", step=self.name, side_effect=self.side_effect, attributes=found, **kept)

    def _about(self, attempt: Attempt, key: str, args: Any, kwargs: Any) -> dict[str, str]:
        """Say which call it is; and what with, where a key of its own does not tell all of that."""
        told = {"call_digest": digest(key)}
        if self.key is not None and attempt.recorder.capture is not Capture.NONE:
            try:
                told["input_digest"] = fingerprint(named(self.parameters, args, kwargs))
            except SoftTimeLimitExceeded:
                raise
            except Exception:  # whatever a user's object does: this is only for comparing
                return told
        return told

    def _kept(self, attempt: Attempt, output: Any, key: str | None) -> dict[str, Any]:
        """Put the output of a recorded step aside, under the digest of what was called."""
        if not self.recorded or key is None or attempt.recorder.capture is Capture.NONE:
            return {}
        text = self._encoded(attempt, output)
        if text is None:
            return {}
        body = pack({"call": digest(key), "output": text})
        reference = bytes_digest(body)
        return {"output_ref": reference, "blobs": {reference: body}}

    def _key(self, attempt: Attempt, args: Any, kwargs: Any) -> str:
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if self.key is None:
            base = digest(self.name, self._arguments(bound.arguments))
            return f"{self.name}:{base}:{attempt.steps.occurrence(base)}"
        names = {**(attempt.policy.bind(attempt.args, attempt.kwargs) or {}), **bound.arguments}
        try:
            text = KEY_FORMATTER.vformat(self.key, (), names)
        except (KeyError, AttributeError, IndexError) as error:
            known = ", ".join(sorted(names))
            raise StepError(
                f"step {self.name}: key={self.key!r} names {error}, which is no parameter of the step or task ({known})"
            ) from error
        if self.recorded:
            # It is done each time, and may give something else each time.
            return f"{self.name}:{text}:{attempt.steps.occurrence(f'{self.name}:{text}')}"
        # Nobody's data may make a step look like one whose key was erased.
        return f" {text}" if text.startswith(ERASED) else text

    def _arguments(self, arguments: Mapping[str, Any]) -> str:
        """Write the arguments down so that another attempt's are recognised, in whatever process it runs."""
        try:
            text = canonical_json(arguments)
        except Exception as error:  # whatever a user's object does
            raise StepError(f"step {self.name}: its arguments have no text ({error!r}); give it key=") from error
        if has_address(text):
            raise StepError(
                f"step {self.name}: an argument is an object without a text of its own, so another attempt would not "
                "recognise it; give the step key=, or pass an attribute"
            )
        return text


def _which(step: StepRecord) -> dict[str, str]:
    return {"call_digest": digest(step.key)}


def _class_of(error: BaseException) -> dict[str, str]:
    """Say where an error's class is from: a dry run makes it again."""
    return {} if type(error).__module__ == "builtins" else {"type": name_of(error)}


def _claim(attempt: Attempt, record: StepRecord) -> tuple[bool, StepRecord | None]:
    """Write a step ahead; a store that is away for a moment is waited for, since the body can't be undone."""
    assert attempt.job is not None
    pauses = iter(TRIES)
    while True:
        try:
            return attempt.runtime.store.claim_step(attempt.job, record, attempt.delivery)
        except StoreUnavailable:
            pause = next(pauses, None)
            if pause is None:
                raise
            time.sleep(pause)
