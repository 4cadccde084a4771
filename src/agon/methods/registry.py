"""Training methods by name. Nothing else is shared here."""

from __future__ import annotations

from agon.config import did_you_mean
from agon.errors import ConfigError
from agon.imported import imported, is_own, own_code
from agon.methods.agon import Agon
from agon.methods.answer_visible import AnswerVisible
from agon.methods.base import BaseMethod
from agon.methods.cispo import Cispo
from agon.methods.cooperative import Cooperative
from agon.methods.dapo import Dapo
from agon.methods.dr_grpo import DrGrpo
from agon.methods.fixed_roles import FixedRoles
from agon.methods.frozen_opponent import FrozenOpponent
from agon.methods.grpo import Grpo
from agon.methods.grpo_lead import GrpoLead
from agon.methods.grpo_two_groups import GrpoTwoGroups
from agon.methods.gspo import Gspo
from agon.methods.hidden import Hidden
from agon.methods.independent import Independent
from agon.methods.kimi import Kimi
from agon.methods.lcpo import LcpoExact, LcpoMax
from agon.methods.margin import Margin
from agon.methods.past_opponent import PastOpponent
from agon.methods.permuted import Permuted
from agon.methods.random_reward import RandomReward
from agon.methods.rft import Rft
from agon.methods.self_refine import SelfRefine, SelfRefineConversion
from agon.methods.shared import SharedHidden, SharedVisible
from agon.methods.shorter_better import ShorterBetter
from agon.methods.soft_overlong import SoftOverlong
from agon.methods.tie_break import TieBreak
from agon.records import METHODS

_METHODS: dict[str, BaseMethod] = {
    method.name: method
    for method in (
        Grpo(),
        GrpoTwoGroups(),
        DrGrpo(),
        Dapo(),
        Gspo(),
        Cispo(),
        Rft(),
        SelfRefine(),
        SelfRefineConversion(),
        Cooperative(),
        Independent(),
        Agon(),
        Margin(),
        Permuted(),
        SharedHidden(),
        SharedVisible(),
        Hidden(),
        FixedRoles(),
        FrozenOpponent(),
        PastOpponent(),
        TieBreak(),
        AnswerVisible(),
        RandomReward(),
        LcpoExact(),
        LcpoMax(),
        Kimi(),
        GrpoLead(),
        ShorterBetter(),
        SoftOverlong(),
    )
}


def method_named(name: str) -> BaseMethod:
    """Return the training method a recipe names: one of agon's own, or `module:NAME` of any module that Python finds.

    Raises:
        ConfigError: no such method.
    """
    if is_own(name):
        return _imported(name)
    if name not in _METHODS:
        raise ConfigError(
            f"train.method is {name!r}, which is not known{did_you_mean(name, METHODS)}; known: {', '.join(METHODS)}, "
            "or module:NAME"
        )
    return _METHODS[name]


def _imported(name: str) -> BaseMethod:
    found = imported("train.method", name)
    try:
        # No other class is made an instance of.
        with own_code():
            method = found() if isinstance(found, type) and issubclass(found, BaseMethod) else found
    except Exception as error:  # such as a method that it lacks, or whatever its own code raises
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(f"train.method is {name!r}, which cannot be made ({reason}): mend the class") from None
    if not isinstance(method, BaseMethod):
        raise ConfigError(
            f"train.method is {name!r}, which is no agon.methods.base.BaseMethod: make it a subclass of one"
        )
    return method
