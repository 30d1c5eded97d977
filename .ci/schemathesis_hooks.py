"""Keeps generated requests on this machine: whatever a destination's URL is, it leads to a port
where nobody listens, and stays as long and as right or wrong as it was."""

import schemathesis

NOBODY = "https://127.0.0.1:9/"


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    if not isinstance(body, dict):
        return
    url = body.get("url")
    if isinstance(url, str) and url.startswith(("http://", "https://")):
        body["url"] = NOBODY + "x" * (len(url) - len(NOBODY))
    networks = body.get("allow_cidrs")
    if isinstance(networks, list):
        body["allow_cidrs"] = [one for one in networks if not isinstance(one, str)] + ["127.0.0.1/32"]


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    return value if isinstance(value, bytes) else str(value).encode()
