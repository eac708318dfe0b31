"""A snapshot's rows in a scratch database say the same when they are read again, or it is listed where they do not."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import django
import pytest
from django.db import IntegrityError, connections
from django.db.models import F, Sum
from django.db.models.signals import post_save
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pytest_django.plugin import DjangoDbBlocker

from celery_replay.exceptions import SnapshotUnreadable
from celery_replay.snapshots.capture import capture
from celery_replay.snapshots.tree import Built, Tree, build
from celery_replay.snapshots.values import Opaque, Redacted, decoded, encoded
from django_celery_replay.scratch import Filled, Kind, fill, template
from django_celery_replay.scratch.schema import Template, entry
from django_celery_replay.state_provider import DjangoState
from tests.django_store import scratched
from tests.django_store.everything import PORTABLE, Customer, Dog, Everything, Ranges, tables
from tests.django_store.test_state import VALUES
from tests.support.django_stores import database_alias

ALIAS = "scratch_rows"
MODELS = (*PORTABLE, *scratched.MODELS, *([Ranges] if Ranges else []))


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker) -> Template:
    with django_db_blocker.unblock():
        return template(tmp_path_factory.mktemp("template"), MODELS)


@pytest.fixture(scope="module")
def database(made: Template) -> Iterator[str]:
    connections.settings[ALIAS] = entry(made.path)
    yield ALIAS
    connections[ALIAS].close()
    del connections[ALIAS]
    del connections.settings[ALIAS]


@pytest.fixture
def scratch(database: str) -> str:
    emptied()
    return database


def emptied() -> None:
    with connections[ALIAS].cursor() as cursor:
        for model in (*MODELS, scratched.Tagged.tags.through):  # a proxy's is emptied twice
            cursor.execute(f"DELETE FROM {model._meta.db_table}")
        cursor.execute("DELETE FROM sqlite_sequence")


def tree_of(built: Built) -> Tree:
    return Tree(built.reference, lambda references: {one: built.blobs[one] for one in references if one in built.blobs})


def taken(**states: Any) -> Built:
    return capture({name: (lambda value=value: value) for name, value in states.items()}, [DjangoState()])


def written(model: Any, *rows: Mapping[str, Any], key: str = "id") -> Tree:
    """Return a snapshot as if rows had been captured."""
    label = model if isinstance(model, str) else model._meta.label_lower
    return tree_of(build({"it": {f"{label}:{row[key]}": encoded(row) for row in rows}}))


def filled(tree: Tree) -> Filled:
    return fill(tree, [ALIAS])


def kinds(found: Filled) -> set[tuple[Kind, str]]:
    return {(one.kind, one.field) for one in found.differences}


# What was captured is there again


def test_every_type_of_field_comes_from_a_live_database_and_is_the_same_record_again(
    business: str, scratch: str
) -> None:
    with tables(business, *PORTABLE):
        Everything.objects.using(business).create(**VALUES)
        Customer.objects.using(business).bulk_create(
            Customer(id=number, name=f"c{number}") for number in range(1, 1100)
        )
        Dog(name="rex", tricks=3).save(using=business)
        states = [model._default_manager for model in PORTABLE]
        before = taken(**{f"s{number}": state.using(business) for number, state in enumerate(states)})
    found = filled(tree_of(before))
    after = taken(**{f"s{number}": state.using(scratch) for number, state in enumerate(states)})
    assert found.rows == {
        "everything.customer": 1099, "everything.everything": 1, "everything.animal": 1, "everything.dog": 1,
    }  # fmt: skip
    assert kinds(found) == {(Kind.REDACTED, "token")}
    assert after.reference == before.reference


def test_postgres_arrays_and_ranges_are_the_same_record_again(business: str, scratch: str) -> None:
    if connections[business].vendor != "postgresql":
        pytest.skip("only PostgreSQL has them")
    with tables(business, Ranges):
        stay = (datetime(2026, 3, 29, tzinfo=timezone.utc), None)
        Ranges.objects.using(business).create(
            id=1,
            tags=["a", "b", 'c"'],
            nested=[[1, 2], [3, 4]],
            numbers=(1, 5),
            prices=(None, Decimal("1.50")),
            stay=stay,
        )
        Ranges.objects.using(business).create(id=2, numbers="empty")
        before = taken(all=Ranges.objects.using(business))
    found = filled(tree_of(before))
    assert found.differences == []
    assert taken(all=Ranges.objects.using(scratch)).reference == before.reference
    row = Ranges.objects.using(scratch).get(id=1)
    row.tags.append("d")
    row.save()
    again = Ranges.objects.using(scratch).get(id=1)
    assert (again.tags, again.numbers.upper) == (["a", "b", 'c"', "d"], 5)


UTC = st.just(timezone.utc)
# What PostgreSQL has, too: no NUL, no half of a pair.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
WHOLE = st.integers(-(2**53), 2**53)
JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
LIVE: dict[str, st.SearchStrategy[Any]] = {
    "id": st.uuids(),
    "customer_id": st.none() | st.integers(1, 2**62),
    "status": TEXT.map(lambda text: text[:20]),
    "note": TEXT | st.just("x" * 1_000_000) | st.just("é%s'\"\\ \r\n\u2028\ufeff"),
    "slug": TEXT,
    "document": TEXT,
    "address": st.none() | st.ip_addresses().map(str),
    "small": st.integers(-(2**15), 2**15 - 1),
    "large": st.integers(-(2**63), 2**63 - 1),
    "positive": st.integers(0, 2**31 - 1),
    "ratio": st.floats(allow_nan=False, allow_infinity=False),
    "total": st.decimals(-99_999_999, 99_999_999, places=4),
    "active": st.none() | st.booleans(),
    "day": st.none() | st.dates() | st.sampled_from([date.min, date.max]),
    "hour": st.none() | st.times(),
    "moment": st.none()
    | st.datetimes(timezones=UTC)
    | st.sampled_from([datetime.min.replace(tzinfo=timezone.utc), datetime.max.replace(tzinfo=timezone.utc)]),
    "took": st.none() | st.timedeltas(timedelta(days=-99_999_999), timedelta(days=99_999_999)),
    "picture": st.none() | st.binary(max_size=50),
    "data": JSON,
}
MANY = hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(params=["sqlite_url", "postgres_dsn"])
def live(request: pytest.FixtureRequest) -> Iterator[str]:
    alias = database_alias(request.getfixturevalue(request.param))
    with tables(alias, *PORTABLE):
        yield alias
    connections[alias].close()


def test_any_row_of_a_live_database_is_the_same_record_again(live: str, scratch: str) -> None:
    @MANY
    @given(st.lists(st.fixed_dictionaries(LIVE), min_size=1, max_size=3, unique_by=lambda row: row["id"]))
    def holds(rows: list[dict[str, Any]]) -> None:
        emptied()
        Everything.objects.using(live).all().delete()
        Everything.objects.using(live).bulk_create(Everything(**row) for row in rows)
        before = tree_of(taken(it=Everything.objects.using(live)))
        found = filled(before)
        after = tree_of(taken(it=Everything.objects.using(scratch)))
        told = {(record, one.field) for one in found.differences for record in one.records}
        for record, body in before.records("it").items():
            one, other = decoded(body), decoded(after.records("it")[record])
            assert {name for name in one if encoded(one[name]) != encoded(other[name])} <= {
                name for name in one if (record, name) in told
            }
        # The only difference of all that is not for the sake of a secret.
        allowed = {(Kind.REDACTED, name) for name in LIVE} | {(Kind.REDACTED, "token"), (Kind.ALTERED, "ratio")}
        assert kinds(found) <= allowed
        assert (Kind.ALTERED, "ratio") not in kinds(found) or any(str(row["ratio"]) == "-0.0" for row in rows)

    holds()


@MANY
@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=10, min_value=-(10**25), max_value=10**25)))
def test_decimals_keep_all_of_their_digits_and_are_compared_as_numbers(database: str, numbers: list[Decimal]) -> None:
    emptied()
    rows = [{"id": number, "amount": amount, "code": str(number)} for number, amount in enumerate(numbers, 1)]
    assert filled(written(scratched.Precise, *rows)).differences == []
    found = scratched.Precise.objects.using(ALIAS)
    assert [*found.order_by("amount").values_list("amount", flat=True)] == sorted(numbers)
    for amount in numbers[:3]:
        assert found.filter(amount__gt=amount).count() == sum(one > amount for one in numbers)
        assert found.filter(amount=amount).exists()


def test_decimals_are_calculated_with(scratch: str) -> None:
    filled(written(scratched.Precise, *({"id": n, "amount": Decimal(n), "code": str(n)} for n in (9, 10, 100))))
    rows = scratched.Precise.objects.using(scratch)
    rows.filter(amount__gte=10).update(amount=F("amount") + Decimal("0.5"))
    assert rows.filter(amount__lt=F("id") + 1).count() == 3
    assert rows.filter(amount__in=[Decimal("10.5"), Decimal("9.0")]).count() == 2
    assert [row.amount for row in rows.order_by("id")] == [9, Decimal("10.5"), Decimal("100.5")]
    assert rows.aggregate(Sum("amount"))["amount__sum"] == 120
    with connections[scratch].cursor() as cursor:
        cursor.execute("SELECT amount FROM everything_precise WHERE amount > %s ORDER BY amount", [Decimal(10)])
        assert cursor.fetchall() == [(Decimal("10.5"),), (Decimal("100.5"),)]


@pytest.mark.parametrize("data", [{"range": [1, 2, "[)"]}, {"range": None}, {"$": "x"}, [], "null", "", 0, False])
def test_json_that_looks_like_something_else_is_the_same_again(scratch: str, data: Any) -> None:
    assert filled(written(Everything, {**VALUES, "data": data})).differences == []
    assert Everything.objects.using(scratch).get().data == data


def test_json_null_stays_json_where_the_column_has_no_null(scratch: str) -> None:
    names = {field.attname: Redacted.REDACTED for field in scratched.Secrets._meta.concrete_fields}
    found = filled(written(scratched.Secrets, {**names, "id": 1, "extra": None}))
    assert "extra" not in {one.field for one in found.differences}
    assert scratched.Secrets.objects.using(scratch).get().extra is None


def test_a_parents_rows_need_not_have_the_same_fields_as_its_childrens(scratch: str) -> None:
    tree = tree_of(
        build(
            {
                "it": {
                    "everything.grown:1": encoded({"id": 1, "size": 5}),
                    "everything.older:2": encoded({"id": 2, "grown_ptr_id": 2}),
                }
            }
        )
    )
    found = filled(tree)
    assert found.rows == {"everything.grown": 1, "everything.older": 1}
    assert [*scratched.Grown.objects.using(scratch).order_by("id").values_list("id", "size")] == [(1, 5), (2, 3)]
    assert kinds(found) == {(Kind.NEW_FIELD, "size")}


def test_fields_and_proxies_of_a_projects_own_are_the_same_record_again(business: str, scratch: str) -> None:
    with tables(business, scratched.Painted):
        moment = datetime(2026, 3, 29, 12, 30, 15, 123456, tzinfo=timezone.utc)
        scratched.Painted.objects.using(business).create(colour=scratched.Colour("red"), at=moment)
        before = taken(all=scratched.PaintedRed.objects.using(business))
    found = filled(tree_of(before))
    assert (found.differences, found.rows) == ([], {"everything.paintedred": 1})
    assert taken(all=scratched.PaintedRed.objects.using(scratch)).reference == before.reference
    assert scratched.Painted.objects.using(scratch).get().colour.code == "red"


@pytest.mark.skipif(django.VERSION < (5, 2), reason="composite keys came with Django 5.2")
def test_rows_with_a_key_of_several_fields_are_the_same_record_again(business: str, scratch: str) -> None:
    with tables(business, scratched.Line):
        for number in (1, 2):
            scratched.Line.objects.using(business).create(order=7, number=number, code="a")
        before = taken(all=scratched.Line.objects.using(business))
    assert {*tree_of(before).records("all")} == {"everything.line:7,1", "everything.line:7,2"}
    assert filled(tree_of(before)).differences == []
    assert taken(all=scratched.Line.objects.using(scratch)).reference == before.reference


# Whatever else was recorded is listed

ANY = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.decimals(), st.datetimes(),
    st.datetimes(timezones=st.timezones() | UTC).filter(lambda value: 1 < value.year < 9999), st.dates(), st.times(),
    st.times(timezones=UTC), st.timedeltas(), st.uuids(), st.lists(st.text(), max_size=2),
    st.dictionaries(st.text(), st.floats() | st.text() | st.binary(), max_size=2), st.sets(st.integers(), max_size=2),
    st.just(Redacted.REDACTED), st.just(Opaque("x")), st.just("\0"), st.just("\ud800"), st.just("x" * 1_000_000),
    st.just({"range": [1, 2, "[)"]}), st.just({"range": None}), st.just({"range": 5}), st.just(Decimal("1e400")),
    st.just([{"a": "\ud800"}]), st.just("it's [redacted] here"), st.just(10**4000),
)  # fmt: skip


@hypothesis_settings(MANY, max_examples=200)
@given(st.fixed_dictionaries({}, optional={name: ANY for name in [*LIVE, "token", "gone"] if name != "id"}))
def test_whatever_was_recorded_is_there_again_or_is_listed(database: str, fields: dict[str, Any]) -> None:
    emptied()
    tree = written(Everything, {"id": uuid.UUID(int=5), **fields})
    found = filled(tree)
    told = {one.field for one in found.differences}
    there = taken(it=Everything.objects.using(ALIAS))
    assert set(found.rows.values()) == {there.count}
    if there.count:
        (before,), (after,) = (map(decoded, one.records("it").values()) for one in (tree, tree_of(there)))
        assert {name for name in before if encoded(before[name]) != encoded(after.get(name, 0))} - {
            "gone",
            "token",
        } <= told
        assert {*LIVE, "token"} - {"id"} - fields.keys() <= told
        assert ("gone" in fields) == ((Kind.FIELD_GONE, "gone") in kinds(found))
    else:
        assert Kind.LEFT_OUT in {one.kind for one in found.differences}


def test_secrets_have_stand_ins_of_their_types(scratch: str) -> None:
    names = [field.attname for field in scratched.Secrets._meta.concrete_fields if field.attname != "id"]
    rows = [{"id": number, **dict.fromkeys(names, Redacted.REDACTED)} for number in (1, 2)]
    found = filled(written(scratched.Secrets, *rows))
    assert kinds(found) == {(Kind.REDACTED, name) for name in names}
    assert all(one.records == ("everything.secrets:1", "everything.secrets:2") for one in found.differences)
    one, two = scratched.Secrets.objects.using(scratch).order_by("id")
    assert (one.token, two.token) == ("[redacted]1", "[redacted]2")
    assert (one.pin, one.password, one.short) == (0, "[redacted]", "[re")
    assert (one.maybe, one.owner_id, one.choice) == (None, 0, "a")
    assert (one.moment, one.extra, one.address) == (datetime(1970, 1, 1, tzinfo=timezone.utc), {}, "0.0.0.0")


def test_a_key_that_is_secret_is_read_from_the_records_id(scratch: str) -> None:
    tree = tree_of(build({"it": {"everything.keyed:abc:1": encoded({"api_key": Redacted.REDACTED, "n": 1})}}))
    assert filled(tree).rows == {"everything.keyed": 1}
    assert scratched.Keyed.objects.using(scratch).get().pk == "abc:1"


def test_new_fields_have_their_default_or_null_or_a_stand_in(scratch: str) -> None:
    found = filled(written(Everything, {"id": uuid.UUID(int=1)}))
    details = {one.field: one.detail for one in found.differences}
    assert {one.kind for one in found.differences} == {Kind.NEW_FIELD}
    assert (details["status"], details["data"]) == ("default", "null")
    assert filled(written(scratched.Precise, {"id": 1})).rows == {"everything.precise": 1}
    assert scratched.Precise.objects.using(scratch).get().amount == 0


def test_times_with_and_without_a_zone_are_converted_where_the_project_has_changed_its_mind(
    scratch: str, settings: Any
) -> None:
    naive, key = datetime(2026, 3, 29, 12, 30), uuid.UUID(int=1)  # noqa: DTZ001
    settings.TIME_ZONE = "Asia/Kathmandu"
    found = filled(written(Everything, {**VALUES, "id": key, "moment": naive}))
    assert (Kind.ALTERED, "moment") in kinds(found)
    assert Everything.objects.using(scratch).get().moment == datetime(2026, 3, 29, 6, 45, tzinfo=timezone.utc)
    emptied()
    settings.USE_TZ = False
    found = filled(
        written(Everything, {**VALUES, "id": key, "moment": datetime(2026, 3, 29, 6, 45, tzinfo=timezone.utc)})
    )
    assert (Kind.ALTERED, "moment") in kinds(found)
    assert Everything.objects.using(scratch).get().moment == naive


@pytest.mark.parametrize(
    ("field", "value"), [("ratio", float("nan")), ("large", 2**63), ("note", "\ud800"), ("took", timedelta.max)]
)
def test_a_value_that_sqlite_does_not_have_costs_no_more_than_itself(scratch: str, field: str, value: Any) -> None:
    found = filled(written(Everything, {**VALUES, field: value}))
    assert (Kind.NOT_HELD, field) in kinds(found)
    assert Everything.objects.using(scratch).get().slug == VALUES["slug"]


def test_rows_of_models_that_are_gone_are_listed(scratch: str) -> None:
    found = filled(written("shop.invoice", {"id": 1}, {"id": 2}))
    (one,) = found.differences
    assert (one.kind, one.model, one.records) == (Kind.MODEL_GONE, "shop.invoice", ("shop.invoice:1", "shop.invoice:2"))


def test_plain_data_is_no_row(scratch: str) -> None:
    found = filled(tree_of(taken(price={"cents": 500}, stock=3)))
    assert (found.rows, found.differences) == ({}, [])


def test_a_row_that_can_not_be_there_leaves_the_others(scratch: str) -> None:
    rows = [
        {"id": number, "amount": Decimal(f"{number}.0000000000"), "code": "same" if number in (2, 7) else str(number)}
        for number in range(1, 9)
    ]
    found = filled(written(scratched.Precise, *rows))
    (one,) = found.differences
    assert (one.kind, len(one.records), found.rows) == (Kind.LEFT_OUT, 1, {"everything.precise": 7})


def test_a_row_that_two_states_read_differently_is_listed(scratch: str) -> None:
    states = {state: {"everything.customer:1": encoded({"id": 1, "name": state})} for state in ("a", "b")}
    found = filled(tree_of(build(states)))
    assert kinds(found) == {(Kind.READ_TWICE, "")}
    assert Customer.objects.using(scratch).get().name == "a"


def test_a_snapshot_with_a_part_missing_is_refused(scratch: str) -> None:
    built = build({"it": {f"everything.customer:{n}": encoded({"id": n, "name": "x" * 50}) for n in range(200)}})
    lost = {reference: body for reference, body in built.blobs.items() if reference == built.reference}
    with pytest.raises(SnapshotUnreadable):
        filled(Tree(built.reference, lambda references: {one: lost[one] for one in references if one in lost}))


# How they are written


def test_nothing_is_set_to_now_and_no_signal_is_sent(scratch: str) -> None:
    sent: list[Any] = []
    post_save.connect(lambda **told: sent.append(told), weak=False, dispatch_uid="scratch", sender=scratched.Dated)
    then = datetime(2020, 1, 1, tzinfo=timezone.utc)
    try:
        filled(written(scratched.Dated, {"id": 1, "made": then, "changed": then}))
    finally:
        post_save.disconnect(dispatch_uid="scratch", sender=scratched.Dated)
    row = scratched.Dated.objects.using(scratch).get()
    assert (row.made, row.changed, sent) == (then, then, [])


def test_new_rows_get_ids_above_those_that_are_there_or_referred_to(scratch: str) -> None:
    tree = tree_of(
        build(
            {
                "one": {"everything.customer:7": encoded({"id": 7, "name": "ann"})},
                "two": {
                    f"everything.everything:{uuid.UUID(int=1)}": encoded(
                        {**VALUES, "id": uuid.UUID(int=1), "customer_id": 90}
                    )
                },
            }
        )
    )
    filled(tree)
    assert Customer.objects.using(scratch).create(name="new").pk == 91


def test_many_to_many_rows_are_there_where_they_were_captured(business: str, scratch: str) -> None:
    with tables(business, scratched.Tag, scratched.Tagged):
        tag = scratched.Tag.objects.using(business).create(name="a")
        tagged = scratched.Tagged.objects.using(business).create()
        tagged.tags.add(tag)
        through = scratched.Tagged.tags.through.objects
        built = taken(
            a=scratched.Tag.objects.using(business),
            b=scratched.Tagged.objects.using(business),
            c=through.using(business),
        )
    assert filled(tree_of(built)).differences == []
    assert [*through.using(scratch).values_list("tagged_id", "tag_id")] == [(tagged.pk, tag.pk)]


def test_a_database_that_is_no_scratch_database_is_never_written(business: str) -> None:
    with tables(business, *PORTABLE):
        with pytest.raises(RuntimeError, match="no scratch database"):
            fill(written(Customer, {"id": 1, "name": "ann"}), [business])
        assert not Customer.objects.using(business).exists()


# The template


def test_what_sqlite_can_not_have_is_listed(made: Template) -> None:
    found = {(one.kind, one.model, one.field, one.detail) for one in made.differences}
    assert (Kind.NOT_ENFORCED, "everything.odd", "", "no_overlap") in found
    assert (Kind.NOT_ENFORCED, "everything.odd", "", "by_gin") in found
    assert (Kind.NOT_ENFORCED, "everything.odd", "name", "collation und-x-icu") in found
    assert (Kind.KEPT_AS_TEXT, "everything.odd", "found", "") in found
    assert not {one.model for one in made.differences if one.kind is Kind.NO_TABLE}


def test_the_rest_of_such_a_model_is_there(scratch: str) -> None:
    found = filled(
        written(scratched.Odd, {"id": 1, "name": "b", "n": 1, "labels": {"a": None, "é": "x"}, "found": "x"})
    )
    assert found.differences == []
    assert scratched.Odd.objects.using(scratch).get().labels == {"a": None, "é": "x"}
    row = scratched.Odd.objects.using(scratch).create(name="a", n=1, labels={"a": "b"}, found="x")
    again = scratched.Odd.objects.using(scratch).get(pk=row.pk)
    assert (again.labels, again.name) == ({"a": "b"}, "a")
    with pytest.raises(IntegrityError):
        scratched.Odd.objects.using(scratch).create(name="a", n=1, found="x")


def test_what_another_database_alone_understands_is_left_out_and_the_table_made(made: Template, scratch: str) -> None:
    found = [one.detail for one in made.differences if one.model == "everything.hard"]
    assert "alien_check" in found
    assert any("gen_alien" in one for one in found)
    scratched.Hard.objects.using(scratch).create(n=1, name="a")


def test_unmanaged_models_have_tables_too(scratch: str) -> None:
    scratched.Looked.objects.using(scratch).create(colour="red")
    assert filled(written(scratched.Looked, {"id": 7, "colour": "blue"})).rows == {"everything.looked": 1}
    # Another look at a table of a managed model has not taken its place.
    assert not scratched.LookedAgain.objects.using(scratch).exists()
    assert not scratched.Painted.objects.using(scratch).exists()


def test_a_model_without_a_table_is_listed_by_template_and_filling(tmp_path: Path, scratch: str) -> None:
    (one, *others) = [one for one in template(tmp_path, [scratched.Impossible, Customer]).differences if one.model]
    assert (one.kind, one.model, others) == (Kind.NO_TABLE, "everything.impossible", [])
    found = filled(written(scratched.Impossible, {"id": 1, "shape": "x"}))
    assert found.rows == {"everything.impossible": 0}
    assert (Kind.LEFT_OUT, "") in kinds(found)


def test_all_of_a_projects_tables_are_made(tmp_path: Path, wrapped: Callable[[Path], set[str]]) -> None:
    made = template(tmp_path)
    names = wrapped(made.path)
    assert {"auth_user", "auth_user_groups", "django_content_type", "django_celery_beat_periodictask"} <= names
    assert not [one for one in made.differences if one.kind is Kind.NO_TABLE]
    assert [one.name for one in tmp_path.iterdir()] == ["template.sqlite3"]


@pytest.fixture
def wrapped() -> Callable[[Path], set[str]]:
    import sqlite3

    def names(path: Path) -> set[str]:
        connection = sqlite3.connect(path)
        found = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        connection.close()
        return found

    return names
