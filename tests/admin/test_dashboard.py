#!/usr/bin/env python3
"""The dashboard asks only for metrics and labels that a live pool has, and none that stays 0.

usage: test_dashboard.py SOURCE_ROOT BIN"""

import json
import os
import re
import sys

from web import BIN, ROOT, families, fetch, metrics
from pool import Pool

DASHBOARD = os.path.join(ROOT, "deploy/grafana/mooncake.json")
# What PromQL and Prometheus bring themselves.
FUNCTIONS = {"rate", "increase", "sum", "topk", "histogram_quantile", "by", "label_values"}
ADDED_LABELS = {"job", "instance", "le"}

WORD = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABELS = re.compile(r"(?<=[{,])([a-zA-Z_][a-zA-Z0-9_]*)[=\"]")


def names_of(expression):
    """Metric names of an expression: its words without functions, labels and ranges."""
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|\"[^\"]*\"|by \([^)]*\)", "", expression)
    return set(WORD.findall(bare)) - FUNCTIONS


def labels_of(target):
    """Labels that an expression and its legend name."""
    found = set(re.findall(r"[{,]([a-z_]+)=", target["expr"]))
    for group in re.findall(r"by \(([^)]*)\)", target["expr"]):
        found |= {label.strip() for label in group.split(",")}
    return (found | set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))) - ADDED_LABELS


def check_layout(panels):
    """No two panels have one id or lie over one another."""
    ids, cells = set(), set()
    for panel in panels:
        assert panel["id"] not in ids, panel["title"]
        ids.add(panel["id"])
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in cells, f"{panel['title']} lies over another"
                cells.add((x, y))


def main():
    with open(DASHBOARD, encoding="utf-8") as file:
        dashboard = json.load(file)
    check_layout(dashboard["panels"])
    with Pool(BIN) as pool:
        store = pool.add_store("64MiB", "--admin_port=0")
        addresses = [pool.metrics_address, f"127.0.0.1:{store.ports()['admin_port']}"]
        samples, helps = {}, {}
        for address in addresses:
            for name in metrics(address):
                bare, _, labels = name.partition("{")
                samples.setdefault(bare, set()).update(LABELS.findall("{" + labels))
            helps.update({name: help for name, (_, help) in families(address).items()})
        assert fetch(addresses[0], "/ready")[0] == 200

    asked, faults = 0, []
    targets = [(p["title"], t) for p in dashboard["panels"] for t in p.get("targets", [])]
    queries = [(v["name"], {"expr": v["query"], "legendFormat": ""})
               for v in dashboard["templating"]["list"] if v["type"] == "query"]
    for title, target in targets + queries:
        names = names_of(target["expr"]) - {"job"}
        assert names, f"{title}: asks for nothing: {target['expr']}"
        for name in names:
            asked += 1
            family = re.sub(r"_(bucket|sum|count)$", "", name)
            if name not in samples:
                faults.append(f"{title}: {name} is on no page")
            elif helps.get(name, helps.get(family, "")).startswith(("Always 0", "Without")):
                faults.append(f"{title}: {name} stays 0")
        known = set().union(*(samples.get(name, set()) for name in names))
        for label in labels_of(target) - known:
            faults.append(f"{title}: {sorted(names)} have no label {label}")
    print("\n".join(faults))
    assert asked > 40, f"only {asked} metrics found: has the dashboard's form changed?"
    print(f"dashboard: {asked} metrics in {len(targets)} targets, {len(faults)} finding(s)")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
