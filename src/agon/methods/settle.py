"""Settings with a method's own put in where the recipe left them open."""

from __future__ import annotations

from agon.config import Settings
from agon.errors import ConfigError
from agon.methods.registry import method_named
from agon.recipe import settings_from


def settled(settings: Settings) -> Settings:
    """Return the settings with `fixed` of their method applied: its loss, its normaliser, whatever it stands for.

    A key of [train] that was not set (in the recipe, by `--set`) takes the method's value, and counts as set from then on: settled
    settings, and a config.json written from them, come back as they are.

    Raises:
        ConfigError: no such method; a key was set to something else than the method stands for; the settings do not fit together.
    """
    own, fixed = settings.train, method_named(settings.train.method).fixed
    for key, value in fixed.items():
        if key in own.model_fields_set and getattr(own, key) != value:
            raise ConfigError(
                f"train.{key} is {getattr(own, key)!r}, but the method {own.method!r} stands for {value!r}: leave the key out, "
                "or choose another train.method"
            )
    if not fixed:
        return settings
    tree = settings.model_dump(exclude_unset=True)
    tree["train"] = {**tree.get("train", {}), **fixed}
    return settings_from(tree, source=f"train.method {own.method!r}")
