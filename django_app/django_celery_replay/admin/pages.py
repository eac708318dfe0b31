"""What all pages have in common: what is recorded is read; what can be decided has a page of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Model, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from ..conf import know_secrets
from ..tables import Table
from ..text import token
from .display import column
from .listing import NewestFirst
from .permissions import require
from .reading import one, stored
from .troubles import View, with_troubles_told


class RecordAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Lists one table's records and shows each on a page of its own."""

    table: ClassVar[Table[Any]]
    large: ClassVar[Sequence[str]] = ()
    """Columns that a list leaves in the database."""
    detail_template: ClassVar[str]

    actions = None
    list_filter: ClassVar[Any] = ()
    sortable_by = ()
    search_fields = ("pk",)
    show_full_result_count = False
    if hasattr(admin, "ShowFacets"):  # since Django 5.0
        show_facets = admin.ShowFacets.NEVER

    class Media:
        css = {"all": ["django_celery_replay/admin.css"]}

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse: only jobs write records."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse: what was recorded stays as it is."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse: records go when their time is over."""
        return False

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Refuse conditions in the address that no filter makes: they could guess at payloads, letter by letter."""
        return lookup in {each.parameter_name for each in self.list_filter}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[NewestFirst]:
        """Return the list that needs no counting."""
        return NewestFirst

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows of a list."""
        rows: QuerySet[Any] = stored(self.model).defer(*self.large)
        return rows

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return a row with all its columns."""
        return one(self.model, object_id)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find what begins with a text."""
        term = search_term.strip()
        return (queryset.filter(self.found(term)) if term else queryset), False

    def found(self, term: str) -> Q:
        """Return the condition for a search."""
        raise NotImplementedError

    def complete(self, page: Sequence[Any]) -> None:
        """Add to a list's rows what other tables have, in one query for all."""

    @method_decorator(require_safe)
    @with_troubles_told
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list."""
        return self.show_list(request, extra_context)

    def show_list(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Return Django's page with the list."""
        know_secrets()
        return super().changelist_view(request, extra_context)

    @method_decorator(require_safe)
    @with_troubles_told
    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show one record, to whoever may see this kind."""
        record = self.record(request, object_id)
        context = self.context(request, self.opts.verbose_name, record)
        return TemplateResponse(
            request, self.detail_template, {**context, "here": True, **self.details(request, record)}
        )

    def require(self, request: HttpRequest, *permissions: str) -> None:
        """Refuse whoever may not see this kind, or has not got one of these permissions.

        Raises:
            PermissionDenied: it names what is missing.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied(f"This needs the permission to view {self.opts.verbose_name_plural}.")
        require(request, *permissions)
        know_secrets()

    def record(self, request: HttpRequest, object_id: str) -> Any:
        """Return the record that an address names, for whoever may see this kind.

        Raises:
            PermissionDenied: the visitor may not.
            Http404: there is none.
        """
        self.require(request)
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404(f"No {self.opts.verbose_name} has this key. Records go when their time is over.")
        return self.table.record_of(row)

    def context(self, request: HttpRequest, title: object, record: Any = None) -> dict[str, Any]:
        """Return what every page needs.

        Args:
            record: the one that it is about, if it is about one.
        """
        request.current_app = self.admin_site.name
        key = "" if record is None else self.key(record)
        return {
            **self.admin_site.each_context(request),
            "title": capfirst(str(title)),
            "subtitle": column(key) if key else "",
            "about": _about(record) if key else "",
            "record_url": self.url("change", key) if key else "",
            "opts": self.opts,
            "media": self.media,
        }

    def key(self, record: Any) -> str:
        """Return a record's key as it is stored."""
        return token(getattr(record, self.table.key))

    def details(self, request: HttpRequest, record: Any) -> Mapping[str, Any]:
        """Return what the page shows of a record."""
        raise NotImplementedError

    def door(self, route: str, view: View, name: str, *methods: str) -> URLPattern:
        """Return a page of this kind's own, for those who may come into the admin.

        Args:
            view: gets this admin and the request.
            methods: that it answers; POST alone where none are named.
        """
        full = f"{self.opts.app_label}_{self.opts.model_name}_{name}"
        answering = require_http_methods(methods or ("POST",))(partial(with_troubles_told(view), self))
        # What people write there is in no error report.
        return path(route, self.admin_site.admin_view(sensitive_post_parameters()(answering)), name=full)

    def url(self, page: str, *keys: str, model: type[Model] | None = None) -> str:
        """Return the address of a page.

        Args:
            keys: of a record, as they are stored.
            model: whose page it is; by default this one's.
        """
        opts = (model or self.model)._meta
        name = f"{self.admin_site.name}:{opts.app_label}_{opts.model_name}_{page}"
        return reverse(name, args=[quote(key) for key in keys])

    def link(self, model: type[Model], pk: str, text: str) -> SafeString:
        """Return a link to a record's page.

        Args:
            pk: the key as it is stored.
        """
        return format_html('<a href="{}">{}</a>', self.url("change", pk, model=model), text)


def _about(record: Any) -> str:
    """Say in words which record it is: an id tells nobody anything."""
    names = (column(text) for text in (record.operation, getattr(record, "key", None)) if text)
    return " ".join(names)
