#!/usr/bin/env python3
"""Units, sample configurations, compose file, manifests: do they fit together, and the programs?"""

import configparser
import glob
import json
import os
import re
import shlex
import subprocess
import sys
import unittest
import urllib.request

import pool

try:
    import yaml
except ImportError:
    yaml = None

PROGRAMS = os.environ["MOONCAKE_PROGRAMS"]
DEPLOY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "deploy")
DAEMONS = ("mooncake_master", "mooncake_store")


def read(*parts):
    with open(os.path.join(DEPLOY, *parts), encoding="utf-8") as file:
        return file.read()


def effective(command):
    """name -> (value, source) of the options that a command line gives; it must be one."""
    program = os.path.join(PROGRAMS, os.path.basename(command[0]))
    done = subprocess.run([program, *command[1:], "--print_config"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(command)}\n{done.stdout}")
    lines = re.findall(r"^(\w+) = (.*) \((.*)\)$", done.stdout, re.MULTILINE)
    return {name: (value, source) for name, value, source in lines}


def documents(name):
    return [one for one in yaml.safe_load_all(read("kubernetes", name)) if one is not None]


class Configurations(unittest.TestCase):
    """deploy/config."""

    def test_each_is_one_that_its_daemon_takes(self):
        files = glob.glob(os.path.join(DEPLOY, "config", "*", "*.json"))
        self.assertEqual(len(files), 7)
        for path in files:
            daemon = "mooncake_" + os.path.basename(path).removesuffix(".json")
            options = effective([daemon, "--config_path=" + path])
            with open(path, encoding="utf-8") as file:
                given = set(json.load(file))
            taken = {name for name, (_, source) in options.items() if source == "file " + path}
            self.assertEqual(taken, given, path)

    def test_a_wrong_name_would_be_found(self):
        with self.assertRaisesRegex(AssertionError, "segmnet"):
            effective(["mooncake_store", "--segmnet=1GiB"])


class Units(unittest.TestCase):
    """deploy/systemd; test_packages.py runs them."""

    def unit(self, daemon):
        parser = configparser.ConfigParser(strict=False, interpolation=None)
        parser.optionxform = str
        parser.read_string(read("systemd", f"mooncake-{daemon}.service"))
        return parser

    def test_command_lines_read_the_packaged_configuration(self):
        for daemon in ("master", "store", "client"):
            command = shlex.split(self.unit(daemon)["Service"]["ExecStart"])
            self.assertEqual(command[0], f"/usr/bin/mooncake_{daemon}")
            self.assertIn(f"--config_path=/etc/mooncake/{daemon}.json", command)
            package = "master" if daemon == "master" else "store"
            self.assertIn(f"/etc/mooncake/{daemon}.json\n", read("debian", package, "conffiles"))
            packaged = os.path.join(DEPLOY, "config", "one-host", daemon + ".json")
            effective([word.replace(f"/etc/mooncake/{daemon}.json", packaged)
                       for word in command])

    def test_a_store_may_pin_its_memory_and_has_time_to_leave(self):
        service = self.unit("store")["Service"]
        self.assertEqual(service["LimitMEMLOCK"], "infinity")
        graces = [effective(["mooncake_store", "--config_path=" + path])["grace"][0]
                  for path in glob.glob(os.path.join(DEPLOY, "config", "*", "store.json"))]
        longest = max(int(re.fullmatch(r"(\d+)s", grace)[1]) for grace in graces)
        self.assertGreater(int(service["TimeoutStopSec"]), longest)

    def test_services_side_by_side_have_folders_of_their_own(self):
        folders = [self.unit(daemon)["Service"]["RuntimeDirectory"]
                   for daemon in ("store", "client")]
        self.assertEqual(len(set(folders)), 2, "the folder goes with the service that ends")
        for daemon, folder in zip(("store", "client"), folders):
            self.assertIn(f"--shm_dir=/run/{folder}", self.unit(daemon)["Service"]["ExecStart"])

    def test_all_are_watched_and_have_no_rights(self):
        for daemon in ("master", "store", "client"):
            service = self.unit(daemon)["Service"]
            self.assertEqual(service["Type"], "notify")
            self.assertGreater(int(service["WatchdogSec"]), 0)
            self.assertEqual(service["Restart"], "always")
            self.assertEqual(service["User"], "mooncake")
            self.assertEqual(service["CapabilityBoundingSet"], "")


@unittest.skipIf(yaml is None, "skipped: no python3-yaml")
class Compose(unittest.TestCase):
    """deploy/docker."""

    def test_services_run_what_exists_and_leave_time_to_stop(self):
        compose = yaml.safe_load(read("docker", "compose.yaml"))
        for service in compose["services"].values():
            self.assertIn(service["command"][0], DAEMONS)
            effective(service["command"])
            for volume in service.get("volumes", []):
                self.assertIn(volume.split(":")[0], compose["volumes"])
            for other in service.get("depends_on", []):
                self.assertIn(other, compose["services"])
        build = compose["services"]["master"]["build"]
        context = os.path.normpath(os.path.join(DEPLOY, "docker", build["context"]))
        self.assertTrue(os.path.exists(os.path.join(context, build["dockerfile"])))

    def test_the_image_is_built_from_commands_that_exist(self):
        text = read("docker", "Dockerfile")
        for tool in ("tools/setup", "tools/package"):
            self.assertIn(tool, text)
            self.assertTrue(os.access(os.path.join(DEPLOY, "..", tool), os.X_OK))
        self.assertIn(json.loads(re.search(r"^CMD (.*)$", text, re.MULTILINE)[1])[0], DAEMONS)


@unittest.skipIf(yaml is None, "skipped: no python3-yaml")
class Manifests(unittest.TestCase):
    """deploy/kubernetes: what a schema and a cluster would refuse, as far as it can be seen here."""

    KINDS = {"Service": "v1", "Deployment": "apps/v1", "StatefulSet": "apps/v1",
             "PodDisruptionBudget": "policy/v1"}

    def workload(self, name):
        return next(one for one in documents(name)
                    if one["kind"] in ("Deployment", "StatefulSet"))

    def container(self, name):
        return self.workload(name)["spec"]["template"]["spec"]["containers"][0]

    def test_kinds_versions_and_names(self):
        for name in ("master.yaml", "store.yaml"):
            for one in documents(name):
                self.assertEqual(one["apiVersion"], self.KINDS[one["kind"]])
                self.assertRegex(one["metadata"]["name"], r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
            self.assertEqual(sorted(one["kind"] for one in documents(name)),
                             sorted({"PodDisruptionBudget", "Service", self.workload(name)["kind"]}))

    def test_selectors_find_the_pods(self):
        for name in ("master.yaml", "store.yaml"):
            labels = self.workload(name)["spec"]["template"]["metadata"]["labels"]
            for one in documents(name):
                selector = one["spec"]["selector"]
                selector = selector.get("matchLabels", selector)
                self.assertTrue(selector and selector.items() <= labels.items(), one["kind"])
        affinity = self.workload("store.yaml")["spec"]["template"]["spec"]["affinity"]
        term, = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        labels = self.workload("store.yaml")["spec"]["template"]["metadata"]["labels"]
        self.assertLessEqual(term["labelSelector"]["matchLabels"].items(), labels.items())

    def test_ports_and_probes_name_ports_of_the_container(self):
        for name in ("master.yaml", "store.yaml"):
            container = self.container(name)
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            service = next(one for one in documents(name) if one["kind"] == "Service")
            for port in service["spec"]["ports"]:
                self.assertEqual(port["port"], ports[port["targetPort"]])
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                self.assertIn(container[probe]["httpGet"]["port"], ports)

    def test_command_lines_fit_the_ports_the_names_and_the_volumes(self):
        master, store = self.container("master.yaml"), self.container("store.yaml")
        options = effective(master["command"] + master["args"])
        ports = {port["name"]: str(port["containerPort"]) for port in master["ports"]}
        self.assertEqual(options["rpc_port"][0], ports["rpc"])
        self.assertEqual(options["metrics_port"][0], ports["admin"])
        options = effective(store["command"] + store["args"])
        ports = {port["name"]: str(port["containerPort"]) for port in store["ports"]}
        self.assertEqual(options["data_address"][0].split(":")[1], ports["data"])
        self.assertEqual(options["admin_port"][0], ports["admin"])
        service = next(one for one in documents("master.yaml") if one["kind"] == "Service")
        self.assertEqual(options["master"][0].split(":")[0], service["metadata"]["name"])
        spec = self.workload("store.yaml")["spec"]["template"]["spec"]
        grace = int(options["grace"][0].removesuffix("s"))
        self.assertGreater(spec["terminationGracePeriodSeconds"], grace)
        mounts = {mount["name"]: mount["mountPath"] for mount in store["volumeMounts"]}
        self.assertEqual(set(mounts), {volume["name"] for volume in spec["volumes"]})
        self.assertEqual(mounts["run"], options["shm_dir"][0])
        variables = set(re.findall(r"\$\((\w+)\)", " ".join(store["args"])))
        self.assertEqual(variables, {one["name"] for one in store["env"]})

    def test_the_memory_limit_holds_the_segments(self):
        store = self.container("store.yaml")
        segment = effective(store["command"] + store["args"])["segment"][0]
        gib = int(re.fullmatch(r"(\d+)GiB", segment)[1])
        limit = int(re.fullmatch(r"(\d+)Gi", store["resources"]["limits"]["memory"])[1])
        self.assertGreater(limit, gib)

    def test_probes_ask_routes_that_answer(self):
        with pool.Pool(PROGRAMS) as running:
            store = running.add_store("16MiB", "--admin_port=0")
            admins = {"master.yaml": running.metrics_address,
                      "store.yaml": f"127.0.0.1:{store.ports()['admin_port']}"}
            for name, address in admins.items():
                for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                    path = self.container(name)[probe]["httpGet"]["path"]
                    with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
                        self.assertEqual(answer.status, 200)


if __name__ == "__main__":
    if yaml is None:
        print("skipped in part: no python3-yaml", file=sys.stderr)
    unittest.main()
