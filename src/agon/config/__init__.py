"""Settings of a run: frozen, and checked before a model loads. `agon.recipe` reads them from files."""

from agon.config.alarms import AlarmMode, AlarmSettings
from agon.config.names import did_you_mean
from agon.config.settings import Settings
from agon.config.tables import (
    AdapterSettings,
    EvaluationSettings,
    ModelSettings,
    RewardSettings,
    RolloutSettings,
    TaskSettings,
    TrackingSettings,
    TrainSettings,
    VerifierSettings,
)

__all__ = [
    "AdapterSettings",
    "AlarmMode",
    "AlarmSettings",
    "EvaluationSettings",
    "ModelSettings",
    "RewardSettings",
    "RolloutSettings",
    "Settings",
    "TaskSettings",
    "TrackingSettings",
    "TrainSettings",
    "VerifierSettings",
    "did_you_mean",
]
