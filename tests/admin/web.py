"""HTTP and the text format of metrics, for tests of admin pages."""

import os
import re
import sys
import urllib.error
import urllib.request

ROOT, BIN = sys.argv[1:3]
sys.path.insert(0, os.path.join(ROOT, "tests/cli"))

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)$')


def fetch(address, path, method="GET"):
    """(status, text) of one request."""
    request = urllib.request.Request(f"http://{address}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metrics(address):
    """name with labels -> value."""
    status, text = fetch(address, "/metrics")
    assert status == 200, text
    values = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = SAMPLE.match(line)
        assert match, f"no sample: {line!r}"
        name = match[1] + (match[2] or "")
        assert name not in values, f"twice on the page: {name}"
        values[name] = float(match[3])
    return values


def families(address):
    """name -> (type, help), of every metric that the page announces."""
    text = fetch(address, "/metrics")[1]
    helps = dict(re.findall(r"(?m)^# HELP (\S+) (.*)$", text))
    types = dict(re.findall(r"(?m)^# TYPE (\S+) (\S+)$", text))
    assert helps.keys() == types.keys() and helps, "HELP and TYPE do not go together"
    return {name: (types[name], helps[name]) for name in types}
