"""What the server counts, for Prometheus. One registry an application."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from agon.records import Role
from agon.serve.admission import Admission
from agon.serve.records import EndedStage

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class Metrics:
    """Counters of requests, matches, tokens and time. Labels take few values: no client can make them many."""

    def __init__(self, admission: Admission) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "agon_requests",
            "Requests answered; status 499: the client left",
            ("route", "model", "status"),
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "agon_request_seconds",
            "Time from a request's first byte to its last answer",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.queue_seconds = Histogram(
            "agon_queue_seconds",
            "Time a request waited for its matches to begin; high: raise --max-running, or serve from more machines",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.cancelled = Counter(
            "agon_cancelled",
            "Requests given up while they waited or were played: the client left, the deadline passed, the server ended",
            ("reason",),
            registry=self.registry,
        )
        self.errors = Counter(
            "agon_errors", "Requests that failed by no fault of the client's", ("code",), registry=self.registry
        )
        self._stage_seconds = Histogram(
            "agon_stage_seconds",
            "Time from asking for a stage to its last token",
            ("role",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._tokens = Counter(
            "agon_tokens", "Tokens read and sampled by stages", ("role", "kind"), registry=self.registry
        )
        running = Gauge("agon_matches_running", "Matches being played", registry=self.registry)
        running.set_function(lambda: admission.num_running)
        waiting = Gauge("agon_requests_waiting", "Requests in the queue", registry=self.registry)
        waiting.set_function(lambda: admission.num_waiting)
        ProcessCollector(registry=self.registry)

    def add_stage(self, role: Role, ended: EndedStage) -> None:
        """Count a stage that has ended."""
        self._stage_seconds.labels(role).observe(ended.seconds)
        self._tokens.labels(role, "prompt").inc(ended.num_prompt_tokens)
        self._tokens.labels(role, "completion").inc(ended.num_completion_tokens)

    def page(self) -> bytes:
        """Return all of it in Prometheus' text format."""
        return generate_latest(self.registry)
