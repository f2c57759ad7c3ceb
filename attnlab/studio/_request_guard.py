"""Who may ask: every request passes here before anything else sees it.

A page of another site can send requests to this machine too, so being on it is no right. Asked for
are a name of this machine as Host (else a site could point its own name here: rebinding), the
cookie that only the address in the terminal gives, and, of whatever changes something, an Origin
that is ours.
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
SAFE = ("GET", "HEAD")
GOES_ON = (
    b'<!doctype html><html lang="en"><meta charset="utf-8"><title>attnlab studio</title>'
    b'<link rel="icon" href="data:,"><meta http-equiv="refresh" content="0; url=/">'
    b'<p><a href="/">To the studio</a></p></html>\n'
)
NO_COOKIE = (
    "This is attnlab studio. Open it by the address that `attnlab studio` printed in the terminal: "
    "it carries the key."
)


@dataclass(frozen=True)
class Keys:
    """The secrets of one start: what the address carries, and what the cookie does."""

    token: str
    cookie: str
    port: int

    @property
    def cookie_name(self) -> str:
        """Browsers keep one jar for all ports of a machine: two studios must not share a name."""
        return f"attnlab-studio-{self.port}"

    @property
    def hosts(self) -> list[str]:
        named = [f"{host}:{self.port}" for host in HOSTS]
        return [*named, *HOSTS] if self.port == 80 else named


class Guard:
    """The middleware."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self.app, self.keys = app, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no websockets here
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": with_headers(message.get("headers", ()))}
            await send(message)

        headers = Given(scope["headers"])
        problem = self.problem(scope, headers)
        if problem is not None:
            await answer(sealed, 403, problem, page=not scope["path"].startswith("/api/"))
        elif self.is_entry(scope):
            await self.enter(scope, sealed)
        elif not self.has_cookie(headers):
            await answer(sealed, 403, NO_COOKIE, page=not scope["path"].startswith("/api/"))
        else:
            await self.app(scope, receive, sealed)

    def problem(self, scope: Scope, headers: Given) -> str | None:
        hosts = headers.all("host")
        if len(hosts) != 1 or hosts[0].lower() not in self.keys.hosts:
            return f"The Host must be {' or '.join(self.keys.hosts)}."
        ours = f"http://{hosts[0].lower()}"
        origins = headers.all("origin")
        if scope["method"] not in SAFE and not origins:
            return f"A {scope['method'][:20]} needs the header Origin: {ours}"
        if origins and [each.lower() for each in origins] != [ours]:
            return f"The Origin must be {ours}."
        sites = headers.all("sec-fetch-site")
        api = scope["path"].startswith("/api/")
        if api and any(each not in ("same-origin", "none") for each in sites):
            return "Another site asks; only pages of the studio may."
        return None

    def is_entry(self, scope: Scope) -> bool:
        return scope["path"] == "/" and scope["method"] == "GET" and b"token=" in _query(scope)

    async def enter(self, scope: Scope, send: Send) -> None:
        """The address of the terminal gives the cookie and then forgets the token.

        A page goes on and not a redirect: that would still be the request of whatever page had the
        link, and from another site a browser sends no SameSite=Strict cookie with it.
        """
        given = [v for k, v in parse_qsl(_query(scope).decode("latin-1")) if k == "token"]
        if len(given) != 1 or not same(given[0], self.keys.token):
            await answer(send, 403, NO_COOKIE, page=True)
            return
        cookie = f"{self.keys.cookie_name}={self.keys.cookie}; HttpOnly; SameSite=Strict; Path=/"
        headers = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-length", str(len(GOES_ON)).encode("ascii")),
            (b"set-cookie", cookie.encode("ascii")),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": GOES_ON})

    def has_cookie(self, headers: Given) -> bool:
        """Any of several of the name: another server of this machine may have set one too."""
        found = False
        for line in headers.all("cookie"):
            for part in line.split(";"):
                try:
                    jar = SimpleCookie(part.strip())
                except CookieError:
                    continue
                morsel = jar.get(self.keys.cookie_name)
                found |= morsel is not None and same(morsel.value, self.keys.cookie)
        return found


class Given:
    """Headers as they came."""

    def __init__(self, raw: Sequence[tuple[bytes, bytes]]) -> None:
        self.raw = raw

    def all(self, name: str) -> list[str]:
        wanted = name.encode("ascii")
        return [value.decode("latin-1") for key, value in self.raw if key.lower() == wanted]


def same(given: str, secret: str) -> bool:
    """Takes as long whatever the first difference is."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode("utf-8"))


def with_headers(given: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Ours too, where an answer has none of its own."""
    has = {key.lower() for key, _ in given}
    ours = [(key.encode("ascii"), value.encode("ascii")) for key, value in HEADERS.items()]
    return [*given, *((key, value) for key, value in ours if key not in has)]


async def answer(send: Send, status: int, sentence: str, page: bool) -> None:
    """Without reading the body, so the connection ends with it."""
    if page:
        kind, body = b"text/plain; charset=utf-8", sentence + "\n"
    else:
        kind, body = b"application/json", json.dumps({"error": sentence})
    content = body.encode("utf-8")
    length = str(len(content)).encode("ascii")
    headers = [(b"content-type", kind), (b"content-length", length), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def _query(scope: Scope) -> bytes:
    found: bytes = scope.get("query_string", b"")
    return found
