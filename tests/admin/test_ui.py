#!/usr/bin/env python3
"""The page at /ui in a real browser, on a pool with traffic: what it shows is what /metrics says; a
key that looks like markup is text; a dead master is said loudly; it fits a phone.

usage: test_ui.py SOURCE_ROOT BIN [PICTURES]    PICTURES: a folder for screenshots, for looking"""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

from web import BIN, fetch, metrics
from browser import SKIPPED, Browser, missing
from pool import Pool, die_with_parent
from wait import wait_for

BAD_KEY = "<script>window.bad = 1</script><img src=x onerror='window.bad = 2'>&amp;\"'"
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
# These move by themselves between two looks.
RESTLESS = {"mooncake_master_uptime_seconds", "mooncake_master_process_resident_bytes"}
# The puts that the killed load leaves unfinished take their space for ten minutes otherwise.
EXPIRE_SOON = ["--put_start_discard_timeout_sec=5", "--put_start_release_timeout_sec=10"]
LEAST_SHOWN = 18  # figures of /metrics on the page

SHOWN = """return [...document.querySelectorAll('[data-metric]')].map(
    (node) => [node.dataset.metric, node.dataset.unit, node.textContent, node.title]);"""


def text_of(browser, selector):
    return browser.run("return document.querySelector(arguments[0]).textContent;", selector)


def wait_polls(browser, polls=2):
    """Until the page has asked so often from now on: then its figures are of after this moment."""
    browser.run("window.polls = 0; const now = document.querySelector('[data-metric]');"
                "new MutationObserver(() => window.polls++).observe(now, {childList: true});")
    browser.wait("the page asks again", "return window.polls >= arguments[0];", polls)


def parse(shown):
    """A size as the page writes it -> (bytes, half of what its last digit stands for)."""
    match = re.fullmatch(r"([\d,.]+)\u00a0?(B|KiB|MiB|GiB|TiB)", shown)
    assert match, f"no size: {shown!r}"
    unit = UNITS[match[2]]
    return float(match[1]) * unit, unit / 20 + 1e-6 * unit if unit > 1 else 0.5


def about(shown, value, what):
    got, slack = parse(shown)
    assert abs(got - value) <= slack, f"{what}: the page says {shown}, it is {value}"


