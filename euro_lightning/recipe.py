"""The part of a configuration that decides what is trained, and whether a run may go on under another."""

from collections.abc import Mapping
from typing import Any

from euro_lightning.errors import UserError
from euro_lightning.settings import flatten

FREE = {"data.workers", "data.stores", "data.corpus"}
"""Keys that change nothing that is trained: where things lie and how fast they are read. A corpus
is compared by its content when the checkpoint is loaded."""

_EVALUATION = "data.evaluation."
_TRAINER = ("trainer.precision", "trainer.gradient_clip_val", "trainer.gradient_clip_algorithm")


def recipe_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The deciding part of a resolved configuration, with dotted keys."""
    return {
        key: value
        for key, value in flatten(config).items()
        if (key.startswith(("model.", "data.")) and key not in FREE and not key.startswith(_EVALUATION))
        or key in _TRAINER
    }


def check_unchanged(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuses to continue under another recipe.

    Raises:
        UserError: lists the keys that differ.
    """
    keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    if keys:
        changes = ", ".join(f"{key} ({before.get(key)} → {now.get(key)})" for key in keys[:8])
        more = f" and {len(keys) - 8} more" if len(keys) > 8 else ""
        raise UserError(
            f"the recipe differs from the checkpoint's: {changes}{more}; --allow_changes continues all the same"
        )
