"""The application: its routes, and what stands before them."""

from __future__ import annotations

import time
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agon.errors import AgonError
from agon.records import Lineup
from agon.serve.arena import mount_arena
from agon.serve.auth import OPEN_PATH, HostCheck, KeyCheck
from agon.serve.chat import ChatWire
from agon.serve.completions import CompletionWire
from agon.serve.errors import RequestError
from agon.serve.metrics import CONTENT_TYPE
from agon.serve.models import direction_of
from agon.serve.order import unknown_model
from agon.serve.play_route import PlayRoute
from agon.serve.request_log import RequestLog
from agon.serve.service import Service

_FRESH = {"cache-control": "no-store"}


def create_app(service: Service) -> FastAPI:
    """Return the server's application. Its backend is started, and closed, by whoever runs it."""
    # Its pages of documentation load scripts from the net.
    app = FastAPI(
        title="agon",
        openapi_url=None,
        redirect_slashes=False,
        middleware=[
            Middleware(RequestLog, metrics=service.metrics, keys=service.keys),
            Middleware(HostCheck, allowed=service.hosts),
            Middleware(KeyCheck, keys=service.keys),
        ],
        exception_handlers={HTTPException: _no_route},
    )
    for path, wire in (("/v1/chat/completions", ChatWire()), ("/v1/completions", CompletionWire())):
        app.router.routes.append(Route(path, PlayRoute(service, wire, path), methods=["POST"]))
    _add_models(app, service)
    _add_health(app, service)
    mount_arena(app, service.offer)
    return app


def _add_models(app: FastAPI, service: Service) -> None:
    created = int(time.time())
    listed = {name: _model(name, lineup, created) for name, lineup in service.offer.models.items()}

    async def models(request: Request) -> Response:
        request.scope["agon"].route = "/v1/models"
        return JSONResponse({"object": "list", "data": list(listed.values())})

    async def model(request: Request) -> Response:
        request.scope["agon"].route = "/v1/models"
        name = request.path_params["name"]
        if name not in listed:
            raise unknown_model(name, service.offer)
        return JSONResponse(listed[name])

    app.add_route("/v1/models", models, methods=["GET"])
    app.add_route("/v1/models/{name}", model, methods=["GET"])


def _add_health(app: FastAPI, service: Service) -> None:
    async def health(request: Request) -> Response:
        request.scope["agon"].route = OPEN_PATH
        try:
            service.require_alive()
        except AgonError as error:
            return JSONResponse({"status": "failed", "reason": str(error)}, status_code=503, headers=_FRESH)
        return JSONResponse({"status": "ok"}, headers=_FRESH)

    async def metrics(request: Request) -> Response:
        request.scope["agon"].route = "/metrics"
        return Response(service.metrics.page(), media_type=CONTENT_TYPE, headers=_FRESH)

    app.add_route(OPEN_PATH, health, methods=["GET"])
    app.add_route("/metrics", metrics, methods=["GET"])


def _model(name: str, lineup: Lineup, created: int) -> dict[str, Any]:
    stages = [{"role": "drafter", "adapter": adapter} for adapter in lineup.drafters]
    if lineup.has_challenge:
        stages.append({"role": "challenger", "adapter": lineup.challenger})
    told = {"direction": direction_of(lineup), "stages": stages, "shows_answer": lineup.shows_answer}
    return {"id": name, "object": "model", "created": created, "owned_by": "agon", "agon": told}


async def _no_route(request: Request, error: Exception) -> Response:
    """Say in OpenAI's shape what the router found wrong."""
    assert isinstance(error, HTTPException), "registered for these alone"
    # The path is not repeated: it may be as long as the client likes.
    said = {404: "there is no such route", 405: f"this route does not know the method {request.method[:20]}"}
    told = RequestError(said.get(error.status_code, error.detail), status=error.status_code)
    return JSONResponse(told.to_json(), status_code=error.status_code, headers=error.headers)
