"""The errors agon raises on purpose, each with the exit code the command line ends with.

A message is one line: what was wrong, the value, what to do about it.
"""


class AgonError(Exception):
    """An expected failure, told to the user in one line."""

    exit_code = 1


class ConfigError(AgonError):
    """A setting, an argument or a recipe that cannot be used as written."""

    exit_code = 2


class DataError(AgonError):
    """A data set that cannot be read, is empty, or holds rows that cannot be used."""


class ModelError(AgonError):
    """A base model, tokenizer or adapter that is missing, damaged, or belongs to another base."""


class RunError(AgonError):
    """A run folder or checkpoint that is missing, damaged, locked, or of another format version."""


class VerifierError(AgonError):
    """A checker that itself failed too often for its verdicts to be trusted."""


class EngineError(AgonError):
    """A rollout engine that returned something unusable: missing logprobs, a stale adapter, no answer in time."""


class ResourceError(AgonError):
    """Memory that is not there: worked out before a run begins, or found out while it learns."""


class StalledError(AgonError):
    """A run in which nothing can be learned as it is set up: an alarm stopped it, after saving."""


class DivergedError(AgonError):
    """A model that is no longer what it was: a non-finite loss, gradient (the offending batch is saved), logit or weight, or an alarm."""

    exit_code = 3
