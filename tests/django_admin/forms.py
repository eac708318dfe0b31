"""Forms as a browser without JavaScript sees them: their fields, their buttons, what pressing one sends."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

from django.test import Client

Attributes = dict[str, str | None]


@dataclass
class Form:
    """One form."""

    action: str
    method: str
    fields: dict[str, list[str]] = field(default_factory=dict)
    buttons: list[Button] = field(default_factory=list)


@dataclass
class Button:
    """One button."""

    form: Form
    name: str
    value: str
    label: str
    disabled: bool
    action: str | None


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._open: Form | None = None
        self._disabled = False
        self._button: Button | None = None
        self._select = ""
        self._textarea = ""
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes: Attributes = dict(attrs)
        if tag == "form":
            self._open = Form(attributes.get("action") or "", (attributes.get("method") or "get").lower())
            self.forms.append(self._open)
        elif self._open is None:
            return
        elif tag == "fieldset":
            self._disabled = "disabled" in attributes
        elif tag == "button" or (tag == "input" and attributes.get("type") == "submit"):
            self._begin_button(self._open, attributes, tag)
        elif tag == "input":
            self._input(self._open, attributes)
        elif tag in ("select", "textarea"):
            setattr(self, f"_{tag}", attributes.get("name") or "")
            self._text = ""
        elif tag == "option" and self._select and "selected" in attributes:
            self._open.fields[self._select] = [attributes.get("value") or ""]

    def _begin_button(self, form: Form, attributes: Attributes, tag: str) -> None:
        button = Button(
            form=form,
            name=attributes.get("name") or "",
            value=attributes.get("value") or "",
            label=(attributes.get("value") or "") if tag == "input" else "",
            disabled="disabled" in attributes or self._disabled,
            action=attributes.get("formaction"),
        )
        if attributes.get("type") != "button":
            form.buttons.append(button)
        self._button = button if tag == "button" else None

    def _input(self, form: Form, attributes: Attributes) -> None:
        name, kind = attributes.get("name"), attributes.get("type")
        off = kind == "checkbox" and "checked" not in attributes
        if name and not off and "disabled" not in attributes and not self._disabled:
            form.fields.setdefault(name, []).append(attributes.get("value") or "")

    def handle_data(self, data: str) -> None:
        if self._button is not None:
            self._button.label += data
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = None
        elif tag == "fieldset":
            self._disabled = False
        elif tag == "button":
            self._button = None
        elif tag == "select":
            self._select = ""
        elif tag == "textarea" and self._open is not None and self._textarea:
            # A browser leaves the first line break out.
            self._open.fields[self._textarea] = [self._text.removeprefix("\n")]
            self._textarea = ""


def buttons(response: Any) -> dict[str, Button]:
    """Return a page's buttons by what stands on them."""
    reader = _Forms()
    reader.feed(response.content.decode())
    return {" ".join(button.label.split()): button for form in reader.forms for button in form.buttons}


def press(client: Client, response: Any, label: str, **values: Any) -> Any:
    """Press a page's button after these fields were filled in; return the page that it leads to."""
    button = buttons(response)[label]
    assert not button.disabled, f"{label} can't be pressed"
    assert button.form.method == "post"
    known = {name: value for name, value in button.form.fields.items() if name not in values}
    sent = {**known, **values, **({button.name: button.value} if button.name else {})}
    here = response.request["PATH_INFO"]
    query = response.request["QUERY_STRING"]
    address = urljoin(here, button.action or button.form.action) if button.action or button.form.action else here
    if not (button.action or button.form.action) and query:
        address += f"?{query}"
    return client.post(address, sent, follow=True)