def start_load(pool, *options):
    return subprocess.Popen(
        [os.path.join(BIN, "mooncake_bench"), "replay", "--master=" + pool.address, "--no-limits",
         "--conversations=300", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=die_with_parent)


def put(pool, key, length):
    path = os.path.join(pool.scratch.name, "value")
    with open(path, "wb") as file:
        file.write(b"v" * length)
    subprocess.run([os.path.join(BIN, "mooncakectl"), "--master=" + pool.address, "put", "--", key,
                    path], check=True, timeout=60, stdout=subprocess.DEVNULL)


def test_the_page_is_locked(pool):
    """Headers that keep code from elsewhere out; and no file names anything elsewhere."""
    base = f"http://{pool.metrics_address}"
    for path in ("/ui", "/ui/app.js", "/ui/chart.js", "/ui/style.css"):
        with urllib.request.urlopen(base + path, timeout=30) as answer:
            policy, text = answer.headers["Content-Security-Policy"], answer.read().decode()
            assert answer.headers["X-Content-Type-Options"] == "nosniff", path
        assert "default-src 'none'" in policy and "unsafe" not in policy, policy
        for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("):
            assert word not in text, f"{path}: {word}"
        links = set(re.findall(r"https?://[^\s\"'`]+", text)) - {"http://www.w3.org/2000/svg"}
        assert not links, f"{path} names {links}"
        assert "onclick=" not in text and "<style" not in text, path


def await_samples(pool, count):
    """Until the master's own history is so long; it takes one each 10 s."""
    wait_for("the history grows", lambda: len(json.loads(
        fetch(pool.metrics_address, "/ui/history")[1])["samples"]) >= count, seconds=120)


def test_traffic_moves_it(pool, browser):
    """Under load: rates that are not 0, evictions, a history that a fresh page has."""
    browser.go(f"http://{pool.metrics_address}/ui")
    load = start_load(pool, "--requests=100000")
    try:
        for tile in ("#read-rate", "#write-rate", "#evict-rate"):
            browser.wait(f"{tile} moves", "const text = document.querySelector(arguments[0])"
                         ".textContent; return /[1-9]/.test(text) && text.endsWith('/s');", tile,
                         seconds=120)
        await_samples(pool, 3)
        browser.go(f"http://{pool.metrics_address}/ui")  # a new page, which has seen nothing
        browser.wait("the master's history", "return performance.getEntriesByName("
                     "new URL('ui/history', location).href).length > 0")
        browser.wait("lines of use", "return document.querySelectorAll('#chart-use .line').length")
        line = browser.run("return document.querySelector('#chart-use .line').getAttribute('d');")
        assert line.count(",") >= 2, line
    finally:
        load.kill()
        load.wait()


def await_rest(pool, browser):
    """/metrics, when the page shows the same: what time alone would change is over (unfinished
    puts of the killed load, leases, its membership), and nothing moved while the page asked."""
    def look():
        before = metrics(pool.metrics_address)
        if any(before[name] for name in TRANSIENT) or before["mooncake_master_members"] != 2:
            return None
        wait_polls(browser)
        now = metrics(pool.metrics_address)
        return now if all(now[name] == before[name] for name in WATCHED) else None

    return wait_for("the pool rests", look, seconds=120)


TRANSIENT = ["mooncake_master_unfinished_puts",
             'mooncake_master_protected_bytes{reason="lease"}']
WATCHED = ["mooncake_master_used_bytes", "mooncake_master_evicted_bytes_total",
           "mooncake_master_lookups_total", "mooncake_master_evictable_bytes"]


def test_it_shows_what_metrics_say(pool, browser):
    real = await_rest(pool, browser)
    shown = browser.run(SHOWN)
    assert len(shown) >= LEAST_SHOWN, shown
    for name, unit, text, title in shown:
        assert name in real, f"{name} is not on /metrics"
        if name in RESTLESS:
            continue
        if unit == "bytes":
            about(text, real[name], name)
            assert title == f"{int(real[name]):,} bytes", (name, title, real[name])
        else:
            assert unit == "count" and text == f"{int(real[name]):,}", (name, text, real[name])
    used, capacity = (real[f"mooncake_master_{what}_bytes"] for what in ("used", "capacity"))
    assert text_of(browser, "#used-percent") == f"{100 * used / capacity:.1f}\u00a0%"
    hits, lookups = (real[f"mooncake_master_{what}_total"] for what in ("hits", "lookups"))
    assert hits > 0 and text_of(browser, "#hits-ever") == f"{100 * hits / lookups:.1f}\u00a0%"
    evicted = real["mooncake_master_evicted_bytes_total"]
    for_puts = real["mooncake_master_evicted_for_puts_bytes_total"]
    assert evicted >= for_puts >= 0 and evicted > 0
    about(text_of(browser, "#evicted-watermark"), evicted - for_puts, "evicted by watermark")
    check_space(browser, real)
    check_segments(pool, browser, real)


def check_space(browser, real):
    """The states add up to the capacity, each as /metrics has it."""
    rows = browser.run("return [...document.querySelectorAll('#space tr')].map((row) => "
                       "[row.cells[0].textContent, row.title]);")
    bytes_of = {name: int(title.replace(",", "").split()[0]) for name, title in rows}
    assert sum(bytes_of.values()) == real["mooncake_master_capacity_bytes"], bytes_of
    assert bytes_of["free"] == real["mooncake_master_free_bytes"], bytes_of
    for name, reason in (("soft-pinned", "soft_pin"), ("being written", "writing")):
        assert bytes_of[name] == real[f'mooncake_master_protected_bytes{{reason="{reason}"}}']


def check_segments(pool, browser, real):
    """A bar for each segment, as long as it is full; each store with its state."""
    items = browser.run("return [...document.querySelectorAll('#segments li')].map((item) => ["
                        "item.querySelector('.name').textContent,"
                        "item.querySelector('.figures').textContent,"
                        "item.querySelector('.bar i').offsetWidth / "
                        "item.querySelector('.bar').offsetWidth]);")
    assert len(items) == real["mooncake_master_segments"] == 3, items
    for name, figures, width in items:
        used, capacity = re.split(r" of |, ", figures)[:2]
        about(used, real[f'segment_allocated_bytes{{segment="{name}"}}'], name)
        about(capacity, real[f'segment_total_capacity_bytes{{segment="{name}"}}'], name)
        ratio = real[f'mooncake_master_segment_used_ratio{{segment="{name}"}}']
        assert abs(width - ratio) < 0.02, (name, width, ratio)
    clients = json.loads(fetch(pool.metrics_address, "/get_clients_detail")[1])["clients"]
    stores = {client["client_id"] for client in clients if client["role"] == "store"}
    rows = browser.run("return [...document.querySelectorAll('#stores tbody tr')].map("
                       "(row) => [...row.cells].map((cell) => cell.textContent));")
    assert {row[-1] for row in rows} == stores and len(stores) == 2, (rows, clients)
    assert {row[1] for row in rows} == {"ok"}, rows
    assert sorted(row[4] for row in rows) == ["1", "2"], rows


def test_an_ill_store_is_seen(pool, browser):
    """A store that is gone: first in no list any more, and its bytes out of the pool."""
    pool.stores[0].freeze()
    browser.wait("a frozen store is suspect, and first",
                 "return document.querySelector('#stores tbody tr td:nth-child(2)').textContent "
                 "=== 'suspect';")
    pool.stores[0].stop(signal.SIGKILL)
    browser.wait("one store is left",
                 "return document.querySelectorAll('#stores tbody tr').length === 1;")
    browser.wait("two segments are left",
                 "return document.querySelectorAll('#segments li').length === 2;")


def search(browser, key):
    browser.run("document.getElementById('key').value = arguments[0];"
                "document.querySelector('#search button').click();", key)
    browser.wait("an answer", "return document.getElementById('found').textContent !== 'asking';")
    return text_of(browser, "#found")


def test_keys_are_found_and_are_text(pool, browser):
    put(pool, BAD_KEY, 3000000)
    told = search(browser, BAD_KEY)
    cells = browser.run("return [...document.querySelectorAll('#copies tbody tr')].map((row) => "
                        "[...row.cells].map((cell) => cell.textContent));")
    copies = json.loads(fetch(pool.metrics_address, "/query_key?key=" +
                              urllib.request.quote(BAD_KEY, safe=""))[1])["data"]
    assert sum(copy["size_"] for copy in copies) == 3000000, copies
    number = "1 extent" if len(copies) == 1 else f"{len(copies)} extents"
    assert told == f"{BAD_KEY}: {number}, 2.9\u00a0MiB in all copies", told
    for number, (row, copy) in enumerate(zip(cells, copies, strict=True), 1):
        about(row.pop(1), copy["size_"], "an extent")
        assert row == [str(number), f"{copy['buffer_address_']:,}", copy["protocol_"],
                       copy["transport_endpoint_"]], (row, copy)
    for key in ("<b>no</b>", "a b&key=c", "\u00fc\u20ac"):
        told = search(browser, key)
        assert told.startswith(f"{key}: not readable now"), told
    left = browser.run("return [window.bad ?? 0, document.querySelectorAll('#found *').length,"
                       "document.querySelectorAll('script').length];")
    assert left == [0, 0, 1], left
    # And if it had been taken for markup: the policy stops code that is not a file of the page.
    browser.run("const s = document.createElement('script'); s.textContent = 'window.bad = 3';"
                "document.head.append(s); s.remove();")
    assert browser.run("return window.bad ?? 0;") == 0, "inline code runs"


def test_names_from_stores_are_text(pool, browser):
    """A store chooses its own name."""
    store = pool.add_store("8MiB", "--name=<i>it</i>:1")
    store.ports()
    browser.wait("the name as text", "return [...document.querySelectorAll('#segments .name')]"
                 ".some((name) => name.textContent === '<i>it</i>:1');")
    assert browser.run("return document.querySelectorAll('#segments .name i').length;") == 0
    store.stop()


def test_it_fits_and_has_two_faces(browser, pictures):
    """No sideways scrolling of the page at 375 px, and colours that follow the reader's system."""
    grounds = set()
    for width, dark in ((1280, False), (1280, True), (768, False), (375, False), (375, True)):
        browser.screen(width, 800, dark)
        wide = browser.run("return document.documentElement.scrollWidth;")
        assert wide <= width, f"the page is {wide} px wide on a screen of {width}"
        cut = browser.run("return [...document.querySelectorAll('.tiles b, .tiles small, h2, td')]"
                          ".filter((node) => !node.closest('.wide') && node.scrollWidth > "
                          "node.clientWidth + 1).map((node) => node.textContent);")
        assert not cut, f"cut at {width} px: {cut}"
        grounds.add(browser.run("return getComputedStyle(document.body).backgroundColor;"))
        if pictures:
            name = f"{width}-{'dark' if dark else 'light'}.png"
            browser.picture(os.path.join(pictures, name))
    assert len(grounds) == 2, grounds
    browser.screen(1280, 900)


def test_a_dead_master_is_said(pool, browser, pictures):
    assert browser.run("return document.getElementById('banner').hidden;")
    complaints = [line for line in browser.log() if "favicon" in line["message"] or
                  line["level"] == "SEVERE" and "404" not in line["message"] and
                  "Content Security Policy" not in line["message"]]
    assert not complaints, complaints
    pool.master.stop(signal.SIGKILL)
    browser.wait("a banner", "return !document.getElementById('banner').hidden;")
    told = text_of(browser, "#banner")
    assert "does not answer" in told and "old" in told, told
    assert browser.run("return document.getElementById('main').classList.contains('stale');")
    told = search(browser, "k")
    assert "no connection" in told, told
    if pictures:
        browser.picture(os.path.join(pictures, "down.png"))
    pool.start_master()
    pool.master.ports()
    browser.wait("the banner goes", "return document.getElementById('banner').hidden;")
    wait_polls(browser)
    assert text_of(browser, "[data-metric=mooncake_master_evicted_keys_total]") == "0"
    assert text_of(browser, "#hits-ever") == "no lookups"


def main():
    pictures = sys.argv[3] if len(sys.argv) > 3 else ""
    with Pool(BIN, ["32MiB"], EXPIRE_SOON, lasting=True) as pool:
        pool.add_store("48MiB", "--segment=16MiB", "--name=gpu-host-17.rack4:1").ports()
        test_the_page_is_locked(pool)
        if missing():
            print("ui: skipped: no browser: apt-get install --no-install-recommends " +
                  " ".join(missing()))
            return SKIPPED
        with Browser() as browser:
            browser.screen(1280, 900)
            test_traffic_moves_it(pool, browser)
            test_it_shows_what_metrics_say(pool, browser)
            test_keys_are_found_and_are_text(pool, browser)
            test_it_fits_and_has_two_faces(browser, pictures)
            test_an_ill_store_is_seen(pool, browser)
            test_names_from_stores_are_text(pool, browser)
            test_a_dead_master_is_said(pool, browser, pictures)
    print("ui: all well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
