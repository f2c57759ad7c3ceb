"""Checks every request before anything else sees it.

A page of another site can send requests to this machine too, so a local request is not trusted. It
needs a Host that names this machine (against DNS rebinding), the cookie that only the address in
the terminal sets, and, if it changes something, the studio's own Origin.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS = ("127.0.0.1", "localhost")
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "cache-control": "no-store",
}
READING_METHODS = ("GET", "HEAD")
REDIRECT_PAGE = (
    b'<!doctype html><html lang="en"><meta charset="utf-8"><title>attnlab studio</title>'
    b'<link rel="icon" href="data:,"><meta http-equiv="refresh" content="0; url=/">'
    b'<p><a href="/">Open the studio</a></p></html>\n'
)
NO_COOKIE = (
    "This is attnlab studio. Open the address that `attnlab studio` printed in the terminal: it "
    "contains the key."
)


@dataclass(frozen=True)
class AccessKeys:
    """The secrets of one server: the token in its address, and the value of its cookie."""

    token: str
    cookie: str
    port: int

    @property
    def cookie_name(self) -> str:
        """Has the port in it: browsers share cookies between all ports of a machine."""
        return f"attnlab-studio-{self.port}"

    @property
    def origin(self) -> str:
        """The address in the terminal, without the token."""
        return f"http://{HOSTS[0]}:{self.port}"

    @property
    def hosts(self) -> list[str]:
        with_port = [f"{host}:{self.port}" for host in HOSTS]
        return [*with_port, *HOSTS] if self.port == 80 else with_port


class RequestGuard:
    """The middleware that checks each request."""

    def __init__(self, app: ASGIApp, keys: AccessKeys) -> None:
        self.app, self.keys = app, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no websockets here
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": add_security_headers(message.get("headers", ()))}
            await send(message)

        headers = RequestHeaders(scope["headers"])
        problem = self.problem(scope, headers)
        if problem is not None:
            await send_error(
                send_with_headers, 403, problem, page=not scope["path"].startswith("/api/")
            )
        elif self.is_login(scope):
            await self.log_in(scope, send_with_headers)
        elif not self.has_cookie(headers):
            await send_error(
                send_with_headers, 403, NO_COOKIE, page=not scope["path"].startswith("/api/")
            )
        else:
            await self.app(scope, receive, send_with_headers)

    def problem(self, scope: Scope, headers: RequestHeaders) -> str | None:
        hosts = headers.all("host")
        if len(hosts) != 1 or hosts[0].lower() not in self.keys.hosts:
            return f"The Host must be {' or '.join(self.keys.hosts)}."
        own_origin = f"http://{hosts[0].lower()}"
        origins = headers.all("origin")
        if scope["method"] not in READING_METHODS and not origins:
            return f"A {scope['method'][:20]} needs the header Origin: {own_origin}"
        if origins and [each.lower() for each in origins] != [own_origin]:
            return f"The Origin must be {own_origin}."
        sites = headers.all("sec-fetch-site")
        api = scope["path"].startswith("/api/")
        if api and any(each not in ("same-origin", "none") for each in sites):
            return "The request comes from another site; only the studio's own pages may send it."
        return None

    def is_login(self, scope: Scope) -> bool:
        return scope["path"] == "/" and scope["method"] == "GET" and b"token=" in _query(scope)

    async def log_in(self, scope: Scope, send: Send) -> None:
        """Checks the token of the printed address, sets the cookie and opens the studio.

        A page does this instead of an HTTP redirect: after a link on another site, a browser sends
        no SameSite=Strict cookie to the redirected address.
        """
        tokens = [v for k, v in parse_qsl(_query(scope).decode("latin-1")) if k == "token"]
        if len(tokens) != 1 or not equal_secrets(tokens[0], self.keys.token):
            await send_error(send, 403, NO_COOKIE, page=True)
            return
        cookie = f"{self.keys.cookie_name}={self.keys.cookie}; HttpOnly; SameSite=Strict; Path=/"
        headers = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-length", str(len(REDIRECT_PAGE)).encode("ascii")),
            (b"set-cookie", cookie.encode("ascii")),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": REDIRECT_PAGE})

    def has_cookie(self, headers: RequestHeaders) -> bool:
        """Accepts any cookie of this name: another local server may have set one too."""
        valid = False
        for line in headers.all("cookie"):
            for part in line.split(";"):
                try:
                    jar = SimpleCookie(part.strip())
                except CookieError:
                    continue
                morsel = jar.get(self.keys.cookie_name)
                valid |= morsel is not None and equal_secrets(morsel.value, self.keys.cookie)
        return valid


class RequestHeaders:
    """The raw headers of a request, which may repeat."""

    def __init__(self, raw: Sequence[tuple[bytes, bytes]]) -> None:
        self.raw = raw

    def all(self, name: str) -> list[str]:
        raw_name = name.encode("ascii")
        return [value.decode("latin-1") for key, value in self.raw if key.lower() == raw_name]


def equal_secrets(candidate: str, secret: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(candidate.encode("utf-8", "surrogatepass"), secret.encode("utf-8"))


def add_security_headers(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Adds each header of HEADERS that the response does not set itself."""
    present = {key.lower() for key, _ in headers}
    security = [(key.encode("ascii"), value.encode("ascii")) for key, value in HEADERS.items()]
    return [*headers, *((key, value) for key, value in security if key not in present)]


def error_content(message: str, page: bool) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """The headers and the body of an error. The request body is not read, so the connection closes.

    A page shows the message as text; the API answers with JSON.
    """
    if page:
        kind, body = b"text/plain; charset=utf-8", message + "\n"
    else:
        kind, body = b"application/json", json.dumps({"error": message})
    content = body.encode("utf-8")
    length = str(len(content)).encode("ascii")
    return [
        (b"content-type", kind),
        (b"content-length", length),
        (b"connection", b"close"),
    ], content


async def send_error(send: Send, status: int, message: str, page: bool) -> None:
    headers, content = error_content(message, page)
    headers = add_security_headers(headers)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def _query(scope: Scope) -> bytes:
    query: bytes = scope.get("query_string", b"")
    return query
