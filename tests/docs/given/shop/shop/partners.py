"""The world outside: what was done there can't be taken back, and is written to a file."""

from pathlib import Path

LOG = Path(__file__).parent.parent / "outside.log"
DOWN = Path(__file__).parent.parent / "carrier-is-down"
BUSY = Path(__file__).parent.parent / "carrier-is-busy"


def did(what):
    with LOG.open("a") as log:
        log.write(what + "\n")
    return what


class Carrier:
    def buy_label(self, order):
        return did(f"label-{order.pk}")

    def label_of(self, order_id):
        """Return the label that was bought for an order, or None."""
        label = f"label-{order_id}"
        return label if LOG.exists() and label in LOG.read_text().split() else None

    def book_pickup(self, order_id):
        if DOWN.exists():
            raise ConnectionRefusedError("the carrier does not answer")
        if BUSY.exists():
            BUSY.unlink()
            raise ConnectionRefusedError("the carrier refused this call")
        return did(f"pickup-{order_id}")


class Mailer:
    def send(self, order_id):
        return did(f"mail-{order_id}")


carrier = Carrier()
mailer = Mailer()
